// The canvas: what is inside the window is drawn, with less detail where it is small.
const FONT = "Helvetica, Arial, sans-serif", TITLE_SIZE = 12, LINE_SIZE = 10.5, RIM = 7, CELL = 600, ARROW = 7;
const PAINTED = 500; // routes in one path: the time that a browser takes for a path grows with the square of its parts

class View {
  constructor(canvas, data) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.data = data;
    this.scale = 1;
    this.x = this.y = 0;
    this.selected = null;
    this.pending = 0;
    this.placed = null;
  }

  measure(texts) {
    const width = texts.map((text, i) => {
      this.context.font = this.font(i);
      return this.context.measureText(text).width;
    });
    return [Math.max(56, Math.ceil(Math.max(...width)) + 26), 18 + LINE_STEP * texts.length + RIM];
  }

  font(i) {
    return i === 0 ? `bold ${TITLE_SIZE}px ${FONT}` : `${LINE_SIZE}px ${FONT}`;
  }

  // Takes a placement: the boxes and scopes in drawing order, and routes by cells of a grid, so that few are looked at.
  show(placed, open) {
    this.placed = placed;
    this.open = open;
    const { vertices, levels, boxes } = this.data, grouped = new Map(placed.groups.map((group) => [group.vertex, group]));
    this.scopes = placed.levels.filter((number) => number > 0).map((number) => {
      const { vertex, title } = levels[number];
      return { vertex, rect: placed.rects[vertex], level: number, title, isOpen: true };
    });
    this.items = [];
    placed.rects.forEach((rect, v) => {
      const [kind, , content, , , label] = vertices[v];
      if (kind === BOX) {
        const box = boxes[content], group = grouped.get(v), [own, middle] = splitLabel(rect, label, this.data.direction);
        this.items.push({ vertex: v, rect: own, middle, box, texts: group && group.texts || box.texts });
      } else if (kind === SCOPE && !open.has(content)) {
        const box = boxes[levels[content].box];
        this.items.push({ vertex: v, rect, box, texts: box.texts, level: content });
      }
    });
    this.grid = new Map();
    placed.routes.forEach((route, i) => this.addToGrid(route, i));
    this.draw();
  }

  addToGrid(route, i) {
    const [x0, y0, x1, y1] = route.box.map((at) => Math.floor(at / CELL));
    // A long route would be in hundreds of cells; such routes are few, and all of them are looked at.
    if ((x1 - x0 + 1) * (y1 - y0 + 1) > 64) {
      if (!this.grid.has("far")) this.grid.set("far", []);
      this.grid.get("far").push(i);
      return;
    }
    for (let x = x0; x <= x1; x++) {
      for (let y = y0; y <= y1; y++) {
        const key = x + ":" + y;
        if (this.grid.has(key)) this.grid.get(key).push(i);
        else this.grid.set(key, [i]);
      }
    }
  }

  routesIn([x0, y0, x1, y1]) {
    const { routes } = this.placed, columns = Math.floor(x1 / CELL) - Math.floor(x0 / CELL) + 1;
    const isInside = (i) => {
      const [a, b, c, d] = routes[i].box;
      return c >= x0 && a <= x1 && d >= y0 && b <= y1;
    };
    // More cells than this take longer to visit than all routes.
    if (columns * (Math.floor(y1 / CELL) - Math.floor(y0 / CELL) + 1) > 200) return routes.filter((_, i) => isInside(i));
    const found = new Set((this.grid.get("far") || []).filter(isInside));
    for (let x = Math.floor(x0 / CELL); x <= Math.floor(x1 / CELL); x++) {
      for (let y = Math.floor(y0 / CELL); y <= Math.floor(y1 / CELL); y++) {
        for (const i of this.grid.get(x + ":" + y) || []) if (isInside(i)) found.add(i);
      }
    }
    return [...found].map((i) => routes[i]);
  }

  resize() {
    const ratio = window.devicePixelRatio || 1, { clientWidth, clientHeight } = this.canvas;
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.draw();
  }

  fit() {
    const [w, h] = this.placed.size, { clientWidth, clientHeight } = this.canvas;
    // A graph of three boxes is not blown up to fill the window.
    this.scale = Math.min(1.2, Math.max(0.001, Math.min((clientWidth - 40) / w, (clientHeight - 40) / h)));
    this.x = (clientWidth - w * this.scale) / 2;
    this.y = (clientHeight - h * this.scale) / 2;
    this.draw();
  }

  // As large as can be read: all of a small graph, the start of a large one.
  start() {
    this.fit();
    if (this.scale >= 0.7) return;
    const [w, h] = this.placed.size, { clientWidth, clientHeight } = this.canvas;
    const scale = Math.max(this.scale, 0.9), { direction } = this.data, first = this.firstItem();
    this.scale = scale;
    const [x, y] = [first[0] + first[2] / 2, first[1] + first[3] / 2];
    this.x = w * scale <= clientWidth ? (clientWidth - w * scale) / 2 : clientWidth / 2 - x * scale;
    this.y = h * scale <= clientHeight ? (clientHeight - h * scale) / 2 : clientHeight / 2 - y * scale;
    if (direction === "TB" && h * scale > clientHeight) this.y = 12;
    if (direction === "BT" && h * scale > clientHeight) this.y = clientHeight - 12 - h * scale;
    if (direction === "LR" && w * scale > clientWidth) this.x = 12;
    if (direction === "RL" && w * scale > clientWidth) this.x = clientWidth - 12 - w * scale;
    this.draw();
  }

  firstItem() {
    const along = { TB: (r) => r[1], BT: (r) => -r[1], LR: (r) => r[0], RL: (r) => -r[0] }[this.data.direction];
    let best = [0, 0, 0, 0], least = Infinity;
    for (const { rect } of this.items) {
      if (along(rect) < least) [best, least] = [rect, along(rect)];
    }
    return best;
  }

  zoom(factor, x, y) {
    const scale = Math.min(6, Math.max(0.001, this.scale * factor));
    this.x = x - (x - this.x) * scale / this.scale;
    this.y = y - (y - this.y) * scale / this.scale;
    this.scale = scale;
    this.draw();
  }

  center(v) {
    const [x, y, w, h] = this.placed.rects[v], { clientWidth, clientHeight } = this.canvas;
    this.scale = Math.max(this.scale, 0.8);
    this.x = clientWidth / 2 - (x + w / 2) * this.scale;
    // Of a scope that is higher than the window the top is shown.
    this.y = clientHeight / 2 - (y + Math.min(h / 2, clientHeight / 2 / this.scale)) * this.scale;
    this.draw();
  }

  // Keeps a vertex where it is on the screen while others move.
  keep(v, change) {
    const before = this.placed.rects[v];
    const at = [this.x + before[0] * this.scale, this.y + before[1] * this.scale];
    change();
    const [x, y] = this.placed.rects[v];
    this.x = at[0] - x * this.scale;
    this.y = at[1] - y * this.scale;
    this.draw();
  }

  // What is at a point of the canvas: a vertex, and whether the point is on its fold mark.
  hit(px, py) {
    const x = (px - this.x) / this.scale, y = (py - this.y) / this.scale;
    const isIn = ([a, b, w, h]) => x >= a && x <= a + w && y >= b && y <= b + h;
    for (const item of this.items) {
      if (isIn(item.rect)) return { ...item, onMark: item.level !== undefined && isIn(this.markOf(item.rect)) };
    }
    // The innermost scope comes last in drawing order, and is hit first.
    for (const scope of [...this.scopes].reverse()) {
      if (isIn(scope.rect)) return { ...scope, onMark: isIn(this.markOf(scope.rect)), onTitle: y < scope.rect[1] + TITLE_BAR };
    }
    return null;
  }

  markOf([x, y]) {
    return [x + 3, y + 3, 20, 20];
  }

  draw() {
    // Many changes between two frames are painted once.
    if (!this.pending) this.pending = requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.pending = 0;
    if (!this.placed) return;
    const c = this.context, ratio = window.devicePixelRatio || 1, s = this.scale;
    const palette = this.data.palettes[document.documentElement.dataset.theme];
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = palette.background;
    c.fillRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    c.translate(this.x, this.y);
    c.scale(s, s);
    const window_ = [-this.x / s, -this.y / s, (this.canvas.clientWidth - this.x) / s, (this.canvas.clientHeight - this.y) / s];
    const isSeen = ([x, y, w, h]) => x + w >= window_[0] && x <= window_[2] && y + h >= window_[1] && y <= window_[3];
    const scopes = this.scopes.filter((scope) => isSeen(scope.rect));
    c.textBaseline = "alphabetic";
    for (const scope of scopes) this.paintScope(scope, palette);
    this.paintRoutes(this.routesIn(window_), window_, palette);
    if (s > 0.25) for (const scope of scopes) this.paintTitle(scope, palette);
    for (const item of this.items) if (isSeen(item.rect)) this.paintItem(item, palette);
  }

  // A line stays visible however small the graph is drawn.
  thickness(width) {
    return Math.max(width, 0.8 * Math.sqrt(width) / this.scale);
  }

  outline([x, y, w, h], radius) {
    const c = this.context;
    c.beginPath();
    if (this.scale < 0.2) c.rect(x, y, w, h);
    else c.roundRect(x, y, w, h, radius);
  }

  paintScope({ rect, vertex }, palette) {
    const c = this.context;
    this.outline(rect, 8);
    c.fillStyle = palette.clusterFill;
    c.fill();
    c.strokeStyle = vertex === this.selected ? palette.sharedLine : palette.cluster;
    c.lineWidth = this.thickness(vertex === this.selected ? 2.5 : 1);
    c.stroke();
  }

  paintTitle({ rect: [x, y, w], title, isOpen }, palette) {
    const c = this.context;
    c.fillStyle = palette.clusterFill;
    c.fillRect(x + 4, y + 4, 18, 18); // no line through the mark
    this.paintMark(x, y, true, palette.text);
    c.font = `${TITLE_SIZE}px ${FONT}`;
    c.textAlign = "left";
    c.lineWidth = 4;
    c.strokeStyle = palette.clusterFill;
    c.strokeText(title, x + 24, y + 17, w - 30);
    c.fillStyle = palette.text;
    c.fillText(title, x + 24, y + 17, w - 30);
  }

  paintMark(x, y, isOpen, color) {
    const c = this.context;
    c.strokeStyle = color;
    c.lineWidth = 1.2;
    c.beginPath();
    c.roundRect(x + 7, y + 7, 12, 12, 2);
    c.moveTo(x + 10, y + 13);
    c.lineTo(x + 16, y + 13);
    if (!isOpen) {
      c.moveTo(x + 13, y + 10);
      c.lineTo(x + 13, y + 16);
    }
    c.stroke();
  }

  isMarked(route) {
    if (this.selected === null) return false;
    const [kind, , content] = this.data.vertices[this.selected];
    return route.ends.includes(this.selected) || (kind === BOX && route.net === content); // what it reads, and all it feeds
  }

  paintRoutes(routes, [x0, y0, x1, y1], palette) {
    const c = this.context, isFar = this.scale < 0.3;
    const styles = { data: [palette.line, []], control: [palette.line, [1, 3]], shared: [palette.sharedLine, [5, 3]],
      added: [palette.kinds.added[1], []], removed: [palette.kinds.removed[1], [6, 3]] };
    // Marked lines are painted last, over the others; lines of one style are one path.
    for (const isMarked of [false, true]) {
      for (const kind of Object.keys(styles)) {
        const mine = routes.filter((route) => route.kind === kind && this.isMarked(route) === isMarked);
        if (!mine.length) continue;
        c.strokeStyle = c.fillStyle = styles[kind][0];
        c.setLineDash(isFar ? [] : styles[kind][1]);
        c.lineWidth = this.thickness(isMarked ? 2.6 : kind in this.data.marks ? 2 : 1.2);
        for (let i = 0; i < mine.length; i += PAINTED) {
          c.beginPath();
          for (const { points } of mine.slice(i, i + PAINTED)) this.trace(points, isFar);
          c.stroke();
        }
        c.setLineDash([]);
        if (this.scale < 0.2) continue;
        const arrows = mine.filter(({ points, arrow }) => {
          const [x, y] = points[arrow > 0 ? points.length - 1 : 0];
          return arrow && x >= x0 - ARROW && x <= x1 + ARROW && y >= y0 - ARROW && y <= y1 + ARROW;
        });
        for (let i = 0; i < arrows.length; i += PAINTED) {
          c.beginPath();
          for (const route of arrows.slice(i, i + PAINTED)) this.traceArrow(route);
          c.fill();
        }
      }
    }
  }

  trace(points, isFar) {
    const c = this.context;
    c.moveTo(...points[0]);
    // From far away curves cannot be told from lines.
    if (isFar) {
      for (const i of points.length > 4 ? [3, 6, 9] : [3]) c.lineTo(...points[i]);
      return;
    }
    for (let i = 1; i + 2 < points.length; i += 3) {
      const [a, b, end] = [points[i], points[i + 1], points[i + 2]];
      if (a[0] === end[0] && points[i - 1][0] === end[0] || a[1] === end[1] && points[i - 1][1] === end[1]) c.lineTo(...end);
      else c.bezierCurveTo(...a, ...b, ...end);
    }
  }

  traceArrow({ points, arrow }) {
    const c = this.context, order = arrow > 0 ? [...points].reverse() : points, [x, y] = order[0];
    const [px, py] = order.find(([a, b]) => a !== x || b !== y) || [x, y - 1], length = Math.hypot(x - px, y - py);
    const dx = (x - px) / length, dy = (y - py) / length;
    c.moveTo(x, y);
    c.lineTo(x - ARROW * dx - 3.2 * dy, y - ARROW * dy + 3.2 * dx);
    c.lineTo(x - ARROW * dx + 3.2 * dy, y - ARROW * dy - 3.2 * dx);
    c.closePath();
  }

  paintItem({ vertex, rect, middle, box, texts, level }, palette) {
    const c = this.context, [fill, stroke, text] = palette.kinds[box.kind], [x, y, w, h] = rect;
    const isCylinder = box.shape === "cylinder" && this.scale >= 0.2;
    c.fillStyle = fill;
    c.strokeStyle = vertex === this.selected ? palette.sharedLine : stroke;
    const isStrong = box.kind === "shared" || box.kind in this.data.marks;
    c.lineWidth = this.thickness(vertex === this.selected ? 3 : isStrong ? 1.8 : 1);
    if (isCylinder) this.traceCylinder(rect);
    else this.outline(rect, box.shape === "round" ? h / 2 : 5);
    c.fill();
    c.stroke();
    if (this.scale * LINE_SIZE < 3) return;
    if (box.label && middle) {
      c.fillStyle = palette.text;
      c.font = this.font(1);
      c.textAlign = "center";
      c.strokeStyle = palette.background;
      c.lineWidth = 3;
      c.strokeText(box.label, middle[0], middle[1] + 4);
      c.fillText(box.label, middle[0], middle[1] + 4);
    }
    const shift = level === undefined ? 0 : MARK / 2;
    if (level !== undefined) this.paintMark(x, y, false, text);
    c.fillStyle = text;
    c.textAlign = "center";
    const top = y + (h - LINE_STEP * texts.length) / 2 + 10.5 + (box.shape === "cylinder" ? RIM / 2 : 0);
    texts.forEach((line, i) => {
      c.font = this.font(i);
      c.fillText(line, x + w / 2 + shift, top + i * LINE_STEP, w - 10 - 2 * shift);
    });
  }

  traceCylinder([x, y, w, h]) {
    const c = this.context, r = w / 2, top = y + RIM / 2, bottom = y + h - RIM / 2;
    c.beginPath();
    c.moveTo(x, top);
    c.lineTo(x, bottom);
    c.ellipse(x + r, bottom, r, RIM / 2, 0, Math.PI, 0, true);
    c.lineTo(x + w, top);
    c.ellipse(x + r, top, r, RIM / 2, 0, 0, 2 * Math.PI);
  }
}
