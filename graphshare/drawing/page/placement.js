// Coordinates for the scopes that are open. The rows and their order come from layout/; this is layout/placement.py again,
// for a page in which scopes are folded. A test compares the two.
const PAD = 14, ROW_GAP = 26, TITLE_BAR = 24, STACK_GAP = 12, GUTTER_MARGIN = 26, SIDE_GAP = 60, SPINE = 64, MAIN_SPINE = 4096, SWEEPS = 6, MARK = 18, LINE_STEP = 14;
const LINKS = ["data", "control", "added", "removed"];
const BOX = 0, SCOPE = 1, POINT = 2, GUTTER = 3;

// The levels around a vertex, the innermost first, without the outermost of all.
function* levelsAround(data, v) {
  for (let level = data.vertices[v][1]; level > 0; level = data.vertices[data.levels[level].vertex][1]) yield level;
}

// Whether all scopes around a vertex are open.
function isSeen(data, open, v) {
  return [...levelsAround(data, v)].every((level) => open.has(level));
}

function append(lists, key, value) {
  if (lists.has(key)) lists.get(key).push(value);
  else lists.set(key, [value]);
}

function padsOf(direction) {
  const bar = TITLE_BAR + 6;
  return { TB: [PAD, bar, PAD, PAD], BT: [PAD, PAD, PAD, bar], LR: [bar, PAD, PAD, PAD], RL: [bar, PAD, PAD, PAD] }[direction];
}

// The rectangle of a box, and the middle of its label, which stands behind it in the flow.
function splitLabel([x, y, w, h], label, direction) {
  const isFlat = direction === "LR" || direction === "RL", along = isFlat ? label : label ? LINE_STEP : 0;
  const before = direction === "RL" || direction === "BT" ? along : 0, after = along / 2 - (before ? 0 : isFlat ? w : h);
  if (isFlat) return [[x + before, y, w - along, h], [x + Math.abs(after), y + h / 2]];
  return [[x, y + before, w, h - along], [x + w / 2, y + Math.abs(after)]];
}

function fitInOrder(wanted, weights, steps) {
  const offsets = [0];
  for (const step of steps) offsets.push(offsets[offsets.length - 1] + step);
  const blocks = [];
  for (let i = 0; i < wanted.length; i++) {
    let mean = wanted[i] - offsets[i], weight = weights[i], count = 1;
    while (blocks.length && blocks[blocks.length - 1][0] > mean) {
      const [m, w, c] = blocks.pop();
      mean = (mean * weight + m * w) / (weight + w);
      weight += w;
      count += c;
    }
    blocks.push([mean, weight, count]);
  }
  const at = [];
  for (const [mean, , count] of blocks) for (let i = 0; i < count; i++) at.push(mean + offsets[at.length]);
  return at;
}

function clampStack(at, heights, low, high) {
  let bound = low;
  for (let i = 0; i < at.length; i++) {
    at[i] = Math.max(at[i], bound + heights[i] / 2);
    bound = at[i] + heights[i] / 2 + STACK_GAP;
  }
  bound = high;
  for (let i = at.length - 1; i >= 0; i--) {
    at[i] = Math.min(at[i], bound - heights[i] / 2);
    bound = at[i] - heights[i] / 2 - STACK_GAP;
  }
  return at;
}

function findFavourites(pairs, points) {
  const links = new Map();
  pairs.forEach(([v], i) => append(links, v, i));
  const favourites = new Map();
  for (const [v, own] of links) {
    const alike = own.filter((i) => points.has(pairs[i][1]) === points.has(v));
    if (own.length <= 2 || alike.length === 1) favourites.set(v, alike.length ? alike[0] : own[0]);
  }
  return favourites;
}

function findPulls(data, level, offset) {
  const ends = level.links.map(([s, t]) => [s, t]);
  const ports = new Set([...Object.values(level.entrances), ...Object.values(level.exits)]);
  const points = new Set(ends.flat().filter((v) => data.vertices[v][0] === POINT && !ports.has(v)));
  const above = findFavourites(ends.map(([s, t]) => [t, s]), points), below = findFavourites(ends, points);
  const pulls = { above: new Map(), below: new Map() };
  level.links.forEach(([s, t, net, , isReversed], i) => {
    const isMain = !points.has(s) && !points.has(t);
    const strength = above.get(t) === i && below.get(s) === i ? (isMain ? MAIN_SPINE : SPINE) : 1;
    const shift = offset(s, net, true, isReversed) - offset(t, net, false, isReversed);
    append(pulls.above, t, [s, shift, strength]);
    append(pulls.below, s, [t, -shift, strength]);
  });
  return pulls;
}

function assignX(data, level, size, offset) {
  const isPoint = (v) => data.vertices[v][0] === POINT;
  const gap = (a, b) => isPoint(a) ? (isPoint(b) ? 10 : 16) : (isPoint(b) ? 16 : 22);
  const steps = level.rows.map((row) => row.slice(1).map((v, i) => (size[row[i]][0] + size[v][0]) / 2 + gap(row[i], v)));
  const { above, below } = findPulls(data, level, offset);
  const x = new Map();
  level.rows.forEach((row, r) => {
    let at = -steps[r].reduce((sum, step) => sum + step, 0) / 2;
    row.forEach((v, i) => {
      x.set(v, at);
      at += steps[r][i] || 0;
    });
  });
  const move = (r, sides) => {
    const row = level.rows[r], wanted = [], weights = [];
    for (const v of row) {
      let total = 0, weight = 0;
      for (const side of sides) {
        for (const [u, shift, strength] of side.get(v) || []) {
          total += (x.get(u) + shift) * strength;
          weight += strength;
        }
      }
      wanted.push(weight ? total / weight : x.get(v));
      weights.push(weight || 0.05);
    }
    fitInOrder(wanted, weights, steps[r]).forEach((at, i) => x.set(row[i], at));
  };
  const last = level.rows.length - 1;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (let i = 0; i <= last; i++) move(sweep % 2 ? last - i : i, [sweep % 2 ? below : above]);
  }
  for (let r = 0; r <= last; r++) move(r, [above, below]);
  const spine = new Map();
  for (const [v, pulls] of above) spine.set(v, pulls.filter((pull) => pull[2] >= SPINE));
  for (let r = 0; r <= last; r++) move(r, [spine]);
  const straight = new Set([above, below].flatMap((side) => [...side].filter(([, pulls]) => pulls.some((pull) => pull[2] >= SPINE)).map(([v]) => v)));
  const held = new Map([...straight].map((v) => [v, [[v, 0, MAIN_SPINE]]]));
  const rest = [held, ...[above, below].map((side) => new Map([...side].filter(([v]) => !straight.has(v))))];
  for (let r = last; r >= 0; r--) move(r, rest);
  return x;
}

// Places one graph: `open` has the numbers of the open levels. The result has rects by vertex (undefined: not to be seen), the
// levels that can be seen, routes, and groups of shared boxes that have the same visible consumers.
class Placer {
  constructor(data, open, measure) {
    this.data = data;
    this.open = open;
    this.measure = measure;
    this.isFlat = data.direction === "LR" || data.direction === "RL";
    this.pads = padsOf(data.direction);
    const isVisible = (n) => !n || (open.has(n) && isSeen(data, open, data.levels[n].vertex));
    this.levels = data.levels.map((level, number) => number).filter(isVisible);
    this.visible = new Set(this.levels);
    this.inner = new Map();
    this.size = data.vertices.map(([kind, , , w, h, label]) => {
      // A folded scope has room for its mark; the size of an open one is set when it is placed.
      if (kind === SCOPE) return this.turnSize([w + MARK, h]);
      return this.isFlat ? [h, w + label] : [Math.max(w, label), h + (label ? LINE_STEP : 0)];
    });
    this.groups = this.levels.map((number) => this.groupShared(number));
  }

  turnSize([w, h]) {
    return this.isFlat ? [h, w] : [w, h];
  }

  // The vertex itself or the outermost folded scope around it.
  representative(v) {
    let seen = v;
    for (const level of levelsAround(this.data, v)) if (!this.open.has(level)) seen = this.data.levels[level].vertex;
    return seen;
  }

  groupShared(number) {
    const groups = new Map();
    for (const [v, gutter, consumers] of this.data.levels[number].shared) {
      const ends = [...new Set(consumers.map((c) => this.representative(c)))].sort((a, b) => a - b);
      // With scopes folded, boxes may have the same consumers left: they become one box.
      const key = gutter + ":" + ends.join();
      if (groups.has(key)) groups.get(key).boxes.push(v);
      else groups.set(key, { number, gutter, consumers: ends, boxes: [v], vertex: v });
    }
    const gutters = new Map();
    for (const group of groups.values()) {
      if (group.boxes.length > 1) {
        group.texts = this.summarize(group.boxes);
        this.size[group.vertex] = this.turnSize(this.measure(group.texts));
      }
      if (group.gutter < 0) continue;
      const [w, h] = this.size[group.vertex], [width, height] = gutters.get(group.gutter) || [0, 0];
      gutters.set(group.gutter, [Math.max(width, w + 2 * GUTTER_MARGIN), height + h + STACK_GAP]);
    }
    for (const [v, size] of gutters) this.size[v] = size;
    return [...groups.values()];
  }

  summarize(vertices) {
    const boxes = vertices.map((v) => this.data.boxes[this.data.vertices[v][2]]);
    const count = boxes.reduce((sum, box) => sum + box.nodes.length, 0);
    const texts = [count.toLocaleString("en") + " shared parameters"];
    const weights = boxes.map((box) => box.weights);
    if (!weights.includes(null)) texts.push(weights.reduce((sum, n) => sum + n, 0).toLocaleString("en") + " weights");
    return texts;
  }

  place() {
    // Inside out: the size of a scope is that of its contents.
    for (const number of [...this.levels].reverse()) this.placeLevel(number);
    const rects = [], origins = new Map([[0, [0, 0]]]), routes = [];
    this.levels.forEach((number, i) => {
      const inner = this.inner.get(number), [left, top] = origins.get(number);
      const put = (v, x, y) => {
        const [w, h] = this.size[v];
        rects[v] = [left + x - w / 2, top + y - h / 2, w, h];
      };
      for (const v of this.data.levels[number].rows.flat()) {
        put(v, inner.x.get(v), inner.y.get(v));
        if (this.data.vertices[v][0] === SCOPE) origins.set(this.data.vertices[v][2], rects[v].slice(0, 2));
      }
      for (const [v, [x, y]] of inner.shared) put(v, x, y);
    });
    this.levels.forEach((number, i) => {
      this.routeLevel(number, origins.get(number), routes);
      this.routeShared(this.groups[i], rects, routes);
    });
    return this.turn(rects, routes);
  }

  offset(v, net, isSource, isReversed) {
    const [kind, , content] = this.data.vertices[v];
    if (kind !== SCOPE || !this.visible.has(content)) return 0;
    const level = this.data.levels[content], ports = isSource !== Boolean(isReversed) ? level.exits : level.entrances;
    const inner = this.inner.get(content);
    return net in ports ? inner.x.get(ports[net]) - inner.width / 2 : 0;
  }

  placeLevel(number) {
    const level = this.data.levels[number], size = this.size;
    const [left, top, right, bottom] = number ? this.pads : [PAD, PAD, PAD, PAD];
    const offset = (v, net, isSource, isReversed) => this.offset(v, net, isSource, isReversed);
    const x = assignX(this.data, level, size, offset);
    let low = Infinity, high = -Infinity;
    for (const [v, at] of x) {
      low = Math.min(low, at - size[v][0] / 2);
      high = Math.max(high, at + size[v][0] / 2);
    }
    if (!x.size) low = high = 0;
    for (const [v, at] of x) x.set(v, at - low + left);
    const heights = level.rows.map((row) => row.reduce((most, v) => Math.max(most, size[v][1]), 0));
    const rowOf = new Map();
    level.rows.forEach((row, r) => row.forEach((v) => rowOf.set(v, r)));
    const gaps = level.rows.slice(1).map(() => ROW_GAP);
    for (const [s, t] of level.links) {
      const r = rowOf.get(s);
      gaps[r] = Math.max(gaps[r], Math.min(ROW_GAP + Math.abs(x.get(s) - x.get(t)) / 10, 3 * ROW_GAP));
    }
    const tops = [], yOf = new Map();
    let y = top;
    level.rows.forEach((row, r) => {
      tops.push(y);
      row.forEach((v) => yOf.set(v, y + heights[r] / 2));
      y += heights[r] + (gaps[r] || 0);
    });
    const inner = { x, y: yOf, tops, heights, rowOf, width: left + high - low + right, height: y + bottom, shared: new Map() };
    this.inner.set(number, inner);
    this.placeShared(number, inner);
    const title = number ? level.titleWidth : 0;
    if (this.isFlat) inner.height = Math.max(inner.height, title);
    else if (title > inner.width) {
      const shift = (title - inner.width) / 2;
      for (const [v, at] of x) x.set(v, at + shift);
      for (const [v, [at, y]] of inner.shared) inner.shared.set(v, [at + shift, y]);
      inner.width = title;
    }
    if (level.vertex >= 0) size[level.vertex] = [inner.width, inner.height];
  }

  placeShared(number, inner) {
    const columns = new Map();
    for (const group of this.groups[this.levels.indexOf(number)]) append(columns, group.gutter, group);
    for (const [gutter, groups] of columns) {
      const height = (c) => this.heightInside(c, number);
      for (const group of groups) group.wanted = group.consumers.reduce((sum, c) => sum + height(c), 0) / group.consumers.length;
      groups.sort((a, b) => a.wanted - b.wanted);
      const heights = groups.map((group) => this.size[group.vertex][1]);
      const steps = heights.slice(1).map((h, i) => (heights[i] + h) / 2 + STACK_GAP);
      let at = fitInOrder(groups.map((group) => group.wanted), groups.map(() => 1), steps), x;
      const last = at.length - 1;
      if (gutter >= 0) {
        x = inner.x.get(gutter);
        const half = Math.max(this.size[gutter][1], inner.heights[inner.rowOf.get(gutter)]) / 2, middle = inner.y.get(gutter);
        at = clampStack(at, heights, middle - half, middle + half);
      } else {
        const right = number ? this.pads[2] : PAD, widest = Math.max(...groups.map((group) => this.size[group.vertex][0]));
        x = inner.width - right + SIDE_GAP + widest / 2;
        inner.width = x + widest / 2 + right;
        at = clampStack(at, heights, inner.tops[0] || 0, Math.max(inner.height, at[last] + heights[last]));
        inner.height = Math.max(inner.height, at[last] + heights[last] / 2 + PAD);
      }
      groups.forEach((group, i) => inner.shared.set(group.vertex, [x, at[i]]));
    }
  }

  heightInside(vertex, number) {
    let y = 0;
    for (let v = vertex; ; v = this.data.levels[this.data.vertices[v][1]].vertex) {
      const level = this.data.vertices[v][1];
      y += this.inner.get(level).y.get(v) - (v === vertex ? 0 : this.size[v][1] / 2);
      if (level === number) return y;
    }
  }

  routeLevel(number, [left, top], routes) {
    const level = this.data.levels[number], inner = this.inner.get(number);
    const entrances = new Set(Object.values(level.entrances)), exits = new Set(Object.values(level.exits));
    const isPoint = (v) => this.data.vertices[v][0] === POINT;
    for (const link of [...level.links, ...level.long]) {
      const [s, t, net, kindOf, isReversed] = link, r = inner.rowOf.get(s), q = inner.rowOf.get(t);
      const xs = left + inner.x.get(s) + this.offset(s, net, true, isReversed);
      const xt = left + inner.x.get(t) + this.offset(t, net, false, isReversed);
      const y0 = entrances.has(s) ? 0 : isPoint(s) ? inner.tops[r] : inner.y.get(s) + this.size[s][1] / 2;
      const y1 = inner.tops[r] + inner.heights[r], y2 = inner.tops[q], middle = top + (y1 + y2) / 2;
      const y3 = exits.has(t) ? inner.height : isPoint(t) ? y2 : inner.y.get(t) - this.size[t][1] / 2;
      const a = [xs, top + y0], b = [xs, top + y1], c = [xt, top + y2], d = [xt, top + y3];
      const head = isReversed ? s : t, [kind, , content] = this.data.vertices[head];
      const hasArrow = kind === BOX || (kind === SCOPE && !this.visible.has(content));
      routes.push({
        // Straight through the row, then a curve between the rows, as in placement.py.
        points: [a, a, b, b, [xs, middle], [xt, middle], c, c, d, d], kind: LINKS[kindOf], net,
        arrow: hasArrow ? (isReversed ? -1 : 1) : 0, ends: [s, t],
      });
    }
  }

  routeShared(groups, rects, routes) {
    for (const group of groups) {
      const [x, y, w, h] = rects[group.vertex];
      for (const consumer of group.consumers) {
        const [cx, cy, cw, ch] = rects[consumer];
        const isLeft = cx + cw / 2 < x + w / 2, x0 = isLeft ? x : x + w, x1 = isLeft ? cx + cw : cx;
        const bend = Math.max(Math.abs(x1 - x0) / 2, 20) * (isLeft ? -1 : 1), y0 = y + h / 2, y1 = cy + ch / 2;
        routes.push({
          points: [[x0, y0], [x0 + bend, y0], [x1 - bend, y1], [x1, y1]], kind: "shared",
          net: this.data.vertices[group.vertex][2], arrow: 1, ends: [group.vertex, consumer],
        });
      }
    }
  }

  turn(rects, routes) {
    const { width, height } = this.inner.get(0), direction = this.data.direction;
    const turn = {
      TB: (x, y) => [x, y], BT: (x, y) => [x, height - y], LR: (x, y) => [y, x], RL: (x, y) => [height - y, x],
    }[direction];
    if (direction !== "TB") {
      rects.forEach(([x, y, w, h], v) => {
        const [x0, y0] = turn(x, y), [x1, y1] = turn(x + w, y + h);
        rects[v] = [Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0)];
      });
      for (const route of routes) route.points = route.points.map(([x, y]) => turn(x, y));
    }
    for (const route of routes) {
      const xs = route.points.map((p) => p[0]), ys = route.points.map((p) => p[1]);
      // For a curve the box of its control points is enough: it lies inside of them.
      route.box = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
    }
    return { rects, routes, groups: this.groups.flat(), levels: this.levels, size: this.isFlat ? [height, width] : [width, height] };
  }
}
