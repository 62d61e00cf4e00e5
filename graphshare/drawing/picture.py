"""What a picture shows: boxes and lines, whatever language it is written down in.

A box is an operator, or a scope with all that is in it. A parameter is drawn when several boxes share it: once, outside of all
branches; those that the same boxes share are one box.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.roles import SUFFIXES
from graphshare.drawing.scopes import Place, places
from graphshare.ir.graph import VARIABLE, Entry, Graph, Node
from graphshare.ir.walk import reachable
from graphshare.text.format import format_dims

Shapes = Mapping[tuple[Node, int], tuple[int, ...]]
FITS = 80  # boxes that one can still take in


class Box(msgspec.Struct):
    """``kind`` is operator, scope, input, parameter or shared. ``cluster`` are the branch and scopes that it stands in."""

    kind: str
    title: str
    lines: list[str]
    cluster: tuple[str, ...] | None
    head: bool = False
    highlighted: bool = False
    tip: str = ""


class Line(msgspec.Struct):
    """From box ``source`` to box ``target`` (their places in the picture); ``kind`` is data, shared or control."""

    source: int
    target: int
    kind: str
    labels: list[str]


class Picture(msgspec.Struct):
    """``depth`` is how many levels of scopes are open, None for all. A cluster's first part is its branch."""

    boxes: list[Box]
    lines: list[Line]
    branches: list[str]
    depth: int | None


class Subject(msgspec.Struct, frozen=True, eq=False):
    """A graph with what is known of it: which variables are parameters, the branches' prefixes, shapes, former names."""

    graph: Graph
    parameters: frozenset[Node]
    prefixes: tuple[str, ...] = ()
    shapes: Shapes = {}
    former: Mapping[Node, str] = {}


def picture(subject: Subject, *, depth: int | None, all_parameters: bool = False, separator: str | None = None) -> Picture:
    """The picture of ``subject`` with ``depth`` levels of scopes open; without it, as many as fit the eye."""
    drawing = _Drawing(subject, all_parameters, separator)
    if depth is not None:
        return drawing.made(depth)
    deepest = max((len(place.scopes) for place in drawing.places.values()), default=0)
    whole = drawing.made(None)
    if len(whole.boxes) <= FITS or not deepest:
        return whole
    found = drawing.made(1)
    for more in range(2, deepest + 1):
        further = drawing.made(more)
        if len(further.boxes) > FITS:
            break
        found = further
    return found


class _Drawing:
    def __init__(self, subject: Subject, all_parameters: bool, separator: str | None) -> None:
        self.subject = subject
        self.all_parameters = all_parameters
        self.nodes = reachable(subject.graph)
        self.branch_of = {node: self._branch(node) for node in self.nodes}
        operators: dict[str, list[Node]] = {}
        for node in self.nodes:
            if node.op != VARIABLE:
                operators.setdefault(self.branch_of[node], []).append(node)
        self.branches = [label for label in ("", *subject.prefixes) if label in operators]
        self.places: dict[Node, Place] = places(operators, separator=separator)
        self.heads = {head.node for head in subject.graph.heads}

    def _branch(self, node: Node) -> str:
        return max((p for p in self.subject.prefixes if node.name.startswith(p)), key=len, default="")

    def made(self, depth: int | None) -> Picture:
        found = Picture([], [], self.branches, depth)
        at: dict[Node, int] = {}
        members: dict[tuple[str, tuple[str, ...]], list[Node]] = {}
        for node in self.nodes:
            scopes = self.places[node].scopes if node.op != VARIABLE else ()
            if node.op != VARIABLE and depth is not None and len(scopes) >= depth and (scopes or depth == 0):
                members.setdefault((self.branch_of[node], scopes[:depth]), []).append(node)
        collapsed = {node: key for key, nodes in members.items() if len(nodes) > 1 for node in nodes}
        numbers: dict[tuple[str, tuple[str, ...]], int] = {}
        for node in self.nodes:
            if node.op == VARIABLE:
                continue
            key = collapsed.get(node)
            if key is None:
                at[node] = self._add(found, self._operator_box(node, depth))
            else:
                if key not in numbers:
                    numbers[key] = self._add(found, self._scope_box(key, members[key]))
                at[node] = numbers[key]
        self._add_variables(found, at)
        self._add_lines(found, at)
        return found

    def _add(self, found: Picture, box: Box) -> int:
        found.boxes.append(box)
        return len(found.boxes) - 1

    def _cluster(self, branch: str, scopes: tuple[str, ...]) -> tuple[str, ...]:
        return (branch, *scopes)

    def _operator_box(self, node: Node, depth: int | None) -> Box:
        place = self.places[node]
        scopes = (
            place.scopes if depth is None else place.scopes[: max(depth - 1, 0)] if len(place.scopes) >= depth else place.scopes
        )
        title = place.leaf or "(no name)"
        if len(scopes) < len(place.scopes):
            title = "/".join((*place.scopes[len(scopes) :], title))
        lines = [" ".join((node.op, *details(node)))]
        lines += self._weight([entry.node for entry in node.inputs])
        if node in self.subject.former:
            lines.append(f"was {self.subject.former[node]}")
        return Box("operator", title, lines, self._cluster(self.branch_of[node], scopes), node in self.heads,
                   node in self.subject.former, node.name)  # fmt: skip

    def _scope_box(self, key: tuple[str, tuple[str, ...]], nodes: Sequence[Node]) -> Box:
        branch, scopes = key
        kinds = Counter(node.op for node in nodes).most_common()
        told = [f"{op} ×{count}" if count > 1 else op for op, count in kinds]
        shown = told if len(told) <= 7 else told[:6]
        lines = [", ".join(shown[start : start + 2]) for start in range(0, len(shown), 2)]
        if len(told) > len(shown):
            lines.append(f"and {len(told) - len(shown)} more kinds")
        variables = dict.fromkeys(entry.node for node in nodes for entry in node.inputs)
        lines += self._weight(list(variables))
        renamed = sum(node in self.subject.former for node in (*nodes, *variables))
        if renamed:
            lines.append(f"{renamed} renamed")
        return Box("scope", scopes[-1] if scopes else branch or "graph", lines, self._cluster(branch, scopes[:-1]),
                   any(node in self.heads for node in nodes), renamed > 0,
                   f"{len(nodes)} operators")  # fmt: skip

    def _weight(self, variables: Sequence[Node]) -> list[str]:
        """How many numbers parameters hold, where all their shapes are known."""
        parameters = [node for node in variables if node in self.subject.parameters]
        shapes = [self.subject.shapes.get((node, 0)) for node in parameters]
        if not parameters or any(shape is None for shape in shapes):
            return []
        return [f"{sum(_product(shape) for shape in shapes if shape is not None):,} weights"]

    def _add_variables(self, found: Picture, at: dict[Node, int]) -> None:
        users: dict[Node, dict[int, None]] = {}
        for node in self.nodes:
            for entry in node.inputs:
                if entry.node.op == VARIABLE:
                    users.setdefault(entry.node, {})[at[node]] = None
        shared: dict[tuple[int, ...], list[Node]] = {}
        for node in self.nodes:
            if node.op != VARIABLE:
                continue
            boxes = tuple(sorted(users.get(node, ())))
            if node not in self.subject.parameters or not boxes:
                at[node] = self._add(found, self._input_box(node))
            elif len(boxes) > 1:
                shared.setdefault(boxes, []).append(node)
            elif self.all_parameters:
                at[node] = self._add(found, self._parameter_box([node], "parameter", self.branch_of[node]))
        for nodes in shared.values():
            number = self._add(found, self._parameter_box(nodes, "shared", None))
            at.update(dict.fromkeys(nodes, number))

    def _input_box(self, node: Node) -> Box:
        shape = self.subject.shapes.get((node, 0))
        lines = [format_dims(shape, separator="×")] if shape is not None else []
        if node in self.subject.former:
            lines.append(f"was {self.subject.former[node]}")
        branch = self.branch_of[node]
        title = node.name[len(branch) :] or node.name or "(no name)"
        return Box("input", title, lines, (branch,), node in self.heads, node in self.subject.former, node.name)

    def _parameter_box(self, nodes: Sequence[Node], kind: str, branch: str | None) -> Box:
        former = [node for node in nodes if node in self.subject.former]
        if len(nodes) == 1:
            shape = self.subject.shapes.get((nodes[0], 0))
            title, lines = nodes[0].name or "(no name)", [format_dims(shape, separator="×")] if shape is not None else []
        else:
            title = f"{len(nodes)} {'shared ' if kind == 'shared' else ''}parameters"
            lines = _endings(nodes)
        lines = [*lines, *self._weight(nodes)] if len(nodes) > 1 else lines
        if former:
            lines.append(f"was {self.subject.former[former[0]]}" if len(nodes) == 1 else f"{len(former)} renamed")
        tip = ", ".join(node.name for node in nodes[:40])
        return Box(kind, title, lines, None if branch is None else (branch,), highlighted=bool(former), tip=tip)

    def _add_lines(self, found: Picture, at: Mapping[Node, int]) -> None:
        lines: dict[tuple[int, int, str], Line] = {}
        for node in self.nodes:
            entries = [(entry, "data") for entry in node.inputs] + [(Entry(dep), "control") for dep in node.control_deps]
            for entry, kind in entries:
                source = at.get(entry.node)
                if source is None or source == at[node]:
                    continue
                if found.boxes[source].kind in ("shared", "parameter"):
                    kind = "shared" if found.boxes[source].kind == "shared" else "data"
                line = lines.setdefault((source, at[node], kind), Line(source, at[node], kind, []))
                shape = self.subject.shapes.get((entry.node, entry.index))
                if shape is not None and kind == "data" and format_dims(shape, separator="×") not in line.labels:
                    line.labels.append(format_dims(shape, separator="×"))
        found.lines = list(lines.values())


def _endings(nodes: Sequence[Node]) -> list[str]:
    """What sorts of parameters these are, by the ends of their names, two a line; of more than five the most frequent four."""
    sorts = Counter(next((s for s in SUFFIXES if node.name.endswith(s)), node.name) for node in nodes).most_common()
    shown = sorts if len(sorts) <= 5 else sorts[:4]
    told = [f"{sort} ×{count}" if count > 1 else sort for sort, count in shown]
    told += [f"and {len(sorts) - len(shown)} more sorts"] if len(sorts) > len(shown) else []
    return [", ".join(told[start : start + 2]) for start in range(0, len(told), 2)]


def _product(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def details(node: Node) -> list[str]:
    """The attributes that tell most of an operator, short."""
    attrs = node.attrs
    told = []
    if "kernel" in attrs and attrs.get("global_pool") not in ("True", "1"):
        told.append(attrs["kernel"].strip("()[] ").replace(" ", "").rstrip(",").replace("L", "").replace(",", "×"))
    told += [attrs[key] for key in ("num_filter", "num_hidden", "act_type", "pool_type", "mode") if key in attrs]
    strides = {part.strip().rstrip("L") for part in attrs.get("stride", "").strip("()[] ").split(",") if part.strip()}
    if len(strides) == 1 and strides != {"1"}:
        told.append(f"/{strides.pop()}")
    return [part for part in told if part and len(part) <= 20]
