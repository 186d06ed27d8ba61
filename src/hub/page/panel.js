// The list and the details: the same as the map in words, for keyboards and screen readers. Text is only ever put in as text.

import { footing, key, pair, spans, weather } from "./map.js";

/** An element with attributes and children; a child that is a string becomes text. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** How long ago a time was, in one word. */
export function age(since, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - Date.parse(since)) / 1000));
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = steps.find(([size]) => seconds >= size) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

const badge = ({ tone, sign }) => element("span", { class: `badge ${tone}`, "aria-hidden": "true" }, sign);
const chip = (kind) => element("span", { class: `chip ${kind.tone}` }, badge(kind), kind.word);

/** The rows of the list: id, sort rank, text to filter by, and what is seen. */
export function rows(atlas, kind) {
  const made = kind === "islands" ? atlas.islands.map(islandRow) : atlas.bridges.map(bridgeRow);
  return made.sort((one, two) => two.rank - one.rank || (one.id < two.id ? -1 : 1));
}

function islandRow(island) {
  const state = weather(island);
  const since = island.since ? ` for ${age(island.since)}` : "";
  const hint = state.rank > 0 ? `${state.word}${since}` : island.region || island.version;
  return { id: island.name, rank: state.rank, state, name: island.name, hint, words: [island.name, island.region, state.word, island.message] };
}

function bridgeRow(bridge) {
  const state = footing(bridge.state);
  const way = `${bridge.exporters.length} → ${bridge.importers.length}`;
  const hint = state.rank > 0 ? state.word : `${way} clusters`;
  return { id: key(bridge), rank: state.rank, state, name: key(bridge), hint, words: [key(bridge), state.word, bridge.reason, ...bridge.ports] };
}

/** Whether a row is to be seen under a filter: all of its words must be somewhere. */
export function matches(row, filter) {
  const text = row.words.join(" ").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Brings a list to these rows; what stays keeps its element, and its focus. */
export function fill(list, shown, chosen, choose) {
  const focused = document.activeElement?.closest("li")?.dataset.id;
  const before = new Map([...list.children].map((item) => [item.dataset.id, item]));
  const items = shown.map((row) => {
    const item = before.get(row.id) ?? newItem(row.id, choose);
    const face = `${row.state.word}\n${row.name}\n${row.hint}`;
    const button = item.firstElementChild;
    if (item.dataset.face !== face) {
      item.dataset.face = face;
      button.replaceChildren(badge(row.state), element("span", { class: "name" }, row.name), element("span", { class: `hint ${row.state.tone}` }, row.hint));
    }
    if (row.id === chosen) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    return item;
  });
  if (items.length !== list.children.length || items.some((item, index) => list.children[index] !== item)) list.replaceChildren(...items);
  // One of them can be reached by Tab, the others by arrow keys.
  const reached = items.find((item) => item.dataset.id === focused) ?? items.find((item) => item.dataset.id === chosen) ?? items[0];
  for (const item of items) item.firstElementChild.tabIndex = item === reached ? 0 : -1;
  if (focused !== undefined && reached?.dataset.id === focused) reached.firstElementChild.focus({ preventScroll: true });
}

function newItem(id, choose) {
  const item = element("li", {}, element("button", { type: "button", onclick: () => choose(id) }));
  item.dataset.id = id;
  return item;
}

/** The details of what is chosen; none if it is gone. */
export function details(atlas, chosen, choose) {
  if (chosen?.kind === "islands") {
    const island = atlas.islands.find((one) => one.name === chosen.id);
    return island ? islandDetails(atlas, island, choose) : null;
  }
  if (chosen?.kind === "bridges") {
    const bridge = atlas.bridges.find((one) => key(one) === chosen.id);
    return bridge ? bridgeDetails(bridge, choose) : null;
  }
  return chosen?.kind === "pair" ? pairDetails(atlas, chosen.id, choose) : null;
}

const title = (kind, name) => element("h2", { id: "details-title" }, element("small", {}, kind), name);
const said = (words, tone) => (words === "" ? null : element("p", { class: `said ${tone}` }, words));
const facts = (...pairs) => element("dl", {}, ...pairs.filter(([, value]) => value !== "").flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

/** A row that leads elsewhere. */
function way(choose, to, state, name, hint, more = []) {
  const button = element("button", { type: "button", "data-way": `${to.kind} ${to.id}`, onclick: () => choose(to) }, badge(state), element("span", { class: "name" }, name), element("span", { class: "hint" }, hint));
  return element("li", {}, button, ...more.map((words) => element("p", { class: "more" }, words)));
}

function section(name, items) {
  if (items.length === 0) return null;
  return element("div", {}, element("h3", {}, `${name} (${items.length})`), element("ul", {}, ...items));
}

function islandDetails(atlas, island, choose) {
  const state = weather(island);
  const since = island.since ? `for ${age(island.since)}` : "";
  const of = (ends) => (bridge) => bridge[ends].some((end) => end.cluster === island.name);
  const there = (ends) => (bridge) => {
    const end = bridge[ends].find((one) => one.cluster === island.name);
    const hint = ends === "exporters" ? `${end.ready} of ${end.endpoints} ready` : `reaches ${end.reaches.length}`;
    return way(choose, { kind: "bridges", id: key(bridge) }, footing(worse(bridge.state, end.state)), key(bridge), hint);
  };
  const joined = new Map();
  for (const span of spans(atlas)) {
    if (span.from !== island.name && span.to !== island.name) continue;
    const other = span.from === island.name ? span.to : span.from;
    const known = joined.get(other) ?? { state: "well", count: 0 };
    joined.set(other, { state: worse(known.state, span.state), count: known.count + 1 });
  }
  const neighbours = [...joined].map(([other, { state, count }]) => way(choose, { kind: "pair", id: pair(island.name, other) }, footing(state), other, count === 1 ? "1 service" : `${count} services`));
  return [
    title("Cluster", island.name),
    element("p", { class: "state" }, chip(state), since && ` ${since}`),
    said(island.message, state.tone),
    facts(["Kubernetes", island.version], ["Region", island.region], ["API server", island.ready], ["Agent", island.agent], ["Believed", island.trusted]),
    section("Exports", atlas.bridges.filter(of("exporters")).map(there("exporters"))),
    section("Imports", atlas.bridges.filter(of("importers")).map(there("importers"))),
    section("Bridges to", neighbours),
  ];
}

const worse = (one, two) => (footing(two).rank > footing(one).rank ? two : one);

function bridgeDetails(bridge, choose) {
  const state = footing(bridge.state);
  const exporters = bridge.exporters.map((end) => way(choose, { kind: "islands", id: end.cluster }, footing(end.state), end.cluster, `${end.ready} of ${end.endpoints} ready · ${age(end.since)}`, [...end.withheld.map((why) => `withheld: ${why}`), ...lines(end.message)]));
  const importers = bridge.importers.map((end) => way(choose, { kind: "islands", id: end.cluster }, footing(end.state), end.cluster, end.reaches.length > 0 ? `reaches ${end.reaches.length}` : "", [...lines(end.reaches.length > 0 ? `reaches ${end.reaches.join(", ")}` : ""), ...lines(end.message)]));
  return [
    title("Service", key(bridge)),
    element("p", { class: "state" }, chip(state), bridge.reason && ` ${bridge.reason}`),
    said(bridge.message, state.tone),
    facts(["Ports", bridge.ports.join(", ")]),
    section("Exported by", exporters),
    section("Imported by", importers),
  ];
}

const lines = (words) => (words === "" ? [] : [words]);

function pairDetails(atlas, id, choose) {
  const [one, two] = id.split("|");
  const found = spans(atlas).filter((span) => span.pair === id);
  if (found.length === 0) return null;
  const state = found.map((span) => span.state).reduce(worse, "well");
  const services = found.map((span) => way(choose, { kind: "bridges", id: key(span.bridge) }, footing(span.state), key(span.bridge), span.both ? "both ways" : `to ${span.to}`));
  const ends = [one, two].map((name) => atlas.islands.find((island) => island.name === name)).filter((island) => island !== undefined);
  return [
    title("Bridge", `${one} – ${two}`),
    element("p", { class: "state" }, chip(footing(state))),
    section("Between", ends.map((island) => way(choose, { kind: "islands", id: island.name }, weather(island), island.name, weather(island).word))),
    section("Services", services),
  ];
}
