// The page: what is open, what is selected, and what the reader does.
const data = JSON.parse(document.getElementById("data").textContent);
const get = (id) => document.getElementById(id);
const canvas = get("canvas"), search = get("search"), results = get("results"), panel = get("panel");
const view = new View(canvas, data), root = document.documentElement;
const every = data.levels.map((_, number) => number).filter((number) => number > 0);
// With several branches the first level of scopes is theirs, which always starts open.
const startDepth = data.depth + (data.levels.some((level) => level.kind === "branch") ? 1 : 0);
const open = new Set(every.filter((number) => data.depth === null || data.levels[number].depth < startDepth));

function place() {
  view.show(new Placer(data, open, (texts) => view.measure(texts)).place(), open);
}

function toggle(number, vertex) {
  view.keep(vertex, () => {
    if (!open.delete(number)) open.add(number);
    // What has just been folded away cannot stay selected.
    if (view.selected !== null && !isSeen(data, open, view.selected)) select(null);
    place();
  });
}

function select(vertex) {
  view.selected = vertex;
  panel.hidden = vertex === null;
  if (vertex !== null) {
    const [kind, , content] = data.vertices[vertex];
    const merged = view.placed.groups.find((each) => each.vertex === vertex && each.boxes.length > 1);
    const boxes = merged ? merged.boxes.map((v) => data.boxes[data.vertices[v][2]])
      : [data.boxes[kind === SCOPE ? data.levels[content].box : content]];
    get("content").replaceChildren(...describeBoxes(data, boxes, merged ? merged.texts : boxes[0].texts, goToName));
    panel.scrollTop = 0;
  }
  view.draw();
}

// A node without a box, such as a parameter, is where it is used.
function goToNode(number) {
  if (boxOf.has(number)) goTo(vertexOf.get(boxOf.get(number)));
  else goToName(data.nodes[number].name);
}

// Shows the findings of a comparison of two graphs.
function tellFindings() {
  select(null);
  panel.hidden = false;
  get("content").replaceChildren(...describeFindings(data, goToNode));
}

// Opens the scopes around a vertex, and returns the vertex that shows it.
function reveal(vertex) {
  const isHidden = !isSeen(data, open, vertex);
  for (const level of levelsAround(data, vertex)) open.add(level);
  if (isHidden) place();
  // A box of shared parameters may be drawn as a part of a group.
  const group = view.placed.groups.find((each) => each.boxes.includes(vertex));
  return group ? group.vertex : vertex;
}

// Shows a vertex in the middle, and describes it in the panel.
function goTo(vertex) {
  const seen = reveal(vertex);
  select(seen);
  view.center(seen);
}

// Begins at the first finding, whose list stays in the panel.
function startAtFinding() {
  const line = data.sections.flatMap(([, lines]) => lines).find(([, number]) => number !== null && boxOf.has(number));
  if (line) view.center(reveal(vertexOf.get(boxOf.get(line[1]))));
}

const index = [];
data.boxes.forEach((box) => box.nodes.forEach((number) => index.push({ node: data.nodes[number], box })));
const boxOf = new Map(data.boxes.flatMap((box) => box.nodes.map((number) => [number, box])));
const vertexOf = new Map(data.at.map((v, number) => [data.boxes[number], v]));
// A copy, because entries are appended meanwhile.
for (const { node, box } of [...index]) {
  for (const name of node.parameters) index.push({ node: { name, op: `parameter of ${node.name}` }, box });
}
for (const entry of index) entry.key = `${entry.node.name}\n${entry.node.op}`.toLowerCase();

function goToName(name) {
  const entry = index.find(({ node }) => node.name === name);
  if (entry) goTo(vertexOf.get(entry.box));
}

let chosen = 0;
function find() {
  const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = !words.length;
  if (!words.length) return;
  const matches = [], seen = new Set();
  for (const entry of index) {
    if (!words.every((word) => entry.key.includes(word)) || seen.has(entry.node.name)) continue;
    seen.add(entry.node.name);
    matches.push(entry);
  }
  const lines = matches.slice(0, 100).map(({ node, box }) => {
    const line = element("button", "", element("span", node.name || "(no name)"), element("span", node.op));
    line.lastChild.className = "kind";
    line.setAttribute("role", "option");
    line.addEventListener("click", () => {
      results.hidden = true;
      goTo(vertexOf.get(box));
    });
    return line;
  });
  const count = matches.length ? `${matches.length.toLocaleString("en")} found` : "no name contains this";
  results.replaceChildren(...lines, element("p", matches.length > 100 ? `${count}, showing the first 100` : count));
  choose(0);
}

function choose(number) {
  const lines = results.querySelectorAll("button");
  chosen = Math.min(Math.max(number, 0), lines.length - 1);
  lines.forEach((line, i) => line.setAttribute("aria-selected", String(i === chosen)));
  if (lines[chosen]) lines[chosen].scrollIntoView({ block: "nearest" });
}

function setTheme(theme) {
  root.dataset.theme = theme;
  fillLegend();
  view.draw();
}

function fillLegend() {
  const { kinds } = data.palettes[root.dataset.theme], used = new Set(data.boxes.map((box) => box.kind));
  const names = { ...data.kinds, operator: Object.keys(data.kinds).some((kind) => used.has(kind)) ? "other operator" : "operator",
    scope: "folded scope", input: "input", output: "output", parameter: "parameter", shared: "shared parameters", ...data.marks };
  const legendOf = (kind, text, isLine) => {
    const mark = element("i");
    [mark.style.background, mark.style.borderColor] = kinds[kind];
    if (isLine) mark.className = "line";
    return element("span", "", mark, text);
  };
  const lines = new Set(data.levels.flatMap((level) => [...level.links, ...level.long].map((link) => LINKS[link[3]])));
  const ofLines = { removed: "only in the first", added: "only in the second" };
  get("legend").replaceChildren(...Object.keys(names).filter((kind) => used.has(kind)).map((kind) => legendOf(kind, names[kind])),
    ...Object.keys(ofLines).filter((kind) => lines.has(kind)).map((kind) => legendOf(kind, ofLines[kind], true)));
}

function listen() {
  const pointers = new Map();
  let moved = 0, pinch = 0;
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    canvas.setPointerCapture(event.pointerId);
    moved = pinch = 0;
    results.hidden = true;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      const hit = view.hit(event.offsetX, event.offsetY);
      canvas.classList.toggle("over", Boolean(hit && (hit.box || hit.onMark || hit.onTitle)));
      return;
    }
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()], distance = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (pinch) view.zoom(distance / pinch, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      pinch = distance;
      // Two fingers never end in a click.
      moved = Infinity;
      return;
    }
    const dx = event.offsetX - before[0], dy = event.offsetY - before[1];
    moved += Math.abs(dx) + Math.abs(dy);
    canvas.classList.add("dragging");
    view.x += dx;
    view.y += dy;
    view.draw();
  });
  const release = (event) => {
    pointers.delete(event.pointerId);
    canvas.classList.remove("dragging");
  };
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerup", (event) => {
    release(event);
    // A hand trembles: up to four pixels are a click, more are a drag.
    if (moved > 4) return;
    const hit = view.hit(event.offsetX, event.offsetY);
    if (hit && hit.onMark) toggle(hit.level, hit.vertex);
    else select(hit && (hit.box || hit.onTitle) ? hit.vertex : null);
  });
  canvas.addEventListener("dblclick", (event) => {
    const hit = view.hit(event.offsetX, event.offsetY);
    if (hit && hit.level !== undefined && !hit.onMark && (hit.box || hit.onTitle)) toggle(hit.level, hit.vertex);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    // Some browsers report lines instead of pixels.
    const step = event.deltaMode === 1 ? 20 : 1;
    view.zoom(Math.exp(-event.deltaY * step * 0.0016), event.offsetX, event.offsetY);
  }, { passive: false });
  listenToKeys();
}

function listenToKeys() {
  const middle = () => [canvas.clientWidth / 2, canvas.clientHeight / 2];
  const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  search.addEventListener("input", find);
  search.addEventListener("focus", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter") {
      const line = results.querySelectorAll("button")[chosen];
      if (line) line.click();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      results.hidden = true;
      select(null);
      canvas.focus();
    }
    // Shortcuts of the browser and of the system stay as they are.
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    } else if (event.key === "+" || event.key === "=") view.zoom(1.25, ...middle());
    else if (event.key === "-") view.zoom(0.8, ...middle());
    else if (event.key === "0") view.fit();
    else if (moves[event.key] && event.target === canvas) {
      event.preventDefault();
      view.x += moves[event.key][0];
      view.y += moves[event.key][1];
      view.draw();
    }
  });
  get("larger").addEventListener("click", () => view.zoom(1.25, ...middle()));
  get("smaller").addEventListener("click", () => view.zoom(0.8, ...middle()));
  get("fit").addEventListener("click", () => view.fit());
  get("findings").addEventListener("click", tellFindings);
  get("close").addEventListener("click", () => select(null));
  get("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
  get("unfold").addEventListener("click", () => changeAll(() => every.forEach((number) => open.add(number))));
  get("fold").addEventListener("click", () => changeAll(() => open.clear()));
}

function changeAll(change) {
  change();
  if (view.selected !== null && !isSeen(data, open, view.selected)) select(null);
  place();
  view.start();
}

function begin() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  get("title").textContent = data.title;
  get("title").title = data.title;
  const operators = data.nodes.filter((node) => node.op !== "variable").length, count = Object.keys(data.parameters).length;
  const facts = [`${operators.toLocaleString("en")} operators`, `${count.toLocaleString("en")} parameters`, ...data.notes];
  get("facts").textContent = facts.join(", ");
  get("unfold").hidden = get("fold").hidden = !every.length;
  get("findings").hidden = !data.sections.length;
  setTheme(data.theme !== "auto" ? data.theme : dark.matches ? "dark" : "light");
  if (data.theme === "auto") dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  listen();
  if (data.sections.length) tellFindings();
  place();
  new ResizeObserver(() => {
    const wasHidden = canvas.width === 0; // in a notebook, the frame of a page below what the window shows has no size yet
    view.resize();
    if (!wasHidden) return;
    view.start();
    startAtFinding();
  }).observe(canvas);
  view.resize();
  view.start();
  startAtFinding();
}

begin();
// For scripts that look at the page: what is placed where, and what is open.
window.graphshare = { data, view, open, goTo, toggle };
