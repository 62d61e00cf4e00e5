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
_ScopeKey = tuple[str, tuple[str, ...]]  # branch and scopes
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
        if not box.cluster:
            return ()
        branch, *scopes = box.cluster
        is_shown = len(self.branches) > 1 and branch in self.branches
        return box.cluster if is_shown else tuple(scopes)


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
            if node.is_variable or node in self.constants:
                continue
            body = graph.bodies.get(node)
            if body is None:
                operators.setdefault(self.branch_of[node], []).append(node)
            else:
                inner.setdefault(body, []).append(node)
        self.branches = [label for label in ("", *graph.prefixes) if label in operators]
        self.names: dict[Node, ScopedName] = infer_scopes(operators, separator=separator)
        infer_body_scopes(self.names, inner, separator)
        self.operators = [node for node in self.nodes if node in self.names]
        self.has_shapes = any((node, 0) in graph.shapes for node in graph.parameters)

    def _find_constants(self) -> dict[Node, str]:
        read = {entry.node for node in self.nodes for entry in node.inputs}
        read |= {entry.node for entry, _ in self.source.lost}
        constants: dict[Node, str] = {}
        # A constant that is an output has a box of its own.
        for node in read - self.heads:
            if node.is_variable and self.all_parameters:
                continue
            text = self.format.description.describe_constant(node)
            if text:
                constants[node] = text
        return constants

    def _find_branch(self, node: Node) -> str:
        while (body := self.source.bodies.get(node)) is not None:
            node = body.owner
        return self.prefixes.find_longest(node.name)

    def build(self, depth: int | None) -> Picture:
        picture = Picture([], [], self.branches, depth)
        at: dict[Node, int] = {}
        folded = {} if depth is None else self._fold_to(depth)
        numbers: dict[_ScopeKey, int] = {}
        for node in self.operators:
            if node not in folded:
                at[node] = self._add_box(picture, self._operator_box(node, depth))
                continue
            key, members = folded[node]
            if key not in numbers:
                numbers[key] = self._add_box(picture, self._scope_box(key, members))
            at[node] = numbers[key]
        self._add_variables(picture, at, numbers)
        self._add_lines(picture, at)
        self._add_outputs(picture, at)
        return picture

    def _fold_to(self, depth: int) -> dict[Node, tuple[_ScopeKey, list[Node]]]:
        """Return the folded scope of each operator in one, with all operators of the scope."""
        members: dict[_ScopeKey, list[Node]] = {}
        for node, name in self.names.items():
            # At depth 0 a whole branch is one box.
            if len(name.scopes) >= depth:
                members.setdefault((self.branch_of[node], name.scopes[:depth]), []).append(node)
        folded: dict[Node, tuple[_ScopeKey, list[Node]]] = {}
        for key, nodes in members.items():
            # A scope with one operator shows less than the operator.
            if len(nodes) > 1:
                folded.update(dict.fromkeys(nodes, (key, nodes)))
        return folded

    def fold_scopes(self) -> dict[tuple[str, ...], Box]:
        """Return the folded boxes by branch followed by scopes."""
        members: dict[tuple[str, ...], list[Node]] = {}
        for node in self.operators:
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
        lines += self._list_label(node)
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

    def _list_label(self, node: Node) -> list[str]:
        return [self.source.labels[node]] if node in self.source.labels else []

    def _list_constants(self, node: Node) -> list[str]:
        lines: list[str] = []
        for i, entry in enumerate(list_operands(node)):
            if entry is None or entry.node not in self.constants:
                continue
            text = self.constants[entry.node]
            name = self.format.description.name_operand(node, i)
            if name:
                text = f"{name} = {text}"
            if lines and len(lines[-1]) + len(text) < _LINE:
                lines[-1] += f", {text}"
            else:
                lines.append(text)
        return lines

    def _mark(self, nodes: Iterable[Node]) -> str:
        """Return the gravest mark of a box; marked hidden nodes count as changed."""
        marks = {self._find_mark(node) for node in nodes}
        # A renamed operator does not make its scope a changed one.
        if len(marks) < 2 or marks == {"", "highlight"}:
            return max(marks, default="")
        return next((mark for mark in ("apart", "unjudged", "near") if mark in marks), "changed")

    def _find_mark(self, node: Node) -> str:
        marks = self.source.marks
        own = marks.get(node, "")
        if own or node.is_variable:
            return own
        inputs = (entry.node for entry in node.inputs)
        is_changed = any(source in marks and self._is_hidden(source) for source in inputs)
        return "changed" if is_changed else ""

    def _is_hidden(self, node: Node) -> bool:
        """Whether a node may be shown only inside the boxes that read it."""
        is_parameter = node.is_variable and node in self.source.parameters
        return is_parameter or node in self.constants

    def _scope_box(self, key: _ScopeKey, nodes: Sequence[Node]) -> Box:
        branch, scopes = key
        title = scopes[-1] if scopes else branch or "graph"
        lines = _summarize_kinds((node.op for node in nodes), 7)
        variables = dict.fromkeys(entry.node for node in nodes for entry in node.inputs)
        lines += self._count_weights(list(variables))
        lines += self._count_marks((*nodes, *variables))
        marked = [variable for variable in variables if variable in self.source.marks]
        mark = self._mark((*nodes, *marked))
        tip = format_count(len(nodes), "operator")
        return Box("scope", title, lines, (branch, *scopes[:-1]), mark, tip, tuple(nodes))

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
        if not sizes:
            return ["? weights"]
        count = format_count(sum(sizes), "weight")
        is_complete = len(sizes) == len(parameters)
        return [count if is_complete else f"{count} and ? more"]

    def _list_sizes(self, variables: Iterable[Node]) -> list[int]:
        """Return the numbers of weights in variables whose shapes are known."""
        shapes = [self.source.shapes.get((node, 0)) for node in variables]
        return [math.prod(shape) for shape in shapes if shape is not None and _is_fixed(shape)]

    def _add_variables(
        self, picture: Picture, at: dict[Node, int], folded: Mapping[_ScopeKey, int]
    ) -> None:
        """An input of a ``folded`` body is inside its box."""
        readers = self._find_readers(at)
        shared: dict[tuple[int, ...], list[Node]] = {}
        for node in self.nodes:
            if not node.is_variable or node in self.constants:
                continue
            boxes = tuple(sorted(readers.get(node, ())))
            branch = self.branch_of[node]
            if node not in self.source.parameters or not boxes:
                scopes = self._find_scopes(node)
                number = folded.get((branch, scopes[: picture.depth])) if scopes else None
                if number is None:
                    number = self._add_box(picture, self._input_box(node, scopes))
                at[node] = number
            elif len(boxes) > 1:
                shared.setdefault(boxes, []).append(node)
            elif self.all_parameters or node in self.heads:
                box = self._parameter_box([node], "parameter", branch)
                at[node] = self._add_box(picture, box)
        for nodes in shared.values():
            number = self._add_box(picture, self._parameter_box(nodes, "shared", None))
            at.update(dict.fromkeys(nodes, number))

    def _find_readers(self, at: Mapping[Node, int]) -> dict[Node, set[int]]:
        readers: dict[Node, set[int]] = {}
        # Operators that only the first of two graphs has share no variables with others.
        alone: dict[Node, set[int]] = {}
        for node in self.nodes:
            if node not in at:
                continue
            own = alone if node in self.source.alone else readers
            for entry in node.inputs:
                if entry.node.is_variable:
                    own.setdefault(entry.node, set()).add(at[node])
        return {**alone, **readers}

    def _input_box(self, node: Node, scopes: tuple[str, ...]) -> Box:
        lines = [*self._list_shapes(Entry(node)), *self._list_label(node)]
        branch = self.branch_of[node]
        title = node.name[len(branch) :] or node.name or "(no name)"
        path = (branch, *scopes)
        return Box("input", title, lines, path, self._mark([node]), node.name, (node,))

    def _add_outputs(self, picture: Picture, at: Mapping[Node, int]) -> None:
        for head in self.source.graph.heads:
            branch, name = self.branch_of[head.node], output_name(head)
            title = name.removeprefix(branch) or name or "(no name)"
            mark = "added" if self.source.marks.get(head.node) == "added" else ""
            number = self._add_box(picture, Box("output", title, [], (branch,), mark, tip=name))
            line = Line(at[head.node], number, "data", self._list_shapes(head), mark)
            picture.lines.append(line)

    def _list_shapes(self, entry: Entry) -> list[str]:
        shape = self.source.shapes.get((entry.node, entry.index))
        return [] if shape is None else [format_dims(shape, separator="×")]

    def _find_scopes(self, variable: Node) -> tuple[str, ...]:
        body = self.source.bodies.get(variable)
        if body is None or body.owner not in self.names:
            return ()
        return (*self.names[body.owner].scopes, body.key)

    def _parameter_box(self, nodes: Sequence[Node], kind: str, branch: str | None) -> Box:
        first, labels = nodes[0], list[str]()
        if len(nodes) == 1:
            title, lines = first.name or "(no name)", self._list_shapes(Entry(first))
            labels = self._list_label(first)
        else:
            title = f"{len(nodes)} {'shared ' if kind == 'shared' else ''}parameters"
            lines = _summarize_endings(nodes)
        lines = [*lines, *self._count_weights(nodes), *(labels or self._count_marks(nodes))]
        cluster = None if branch is None else (branch,)
        tip = ", ".join(node.name for node in nodes[:40])
        sizes = self._list_sizes(nodes)
        weights = sum(sizes) if len(sizes) == len(nodes) else None
        mark = self._mark(nodes)
        return Box(kind, title, lines, cluster, mark, tip, tuple(nodes), weights)

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
            if kind == "data":
                shapes = self._list_shapes(entry)
                line.labels += [text for text in shapes if text not in line.labels]
        picture.lines = list(lines.values())

    def _list_edges(self) -> Iterator[tuple[Entry, Node, str, str]]:
        graph = self.source
        for node in self.nodes:
            is_alone = node in graph.alone
            for entry in node.inputs:
                mark = ""
                if is_alone or entry.node in graph.alone:
                    mark = "removed"
                elif (entry.node, entry.index, node) in graph.added:
                    mark = "added"
                yield entry, node, "data", mark
            for dep in node.control_deps:
                mark = "removed" if is_alone or dep in graph.alone else ""
                yield Entry(dep), node, "control", mark
        for entry, target in graph.lost:
            if target is not None:
                yield entry, target, "data", "removed"


def _is_fixed(shape: Iterable[object]) -> bool:
    """Whether all sizes are numbers; ONNX models also have named sizes."""
    return all(isinstance(size, int) for size in shape)


def _summarize_endings(nodes: Sequence[Node]) -> list[str]:
    return _summarize_kinds((_find_ending(node.name) for node in nodes), 5)


def _find_ending(name: str) -> str:
    """Return the known suffix of a parameter's name, the whole name if there is none."""
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), name)


def _summarize_kinds(kinds: Iterable[str], most: int) -> list[str]:
    """Count equal texts, two per line, the most frequent first, in at most ``most`` entries."""
    counts = Counter(kinds).most_common()
    # The last kind takes the place that `and 1 more kinds` would need.
    first = counts if len(counts) <= most else counts[: most - 1]
    parts = [f"{kind} ×{count}" if count > 1 else kind for kind, count in first]
    parts += [f"and {len(counts) - len(first)} more kinds"] if len(counts) > len(first) else []
    return [", ".join(parts[start : start + 2]) for start in range(0, len(parts), 2)]
