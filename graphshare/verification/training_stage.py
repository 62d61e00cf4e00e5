"""The training stage of ``verify``: inputs for one step, and the answer in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.roles import Kind, Role
from graphshare.analysis.shapes import Inference
from graphshare.execute.training import batch_rescale, first_data
from graphshare.execute.values import fill_inputs
from graphshare.formats.params.lookup import ParameterPair
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Node
from graphshare.verification.training import TrainedPair, Training, compare_training

_OTHER_SEED = 7919  # far from the seeds of rounds, so that inputs of the second branch are never those of another round
_LISTED = 20


def train_branches(
    pair: HeadPairs,
    pairing: Pairing,
    inputs: Sequence[tuple[Node, Node]],
    parameters: Sequence[ParameterPair],
    values: tuple[Mapping[Node, Any], Mapping[Node, Any]],
    inference: Inference,
    roles: Mapping[Node, Role],
    *,
    feeds: Mapping[str, Any],
    seed: int,
    atol: float,
    rtol: float,
) -> Training:
    """One step on the equal inputs that ``values`` hold, and one on inputs of its own for the second branch.

    Those are fed where both branches' are, else seeded.
    """
    left, right = values
    equal = {**right, **left}
    of_its_own = [(a, b) for a, b in inputs if a is not b]
    kept = {n: v for n, v in left.items() if n not in {a for a, _ in of_its_own}}
    drawn = fill_inputs(inference.nodes, kept, inference, roles, seed=seed + _OTHER_SEED)
    different = dict(equal)
    for a, b in of_its_own:
        role = roles[a]
        alike = role.is_label or role.is_state
        different[b] = feeds[b.name] if b.name in feeds and a.name in feeds else left[a] if alike else drawn[a]
    shapes = {**inference.shapes, **{b: inference.shapes[a] for a, b in pairing.pairs if a in inference.shapes}}
    return compare_training(
        pair.left,
        pair.right,
        pairing.pairs,
        [(p.left, p.right, roles[p.left].kind is Kind.AUXILIARY) for p in parameters],
        equal,
        different,
        rescale=batch_rescale(first_data([a for a, _ in inputs], left, roles), left),
        atol=atol,
        rtol=rtol,
        shapes=shapes,
    )


def answer(training: Training, *, expect_tied: bool) -> tuple[Literal["holds", "fails"], str, tuple[str, ...]]:
    """The stage's verdict, its summary, and what it rests on."""
    parameters = [pair for pair in training.pairs if not pair.auxiliary]
    tied = sum(pair.fate == "tied" for pair in parameters)
    drifting = training.drifting
    parts = [f"{tied} tied"]
    if drifting:
        parts.append(f"{len(drifting)} copied: will drift")
    for fate, words in (("stays", "copied, not moved apart by this step"), ("frozen", "copied and frozen")):
        count = sum(pair.fate == fate for pair in parameters)
        parts += [f"{count} {words}"] if count else []
    details = [
        f"{o.reference} and {o.output} differ after a step on equal inputs: {o.comparison.reason}, "
        f"max abs {o.comparison.max_abs:.3g}"
        for o in training.outputs
        if not o.comparison
    ]
    for o in training.outputs:
        means = f"mean {o.before:.9g} before, {o.after:.9g} after; {o.output}: {o.twin_before:.9g}, {o.twin_after:.9g}"
        details.append(f"{o.reference}: {means}")
    moved = [pair for pair in training.pairs if pair.fate == "drifts"]
    details += [_words(pair) for pair in moved[:_LISTED]]
    if len(moved) > _LISTED:
        details.append(f"and {len(moved) - _LISTED} more that drift (--format json lists all)")
    fails = not training or (expect_tied and not training.is_tied)
    return "fails" if fails else "holds", ", ".join(parts), tuple(details)


def _words(pair: TrainedPair) -> str:
    what = "statistics" if pair.auxiliary else "copied"
    apart = f"{pair.different_inputs:.3g} apart after one step on different inputs, which changed it by {pair.changed:.3g}"
    return f"{pair.reference!r} and {pair.parameter!r}: {what}: will drift, {apart}"
