// The panel beside the graph. Everything from the file becomes text of an element, never markup.
function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function tableOf(rows) {
  return element("table", "", ...rows.map(([key, value]) => {
    return element("tr", "", element("td", key), Array.isArray(value) ? element("td", "", chartOf(value)) : element("td", value));
  }));
}

// Bars from the least to the largest number; one with any number in it can be seen.
function chartOf(counts) {
  const most = Math.max(...counts), chart = noted(element("div"), "chart");
  for (const count of counts) {
    const bar = element("i");
    bar.style.height = count ? `${Math.max(2, 100 * count / most)}%` : "0";
    chart.append(bar);
  }
  return chart;
}

function section(title, ...children) {
  return children.length ? [element("h3", title), ...children] : [];
}

function linkTo(name, note, go) {
  const button = element("button", note ? `${name}  ${note}` : name);
  button.className = "link";
  button.addEventListener("click", () => go(name));
  return button;
}

function describeParameter(data, name, go) {
  const parameter = data.parameters[name], title = element("h4", name), made = [title];
  if (!parameter) return made;
  if (parameter.count > 1) {
    const mark = element("span", `shared by ${parameter.count}`);
    mark.className = "shared";
    title.append(" ", mark);
  }
  const rows = [...(parameter.shape ? [["shape", parameter.shape]] : []), ...parameter.rows];
  if (rows.length) made.push(tableOf(rows));
  if (parameter.count > 1) {
    made.push(...parameter.users.map((user) => linkTo(user, "", go)));
    if (parameter.count > parameter.users.length) made.push(element("p", `and ${parameter.count - parameter.users.length} more`));
  }
  return made;
}

function noted(made, name) {
  made.className = name;
  return made;
}

// What a comparison found: the first section is the verdict. A line about a node leads there.
function describeFindings(data, go) {
  return data.sections.flatMap(([title, lines], i) => [element(i ? "h3" : "h2", title), ...lines.map(([text, number]) => {
    if (number === null) return element("p", text);
    const button = noted(element("button", text), "link");
    button.addEventListener("click", () => go(number));
    return button;
  })]);
}

function describeNode(data, node, go) {
  const made = [element("h2", node.name || "(no name)"), element("p", node.op)];
  made.push(...node.notes.map((note) => noted(element("p", note), "note")));
  const inputs = node.inputs.map(([name, shape]) => linkTo(name, shape, go));
  const outputs = node.outputs.map((shape, i) => element("p", node.outputs.length > 1 ? `${i}: ${shape}` : shape));
  made.push(...section(node.op === "variable" ? "Shape" : "Outputs", ...outputs));
  made.push(...section("Attributes", ...(node.attrs.length ? [tableOf(node.attrs)] : [])));
  made.push(...section("Inputs", ...inputs));
  made.push(...section("Parameters", ...node.parameters.flatMap((name) => describeParameter(data, name, go))));
  return made;
}

// `boxes` are those of one vertex: a box, the boxes of a group, or the folded box of a scope.
function describeBoxes(data, boxes, texts, go) {
  const nodes = [...new Set(boxes.flatMap((box) => box.nodes))].map((number) => data.nodes[number]);
  if (boxes.some((box) => box.shape === "cylinder")) {
    const names = nodes.map((node) => node.name), shown = names.slice(0, 200);
    const made = [element("h2", texts[0]), ...shown.flatMap((name) => describeParameter(data, name, go))];
    return names.length > shown.length ? [...made, element("p", `and ${names.length - shown.length} more`)] : made;
  }
  if (nodes.length) return nodes.flatMap((node) => describeNode(data, node, go));
  return [element("h2", texts[0]), ...texts.slice(1).map((text) => element("p", text))];
}
