// The page: what the hub says, what is chosen, and keys. It reads /status/events and nothing else.

import { FOOTING, WEATHER, draw, key } from "./map.js";
import { details, element, fill, matches, rows } from "./panel.js";

/** The hub shows a sign of life every five seconds. */
const PATIENCE = 16_000;
/** Between two attempts, where the browser itself has given up. */
const AGAIN = 3_000;
/** Ages are told anew so often. */
const AGES = 15_000;

const byId = (id) => document.getElementById(id);
const [map, list, filter, panel, notice] = [byId("map"), byId("list").querySelector("ul"), byId("filter"), byId("details"), byId("notice")];
const tabs = { islands: byId("tab-islands"), bridges: byId("tab-bridges") };

const state = { atlas: null, listed: "islands", chosen: null, heard: Date.now(), source: null };

// --- what is shown ---

function show() {
  const { atlas, chosen, listed } = state;
  if (atlas === null) return;
  const wanted = filter.value.trim();
  const all = { islands: rows(atlas, "islands"), bridges: rows(atlas, "bridges") };
  const seen = { islands: all.islands.filter((row) => matches(row, wanted)), bridges: all.bridges.filter((row) => matches(row, wanted)) };
  for (const [kind, tab] of Object.entries(tabs)) {
    const count = wanted === "" ? `${all[kind].length}` : `${seen[kind].length} of ${all[kind].length}`;
    tab.replaceChildren(kind === "islands" ? "Clusters " : "Services ", element("span", { class: "count" }, count));
    tab.setAttribute("aria-selected", kind === listed);
    tab.tabIndex = kind === listed ? 0 : -1;
  }
  byId("list").setAttribute("aria-labelledby", `tab-${listed}`);
  fill(list, seen[listed], chosen?.kind === listed ? chosen.id : null, (id) => choose({ kind: listed, id }));
  const undrawn = draw(map, atlas, mood(atlas, wanted, seen), choose);
  showDetails();
  showTotals(atlas, undrawn);
}

/** What is lit and what is dim on the map: by what is chosen, else by the filter. */
function mood(atlas, wanted, seen) {
  const { chosen } = state;
  if (chosen?.kind === "islands") {
    const of = (span) => span.from === chosen.id || span.to === chosen.id;
    return { span: (span) => (of(span) ? "lit" : "dim"), island: (island) => (island.name === chosen.id ? "lit" : "") };
  }
  if (chosen?.kind === "bridges") {
    const bridge = atlas.bridges.find((one) => key(one) === chosen.id);
    const ends = new Set([...(bridge?.exporters ?? []), ...(bridge?.importers ?? [])].map((end) => end.cluster));
    return { span: (span) => (key(span.bridge) === chosen.id ? "lit" : "dim"), island: (island) => (ends.has(island.name) ? "lit" : "dim") };
  }
  if (chosen?.kind === "pair") {
    const ends = chosen.id.split("|");
    return { span: (span) => (span.pair === chosen.id ? "lit" : "dim"), island: (island) => (ends.includes(island.name) ? "lit" : "dim") };
  }
  if (wanted === "") return { span: () => "", island: () => "" };
  const [islands, bridges] = [new Set(seen.islands.map((row) => row.id)), new Set(seen.bridges.map((row) => row.id))];
  const of = (span) => bridges.has(key(span.bridge)) || islands.has(span.from) || islands.has(span.to);
  return { span: (span) => (of(span) ? "" : "dim"), island: (island) => (islands.has(island.name) ? "" : "dim") };
}

function showDetails() {
  const made = details(state.atlas, state.chosen, choose);
  panel.hidden = made === null;
  if (made === null) {
    panel.replaceChildren();
    return;
  }
  const focused = document.activeElement?.dataset?.way;
  const scrolled = panel.scrollTop;
  const close = element("button", { type: "button", class: "close", "aria-label": "Close the details", "data-way": "close", onclick: dismiss }, "×");
  panel.replaceChildren(close, ...made.filter((part) => part !== null));
  panel.scrollTop = scrolled;
  if (focused !== undefined) [...panel.querySelectorAll("[data-way]")].find((one) => one.dataset.way === focused)?.focus({ preventScroll: true });
}

function showTotals(atlas, undrawn) {
  const { totals } = atlas;
  const many = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
  const parts = [many(totals.islands, "cluster"), many(totals.bridges, "service")];
  if (totals.troubledIslands > 0) parts.push(`${many(totals.troubledIslands, "cluster")} not well`);
  if (totals.conflicts > 0) parts.push(many(totals.conflicts, "conflict"));
  const others = totals.troubledBridges - totals.conflicts;
  if (others > 0) parts.push(`${many(others, "service")} not well`);
  const tone = (index) => (index < 2 ? "" : index === 2 && totals.troubledIslands > 0 ? "failed" : "conflict");
  const words = parts.join(", ");
  const totalsShown = byId("totals");
  // A screen reader tells what changes: so nothing is put in that was there.
  if (totalsShown.textContent !== parts.join("")) totalsShown.replaceChildren(...parts.map((part, index) => element("span", { class: `total ${tone(index)}` }, part)));
  document.title = totals.troubledIslands + totals.troubledBridges > 0 ? `Tombolo: ${words}` : "Tombolo";
  byId("replica").textContent = atlas.leads ? "" : "this replica does not lead: it sees the same, another one writes";
  const left = state.listed === "islands" ? totals.islandsLeftOut : totals.bridgesLeftOut;
  byId("left-out").textContent = left > 0 ? `${left} more are not shown; those that are not well are shown first` : "";
  const why = !atlas.ready ? "The hub is still reading what it holds, or does not propagate." : totals.islands === 0 ? "No clusters yet: `tombolo join` makes one a member." : undrawn > 0 ? `${undrawn} bridges that are well are not drawn` : "";
  notice.hidden = why === "";
  notice.textContent = why;
}

function showLegend() {
  const line = ({ tone, sign, word }) => element("span", { class: `key ${tone}` }, element("i", { "aria-hidden": "true" }), element("span", { class: `badge ${tone}`, "aria-hidden": "true" }, sign), word);
  const states = [...Object.values(FOOTING), { ...WEATHER.lost, word: "cluster lost" }];
  byId("legend").replaceChildren(...states.map(line));
}

// --- what is chosen ---

function choose(chosen) {
  state.chosen = chosen;
  if (chosen.kind in tabs && chosen.kind !== state.listed) state.listed = chosen.kind;
  show();
  panel.scrollTop = 0;
  list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  panel.focus({ preventScroll: true });
}

/** Back to the row that the details were of. */
function dismiss() {
  const { chosen } = state;
  state.chosen = null;
  show();
  const item = [...list.children].find((item) => item.dataset.id === chosen?.id) ?? list.firstElementChild;
  item?.firstElementChild.focus();
}

function listAs(kind) {
  state.listed = kind;
  show();
  tabs[kind].focus();
}

// --- keys ---

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target === filter;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    filter.focus();
  } else if (event.key === "Escape") {
    if (state.chosen !== null) dismiss();
    else if (filter.value !== "") {
      filter.value = "";
      show();
    }
  } else if (typing && event.key === "ArrowDown") {
    event.preventDefault();
    list.querySelector("button")?.focus();
  }
});

list.addEventListener("keydown", (event) => {
  const items = [...list.children].map((item) => item.firstElementChild);
  const at = items.indexOf(event.target);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  const next = items[Math.min(items.length - 1, Math.max(0, to))];
  items.forEach((item) => (item.tabIndex = item === next ? 0 : -1));
  next.focus();
});

for (const [kind, tab] of Object.entries(tabs)) {
  tab.addEventListener("click", () => listAs(kind));
  tab.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") listAs(kind === "islands" ? "bridges" : "islands");
  });
}
filter.addEventListener("input", show);

// --- the hub ---

function say(tone, sign, words) {
  const link = byId("link");
  if (link.dataset.words === words) return;
  link.dataset.words = words;
  link.dataset.tone = tone;
  link.replaceChildren(element("span", { "aria-hidden": "true" }, sign), ` ${words}`);
}

function hear() {
  state.heard = Date.now();
  document.body.classList.remove("cut-off");
  say("well", "●", "live");
}

function cutOff() {
  document.body.classList.add("cut-off");
  say("failed", "○", state.atlas === null ? "the hub does not answer" : `connection lost: this is what the hub said at ${new Date(state.heard).toLocaleTimeString()}`);
}

function listen() {
  state.source?.close();
  const source = new EventSource("events");
  state.source = source;
  source.addEventListener("atlas", (event) => {
    hear();
    state.atlas = JSON.parse(event.data);
    show();
  });
  source.addEventListener("beat", hear);
  // It tries again by itself, unless it was refused.
  source.addEventListener("error", () => {
    cutOff();
    if (source.readyState === EventSource.CLOSED && state.source === source) setTimeout(() => state.source === source && listen(), AGAIN);
  });
}

setInterval(() => {
  if (Date.now() - state.heard > PATIENCE) {
    cutOff();
    state.heard = Date.now() - PATIENCE + AGAIN;
    listen();
  }
}, 1_000);
setInterval(show, AGES);
showLegend();
listen();
