"""The outputs that a user means by ``--target``, ``--cut`` and ``--upto``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphshare.analysis.name_lists import internals, node_names, output_name
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Entry, Node
from graphshare.ops.registry import visible_outputs
from graphshare.text.format import format_count, format_names
from graphshare.text.names import did_you_mean
from graphshare.text.patterns import compile_pattern, is_literal


def resolve_targets(names: Sequence[str], nodes: Iterable[Node], *, option: str) -> list[Entry]:
    """Return the outputs that ``names`` mean, in their order.

    A name is an output's (``conv1_output``) or a node's (``conv1``, all its visible outputs); an output's comes first, so
    with an operator ``fc1`` and another ``fc1_output`` the name ``fc1_output`` means the output of the first, as in MXNet. A
    node of an ONNX model is called by the name of its first value, and by its own name, which is another one as a rule. A
    pattern (see :func:`graphshare.text.patterns.compile_pattern`) that is not itself a name means the visible outputs of all
    operators of which it matches a name or the output, in file order and each once.

    Raises:
        RefusedError: every name that no node or several nodes have, every pattern that matches nothing.
        UsageError: a pattern is malformed.
    """
    known = _Outputs(nodes)
    targets: list[Entry] = []
    faults: list[Fault] = []
    for name in names:
        entries = known.find(name)
        owners = list(dict.fromkeys(entry.node for entry in entries))
        if len(owners) > 1:
            ops = ", ".join(node.operator_text for node in owners)
            hint = _tell_apart(entries)
            faults.append(Fault(f"{option} {name!r} means {format_count(len(owners), 'node')} ({ops})", hint=hint))
        elif owners:
            targets.extend(entries)
        elif name and not is_literal(name):
            chosen = {(entry.node, entry.index) for entry in targets}
            entries = known.match(name)
            if not entries:
                faults.append(Fault(f"{option} {name!r} matches no output and no operator", hint=known.hint_on_pattern(name)))
            targets.extend(entry for entry in entries if (entry.node, entry.index) not in chosen)
        else:
            faults.append(Fault(f"{option} {name!r} names no output and no node", hint=known.hint(name)))
    if faults:
        raise RefusedError(faults)
    return targets


class _Outputs:
    """The outputs of a graph by their own names and by those of their nodes."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = list(nodes)
        self._by_output: dict[str, list[Entry]] = {}
        for name, entry in internals(self._nodes):
            self._by_output.setdefault(name, []).append(entry)
        self._by_node: dict[str, list[Node]] = {}
        for node in self._nodes:
            for name in node_names(node):
                self._by_node.setdefault(name, []).append(node)

    def find(self, name: str) -> list[Entry]:
        """Return the outputs of this name, else those of the nodes of this name; none if it is unknown."""
        name = name.removeprefix("=") if name not in self._by_output and name not in self._by_node else name
        return self._by_output.get(name) or [entry for node in self._by_node.get(name, []) for entry in visible_outputs(node)]

    def match(self, pattern: str) -> list[Entry]:
        """Return the outputs of operators that ``pattern`` matches by their own name or one of the operator's."""
        matches = compile_pattern(pattern)
        operators = ((node, any(map(matches, node_names(node)))) for node in self._nodes if not node.is_variable)
        return [
            entry for node, is_match in operators for entry in visible_outputs(node) if is_match or matches(output_name(entry))
        ]

    def hint(self, name: str) -> str:
        """Return the operators or outputs that resemble ``name``, one name of each node; variables where there are none."""
        known = {text: nodes[0] for text, nodes in self._by_node.items()}
        known |= {text: entries[0].node for text, entries in self._by_output.items()}
        operators = {text: node for text, node in known.items() if not node.is_variable}
        return did_you_mean(name, operators, key=known.__getitem__) or did_you_mean(name, known, key=known.__getitem__)

    def hint_on_pattern(self, pattern: str) -> str:
        """Return what an expression must be like if it matches a part of a name, else what :meth:`hint` returns."""
        if pattern.startswith("re:"):
            body = pattern.removeprefix("re:").removeprefix("^").removesuffix("$")
            wide = f"re:.*({body}).*"
            if self.match(wide):
                return f"an expression must match the whole name: {wide} matches wherever it occurs"
        return self.hint(pattern)


def _tell_apart(entries: Sequence[Entry]) -> str:
    """Return how to name one of several nodes of one name: by a value, which only one of them has in an ONNX model."""
    values = list(dict.fromkeys(map(output_name, entries)))
    if len(values) == len(entries) and all(entry.node.details.label for entry in entries):
        return f"name a value instead: {format_names(values)}"
    return "names repeat in this graph; rename one of the nodes first (`graphshare rename --map`)"
