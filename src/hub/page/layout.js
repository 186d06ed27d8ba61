// Where things are on the map: pure functions of names and numbers. The same clusters are at the same places, always.

export const WIDTH = 1200;
export const HEIGHT = 820;
export const CENTRE = { x: WIDTH / 2, y: HEIGHT / 2 };

/** Up to so many islands have room for a name above or below them; more have it pointing outwards. */
const ROOMY = 14;
/** More than so many islands stand in two rows. */
const ONE_ROW = 64;
/** So far from the middle is the second row. */
const INNER = 0.87;

/** A number made of a text (FNV-1a). */
export function hash(text) {
  let sum = 0x811c9dc5;
  for (const unit of text) sum = Math.imul(sum ^ unit.codePointAt(0), 0x01000193);
  return sum >>> 0;
}

/** Numbers from 0 to 1 that follow from a text. */
function* series(text) {
  let state = hash(text);
  for (;;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

/** Points on an ellipse, equally far from one another along it, clockwise from the top. */
function around(count, rx, ry) {
  const steps = 1440;
  const at = (step) => {
    const angle = (step / steps) * 2 * Math.PI - Math.PI / 2;
    return { x: CENTRE.x + rx * Math.cos(angle), y: CENTRE.y + ry * Math.sin(angle) };
  };
  const lengths = [0];
  for (let step = 1; step <= steps; step++) {
    const [one, two] = [at(step - 1), at(step)];
    lengths.push(lengths[step - 1] + Math.hypot(two.x - one.x, two.y - one.y));
  }
  const all = lengths[steps];
  let step = 0;
  return Array.from({ length: count }, (_, index) => {
    while (lengths[step] < (all * index) / count) step++;
    return at(step);
  });
}

/** The place of each island by its name: centre, radius, and where its label stands. Names are sorted. */
export function places(names) {
  const count = names.length;
  const found = new Map();
  if (count === 0) return found;
  if (count <= 2) {
    const spots = count === 1 ? [CENTRE] : [{ x: 285, y: CENTRE.y }, { x: WIDTH - 285, y: CENTRE.y }];
    names.forEach((name, index) => found.set(name, beside(spots[index], 78)));
    return found;
  }
  if (count <= ROOMY) {
    const radius = 64 - 2.4 * count;
    around(count, 440, 285).forEach((spot, index) => found.set(names[index], beside(spot, radius)));
    return found;
  }
  const twoRows = count > ONE_ROW;
  const spots = around(count, 425, 275);
  const step = 2230 / count;
  // Of an odd number the first and the last are neighbours in the same row. A shore is up to 1.4 times as far from the middle as the radius says.
  const room = twoRows && count % 2 === 0 ? Math.min(2 * INNER * step, Math.hypot(step, (1 - INNER) * 275)) : step;
  const radius = Math.min(24, room / 3);
  spots.forEach((spot, index) => {
    const inner = twoRows && index % 2 === 1;
    const shrink = inner ? INNER : 1;
    const at = { x: CENTRE.x + (spot.x - CENTRE.x) * shrink, y: CENTRE.y + (spot.y - CENTRE.y) * shrink };
    found.set(names[index], inner ? { ...at, r: radius, label: null } : outwards(at, radius));
  });
  return found;
}

/** A name below its island; above it in the upper half, where bridges leave downwards. */
function beside(spot, r) {
  const above = spot.y < CENTRE.y - 20;
  const y = above ? spot.y - r * 1.15 - 20 : spot.y + r * 1.15 + 20;
  return { x: spot.x, y: spot.y, r, label: { x: spot.x, y, anchor: "middle", turn: 0, size: 17, next: above ? -20 : 20 } };
}

function outwards(spot, r) {
  let angle = Math.atan2((spot.y - CENTRE.y) * 1.25, spot.x - CENTRE.x);
  const reach = r * 1.3 + 7;
  const [x, y] = [spot.x + reach * Math.cos(angle), spot.y + reach * Math.sin(angle)];
  const left = Math.cos(angle) < 0;
  if (left) angle += Math.PI;
  const turn = (angle * 180) / Math.PI;
  return { x: spot.x, y: spot.y, r, label: { x, y, anchor: left ? "end" : "start", turn, size: 13.5 } };
}

/** The shore of an island: a round shape that is its name's own. */
export function shore(name, r) {
  const numbers = series(name);
  const corners = 9;
  const start = numbers.next().value * Math.PI;
  const points = Array.from({ length: corners }, (_, index) => {
    const angle = start + (index / corners) * 2 * Math.PI;
    const far = r * (0.84 + 0.3 * numbers.next().value);
    return [far * Math.cos(angle) * 1.06, far * Math.sin(angle) * 0.94];
  });
  // A closed Catmull-Rom curve through all points.
  const at = (index) => points[(index + corners) % corners];
  let path = `M${point(at(0))}`;
  for (let index = 0; index < corners; index++) {
    const [before, from, to, after] = [at(index - 1), at(index), at(index + 1), at(index + 2)];
    const first = [from[0] + (to[0] - before[0]) / 6, from[1] + (to[1] - before[1]) / 6];
    const second = [to[0] - (after[0] - from[0]) / 6, to[1] - (after[1] - from[1]) / 6];
    path += `C${point(first)} ${point(second)} ${point(to)}`;
  }
  return `${path}Z`;
}

const point = ([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`;

/**
 * A bridge between two islands: a curve that leans to the middle of the map, the number-th of so many side by side. It goes from the
 * island that is first by name, whichever way it is used.
 */
export function curve(from, to, number, of) {
  const mid = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  // What is near leans less, so that neighbours are not joined by a long way round.
  const lean = 0.16 + 0.5 * Math.min(1, length / 900);
  const aside = (number - (of - 1) / 2) * Math.min(118, 560 / of);
  const [nx, ny] = [-(to.y - from.y) / length, (to.x - from.x) / length];
  const bow = {
    x: mid.x + (CENTRE.x - mid.x) * lean + nx * aside,
    y: mid.y + (CENTRE.y - mid.y) * lean + ny * aside,
  };
  const at = (t) => ({
    x: (1 - t) ** 2 * from.x + 2 * t * (1 - t) * bow.x + t * t * to.x,
    y: (1 - t) ** 2 * from.y + 2 * t * (1 - t) * bow.y + t * t * to.y,
  });
  const heading = (t) => {
    const x = 2 * (1 - t) * (bow.x - from.x) + 2 * t * (to.x - bow.x);
    const y = 2 * (1 - t) * (bow.y - from.y) + 2 * t * (to.y - bow.y);
    return (Math.atan2(y, x) * 180) / Math.PI;
  };
  const path = `M${point([from.x, from.y])}Q${point([bow.x, bow.y])} ${point([to.x, to.y])}`;
  return { path, at, heading, length };
}
