"""The inputs for both sides of a proof: the user's choices, and the sets drawn accordingly.

Inputs of one type differ in at least one set, so that an exchange is detected. Sizes fixed by
either side hold for both, and integers suit both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import numpy as np

from graphshare.arguments import Natural, Options, Positive
from graphshare.checkpoint.load import Names, StrPath
from graphshare.errors import InputError, MemoryLimitError, RefusedError
from graphshare.execute.backends.backend import Computation
from graphshare.execute.prepare.assignment import Assignment, DrawOptions
from graphshare.execute.prepare.declared_inputs import draw_as, list_declared, unify_sizes
from graphshare.execute.prepare.fed_values import describe_fed
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.execute.prepare.prepare import describe_conversions, describe_sizes
from graphshare.ir.graph import EMPTY, Node
from graphshare.ops.kernel import Array
from graphshare.verification.runners import Outputs, Refused, try_run

AT_THE_SIZES = "at the sizes of "
_BATCH = 2
"""The samples of the second set of inputs if sizes are open."""
_MORE = 3
"""The most sets that are added to make inputs differ."""
_SEEDS = 64
"""The number of seeds that are tried for one of these sets."""
_APART = 1000  # distance from the seeds of other sets
_ALONE = 1_000_000  # distance from the seeds of common inputs
NodePair = tuple[Node, Node]
Value = TypeVar("Value")


class Inputs(Options, frozen=True, kw_only=True):
    """How to choose inputs that are not fed by name.

    ``sets`` are sets of inputs by name: mappings, or a folder with ``.npz`` files, ``.npy`` files
    or ONNX's ``test_data_set_N/input_K.pb``. Inputs in no set are drawn with ``seed``; ``rounds``
    above 1 adds as many sets. With ``params_seed`` parameters that no file contains are drawn, too.
    ``as_input`` names variables that count as inputs, even if they look like parameters.
    """

    sets: StrPath | Sequence[Mapping[str, Any]] | None = None
    rounds: Positive = 1
    seed: Natural = 0
    params_seed: Natural | None = None
    as_input: Names = ()


class Setup(msgspec.Struct, frozen=True, eq=False):
    """Feeds and shapes of inputs of ``branch``, None for all."""

    feeds: Mapping[Node, Array] = EMPTY
    shapes: Mapping[Node, GivenShape] = EMPTY
    branch: str | None = None


_AS_DECLARED = Setup()


class Draw(msgspec.Struct, frozen=True, eq=False):
    """Both sides' inputs by variable, and outputs if already computed.

    ``sizes_of`` is the branch with these feeds and shapes, None for both; ``seed`` is for
    operators.
    """

    values: tuple[Mapping[Node, Array], Mapping[Node, Array]]
    outputs: tuple[Outputs | None, Outputs | None] = (None, None)
    sizes_of: str | None = None
    seed: int = 0

    def compute(self, side: int, computation: Computation) -> Outputs:
        """Return a side's outputs. Raises MemoryLimitError."""
        known = self.outputs[side]
        return try_run(computation, self.values[side], self.seed) if known is None else known


class _Attempt:
    """Tries sizes on both sides; keeps outputs, and the first values that one side alone rejects."""

    def __init__(self, drawer: Drawer, feeds: Mapping[Node, Array]) -> None:
        self._drawer, self._feeds = drawer, feeds
        self.outputs: tuple[Outputs | None, Outputs | None] = (None, None)
        self.one_sided: tuple[Mapping[Node, Array], tuple[Outputs, Outputs]] | None = None

    def __call__(self, values: Mapping[Node, Array]) -> None:
        """Raises InputError if a side rejects the values."""
        values = self._drawer.fit(values, self._feeds)
        left, right = map(try_run, self._drawer.sides, self._drawer.share(values))
        refusals = [each.error for each in (left, right) if isinstance(each, Refused)]
        if not refusals:
            self.outputs = left, right
            return
        if len(refusals) == 1 and self.one_sided is None:
            self.one_sided = values, (left, right)
        raise InputError(refusals[0].faults)


class Drawer:
    """Draws sets of inputs for two computations.

    ``pairs`` share a value, and are drawn in order before unpaired variables. ``titles`` name both
    sides. ``notes`` collects choices for the user; ``describe`` returns a variable's names there.
    """

    def __init__(
        self,
        sides: tuple[Computation, Computation],
        pairs: Sequence[NodePair],
        inputs: Inputs,
        titles: tuple[str, str] = ("the one model", "the other"),
        *,
        training: bool = False,
        describe: Callable[[Node], Sequence[str]] | None = None,
        notes: dict[str, None] | None = None,
    ) -> None:
        self.sides, self._inputs = sides, inputs
        self._training, self._describe = training, describe or (lambda node: [repr(node.name)])
        self.notes: dict[str, None] = {} if notes is None else notes
        # The side that infers sizes from weights leads: it knows more than declarations.
        self._is_swapped = sides[1].infers_sizes and not sides[0].infers_sizes
        self._leader, self._follower = self._swap(sides)
        self._titles, self._pairs = self._swap(titles), [*map(self._swap, pairs)]
        self._drawn: list[Mapping[Node, Array]] = []
        self._alone = Setup()
        paired = {b for _, b in self._pairs}
        # Labels and states are zeros on purpose, and parameters are large.
        self._varied = [a for a, _ in self._pairs if not self._leader.is_constant(a)]
        own = [
            node
            for node in self._follower.graph.variables()
            if node not in paired and not self._follower.is_constant(node)
        ]
        self._has_more = inputs.params_seed is not None or any(
            not node.details.holds_value for node in own
        )

    def _swap(self, pair: tuple[Value, Value]) -> tuple[Value, Value]:
        """Convert between (left, right) and (leader, follower)."""
        return (pair[1], pair[0]) if self._is_swapped else pair

    def draw(self, setup: Setup = _AS_DECLARED, *, count: int | None = None) -> Iterator[Draw]:
        """Yield ``count`` sets, by default as many as needed.

        They have feeds and shapes of left variables and of unpaired right ones.

        Raises:
            RefusedError: inputs cannot be drawn, or both sides fix different sizes.
        """
        follower = set(self._follower.graph.variables()).difference(*map(set, self._pairs))
        self._alone = Setup(
            _choose_nodes(setup.feeds, follower), _choose_nodes(setup.shapes, follower)
        )
        feeds = self._to_leader(setup.feeds)
        fed = {node: array.shape for node, array in feeds.items() if isinstance(array, np.ndarray)}
        setup = Setup(feeds, self._unify({**self._to_leader(setup.shapes), **fed}), setup.branch)
        first, is_open = self._draw(setup, 0)
        yield first
        if count is None:
            count = self._inputs.rounds
            if is_open:
                yield from self._draw_batch(setup)
            if self._inputs.sets is None:
                yield from self._draw_apart(setup)
        offset = _BATCH - 1 if is_open else 0  # the batch has taken this seed
        for number in range(1, count):
            yield self._draw(setup, number + offset)[0]

    def share(
        self, values: Mapping[Node, Array]
    ) -> tuple[Mapping[Node, Array], Mapping[Node, Array]]:
        """Return the left and right values, derived from the leader's."""
        others: Mapping[Node, Array] = {b: values[a] for a, b in self._pairs if a in values}
        if self._has_more:  # variables of only the other side
            # With another input's numbers they would look like it.
            options = DrawOptions(self._inputs.seed + _ALONE, self._inputs.params_seed)
            others = self._follower.draw(
                {**others, **self._alone.feeds}, self._alone.shapes, options
            ).values
        return self._swap((values, others))

    def _to_leader(self, by_node: Mapping[Node, Any]) -> dict[Node, Any]:
        twins = {b: a for a, b in self._pairs} if self._is_swapped else {}
        by_node = {twins.get(node, node): value for node, value in by_node.items()}
        return _choose_nodes(by_node, set(self._leader.graph.variables()))

    def _unify(self, shapes: Mapping[Node, GivenShape]) -> dict[Node, GivenShape]:
        """Add sizes that either side fixes to the leader's shapes."""
        twins = {a.name: b.name for a, b in self._pairs}
        by_name = {node.name: shape for node, shape in shapes.items()}
        known = unify_sizes(
            (self._leader.graph, self._follower.graph), twins, by_name, self._titles
        )
        nodes = {a.name: a for a, _ in self._pairs}
        fixed = {nodes[name]: shape for name, shape in known.items() if name in nodes}
        return {**shapes, **fixed}

    def _draw(self, setup: Setup, number: int, batch: int = 1) -> tuple[Draw, bool]:
        """Return a set, and whether sizes were open. Raises RefusedError."""
        feeds, seed = setup.feeds, self._inputs.seed + number
        taken = {node: shape for node, shape in setup.shapes.items() if node not in feeds}
        attempt = _Attempt(self, feeds)
        options = DrawOptions(
            seed,
            self._inputs.params_seed,
            self._training,
            batch,
            attempt,
            self._list_wishes(),
            self._list_order(),
        )
        try:
            assigned = self._leader.draw(feeds, taken, options)
        except InputError:
            if attempt.one_sided is None:
                raise
            # Inputs that only one side rejects are an answer.
            tried, refused = attempt.one_sided
            return Draw(self.share(tried), refused, setup.branch, seed), True
        if not number:
            add_notes(
                self.notes,
                describe_assigned(assigned, self._inputs.seed, self._describe),
                setup.branch,
            )
        values: Mapping[Node, Array] = assigned.values
        outputs = attempt.outputs
        is_computed = assigned.outputs is not None or outputs[0] is not None
        if attempt.one_sided is not None and not is_computed:
            values, outputs = attempt.one_sided
        values = self.fit(values, feeds)
        self._drawn.append(values)
        return Draw(self.share(values), outputs, setup.branch, seed), bool(assigned.sized)

    def _draw_batch(self, setup: Setup) -> Iterator[Draw]:
        """Yield a set with two samples, unless neither side can compute it: some faults need two."""
        try:
            yield self._draw(setup, 1, _BATCH)[0]
        except MemoryLimitError:
            raise
        except (InputError, RefusedError) as error:
            reason = error.faults[0].message
            self.notes[
                f"sizes are open, but a batch of {_BATCH} is not computed, so it was not compared: {reason}"
            ] = None

    def _draw_apart(self, setup: Setup) -> Iterator[Draw]:
        """Yield sets that separate inputs equal in all sets so far."""
        for turn in range(_MORE):
            seed = self._find_seed(setup, turn)
            if seed is not None:
                yield self._draw(setup, seed)[0]

    def _find_seed(self, setup: Setup, turn: int) -> int | None:
        """Find a seed offset that separates inputs equal in all sets so far, or None."""
        alike = self._list_alike(self._drawn, setup.feeds)
        if not alike:
            return None
        first = self._drawn[0]
        known = {
            a: np.shape(first[a]) for a, _ in self._pairs if isinstance(first.get(a), np.ndarray)
        }
        wishes, order, counts = self._list_wishes(), self._list_order(), dict[int, int]()
        start = _APART * (turn + 1)
        for number in range(start, start + _SEEDS):
            options = DrawOptions(
                self._inputs.seed + number, self._inputs.params_seed, wishes=wishes, order=order
            )
            values = self._leader.draw(setup.feeds, {**setup.shapes, **known}, options).values
            counts[number] = len(self._list_alike([*self._drawn, values], setup.feeds))
            if not counts[number]:
                return number
        best = min(counts, key=counts.__getitem__)
        return best if counts[best] < len(alike) else None

    def _list_order(self) -> list[str]:
        return [a.name for a, _ in self._pairs]

    def _list_alike(
        self, draws: Sequence[Mapping[Node, Array]], feeds: Mapping[Node, Array]
    ) -> list[NodePair]:
        """Pair inputs of one type that are equal in all sets."""
        groups: dict[Any, list[Node]] = {}
        for node in self._varied:
            if node in feeds:
                continue
            is_drawn = all(node in draw for draw in draws)
            # Empty inputs are always equal.
            if is_drawn and np.size(draws[0][node]):
                bits = tuple(read_bits(draw[node]) for draw in draws)
                groups.setdefault(bits, []).append(node)
        return [pair for group in groups.values() for pair in pairwise(group)]

    def _list_wishes(self) -> Mapping[str, Sequence[Any]]:
        needed = self._follower.find_integers()
        return {a.name: needed[b.name] for a, b in self._pairs if b.name in needed}

    def fit(self, values: Mapping[Node, Array], feeds: Mapping[Node, Array]) -> dict[Node, Array]:
        """Convert unfed values to the follower's dtypes."""
        declared = list_declared(self._follower.graph)
        converted: dict[Node, Array] = {}
        for a, b in self._pairs:
            is_drawn = a in values and a not in feeds
            if is_drawn and b.name in declared:
                dtype, _ = declared[b.name]
                if dtype:
                    converted[a] = draw_as(values[a], dtype)
        return {**values, **converted}


def _choose_nodes(by_node: Mapping[Node, Any], nodes: Collection[Node]) -> dict[Node, Any]:
    return {node: value for node, value in by_node.items() if node in nodes}


def read_bits(value: Any) -> Any:
    """Return a key for equal bits: 1 / x distinguishes 0 from -0."""
    if isinstance(value, list):
        return ("sequence", *map(read_bits, value))
    if not isinstance(value, np.ndarray):
        return "other", repr(value)
    has_texts = value.dtype.kind == "O"
    content = tuple(map(str, value.ravel())) if has_texts else value.tobytes()
    return value.shape, str(value.dtype), content


def choose_by_name(
    values: Mapping[str, Any], pairs: Sequence[NodePair], nodes: Collection[Node] = ()
) -> dict[Node, Any]:
    """Choose values for left variables, by their names or their counterparts'.

    ``nodes`` are unpaired variables of either side.
    """
    by_counterpart = {a: values[b.name] for a, b in pairs if b.name in values}
    return by_counterpart | choose_own((*(a for a, _ in pairs), *nodes), values)


def choose_own(nodes: Iterable[Node], values: Mapping[str, Value]) -> dict[Node, Value]:
    """Choose the values named like ``nodes``."""
    return {node: values[node.name] for node in nodes if node.name in values}


def describe_assigned(
    assigned: Assignment, seed: int, describe: Callable[[Node], Sequence[str]]
) -> Iterator[str]:
    """Yield notes on converted, chosen or drawn values; ``describe`` names a variable."""
    yield from describe_conversions(assigned)
    yield from describe_sizes(assigned.sized if assigned.outputs is None else ())
    for nodes, source in ((assigned.inputs, f"seeded ({seed})"), (assigned.zeros, "zeros")):
        for node in nodes:
            names = describe(node)
            are = "is" if len(names) == 1 else "are"
            yield f"{', '.join(names)} {are} {source}, {describe_fed(assigned.values[node])}"
    yield from assigned.notes


def name_branch(label: str) -> str:
    """Name a branch in messages."""
    return f"branch {label!r}" if label else "the original"


def add_notes(notes: dict[str, None], lines: Iterable[str], branch: str | None = None) -> None:
    """Add each of ``lines`` once; with a ``branch`` they apply at its sizes.

    A line without a branch replaces the same line with one.
    """
    start = "" if branch is None else f"{AT_THE_SIZES}{name_branch(branch)}: "
    for line in lines:
        if not start:
            at_sizes = [note for note in notes if note.startswith(AT_THE_SIZES)]
            for longer in at_sizes:
                if longer.endswith(f": {line}"):
                    del notes[longer]
        if line not in notes:
            notes[start + line] = None
