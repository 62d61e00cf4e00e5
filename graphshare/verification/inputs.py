"""The options of ``verify``, and the values that both branches run on: equal inputs, and each branch with its own parameters.

Feeds and shapes hold for the branch of their variable, and for branches that have none of their own. Where two branches have
different ones, both run at the sizes of either, each time on the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.branches import Counterparts, HeadPairs, NodePair
from graphshare.analysis.roles import Role
from graphshare.errors import Fault, RefusedError
from graphshare.execute.engines.executor import Executor
from graphshare.execute.engines.registry import create_executor
from graphshare.execute.prepare.declared_inputs import Drawn
from graphshare.execute.prepare.fed_values import describe_fed
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.execute.prepare.prepare import (
    Assignment,
    assign_values,
    describe_conversions,
    describe_sizes,
    infer_variables,
    refuse_missing,
)
from graphshare.execute.prepare.variable_values import draw_inputs
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import ParameterPair
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference, infer
from graphshare.ops.kernel import Array
from graphshare.text.format import format_shape
from graphshare.verification.coverage import BodyCoverage
from graphshare.verification.pairing import SidePair
from graphshare.verification.regions import Departure

AT_THE_SIZES = "at the sizes of "


class VerifyOptions(msgspec.Struct, frozen=True):
    """What a user chooses for a proof, by the names of :func:`graphshare.verify`.

    ``dtype`` is the least precise one in which models in unlike dtypes have parameters; ``coverage`` is that of all rounds,
    and ``departures`` get the regions that depart in the first round where some do.
    """

    seed: int
    rounds: int
    atol: float
    rtol: float
    params_seed: int | None
    as_input: Collection[str]
    allow_unsupported: bool
    layers: bool
    values_only: bool
    train_step: bool
    expect_tied: bool
    across_dtypes: bool
    engines: tuple[str, ...]
    strict_engine: bool
    feeds: Mapping[str, Any] = EMPTY
    shapes: Mapping[str, GivenShape] = EMPTY
    dtype: str = ""
    coverage: BodyCoverage = msgspec.field(default_factory=BodyCoverage)
    departures: list[Departure] = msgspec.field(default_factory=list)

    @property
    def by_name(self) -> bool:
        """Whether outputs are compared by name, whatever the structure."""
        return self.values_only or self.across_dtypes

    def create_executors(self) -> dict[str, Executor]:
        """Return what computes, by the names of the engines. Raises UsageError where one is not installed."""
        return {
            # Not alone: branches and engines compute in turn, and threads that wait awake would take the others' cores.
            name: create_executor(name, strict=self.strict_engine, forwards=self.rounds, alone=False)
            for name in self.engines
        }

    def spread(self, twins: Counterparts, own: Collection[str] = ()) -> VerifyOptions:
        """Return options whose feeds and shapes hold for twins that have none; variables in ``own`` have a value elsewhere."""
        feeds, shapes = twins.spread(self.feeds, self.shapes, own)
        return msgspec.structs.replace(self, feeds=feeds, shapes=shapes)


class Setup(msgspec.Struct, frozen=True, eq=False):
    """The feeds and shapes of one branch, by variables of the reference; ``branch`` is None if both branches have the same."""

    branch: str | None
    feeds: Mapping[Node, Array]
    shapes: Mapping[Node, GivenShape]


class RoundValues(msgspec.Struct, frozen=True, eq=False):
    """The values of both branches' variables, inputs equal, and what was inferred for each of the branches.

    ``sizes_of`` is the branch whose feeds and shapes these are, None where both have the same.
    """

    left: dict[Node, Array]
    right: dict[Node, Array]
    inference: Inference
    right_inference: Inference
    sizes_of: str | None
    seed: int


class BranchInputs:
    """The values of a branch and its reference, round by round.

    ``parameters`` are the pairs of parameters, those that only the user gave marked as fed.
    """

    def __init__(
        self,
        pair: HeadPairs,
        variables: Sequence[NodePair],
        parameters: Sequence[ParameterPair],
        sides: SidePair,
        twins: Counterparts,
        options: VerifyOptions,
    ) -> None:
        self.pair, self.sides, self.options = pair, sides, options
        self._variables, self.twins = variables, twins
        self._parts = tuple(
            Graph(tuple(post_order(entry.node for entry in heads)), heads, graph.attrs, graph.source)
            for heads, graph in zip((pair.left, pair.right), sides.graphs, strict=True)
        )
        self.setups = _plan_setups(pair, variables, twins, options)
        self._fed = {a for setup in self.setups for a in setup.feeds}
        self.parameters = [
            msgspec.structs.replace(p, how="fed", detail="") if p.how == "missing" and p.left in self._fed else p
            for p in parameters
        ]

    def rounds(self, notes: dict[str, None]) -> list[RoundValues]:
        """Return the values of every round, and in it of every set of sizes; add to ``notes`` what was chosen and made up.

        Raises:
            RefusedError: a branch cannot run at the sizes of one of the two; shapes or values are missing.
        """
        unfed = [p for p in self.parameters if p.left not in self._fed]
        # With a seed for parameters, those that no file holds are drawn below instead of refused.
        files = _load_parameters(unfed, self.sides, may_miss=self.options.params_seed is not None)
        if len(self.setups) > 1:
            self._check_sizes(files)
        to_right = dict(self._variables)
        planned: list[RoundValues] = []
        drawn: list[Sequence[Node]] = []
        for setup in self.setups:
            assigned = self._assign(setup, files[0], notes)
            # Drawn parameters have shapes as well, which may not fit the sizes of the other branch.
            if not planned and assigned.parameters:  # what is drawn once holds for all sizes and rounds
                files[0].update((node, assigned.values[node]) for node in assigned.parameters)
                files[1].update((to_right[node], assigned.values[node]) for node in assigned.parameters)
                if len(self.setups) > 1:
                    self._check_sizes(files)
            planned.append(self._copy_inputs(assigned, files[1], setup))
            drawn.append(assigned.inputs)
        firsts = list(zip(planned, drawn, strict=True))
        for number in range(1, self.options.rounds):
            planned += [self._draw_again(first, inputs, number) for first, inputs in firsts]
        return planned

    def _assign(self, setup: Setup, parameters: Mapping[Node, Array], notes: dict[str, None]) -> Assignment:
        """Return the values of the reference in the first round."""
        assigned = assign_values(
            self._parts[0],
            self.sides.roles,
            parameters,
            feeds=setup.feeds,
            shapes=setup.shapes,
            seed=self.options.seed,
            params_seed=self.options.params_seed,
            params=self.sides.files[0],
            training=self.options.train_step,
        )
        add_notes(notes, describe_assigned(assigned, self.options.seed, self.twins.describe), setup.branch)
        return assigned

    def _copy_inputs(self, assigned: Assignment, parameters: Mapping[Node, Array], setup: Setup) -> RoundValues:
        """Return the values of both branches: the branch has the reference's inputs and its own ``parameters``."""
        left = assigned.values
        # A parameter that only a seed or the user gives has no record for the branch: the reference's value holds for both.
        right = {b: left[a] if a in self._fed else parameters.get(b, left[a]) for a, b in self._variables}
        shapes = {node: array.shape for node, array in right.items()}
        inferred = infer(self._parts[1], shapes, {node: str(array.dtype) for node, array in right.items()})
        return RoundValues(left, right, assigned.inference, inferred, setup.branch, self.options.seed)

    def _draw_again(self, first: RoundValues, inputs: Sequence[Node], number: int) -> RoundValues:
        """Return the values of round ``number``: those of the first, ``inputs`` drawn anew, of the same shapes and dtypes."""
        seed = self.options.seed + number
        # Parameters, feeds and zeros (labels, states) stay; only what was drawn as an input is drawn again.
        kept = first.left.keys() - set(inputs)
        drawn = draw_inputs(self._parts[0].nodes, kept, first.inference, self.sides.roles, seed=seed)
        copied = {b: drawn[a] for a, b in self._variables if a in drawn}
        left, right = {**first.left, **drawn}, {**first.right, **copied}
        return msgspec.structs.replace(first, left=left, right=right, seed=seed)

    def _check_sizes(self, files: tuple[Mapping[Node, Array], Mapping[Node, Array]]) -> None:
        """Refuse sizes that a branch cannot take. Raises RefusedError; every branch is named with the sizes."""
        faults: list[Fault] = []
        to_right = dict(self._variables)
        labels = (self.pair.reference, self.pair.label)
        for owner, setup in enumerate(self.setups):
            sizes = _format_sizes(setup, self.twins)
            for side in (owner, 1 - owner):  # its own sizes first: a branch that cannot take those is the reason
                feeds = {to_right[a] if side else a: array for a, array in setup.feeds.items()}
                shapes = {to_right[a] if side else a: shape for a, shape in setup.shapes.items()}
                try:
                    infer_variables(self._parts[side], self._parts[side].nodes, files[side], feeds, shapes)
                except RefusedError as error:
                    whose = "" if side == owner else f" the sizes of {_name_branch(labels[owner])},"
                    start = f"{_name_branch(labels[side])} cannot run at{whose} {sizes}"
                    faults += [msgspec.structs.replace(fault, message=f"{start}: {fault.message}") for fault in error.faults]
                    break
        if faults:
            raise RefusedError(faults)


def _plan_setups(pair: HeadPairs, variables: Iterable[NodePair], twins: Counterparts, options: VerifyOptions) -> list[Setup]:
    """Return the feeds and shapes of the reference and of the branch; one where they are the same."""
    options = options.spread(twins)
    setups = []
    for label in (pair.reference, pair.label):
        names = {a: twins.names(a)[label] for a, _ in variables}
        feeds = {a: options.feeds[name] for a, name in names.items() if name in options.feeds}
        shapes = {a: options.shapes[name] for a, name in names.items() if name in options.shapes}
        setups.append(Setup(label, feeds, shapes))
    first, second = setups
    if first.shapes == second.shapes and all(_is_same(first.feeds.get(a), second.feeds.get(a)) for a, _ in variables):
        return [msgspec.structs.replace(first, branch=None)]
    return setups


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two values that are fed are the same; None is one that is not."""
    if a is None or b is None:
        return a is b
    if isinstance(a, list) and isinstance(b, list):  # sequences
        return len(a) == len(b) and all(map(_is_same, a, b))
    if not (hasattr(a, "dtype") and hasattr(b, "dtype")):
        return False
    if a.dtype.kind == b.dtype.kind == "O":  # texts
        return a.shape == b.shape and bool((a == b).all())
    return bool((a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()))  # in bits: 1 / x tells 0 from -0


def _format_sizes(setup: Setup, twins: Counterparts) -> str:
    """Return the sizes that were given for a branch, by the names of its own variables."""
    shapes = {**setup.shapes, **{node: array.shape for node, array in setup.feeds.items() if hasattr(array, "shape")}}
    label = setup.branch or ""
    return ", ".join(f"{twins.names(node).get(label, node.name)} {format_shape(shape)}" for node, shape in shapes.items())


def _name_branch(label: str) -> str:
    return f"branch {label!r}" if label else "the original"


def describe_assigned(assigned: Assignment, seed: int, describe: Callable[[Node], Sequence[str]]) -> Iterator[str]:
    """Yield notes on what was converted, chosen and made up for inputs; ``describe`` returns the names of a variable."""
    yield from describe_conversions(assigned)
    yield from describe_sizes(assigned.sized)
    for nodes, source in ((assigned.inputs, describe_seed(seed)), (assigned.zeros, "zeros")):
        for node in nodes:
            yield describe_input(describe(node), source, assigned.values[node])


def describe_input(names: Sequence[str], source: str, value: Array) -> str:
    """Return a note on the value of an input, which may have several names, and where it is from."""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {source}, {describe_fed(value)}"


def describe_seed(seed: int) -> str:
    """Return what an input is that was drawn."""
    return f"seeded ({seed})"


def describe_drawn(drawn: Drawn, fed: Collection[str], seed: int, labels: Mapping[str, Sequence[str]] = EMPTY) -> list[str]:
    """Return notes on what was drawn for a model in a session; ``labels`` are the names of inputs in all branches."""
    own = [(labels.get(name, [repr(name)]), value) for name, value in drawn.values.items() if name not in fed]
    return [*(describe_input(names, describe_seed(seed), value) for names, value in own), *drawn.notes]


def add_notes(notes: dict[str, None], lines: Iterable[str], branch: str | None = None) -> None:
    """Add ``lines`` to ``notes``, each once; with a ``branch`` they hold at its sizes.

    That is left out where the note also holds for a pair of branches that have the same sizes.
    """
    start = "" if branch is None else f"{AT_THE_SIZES}{_name_branch(branch)}: "
    for line in lines:
        if not start:
            for longer in [each for each in notes if each.startswith(AT_THE_SIZES) and each.endswith(f": {line}")]:
                del notes[longer]
        if line not in notes:
            notes[start + line] = None


def _load_parameters(
    pairs: Sequence[ParameterPair], sides: SidePair, *, may_miss: bool
) -> tuple[dict[Node, Array], dict[Node, Array]]:
    """Return the parameters of both branches; where they may be missing, a side takes the other's.

    An array that the second stage found byte for byte equal to its twin's is read once, for both.

    Raises:
        RefusedError: parameters that no file holds, unless they may be missing; all are listed.
    """
    values: tuple[dict[Node, Array], dict[Node, Array]] = ({}, {})
    for side, (loaded, records) in enumerate(zip(values, sides.records, strict=True)):
        if records is None:
            continue
        with ArrayReader(records.file, together=True) as reader:
            for pair in pairs:
                node = pair.right if side else pair.left
                if side and pair.how in ("tied", "equal") and pair.left in values[0]:
                    loaded[node] = values[0][pair.left]
                    continue
                record = records.of(node, auxiliary=sides.is_auxiliary(pair.left))
                if record is not None and record.shape is not None:
                    loaded[node] = reader.read(record)
    left, right = values
    if may_miss:
        left.update({p.left: right[p.right] for p in pairs if p.left not in left and p.right in right})
        return values
    roles: dict[Node, Role] = {node: sides.roles[p.left] for p in pairs for node in (p.right, p.left)}
    refuse_missing([p.left for p in pairs if p.left not in left], roles, 0, None, sides.files[0])
    refuse_missing([p.right for p in pairs if p.right not in right], roles, 0, None, sides.files[1])
    return values
