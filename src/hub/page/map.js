// The map: islands and bridges as SVG. Everything that came from a cluster is put in as text, never as markup.

import { CENTRE, curve, places, shore } from "./layout.js";

const SVG = "http://www.w3.org/2000/svg";

/** How clusters are: a tone (for colour and line), a sign and a word. */
export const WEATHER = {
  well: { tone: "well", sign: "✓", word: "well", rank: 0 },
  new: { tone: "waiting", sign: "…", word: "not looked at yet", rank: 1 },
  leaving: { tone: "waiting", sign: "→", word: "leaving", rank: 2 },
  copiesAmiss: { tone: "silent", sign: "!", word: "copies not in order", rank: 3 },
  distrusted: { tone: "silent", sign: "!", word: "data refused", rank: 4 },
  noAgent: { tone: "silent", sign: "–", word: "no agent", rank: 5 },
  silent: { tone: "silent", sign: "?", word: "silent", rank: 6 },
  unready: { tone: "failed", sign: "!", word: "not ready", rank: 7 },
  stale: { tone: "silent", sign: "~", word: "stale", rank: 8 },
  lost: { tone: "failed", sign: "×", word: "lost", rank: 9 },
};

/** How services are. */
export const FOOTING = {
  well: { tone: "well", sign: "✓", word: "well", rank: 0 },
  waiting: { tone: "waiting", sign: "…", word: "waiting", rank: 1 },
  silent: { tone: "silent", sign: "~", word: "silent", rank: 2 },
  conflict: { tone: "conflict", sign: "≠", word: "conflict", rank: 3 },
  failed: { tone: "failed", sign: "×", word: "failed", rank: 4 },
};

/** Up to so many bridges are drawn one by one, with arrows and names; more are drawn together by the islands that they join. */
const SINGLY = 26;
/** As many are drawn at most, those that need a look first. */
const DRAWN = 700;
/** With more lines than this they are thin and faint, so that what is chosen stands out. */
const DENSE = 200;
/** More signs than this would hide one another: then only those of what is chosen are drawn, and lines tell by their kind. */
const SIGNS = 48;

/** What cannot be known is shown as something to look at. */
export const weather = (island) => WEATHER[island.state] ?? WEATHER.unready;
export const footing = (state) => FOOTING[state] ?? FOOTING.failed;
export const key = (bridge) => `${bridge.namespace}/${bridge.name}`;
/** Names have no bar, so this is one of two. */
export const pair = (one, two) => (one < two ? `${one}|${two}` : `${two}|${one}`);

/** Who is joined to whom, by which services: one entry a pair of islands and service. */
export function spans(atlas) {
  const found = new Map();
  for (const bridge of atlas.bridges) {
    for (const importer of bridge.importers) {
      for (const exporter of bridge.exporters) {
        if (exporter.cluster === importer.cluster) continue;
        const id = `${pair(exporter.cluster, importer.cluster)}|${key(bridge)}`;
        const span = found.get(id) ?? {
          pair: pair(exporter.cluster, importer.cluster),
          from: exporter.cluster,
          to: importer.cluster,
          bridge,
          state: "well",
          both: false,
        };
        span.both ||= span.from !== exporter.cluster;
        const state = between(bridge, exporter, importer);
        if (footing(state).rank > footing(span.state).rank) span.state = state;
        found.set(id, span);
      }
    }
  }
  return [...found.values()];
}

function between(bridge, exporter, importer) {
  if (exporter.state === "failed" || importer.state === "failed") return "failed";
  if (bridge.reason !== "") return "conflict";
  if (exporter.state === "silent" || importer.state === "silent") return "silent";
  return importer.reaches.includes(exporter.cluster) ? "well" : "waiting";
}

/** Spans that join the same islands, as one. */
function together(all) {
  const found = new Map();
  for (const span of all) {
    const bundle = found.get(span.pair) ?? { ...span, spans: [], both: true };
    bundle.spans.push(span);
    if (footing(span.state).rank > footing(bundle.state).rank) bundle.state = span.state;
    found.set(span.pair, bundle);
  }
  return [...found.values()];
}

/** Draws everything anew. `mood` says of an island or a span whether it is lit, dim or neither; `choose` is told what was clicked. */
export function draw(svg, atlas, mood, choose) {
  const spots = places(atlas.islands.map((island) => island.name));
  const all = spans(atlas).filter((span) => spots.has(span.from) && spots.has(span.to));
  const singly = all.length <= SINGLY && atlas.islands.length <= 14;
  const lines = singly ? fan(all) : together(all).map((line) => ({ ...line, number: 0, of: 1 }));
  // What is painted last is on top.
  const order = (line) => footing(line.state).rank * 10 + { dim: 0, "": 1, lit: 100 }[worst(line, mood)];
  lines.sort((one, two) => order(one) - order(two) || (one.pair < two.pair ? -1 : 1));
  const drawn = lines.slice(-DRAWN);
  const bridges = drawAll("bridges", drawn, (line) => drawLine(line, spots, singly, mood, choose));
  const troubled = drawn.filter((line) => footing(line.state).rank > 0).length;
  const signed = drawn.filter((line) => singly || troubled <= SIGNS || worst(line, mood) === "lit");
  const names = singly ? named(signed, spots, mood) : new Map();
  const signs = drawAll("signs", signed, (line) => drawSign(line, spots, singly, mood, names.get(line)));
  const islands = drawAll("islands", atlas.islands, (island) => drawIsland(island, spots.get(island.name), mood, choose));
  svg.classList.toggle("dense", drawn.length > DENSE);
  svg.replaceChildren(sea(atlas.islands.length), bridges, signs, islands);
  return lines.length - drawn.length;
}

/** Spans of the same pair side by side. */
function fan(all) {
  const sizes = new Map();
  const numbered = all.map((span) => {
    const number = sizes.get(span.pair) ?? 0;
    sizes.set(span.pair, number + 1);
    return { ...span, spans: [span], number };
  });
  return numbered.map((line) => ({ ...line, of: sizes.get(line.pair) }));
}

/** Where bridges have their names: somewhere along them where no other name or sign is, those that need a look first. */
function named(lines, spots, mood) {
  const taken = lines.filter((line) => footing(line.state).rank > 0).map((line) => ({ ...lineOf(line, spots).at(0.5), wide: 26, high: 26 }));
  const free = (box) => taken.every((other) => Math.abs(other.x - box.x) * 2 >= other.wide + box.wide || Math.abs(other.y - box.y) * 2 >= other.high + box.high);
  const found = new Map();
  for (const line of lines.toReversed()) {
    const { at, length } = lineOf(line, spots);
    const wide = key(line.bridge).length * 8.4 + 8;
    const boxes = [0.5, 0.42, 0.58, 0.36, 0.64, 0.3, 0.7].map(at).flatMap(({ x, y }) => [-14, 15, -21, 22].map((aside) => ({ x, y: y + aside, wide, high: 19 })));
    const box = boxes.find(free);
    if (box === undefined || (length < 250 && worst(line, mood) !== "lit")) continue;
    taken.push(box);
    found.set(line, box);
  }
  return found;
}

function worst(line, mood) {
  const moods = line.spans.map((span) => mood.span(span));
  if (moods.includes("lit")) return "lit";
  return moods.every((one) => one === "dim") ? "dim" : "";
}

function drawAll(name, items, one) {
  const group = node("g", { class: name });
  for (const item of items) {
    const made = one(item);
    if (made) group.append(made);
  }
  return group;
}

/** Faint lines of depth around the middle. */
function sea(count) {
  const group = node("g", { class: "sea", "aria-hidden": "true" });
  if (count === 0) return group;
  const flat = count <= 2 ? 0.62 : 0.65;
  for (const wide of [120, 230, 340, 450, 560, 670]) {
    group.append(node("ellipse", { cx: CENTRE.x, cy: CENTRE.y, rx: wide, ry: wide * flat }));
  }
  return group;
}

function lineOf(line, spots) {
  const [one, two] = line.pair.split("|");
  return curve(spots.get(one), spots.get(two), line.number, line.of);
}

function drawLine(line, spots, singly, mood, choose) {
  const { path } = lineOf(line, spots);
  const width = singly ? 3 : Math.min(7, 1.1 + 0.7 * Math.sqrt(line.spans.length));
  const group = node("g", { class: `bridge ${footing(line.state).tone} ${singly ? "single" : "bundle"} ${worst(line, mood)}` });
  const names = line.spans.slice(0, 12).map((span) => key(span.bridge)).join(", ");
  const more = line.spans.length > 12 ? ` and ${line.spans.length - 12} more` : "";
  group.append(
    titled(`${line.from} ${line.both ? "↔" : "→"} ${line.to}: ${names}${more} (${footing(line.state).word})`),
    // Wide and unseen: a thin line is hard to hit.
    node("path", { class: "touch", d: path }),
    node("path", { class: "line", d: path, "stroke-width": line.state === "conflict" ? width + 2.5 : width }),
  );
  // Two lines beside one another.
  if (line.state === "conflict") group.append(node("path", { class: "gap", d: path }));
  const chosen = singly ? { kind: "bridges", id: key(line.bridge) } : { kind: "pair", id: line.pair };
  group.addEventListener("click", () => choose(chosen));
  return group;
}

/** What tells a bridge's state without its colour, its direction, and its name where there is room. */
function drawSign(line, spots, singly, mood, name) {
  const { at, heading } = lineOf(line, spots);
  const group = node("g", { class: `sign ${footing(line.state).tone} ${worst(line, mood)}` });
  const well = footing(line.state).rank === 0;
  if (singly && !line.both) {
    const forth = line.pair.startsWith(`${line.from}|`);
    const [spot, turn] = forth ? [at(0.68), heading(0.68)] : [at(0.32), heading(0.32) + 180];
    group.append(node("path", { class: "arrow", d: "M-7,-6L6,0L-7,6", transform: `translate(${spot.x.toFixed(1)},${spot.y.toFixed(1)}) rotate(${turn.toFixed(1)})` }));
  }
  if (name) group.append(text(key(line.bridge), { x: name.x, y: name.y, class: "name" }));
  if (!well) {
    const spot = at(0.5);
    group.append(node("circle", { cx: spot.x, cy: spot.y, r: singly ? 11 : 8 }), text(footing(line.state).sign, { x: spot.x, y: spot.y, class: "mark" }));
  }
  return group.childNodes.length > 0 ? group : null;
}

function drawIsland(island, spot, mood, choose) {
  const { tone, sign, word, rank } = weather(island);
  const group = node("g", { class: `island ${tone} is-${island.state} ${mood.island(island)}`, "data-island": island.name });
  const [big, shape] = [spot.r > 30, shore(island.name, spot.r)];
  const land = node("g", { transform: `translate(${spot.x.toFixed(1)},${spot.y.toFixed(1)})` });
  land.append(
    node("path", { class: "shallows", d: shore(island.name, spot.r * 1.32) }),
    node("path", { class: "beach", d: shore(island.name, spot.r * 1.12) }),
    node("path", { class: "land", d: shape }),
  );
  if (big) land.append(node("path", { class: "hill", d: shore(island.name, spot.r * 0.55) }));
  if (rank > 0) land.append(text(sign, { x: 0, y: 0, class: "mark", "font-size": Math.max(13, spot.r * 0.72) }));
  group.append(titled(`${island.name}: ${word}`), land);
  const { label } = spot;
  if (label) {
    const name = node("text", { class: "label", "text-anchor": label.anchor, "font-size": label.size, transform: `translate(${label.x.toFixed(1)},${label.y.toFixed(1)}) rotate(${label.turn.toFixed(1)})` });
    name.append(short(island.name, label.turn === 0 ? 30 : 22));
    // On one line where it points outwards.
    if (rank > 0) name.append(node("tspan", label.turn === 0 && label.anchor === "middle" ? { class: "word", x: 0, dy: label.next } : { class: "word", dx: 6 }, word));
    group.append(name);
  }
  group.addEventListener("click", () => choose({ kind: "islands", id: island.name }));
  return group;
}

const short = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

function node(tag, attributes, words) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (words !== undefined) made.textContent = words;
  return made;
}

const titled = (words) => node("title", {}, words);
const text = (words, attributes) => node("text", { "text-anchor": "middle", "dominant-baseline": "central", ...attributes }, words);

