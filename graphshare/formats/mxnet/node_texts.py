"""The text of nodes: what differs in name and inputs only is formatted once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphshare.formats.mxnet.document import operator_text
from graphshare.formats.mxnet.json_writer import SPECIAL, JsonWriter
from graphshare.formats.mxnet.source import source_of
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, NodeForm


def format_entry(entry: Entry, ids: Mapping[Node, int], texts: JsonWriter, level: int) -> str:
    """Return the text of an input or head: node, output and version, the last where the file has it."""
    numbers = [str(ids[entry.node]), str(entry.index)]
    if entry.version is not None:
        numbers.append(str(entry.version))
    return texts.array(numbers, level, texts.break_entry)


# The text of all nodes that differ in name and inputs only, in three parts around those two, behind the form and the unknown
# keys of the node it was made of. None where no such text can be.
_Template = tuple[NodeForm | None, Mapping[str, Any], str, str, str] | None
_NO_TEMPLATE = (None, EMPTY, "", "", "")
_NAME, _INPUTS = "\0name\0", "\0inputs\0"


class NodeTexts:
    """The texts of nodes at ``level``, each by the template of its kind. ``subgraph_text`` writes a graph at a level."""

    def __init__(
        self, graph: Graph, texts: JsonWriter, ids: Mapping[Node, int], level: int, subgraph_text: Callable[[Graph, int], str]
    ) -> None:
        self._texts, self._ids, self._level, self._subgraph_text = texts, ids, level, subgraph_text
        self._default = source_of(graph).form
        self._templates: dict[str, dict[int, _Template]] = {}  # by operator and identity of the attribute map
        # What surrounds the id of an entry for a node's first output at version 0, which nearly all entries are.
        self._before, self._after = texts.array(["%d", "0", "0"], level + 2, texts.break_entry).split("%d")
        # Most names need no escape; one search over all of them is cheaper than one a name.
        copied = source_of(graph).nodes_text
        written = graph.nodes[copied.count :] if copied is not None else graph.nodes
        self._clean = SPECIAL.search("".join([node.name for node in written])) is None

    def nodes(self, nodes: Sequence[Node]) -> list[str]:
        """Return the text of each node."""
        ids, templates, texts, clean = self._ids, self._templates, self._texts, self._clean
        comma, inline, before, after, other = texts.comma, texts.break_list - 1, self._before, self._after, self._entry
        results: list[str] = []
        for node in nodes:
            inputs = node.inputs
            if not inputs:
                text = "[]"
            elif len(inputs) <= inline:
                numbers = [f"{before}{ids[e.node]}{after}" if e.version == 0 and not e.index else other(e) for e in inputs]
                text = f"[{comma.join(numbers)}]"
            else:
                text = texts.array([other(e) for e in inputs], self._level + 1, texts.break_list)
            try:
                form, extra, head, middle, tail = templates[node.op][id(node.attrs)] or _NO_TEMPLATE
            except KeyError:
                form, extra, head, middle, tail = self._learn(node) or _NO_TEMPLATE
            if not head or form is not node.form or extra is not node.extra or node.control_deps or node.subgraphs:
                results.append(self._general(node, text))
            else:
                name = node.name if clean else texts.quote(node.name)[1:-1]
                results.append(f"{head}{name}{middle}{text}{tail}")
        return results

    def pairs(self, node: Node) -> dict[str, str]:
        """Return each key of a node with the text of its value."""
        inputs = self._texts.array([self._entry(e) for e in node.inputs], self._level + 1, self._texts.break_list)
        return dict(self._pairs(node, inputs))

    def _entry(self, entry: Entry) -> str:
        return format_entry(entry, self._ids, self._texts, self._level + 2)

    def _learn(self, node: Node) -> _Template:
        template = None
        if not node.control_deps and not node.subgraphs:
            template = self._template(node)
        self._templates.setdefault(node.op, {})[id(node.attrs)] = template
        return template

    def _general(self, node: Node, inputs: str) -> str:
        return self._texts.object(self._pairs(node, inputs), self._level, self._texts.break_record)

    def _template(self, node: Node) -> _Template:
        """Return the template for nodes like ``node``; None when its inputs come before its name."""
        pairs = [(key, _INPUTS if key == "inputs" else value) for key, value in self._pairs(node, "")]
        pairs = [(key, f'"{_NAME}"' if key == "name" else value) for key, value in pairs]
        head, has_name, rest = self._texts.object(pairs, self._level, self._texts.break_record).partition(_NAME)
        middle, has_inputs, tail = rest.partition(_INPUTS)
        return (node.form, node.extra, head, middle, tail) if has_name and has_inputs else None

    def _pairs(self, node: Node, inputs: str) -> list[tuple[str, str]]:
        """Return each key of a node with the text of its value, in the order of its form."""
        texts, level = self._texts, self._level + 1
        pairs: list[tuple[str, str]] = []
        param = node.form.param if node.form is not None else None
        for key in _keys(node, self._default):
            if key == "op":
                text = texts.quote(operator_text(node))
            elif key == "name":
                text = texts.quote(node.name)
            elif key == "inputs":
                text = inputs
            elif key in node.extra:
                text = texts.value(node.extra[key], level)
            elif key == "control_deps":
                text = "".join(texts.id_pieces([self._ids[dep] for dep in node.control_deps], len(node.control_deps), level))
            elif key == "subgraphs":
                graphs = [self._subgraph_text(graph, level + 1) for graph in node.subgraphs]
                text = texts.array(graphs, level, texts.break_record)
            elif param is not None:  # attributes stand in two maps
                in_param = key == "param"
                text = texts.map({k: v for k, v in node.attrs.items() if (k in param) == in_param}, level)
            else:
                text = texts.map(node.attrs, level)
            pairs.append((key, text))
        return pairs


def _keys(node: Node, default: NodeForm) -> list[str]:
    """Return the keys to write for ``node``: those of its own form, then those that the form lacks."""
    if node.form is None:
        keys = [
            k for k in default.keys if k not in ("control_deps", "subgraphs") and (k not in ("attrs", "attr") or node.attrs)
        ]
        keys = [k for k in keys if k in _MEANT or k in node.extra]
    else:
        keys = list(node.form.keys)
    if node.attrs and not {"attrs", "attr", "param"} & set(keys):
        usual = [k for k in default.keys if k in ("attrs", "attr", "param")]
        keys.insert(keys.index("name") + 1, usual[0] if usual else "attrs")
    keys += [k for k in ("control_deps", "subgraphs") if getattr(node, k) and k not in keys]
    return keys


_MEANT = frozenset(("op", "name", "attrs", "attr", "param", "inputs"))
