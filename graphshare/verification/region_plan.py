"""Where two models differ: both graphs as terms of one table, cut into regions at namesakes.

A *pair* is a left and a right value that correspond, most often by name. If its terms differ, it is
an *end*: both values get one fresh term, a *cut*, and count as one value downstream. The *cone* of
an end has the operators that compute it, back to its *sources*, whose terms both sides have. Ends
with equal cones are one region.

Both sides compute a region's ends from the left values of its sources: a difference is reported
where it arises. If all are equal bit for bit, so are the outputs for these inputs; the regions'
tolerances do not bound the outputs'.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from itertools import chain, islice
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.normal_form import make_form
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import GraphshareError, RefusedError
from graphshare.execute.prepare.declared_inputs import unify_sizes
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.formats.facets import Inlined
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import EMPTY, Entry, Node
from graphshare.ir.terms import Facts, GraphTerms, Place, TermTable
from graphshare.ir.walk import consumers, post_order
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs
from graphshare.text.names import index_unique
from graphshare.verification.comparison import TITLES
from graphshare.verification.inner_pairs import FLOATS, can_be_one, pair_readers
from graphshare.verification.parts import compute_part, name_dtype

_COMPUTED_BYTES = 1 << 28  # most bytes of a constant that is computed for a comparison
_STEPS = 6  # operators after a value, including Identities, whose result may have its name on the other side
_CANDIDATES = 16  # values after a value that may have its name on the other side
_INSIDE = 256  # values before it in its region that may

Pair = tuple[Entry, Entry]
"""A value of the left model, and the value of the right one that is compared with it."""


def get_place(entry: Entry) -> Place:
    """Return an entry's place, equal for entries of one value."""
    return entry.node, entry.index


def get_places(pair: Pair) -> tuple[Place, Place]:
    """Return the places of both values."""
    return get_place(pair[0]), get_place(pair[1])


def find_term(terms: GraphTerms, entry: Entry) -> int:
    """Return a value's term, ignoring a different dtype on the other side."""
    return _strip_dtype(terms.form.table, terms.of(entry))


def _strip_dtype(table: TermTable, term: int) -> int:
    key = table.keys[term]
    return int(key[1]) if key[0] == "as" else term


class AnalyzedModel:
    """One model: its operators in order and, once read, the facts inferred from its inputs.

    ``aliases`` has its inputs' differing names in the original. With ``is_numbered`` its values
    have no names.
    """

    def __init__(
        self, model: Checkpoint, heads: Sequence[Entry], aliases: Mapping[str, str] = EMPTY
    ) -> None:
        self.model, self._aliases = model, aliases
        self.nodes = post_order(entry.node for entry in heads)
        self.order = {node: number for number, node in enumerate(self.nodes)}
        # Values without readers end no region: they cannot reach an output.
        read = set(map(get_place, chain(heads, *(node.inputs for node in self.nodes))))
        operators = [node for node in self.nodes if node.op]
        values = chain.from_iterable(map(visible_outputs, operators))
        outputs = [value for value in values if get_place(value) in read]
        format_ = find_format(model.graph)
        converted = format_.meaning.list_converted_names(model.graph)
        self.is_numbered = bool(converted)
        self.names = index_unique(
            (converted.get(get_place(value)) or output_name(value), value) for value in outputs
        )
        variables = [node for node in self.nodes if not node.op]
        inputs = [Entry(node) for node in variables if not node.details.holds_value]
        kinds = format_.types.find_types(model.graph, inputs)
        self.dtypes = {node: kind.parts[0] for (node, _), kind in kinds.items()}
        self.facts = Facts()
        self.contents: dict[Node, Hashable | None] = {}
        self.heads = tuple(heads)

    def name_input(self, node: Node) -> str:
        """Return an input's name in the original."""
        return self._aliases.get(node.name, node.name)

    def identify_input(self, node: Node) -> Hashable:
        """Identify an input's value by name and dtype."""
        return self.name_input(node), self.dtypes.get(node)

    def read_facts(self, shapes: Mapping[str, GivenShape]) -> None:
        """Infer types from input shapes; compute constants unless the backend rejects that."""
        graph, format_ = self.model.graph, find_format(self.model.graph)
        entries = [entry for node in self.nodes for entry in visible_outputs(node)]
        # Stated inner types may be wrong, and identities must hold for every input.
        types = format_.types.find_types(graph, entries, shapes=shapes, independent=True)
        self.facts = Facts(types)
        part = msgspec.structs.replace(graph, nodes=tuple(self.nodes), heads=self.heads)
        computable, sizes = format_.meaning.find_computable(part, types)
        fed = {place: np.array(value, np.int64) for place, value in sizes.items()}
        known: dict[Place, Any] = dict(fed)
        wanted = [entry for entry in computable if self._count_bytes(entry) <= _COMPUTED_BYTES]
        # The proof is weaker without constants but still sound.
        with suppress(GraphshareError):
            values = compute_part(self.model, wanted, fed) if wanted else []
            known.update(zip(map(get_place, wanted), values, strict=True))
        computed: dict[Place, tuple[str, tuple[int, ...], bytes]] = {}
        for place, value in known.items():
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiubO":
                computed[place] = name_dtype(value), value.shape, _encode_array(value)
        self.facts = Facts(types, computed)

    def find_parts(self, entry: Entry) -> tuple[Any, Any]:
        """Return a value's dtype and shape, each None if unknown."""
        kind = self.facts.types.get(get_place(entry))
        return (None, None) if kind is None else kind.parts

    def _count_bytes(self, entry: Entry) -> int:
        shape = self.find_parts(entry)[1] or ()
        # An unknown size is too large.
        sizes = [size if isinstance(size, int) else _COMPUTED_BYTES for size in shape]
        # A number takes at most 8 bytes.
        return 8 * int(np.prod(sizes, dtype=np.float64))


class Cone(msgspec.Struct, eq=False):
    """A region's ends, and both sides' operators that compute them from common values."""

    ends: list[Pair]
    left: tuple[Node, ...]
    right: tuple[Node, ...]

    @property
    def sides(self) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        return self.left, self.right

    def leave_out(self, nodes: Container[Node]) -> Cone:
        left, right = (tuple(node for node in side if node not in nodes) for side in self.sides)
        return Cone(self.ends, left, right)


class PlanChanges(msgspec.Struct, eq=False):
    """Findings for a new plan.

    ``banned`` left values end no region, ``closed`` ones cannot be fed to a session, a run
    disproved ``refuted`` pairs. ``dtypes`` are differing ones on the right. ``moved`` maps left
    values to equal right values of another name, ``proved`` to those equal for every input.
    ``ranks`` are of computed values.
    """

    banned: set[Place] = msgspec.field(default_factory=set)
    refuted: set[tuple[Place, Place]] = msgspec.field(default_factory=set)
    closed: set[Place] = msgspec.field(default_factory=set)
    dtypes: dict[Place, str] = msgspec.field(default_factory=dict)
    moved: dict[Place, Entry] = msgspec.field(default_factory=dict)
    proved: dict[Place, Entry] = msgspec.field(default_factory=dict)
    ranks: dict[Place, int] = msgspec.field(default_factory=dict)

    def lacks(self, other: PlanChanges) -> bool:
        """Whether ``other`` contains a change missing here."""
        return any(
            not set(getattr(other, field)) <= set(getattr(self, field))
            for field in self.__struct_fields__
        )

    def add(self, other: PlanChanges) -> None:
        for field in self.__struct_fields__:
            getattr(self, field).update(getattr(other, field))

    def refuse(self, pairs: Collection[tuple[Place, Place]]) -> None:
        """Stop pairing these places by names or earlier runs."""
        self.refuted.update(pairs)
        self.banned.update(place for place, _ in pairs)

    def restore(self, pairs: Collection[tuple[Place, Place]]) -> None:
        self.refuted.difference_update(pairs)
        self.banned.difference_update(place for place, _ in pairs)


class RegionPlan(msgspec.Struct, eq=False):
    """The regions in an order of computation, and both sides' terms.

    ``sources`` has the left value of each common term, ``entries`` each side's values by term,
    ``uncut`` terms of values before they ended a region.
    """

    left: GraphTerms
    right: GraphTerms
    cones: list[Cone] = msgspec.field(default_factory=list)
    sources: dict[int, Entry] = msgspec.field(default_factory=dict)
    uncut: dict[Place, int] = msgspec.field(default_factory=dict)
    entries: tuple[dict[int, Entry], dict[int, Entry]] = msgspec.field(
        default_factory=lambda: ({}, {})
    )

    @property
    def terms(self) -> tuple[GraphTerms, GraphTerms]:
        return self.left, self.right

    def list_sources(self, cone: Cone) -> dict[Place, tuple[Entry, Entry]]:
        """Return the right starts of a region by place, with their left counterparts.

        Constants are left out: each side has its own.
        """
        starts = self.list_starts(cone, 1).items()
        return {place: (e, self.sources[term]) for place, (term, e) in starts if e.node.op}

    def list_starts(self, cone: Cone, side: int) -> dict[Place, tuple[int, Entry]]:
        """Return a side's starts, including inputs, as terms and values by place."""
        terms = self.terms[side]
        starts: dict[Place, tuple[int, Entry]] = {}
        for entry in chain(*(node.inputs for node in cone.sides[side])):
            if terms.key(entry)[0] == "constant":
                continue
            term = find_term(terms, entry)
            if term in self.sources or not entry.node.op:
                starts[get_place(entry)] = term, entry
        return starts

    def list_starts_among(
        self, pairs: Mapping[Place, Entry], cone: Cone
    ) -> set[tuple[Place, Place]]:
        """Return the ``pairs`` (left places and right values) among a region's starts."""
        starts = {(get_place(left), place) for place, (_, left) in self.list_sources(cone).items()}
        return starts & {(place, get_place(entry)) for place, entry in pairs.items()}

    def find_leaks(self, cone: Cone) -> PlanChanges:
        """Refuse starts that operators inside the region also compute: they are not independent."""
        leaks = PlanChanges()
        for side, nodes in enumerate(cone.sides):
            for term, entry in self.list_starts(cone, side).values():
                right = self.entries[1].get(term)
                if right is None or self.right.key(right)[0] != "cut":
                    continue
                operators = post_order([entry.node])
                if not set(nodes).isdisjoint(operators):
                    leaks.refuse({(get_place(self.sources[term]), get_place(right))})
        return leaks

    def trace(
        self, side: int, targets: Iterable[Entry], known: Container[int]
    ) -> tuple[dict[Place, int], list[Node]]:
        """Return places of ``known`` terms that lead to ``targets``, and nodes between."""
        touched: dict[Place, int] = {}
        nodes: dict[Node, None] = {}
        pending = [entry.node for entry in targets]
        while pending:
            node = pending.pop()
            if node in nodes:
                continue
            nodes[node] = None
            for entry in node.inputs:
                term = find_term(self.terms[side], entry)
                if entry.node.op and term in known:
                    touched[get_place(entry)] = term
                else:
                    pending.append(entry.node)
        return touched, list(nodes)

    def find_dtype(self, entry: Entry) -> str | None:
        """Return a right value's dtype if the left one's differs."""
        key = self.right.key(entry)
        return key[2] if key[0] == "as" else None


class Planner:
    """Plans the comparison of two models whose heads and inputs are paired."""

    def __init__(
        self, left: Checkpoint, right: Checkpoint, heads: Sequence[Pair], inputs: Mapping[str, str]
    ) -> None:
        """``inputs`` maps left to right names."""
        self._is_mixed = find_format(left.graph) is not find_format(right.graph)
        self._aliases = {other: name for name, other in inputs.items()}
        self._inlined_calls = 0
        self.defined = 0
        self.changes = PlanChanges()
        self._take(left, right, heads)

    def _take(self, left: Checkpoint, right: Checkpoint, heads: Sequence[Pair]) -> None:
        self._heads, self._head_places = heads, set(map(get_places, heads))
        self.sides = (
            AnalyzedModel(left, [a for a, _ in heads]),
            AnalyzedModel(right, [b for _, b in heads], self._aliases),
        )
        if self._is_mixed:  # inputs are the same even if one format has no types
            self.sides[0].dtypes = self.sides[1].dtypes = {}
        self._consumers = [consumers(side.nodes) for side in self.sides]

    def _inline_calls(self) -> None:
        """Calls, unlike nodes, have no types, separate values or identities."""
        while True:
            operators = [{node.op for node in side.nodes} for side in self.sides]
            # A fused operator of both models is one term; otherwise its definition is compared.
            fused = operators[0] - operators[1], operators[1] - operators[0]
            inlined = self._inline(fused, ((), ()))
            calls = sum(each.count for each in inlined)
            if not calls:
                inlined = self._inline(fused, (operators[1], operators[0]))
                calls = sum(each.count for each in inlined)
            if not calls:
                return
            defined = sum(each.defined for each in inlined)
            self._inlined_calls += calls - defined
            self.defined += defined
            self._take_inlined(inlined)

    def _inline(
        self, fused: Sequence[Collection[str]], known: Sequence[Collection[str]]
    ) -> list[Inlined]:
        """Standard definitions of ``fused`` operators use only ``known`` operators."""
        graphs = [(side.model.graph, side.heads) for side in self.sides]
        return [
            find_format(graph).meaning.inline_calls(graph, heads, own, others)
            for (graph, heads), own, others in zip(graphs, fused, known, strict=True)
        ]

    def _take_inlined(self, inlined: Sequence[Inlined]) -> None:
        sides = list(zip(self.sides, inlined, strict=True))
        left, right = (
            msgspec.structs.replace(side.model, graph=each.graph) for side, each in sides
        )
        lefts, rights = (each.graph.heads if each.count else side.heads for side, each in sides)
        self._take(left, right, list(zip(lefts, rights, strict=True)))
        for (before, _), side in zip(sides, self.sides, strict=True):
            side.contents.update(before.contents)

    def is_head(self, end: Pair) -> bool:
        return get_places(end) in self._head_places

    def list_near(self, end: Entry, cone: Cone, side: int) -> list[Entry]:
        """List values shortly after ``end``, nearest first, then those before it in its region."""
        readers = self._consumers[side]
        after: dict[Node, None] = {}
        pending = [end.node]
        for _ in range(_STEPS):
            uses = chain(*(readers.get(node, ()) for node in pending))
            pending = list(dict.fromkeys(node for node, _ in uses))
            after.update(dict.fromkeys(pending))
        before = [node for node in reversed(cone.sides[side]) if node is not end.node]
        following = _list_first_outputs(after)[:_CANDIDATES]
        return [*following, *_list_first_outputs(before)[:_INSIDE]]

    def read_facts(self) -> None:
        """Read both models' facts, calls inlined, at the input sizes that either fixes."""
        self._inline_calls()
        left, right = (side.model.graph for side in self.sides)
        known = [{node.name for node in side.nodes if not node.op} for side in self.sides]
        names: dict[str, str] = {}
        for other, name in self._aliases.items():
            # Two bodies may read different values.
            if name in known[0] and other in known[1]:
                names[name] = other
        others = {other: name for name, other in names.items()}
        try:
            sizes = [
                unify_sizes((left, right), names, {}, TITLES),
                unify_sizes((right, left), others, {}, TITLES),
            ]
        except RefusedError:  # the models will not be computed
            sizes = [{}, {}]
        for side, own in zip(self.sides, sizes, strict=True):
            side.read_facts(own)

    def make_plan(self, *, by_name: bool = True) -> RegionPlan | None:
        """Plan the regions where both sides' terms differ; None without a normal form.

        Without ``by_name`` only outputs end regions.
        """
        table = TermTable()
        terms: list[GraphTerms] = []
        for side in self.sides:
            facts = msgspec.structs.replace(side.facts, ranks=self.changes.ranks)
            form = make_form(side.model.graph, side.model.parameter_file, table, facts)
            if form is None:
                return None
            terms.append(GraphTerms(form, side.identify_input, side.contents))
        plan = RegionPlan(terms[0], terms[1])
        plan.left.form.used["calls of functions"] += self._inlined_calls
        ends: dict[tuple[Place, Place], Pair] = {}
        # A cut's new term must be known before its consumers'.
        order, pairs = self._order(self._pair_names(terms) if by_name else [])
        for node in order:
            # After a rewrite in memory, both models may share a node.
            for own, side in zip(terms, self.sides, strict=True):
                if node in side.order:
                    own.add(node)
            for a, b in pairs.get(node, ()):
                # A pair is decided at the second of its nodes.
                if get_place(a) in plan.left.terms and get_place(b) in plan.right.terms:
                    self._unify_terms(plan, ends, (a, b))
        for head in self._heads:
            if plan.left.of(head[0]) != plan.right.of(head[1]):
                # Names of outputs may differ or repeat.
                ends.setdefault(get_places(head), head)
        self._divide(plan, ends.values())
        return plan

    def _unify_terms(
        self, plan: RegionPlan, ends: dict[tuple[Place, Place], Pair], pair: Pair
    ) -> None:
        """Give a pair one new term; it ends a region unless its terms are equal or proved so."""
        (a, b), (one, two), table = pair, get_places(pair), plan.left.form.table
        if one in self.changes.proved:
            # The table's length makes the key unique.
            plan.left.terms[one] = plan.right.terms[two] = table.number("proved", len(table.keys))
        elif plan.left.of(a) != plan.right.of(b):
            ends[one, two] = pair
            plan.uncut.update({one: plan.left.of(a), two: plan.right.of(b)})
            cut = plan.left.terms[one] = table.number("cut", len(ends))
            dtype = self._find_other_dtype(a, b)
            plan.right.terms[two] = cut if dtype is None else table.number("as", cut, dtype)

    def _divide(self, plan: RegionPlan, ends: Iterable[Pair]) -> None:
        for entries, terms, side in zip(plan.entries, plan.terms, self.sides, strict=True):
            for entry in chain(*map(visible_outputs, side.nodes)):
                # Values with one term are equal.
                entries.setdefault(find_term(terms, entry), entry)
        known, table = plan.entries[0], plan.left.form.table
        shared = known.keys() & {_strip_dtype(table, term) for term in plan.right.terms.values()}
        closed = {plan.left.terms[place] for place in self.changes.closed}
        plan.sources.update({term: known[term] for term in shared - closed})
        cones: dict[tuple[tuple[Node, ...], ...], Cone] = {}
        for end in ends:
            # The end's own term is a cut, known to both sides: start from the node.
            traced = [plan.trace(side, [entry], plan.sources)[1] for side, entry in enumerate(end)]
            left, right = (
                tuple(sorted((node for node in nodes if node.op), key=side.order.__getitem__))
                for nodes, side in zip(traced, self.sides, strict=True)
            )
            cones.setdefault((left, right), Cone([], left, right)).ends.append(end)
        # In the original's order, because the walk computes its values.
        plan.cones += sorted(
            cones.values(), key=lambda cone: self.sides[0].order[cone.ends[0][0].node]
        )

    def _find_other_dtype(self, a: Entry, b: Entry) -> str | None:
        left, right = self.sides
        dtype, other = left.find_parts(a)[0], right.find_parts(b)[0]
        # A symbol file states no dtypes, so ONNX's floats apply.
        are_comparable = dtype is not None or (self._is_mixed and other in FLOATS)
        # None where the right one is unknown, too
        inferred = other if are_comparable and dtype != other else None
        return self.changes.dtypes.get(get_place(a), inferred)

    def _pair_names(self, terms: Sequence[GraphTerms]) -> list[Pair]:
        """Pair values by runs or names, if their types allow it.

        Where a side's names are only numbers, parameters read by both come before names.
        """
        left, right = self.sides
        known: dict[Place, Entry] = {}
        if left.is_numbered or right.is_numbered:
            known.update(self._pair_readers(terms))
        # Findings from runs come before suggestions by names.
        for place, value in self.changes.moved.items():
            if (place, get_place(value)) not in self.changes.refuted:
                known[place] = value
        known.update(self.changes.proved)
        taken = set(map(get_place, known.values()))
        for a, b in self._list_namesakes():
            if get_place(b) not in taken:
                known.setdefault(get_place(a), b)
        for place in self.changes.closed:
            known.pop(place, None)
        named = [value for value in left.names.values() if get_place(value) in known]
        pairs = [(value, known[get_place(value)]) for value in named]
        return [pair for pair in pairs if self._can_be_one(*pair)]

    def _list_namesakes(self) -> list[Pair]:
        """If most namesakes cannot be one value, names were reassigned: return none.

        The others agree only by chance.
        """
        left, right = self.sides
        namesakes = [
            (a, right.names[name]) for name, a in left.names.items() if name in right.names
        ]
        allowed = [pair for pair in namesakes if get_place(pair[0]) not in self.changes.banned]
        likely = [pair for pair in allowed if self._can_be_one(*pair)]
        return likely if 2 * len(likely) >= len(namesakes) else []

    def _can_be_one(self, a: Entry, b: Entry) -> bool:
        left, right = self.sides
        return can_be_one(left.find_parts(a), right.find_parts(b))

    def _pair_readers(self, terms: Sequence[GraphTerms]) -> dict[Place, Entry]:
        nodes = [side.nodes for side in self.sides]
        paired: dict[Place, Entry] = {}
        for pair in pair_readers(nodes, [own.find_content for own in terms]):
            places = get_places(pair)
            if places[0] not in self.changes.banned and places not in self.changes.refuted:
                paired[places[0]] = pair[1]
        return paired

    def _order(self, pairs: Sequence[Pair]) -> tuple[list[Node], dict[Node, list[Pair]]]:
        """Order both sides' nodes, each after both values of pairs it needs; index pairs by node.

        Of crossing pairs, the one with the largest shift is banned: each would have to come first.
        """
        while True:
            of_node: dict[Node, list[Pair]] = {}
            for pair in pairs:
                for entry in pair:
                    of_node.setdefault(entry.node, []).append(pair)
            needs = {}
            for node in chain(*(side.nodes for side in self.sides)):
                needed = [*(entry.node for entry in node.inputs), *node.control_deps]
                needs[node] = [
                    *needed,
                    *(e.node for each in needed for e in chain(*of_node.get(each, ()))),
                ]
            try:
                return list(TopologicalSorter(needs).static_order()), of_node
            except CycleError as error:
                # One at a time: each pair that remains makes regions smaller.
                stuck = {*error.args[1]}
                crossed = [pair for pair in pairs if stuck & {pair[0].node, pair[1].node}]
                wrong = max(crossed, key=self._measure_shift)
                self.changes.banned.add(get_place(wrong[0]))
                pairs = [pair for pair in pairs if pair is not wrong]

    def _measure_shift(self, pair: Pair) -> float:
        """Return how far two values' relative positions differ, from 0 to 1."""
        left, right = (
            side.order[e.node] / len(side.nodes) for side, e in zip(self.sides, pair, strict=True)
        )
        return abs(left - right)


def _list_first_outputs(nodes: Iterable[Node]) -> list[Entry]:
    return [entry for node in nodes for entry in islice(visible_outputs(node), 1)]


def _encode_array(array: Array) -> bytes:
    """Texts, like constants, are encoded with their lengths."""
    if array.dtype.kind != "O":
        return np.ascontiguousarray(array).tobytes()
    texts = [text.encode("utf-8", "surrogateescape") for text in array.flat]
    return b"".join(len(text).to_bytes(8, "little") + text for text in texts)
