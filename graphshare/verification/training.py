"""Stage 4: train both branches together for one step, to distinguish tied from copied parameters.

On equal inputs both must stay equal; on different ones tied parameters stay one array, while copies
diverge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Role
from graphshare.execute.backends.backend import Computation
from graphshare.execute.prepare.memory import check_memory
from graphshare.execute.prepare.variable_values import draw_inputs
from graphshare.execute.train.sgd import Sgd, multipliers
from graphshare.execute.train.trainer import NodeStreams, Trainer, batch_rescale, first_data
from graphshare.formats.params.comparison import Comparison, compare_arrays
from graphshare.formats.params.lookup import ParameterPair
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Entry, Node
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array, Shape
from graphshare.verification.comparison import Tolerance
from graphshare.verification.flow import ProofOptions
from graphshare.verification.inputs import Draw
from graphshare.verification.pairing import Side

_OTHER_SEED = 7919  # far from the seeds of rounds, so that inputs of the second branch never repeat another round's


class TrainedPair(msgspec.Struct, frozen=True):
    """A parameter or state of the reference and its counterpart.

    ``fate`` is ``tied`` (one node), ``drifts`` (different inputs separate them), ``stays`` (copied,
    but not separated by this step) or ``frozen`` (copied, both with a learning rate of 0). ``changed``
    is the reference's largest change on different inputs; ``equal_inputs`` and ``different_inputs``
    are the pair's largest differences after these steps.
    """

    reference: str
    parameter: str
    fate: str
    auxiliary: bool
    changed: float
    equal_inputs: float
    different_inputs: float


class TrainedOutput(msgspec.Struct, frozen=True):
    """Means of an output and its counterpart, before and after a step on equal inputs.

    ``comparison`` is of their values after it.
    """

    reference: str
    output: str
    before: float
    after: float
    twin_before: float
    twin_after: float
    comparison: Comparison


class Training(msgspec.Struct, frozen=True):
    """The effect of one SGD step with the default options of MXNet's Module, except ``rescale``."""

    rescale: float
    pairs: tuple[TrainedPair, ...]
    outputs: tuple[TrainedOutput, ...]

    def __bool__(self) -> bool:
        """Whether a step on equal inputs left equal branches."""
        return bool(self.outputs) and all(output.comparison for output in self.outputs)

    @property
    def is_tied(self) -> bool:
        """Whether no copied parameter could drift."""
        return all(pair.auxiliary or pair.fate in ("tied", "frozen") for pair in self.pairs)

    @property
    def drifting(self) -> tuple[TrainedPair, ...]:
        return tuple(pair for pair in self.pairs if pair.fate == "drifts" and not pair.auxiliary)


class TrainingData(msgspec.Struct, frozen=True, eq=False):
    """All variables' values at the start of a step, and output shapes if already inferred."""

    values: Mapping[Node, Array]
    shapes: Mapping[Node, Sequence[Shape]] | None = None


def train_branches(
    pair: HeadPairs,
    pairing: Pairing,
    side: Side,
    parameters: Sequence[ParameterPair],
    draws: Sequence[Draw],
    computations: tuple[Computation, Computation],
    options: ProofOptions,
) -> Training:
    """Train one step on equal inputs, and one with separate inputs for the second branch.

    Separate inputs are fed or seeded. If all data is shared, the second branch gets different
    labels, or copies would look like ties. ``draws`` are the first sets of inputs: one for both
    branches, or one with each's sizes.
    """

    def complete(draw: Draw) -> list[tuple[Mapping[Node, Array], Inference]]:
        return [
            each.complete(values) for each, values in zip(computations, draw.values, strict=True)
        ]

    (left, inference), (right, right_inference) = complete(draws[0])
    (own_left, own_inference), (_, own_right_inference) = complete(draws[-1])
    # The backward pass needs all values of the forward pass.
    check_memory(inference.nodes, pair.left, inference, left, keeps_all=True)
    equal, roles = {**right, **left}, side.roles
    inputs = [(a, b) for a, b in pairing.variables if not side.is_parameter(a, b)]
    # A shared input trains both branches alike.
    of_its_own = [(a, b) for a, b in inputs if a is not b]
    fed = {a for a, b in of_its_own if len(draws) > 1 and b.name in options.feeds}
    separate = [a for a, _ in of_its_own]
    seed = options.inputs.seed + _OTHER_SEED
    own = _draw_own(separate, fed, own_left, own_inference, roles, seed)
    different = equal | {b: own[a] for a, b in of_its_own}
    shapes = inference.shapes
    data = first_data([a for a, _ in inputs], left, roles)
    return compare_training(
        (pair.left, pair.right),
        pairing.pairs,
        [(p.left, p.right, p.left in side.auxiliary) for p in parameters],
        TrainingData(equal, {**right_inference.shapes, **shapes}),
        # Shared nodes have the reference's shapes in both.
        TrainingData(different, {**own_right_inference.shapes, **shapes}),
        rescale=batch_rescale(data, left),
        tolerance=options.tolerance,
    )


def _draw_own(
    nodes: Sequence[Node],
    fed: Collection[Node],
    values: Mapping[Node, Array],
    inference: Inference,
    roles: Mapping[Node, Role],
    seed: int,
) -> dict[Node, Array]:
    """Draw one branch's inputs, except those ``fed``."""
    data = {node for node in nodes if not roles[node].is_optional}
    kept = {node: value for node, value in values.items() if node not in data or node in fed}
    own = kept | draw_inputs(inference.nodes, kept, inference, roles, seed=seed)
    if not data:
        labels = [node for node in nodes if roles[node].is_label and node not in fed]
        for node in labels:
            # Classes 0 and 1 exist in every classifier
            own[node] = (own[node] != 1).astype(own[node].dtype)
    return own


def compare_training(
    branches: tuple[Sequence[Entry], Sequence[Entry]],
    nodes: Sequence[tuple[Node, Node]],
    parameters: Sequence[tuple[Node, Node, bool]],
    equal: TrainingData,
    different: TrainingData,
    *,
    rescale: float,
    tolerance: Tolerance,
) -> Training:
    """Train both ``branches`` together for one step on ``equal``, and anew on ``different``.

    ``nodes`` are paired: both draw equal random numbers. ``parameters`` are the pairs to compare,
    each with whether it is an auxiliary state. ``rescale`` multiplies gradients.

    Raises:
        RefusedError: an operator has no gradient, or a kernel rejects its inputs.
    """
    names = {twin: node.name for node, twin in nodes}
    trained = list(
        dict.fromkeys(node for a, b, auxiliary in parameters if not auxiliary for node in (a, b))
    )
    left, right = branches
    heads, settings = [*left, *right], Sgd(rescale=rescale)
    streams = NodeStreams(name=lambda node: names.get(node, node.name))
    first, second = (
        Trainer(heads, own.values, trained, settings, streams=streams, shapes=own.shapes)
        for own in (equal, different)
    )
    before = first.outputs()
    first.step()
    second.step()
    pairs = tuple(
        _pair(a, b, auxiliary, first, second, different.values) for a, b, auxiliary in parameters
    )
    after, count = first.outputs(), len(left)
    outputs = []
    values = before[:count], after[:count], before[count:], after[count:]
    for x, y, old, new, twin_old, twin_new in zip(left, right, *values, strict=True):
        means = _mean(old), _mean(new), _mean(twin_old), _mean(twin_new)
        comparison = compare_arrays(
            twin_new, new, atol=tolerance.find_limit(new), rtol=tolerance.rtol
        )
        outputs.append(TrainedOutput(output_name(x), output_name(y), *means, comparison))
    return Training(rescale, pairs, tuple(outputs))


def _pair(
    a: Node,
    b: Node,
    auxiliary: bool,
    equal: Trainer,
    different: Trainer,
    values: Mapping[Node, Array],
) -> TrainedPair:
    changed = _apart(different.values[a], values[a])
    apart = _apart(different.values[a], different.values[b])
    equal_inputs = _apart(equal.values[a], equal.values[b])
    is_frozen = not auxiliary and all(
        rates.learning_rate == 0 for rates in multipliers([a, b]).values()
    )
    # In this order: a node never differs from itself, and moved copies drift at any rate.
    if a is b:
        fate = "tied"
    elif apart > 0:
        fate = "drifts"
    elif is_frozen:
        fate = "frozen"
    else:
        fate = "stays"
    return TrainedPair(a.name, b.name, fate, auxiliary, changed, equal_inputs, apart)


def _apart(a: Array, b: Array) -> float:
    """Return the largest difference; infinite if only one of two numbers is NaN."""
    if a is b or np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
        return 0.0
    distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float("inf") if np.isnan(distance).any() else float(distance.max(initial=0))


def _mean(array: Array) -> float:
    return float(array.mean(dtype=np.float64)) if array.size else 0.0
