"""Pictures: the boxes and lines of a drawing, in no particular language.

A box is an operator, or a scope. Parameters with the same consumers are one box, and shared
parameters are outside of all branches. Small constants are drawn inside the boxes that use them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from graphshare.analysis.roles import SUFFIXES
from graphshare.drawing.operator_kinds import find_kind
from graphshare.drawing.scopes import ScopedName, infer_body_scopes, infer_scopes
from graphshare.drawing.unfold import OpenBody
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import list_operands, post_order
from graphshare.ops.registry import output_name
from graphshare.text.format import format_count, format_dims
from graphshare.text.names import KnownPrefixes
from graphshare.text.summary import ShortRepr

KnownShapes = Mapping[tuple[Node, int], tuple[int, ...]]  # ONNX models also have named sizes
MAX_BOXES = 80  # more are hard to read
MARKS = {
    "highlight": "renamed",
    "added": "added",
    "removed": "removed",
    "changed": "changed",
    "near": "within the tolerance",
    "apart": "differs",
    "unjudged": "not judged",
}
"""The marks of boxes, with their texts in a legend."""
_LINE = 34  # characters in a line of constants
_LINES = {"shared": "shared", "parameter": "data"}  # kinds of lines from a box of this kind


class Box(msgspec.Struct):
    """``kind`` is operator, scope, input, output, parameter or shared. ``cluster`` is its branch
    followed by its scopes.

    ``mark`` is ``highlight`` for a node that a map renamed, or the finding of a comparison
    (:data:`MARKS`). ``weights`` is the number in a parameter box, None where a shape is unknown.
    ``label`` is the text at the start of its lines. ``operator_kind`` is one of
    :data:`~graphshare.drawing.operator_kinds.KINDS` where nothing is marked.
    """

    kind: str
    title: str
    lines: list[str]
    cluster: tuple[str, ...] | None
    mark: str = ""
    tip: str = ""
    nodes: tuple[Node, ...] = ()
    weights: int | None = None
    label: str = ""
    operator_kind: str = ""

    @property
    def paint(self) -> str:
        """The key of the box's colours; a mark comes first, because it must stand out."""
        return self.mark or self.operator_kind or self.kind


class Line(msgspec.Struct):
    """A line from box ``source`` to box ``target`` (indices into the boxes); ``kind`` is data,
    shared or control.

    ``mark`` is ``added`` or ``removed`` if only one of two compared graphs has the line.
    """

    source: int
    target: int
    kind: str
    labels: list[str]
    mark: str = ""


class Picture(ShortRepr, msgspec.Struct):
    """Boxes and lines; ``depth`` is the number of open levels of scopes, None for all.

    ``scopes`` has a folded box for each open scope, by branch followed by scopes.
    """

    boxes: list[Box]
    lines: list[Line]
    branches: list[str]
    depth: int | None
    scopes: dict[tuple[str, ...], Box] = {}

    def find_path(self, box: Box) -> tuple[str, ...]:
        """Return the clusters around a box, from the outside in: its branch, if there are several,
        and its scopes.
        """
        path = box.cluster or ()
        is_in_branch = len(self.branches) > 1 and path != () and path[0] in self.branches
        return path if is_in_branch else path[1:]


class Section(msgspec.Struct, frozen=True):
    """A part of a comparison's findings: lines, each with its node in the picture, if any."""

    title: str
    lines: Sequence[tuple[str, Node | None]] = ()


class AnnotatedGraph(msgspec.Struct, frozen=True, eq=False):
    """A graph with its parameters, the prefixes of its branches, known shapes, and ``marks`` of
    nodes (:data:`MARKS`).

    ``labels`` are lines in boxes, and ``notes`` are further details of nodes. ``bodies`` maps nodes
    of an unfolded graph to their bodies, ``images`` nodes of the graph to their images in it. For
    two merged graphs, ``alone`` are nodes of only the first, ``lost`` lines of only the first (to
    None from its outputs), and ``added`` lines of only the second.
    """

    graph: Graph
    parameters: frozenset[Node]
    prefixes: tuple[str, ...] = ()
    shapes: KnownShapes = {}
    marks: Mapping[Node, str] = {}
    labels: Mapping[Node, str] = {}
    notes: Mapping[Node, Sequence[str]] = {}
    bodies: Mapping[Node, OpenBody] = {}
    images: Mapping[Node, Node] = {}
    alone: Collection[Node] = ()
    lost: Sequence[tuple[Entry, Node | None]] = ()
    added: Collection[tuple[Node, int, Node]] = ()


def make_foldable_picture(
    graph: AnnotatedGraph,
    *,
    depth: int | None,
    all_parameters: bool = False,
    separator: str | None = None,
) -> Picture:
    """Return the picture with all scopes open, and their folded boxes; ``depth`` levels are open at
    first.
    """
    builder = _PictureBuilder(graph, all_parameters, separator)
    picture = builder.build(None)
    picture.depth = _choose_depth(builder) if depth is None else depth
    picture.scopes = builder.fold_scopes()
    return picture


def make_picture(
    graph: AnnotatedGraph,
    *,
    depth: int | None,
    all_parameters: bool = False,
    separator: str | None = None,
) -> Picture:
    """Return the picture with ``depth`` open levels of scopes; by default as many as fit
    ``MAX_BOXES``.
    """
    builder = _PictureBuilder(graph, all_parameters, separator)
    if depth is not None:
        return builder.build(depth)
    return builder.build(_choose_depth(builder))


def _choose_depth(builder: _PictureBuilder) -> int | None:
    """Return the largest depth that fits ``MAX_BOXES``, at least 1; None if everything fits."""
    deepest = max((len(name.scopes) for name in builder.names.values()), default=0)
    if not deepest or len(builder.build(None).boxes) <= MAX_BOXES:
        return None
    depth = 1
    while depth < deepest and len(builder.build(depth + 1).boxes) <= MAX_BOXES:
        depth += 1
    return depth


class _PictureBuilder:
    """Pictures of one graph at any depth."""

    def __init__(self, graph: AnnotatedGraph, all_parameters: bool, separator: str | None) -> None:
        self.source = graph
        self.all_parameters = all_parameters
        self.format = find_format(graph.graph)
        self.heads = {head.node for head in graph.graph.heads}
        # Lost lines may start at nodes that no head of the second graph needs.
        self.nodes = post_order(
            [*(head.node for head in graph.graph.heads), *(entry.node for entry, _ in graph.lost)]
        )
        self.constants = self._find_constants()
        self.prefixes = KnownPrefixes(graph.prefixes)
        self.branch_of = {node: self._find_branch(node) for node in self.nodes}
        operators: dict[str, list[Node]] = {}
        inner: dict[OpenBody, list[Node]] = {}
        for node in self.nodes:
            if not node.is_variable and node not in self.constants:
                body = graph.bodies.get(node)
                group = (
                    operators.setdefault(self.branch_of[node], [])
                    if body is None
                    else inner.setdefault(body, [])
                )
                group.append(node)
        self.branches = [label for label in ("", *graph.prefixes) if label in operators]
        self.names: dict[Node, ScopedName] = infer_scopes(operators, separator=separator)
        infer_body_scopes(self.names, inner, separator)
        self.has_shapes = any((node, 0) in graph.shapes for node in graph.parameters)

    def _find_constants(self) -> dict[Node, str]:
        used = {entry.node for node in self.nodes for entry in node.inputs} | {
            entry.node for entry, _ in self.source.lost
        }
        # A constant that is an output has a box of its own.
        texts = {
            n: self.format.description.describe_constant(n)
            for n in used - self.heads
            if n.op or not self.all_parameters
        }
        return {node: text for node, text in texts.items() if text}

    def _find_branch(self, node: Node) -> str:
        while (body := self.source.bodies.get(node)) is not None:
            node = body.owner
        return self.prefixes.find_longest(node.name)

    def build(self, depth: int | None) -> Picture:
        picture = Picture([], [], self.branches, depth)
        at: dict[Node, int] = {}
        members: dict[tuple[str, tuple[str, ...]], list[Node]] = {}
        for node, name in self.names.items():
            # At depth 0 a whole branch is one box.
            if depth is not None and len(name.scopes) >= depth and (name.scopes or depth == 0):
                members.setdefault((self.branch_of[node], name.scopes[:depth]), []).append(node)
        # A scope with one operator shows less than the operator.
        collapsed = {
            node: key for key, nodes in members.items() if len(nodes) > 1 for node in nodes
        }
        numbers: dict[tuple[str, tuple[str, ...]], int] = {}
        for node in self.nodes:
            if node not in self.names:
                continue
            key = collapsed.get(node)
            if key is None:
                at[node] = self._add_box(picture, self._operator_box(node, depth))
            else:
                if key not in numbers:
                    numbers[key] = self._add_box(picture, self._scope_box(key, members[key]))
                at[node] = numbers[key]
        self._add_variables(picture, at, numbers)
        self._add_lines(picture, at)
        self._add_outputs(picture, at)
        return picture

    def fold_scopes(self) -> dict[tuple[str, ...], Box]:
        """Return the folded boxes by branch followed by scopes."""
        members: dict[tuple[str, ...], list[Node]] = {}
        for node in self.nodes:
            if node in self.names:
                path = (self.branch_of[node], *self.names[node].scopes)
                for depth in range(1, len(path) + 1):
                    members.setdefault(path[:depth], []).append(node)
        return {
            path: self._scope_box((path[0], path[1:]), nodes) for path, nodes in members.items()
        }

    def _add_box(self, picture: Picture, box: Box) -> int:
        picture.boxes.append(box)
        return len(picture.boxes) - 1

    def _operator_box(self, node: Node, depth: int | None) -> Box:
        name = self.names[node]
        # At depth 0 an operator that stands alone has no scopes.
        scopes = name.scopes if depth is None else name.scopes[: depth - 1]
        title = name.leaf or node.shown_name or "(no name)"
        if len(scopes) < len(name.scopes):
            # Scopes that are not open become a part of the title.
            title = "/".join((*name.scopes[len(scopes) :], title))
        lines = [
            " ".join((node.op, *self.format.description.describe_operator(node))),
            *self._list_constants(node),
        ]
        lines += self._count_weights([entry.node for entry in node.inputs])
        lines += [self.source.labels[node]] if node in self.source.labels else []
        kind = "" if self.source.marks else find_kind(node)
        path = (self.branch_of[node], *scopes)
        return Box(
            "operator",
            title,
            lines,
            path,
            self._mark([node]),
            node.shown_name,
            (node,),
            operator_kind=kind,
        )

    def _list_constants(self, node: Node) -> list[str]:
        if not any(entry.node in self.constants for entry in node.inputs):
            return []
        operands = [
            (i, entry)
            for i, entry in enumerate(list_operands(node))
            if entry and entry.node in self.constants
        ]
        named = [
            (self.format.description.name_operand(node, i), self.constants[entry.node])
            for i, entry in operands
        ]
        lines: list[str] = []
        for text in (f"{name} = {value}" if name else value for name, value in named):
            if lines and len(lines[-1]) + len(text) < _LINE:
                lines[-1] += f", {text}"
            else:
                lines.append(text)
        return lines

    def _mark(self, nodes: Iterable[Node]) -> str:
        """Return the gravest mark of a box; marked hidden nodes count as changed."""
        marks = set()
        for node in nodes:
            hidden = (
                ()
                if node.is_variable
                else [e.node for e in node.inputs if not e.node.op or e.node in self.constants]
            )
            own = self.source.marks.get(node, "")
            marks.add(
                own
                or (
                    "changed"
                    if any(n in self.source.marks and self._is_hidden(n) for n in hidden)
                    else ""
                )
            )
        # A renamed operator does not make its scope a changed one.
        if len(marks) < 2 or marks == {"", "highlight"}:
            return max(marks, default="")
        return next((mark for mark in ("apart", "unjudged", "near") if mark in marks), "changed")

    def _is_hidden(self, node: Node) -> bool:
        return node in self.constants or node in self.source.parameters

    def _scope_box(self, key: tuple[str, tuple[str, ...]], nodes: Sequence[Node]) -> Box:
        branch, scopes = key
        lines = _summarize_kinds((node.op for node in nodes), 7)
        variables = dict.fromkeys(entry.node for node in nodes for entry in node.inputs)
        lines += self._count_weights(list(variables))
        lines += self._count_marks((*nodes, *variables))
        return Box("scope", scopes[-1] if scopes else branch or "graph", lines, (branch, *scopes[:-1]),
                   self._mark((*nodes, *(variable for variable in variables if variable in self.source.marks))),
                   format_count(len(nodes), 'operator'), tuple(nodes))  # fmt: skip

    def _count_marks(self, nodes: Iterable[Node]) -> list[str]:
        counts = Counter(self.source.marks[node] for node in nodes if node in self.source.marks)
        return [f"{count} {MARKS[mark]}" for mark, count in counts.items()]

    def _count_weights(self, variables: Sequence[Node]) -> list[str]:
        parameters = [
            node
            for node in variables
            if node in self.source.parameters and node not in self.constants
        ]
        if not parameters or not self.has_shapes:
            return []
        sizes = self._list_sizes(parameters)
        count = format_count(sum(sizes), "weight") if sizes else "? weights"
        return [count if not sizes or len(sizes) == len(parameters) else f"{count} and ? more"]

    def _list_sizes(self, variables: Iterable[Node]) -> list[int]:
        shapes = [self.source.shapes.get((node, 0)) for node in variables]
        return [
            math.prod(shape)
            for shape in shapes
            if shape is not None and all(isinstance(n, int) for n in shape)
        ]

    def _add_variables(
        self,
        picture: Picture,
        at: dict[Node, int],
        folded: Mapping[tuple[str, tuple[str, ...]], int],
    ) -> None:
        """An input of a ``folded`` body is inside its box."""
        readers = self._find_readers(at)
        shared: dict[tuple[int, ...], list[Node]] = {}
        for node in self.nodes:
            if not node.is_variable or node in self.constants:
                continue
            boxes = tuple(sorted(readers.get(node, ())))
            if node not in self.source.parameters or not boxes:
                scopes = self._find_scopes(node)
                number = (
                    folded.get((self.branch_of[node], scopes[: picture.depth])) if scopes else None
                )
                at[node] = (
                    self._add_box(picture, self._input_box(node, scopes))
                    if number is None
                    else number
                )
            elif len(boxes) > 1:
                shared.setdefault(boxes, []).append(node)
            elif self.all_parameters or node in self.heads:
                at[node] = self._add_box(
                    picture, self._parameter_box([node], "parameter", self.branch_of[node])
                )
        for nodes in shared.values():
            number = self._add_box(picture, self._parameter_box(nodes, "shared", None))
            at.update(dict.fromkeys(nodes, number))

    def _find_readers(self, at: Mapping[Node, int]) -> dict[Node, set[int]]:
        readers: dict[Node, set[int]] = {}
        # Operators that only the first of two graphs has share no variables with others.
        alone: dict[Node, set[int]] = {}
        for node in self.nodes:
            for entry in node.inputs if node in at else ():
                if entry.node.is_variable:
                    (alone if node in self.source.alone else readers).setdefault(
                        entry.node, set()
                    ).add(at[node])
        return {**alone, **readers}

    def _input_box(self, node: Node, scopes: tuple[str, ...]) -> Box:
        lines = self._list_shapes(Entry(node))
        lines += [self.source.labels[node]] if node in self.source.labels else []
        branch = self.branch_of[node]
        title = node.name[len(branch) :] or node.name or "(no name)"
        path = (branch, *scopes)
        return Box("input", title, lines, path, self._mark([node]), node.name, (node,))

    def _add_outputs(self, picture: Picture, at: Mapping[Node, int]) -> None:
        for head in self.source.graph.heads:
            branch, name = self.branch_of[head.node], output_name(head)
            mark = "added" if self.source.marks.get(head.node) == "added" else ""
            box = Box(
                "output",
                name.removeprefix(branch) or name or "(no name)",
                [],
                (branch,),
                mark,
                tip=name,
            )
            picture.lines.append(
                Line(
                    at[head.node],
                    self._add_box(picture, box),
                    "data",
                    self._list_shapes(head),
                    mark,
                )
            )

    def _list_shapes(self, entry: Entry) -> list[str]:
        shape = self.source.shapes.get((entry.node, entry.index))
        return [format_dims(shape, separator="×")] if shape is not None else []

    def _find_scopes(self, variable: Node) -> tuple[str, ...]:
        body = self.source.bodies.get(variable)
        return (
            (*self.names[body.owner].scopes, body.key) if body and body.owner in self.names else ()
        )

    def _parameter_box(self, nodes: Sequence[Node], kind: str, branch: str | None) -> Box:
        if len(nodes) == 1:
            title, lines = nodes[0].name or "(no name)", self._list_shapes(Entry(nodes[0]))
        else:
            title = f"{len(nodes)} {'shared ' if kind == 'shared' else ''}parameters"
            lines = _summarize_endings(nodes)
        lines = [*lines, *self._count_weights(nodes)]
        label = self.source.labels.get(nodes[0], "") if len(nodes) == 1 else ""
        lines += [label] if label else self._count_marks(nodes)
        tip = ", ".join(node.name for node in nodes[:40])
        sizes = self._list_sizes(nodes)
        return Box(kind, title, lines, None if branch is None else (branch,), mark=self._mark(nodes), tip=tip,
                   nodes=tuple(nodes), weights=sum(sizes) if len(sizes) == len(nodes) else None)  # fmt: skip

    def _add_lines(self, picture: Picture, at: Mapping[Node, int]) -> None:
        lines: dict[tuple[int, int, str, str], Line] = {}
        for entry, node, kind, mark in self._list_edges():
            source, target = at.get(entry.node, -1), at.get(node, -1)
            # Hidden parameters have no box, and lines inside a closed scope are not drawn.
            if source < 0 or target < 0 or source == target:
                continue
            kind = _LINES.get(picture.boxes[source].kind, kind)
            line = lines.setdefault(
                (source, target, kind, mark), Line(source, target, kind, [], mark)
            )
            line.labels += [
                text
                for text in self._list_shapes(entry)
                if kind == "data" and text not in line.labels
            ]
        picture.lines = list(lines.values())

    def _list_edges(self) -> Iterator[tuple[Entry, Node, str, str]]:
        graph = self.source
        for node in self.nodes:
            for entry in node.inputs:
                is_added = (entry.node, entry.index, node) in graph.added
                is_removed = entry.node in graph.alone or node in graph.alone
                yield entry, node, "data", "removed" if is_removed else "added" if is_added else ""
            for dep in node.control_deps:
                yield (
                    Entry(dep),
                    node,
                    "control",
                    "removed" if dep in graph.alone or node in graph.alone else "",
                )
        yield from (
            (entry, target, "data", "removed") for entry, target in graph.lost if target is not None
        )


def _summarize_endings(nodes: Sequence[Node]) -> list[str]:
    return _summarize_kinds(
        (next((s for s in SUFFIXES if node.name.endswith(s)), node.name) for node in nodes), 5
    )


def _summarize_kinds(kinds: Iterable[str], most: int) -> list[str]:
    """Count equal texts, two per line, the most frequent first, in at most ``most`` entries."""
    counts = Counter(kinds).most_common()
    # The last kind takes the place that `and 1 more kinds` would need.
    first = counts if len(counts) <= most else counts[: most - 1]
    parts = [f"{kind} ×{count}" if count > 1 else kind for kind, count in first]
    parts += [f"and {len(counts) - len(first)} more kinds"] if len(counts) > len(first) else []
    return [", ".join(parts[start : start + 2]) for start in range(0, len(parts), 2)]
