"""The stages of ``verify`` in words: verdict, summary and details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from graphshare.formats.params.comparison import Comparison
from graphshare.formats.params.lookup import ParameterPair
from graphshare.ir.compare import Pairing
from graphshare.verification.training import TrainedPair, Training
from graphshare.verification.values import Values

_LISTED = 20
Verdict = Literal["holds", "fails", "skipped"]


class Stage(msgspec.Struct, frozen=True):
    """One stage's answer in a line, with what it rests on."""

    name: str
    verdict: Verdict
    summary: str
    details: tuple[str, ...] = ()


def structure_stage(pairing: Pairing) -> Stage:
    """Return stage 1: the branches are one graph."""
    if pairing:
        operators = sum(not a.is_variable for a, _ in pairing.pairs)
        return Stage(
            "structure", "holds", f"{len(pairing.pairs)} pairs of nodes, {operators} operators, the same but for names"
        )
    details = tuple(f"{d.left.name!r} and {d.right.name!r}: {d.what}" for d in pairing.differences)
    return Stage("structure", "fails", f"{len(details)} differences", details)


def parameter_stage(found: Sequence[ParameterPair], no_file: bool) -> Stage:
    """Return stage 2: each pair of parameters; with ``no_file`` their values are unknown."""
    count = {how: sum(pair.how == how for pair in found) for how in ("tied", "equal", "different", "missing")}
    wrong = tuple(f"{p.left.name!r} and {p.right.name!r}: {p.detail}" for p in found if p.how in ("different", "missing"))
    summary = f"{count['tied']} tied, {count['equal']} equal byte for byte"
    if not wrong:
        return Stage("parameters", "holds", summary)
    if no_file and not count["different"]:
        return Stage("parameters", "skipped", f"{summary}, {count['missing']} not compared: no parameter file is given")
    return Stage("parameters", "fails", f"{summary}, {count['different']} different, {count['missing']} missing", wrong)


def value_stage(rounds: Sequence[Values]) -> Stage:
    """Return stage 3: all outputs of all rounds."""
    outputs = [output for values in rounds for output in values.outputs]
    details = [
        f"{o.output} and {o.reference}: {o.comparison.reason}, {_apart(o.comparison)}" for o in outputs if not o.comparison
    ]
    first = next((values.first for values in rounds if values.first is not None), None)
    if first is not None:
        where = f"first at {first.op} {first.node!r} and {first.reference!r}, output {first.output}"
        details.append(f"{where}: {_apart(first.comparison)}")
    if not outputs or details:
        return Stage("values", "fails", f"{len(details)} differences in {len(outputs)} outputs", tuple(details))
    identical = sum(output.comparison.identical for output in outputs)
    worst = max(output.comparison.max_abs for output in outputs)
    return Stage("values", "holds", f"{len(outputs)} outputs compared, {identical} bit for bit, max abs {worst:.3g}")


def _apart(comparison: Comparison) -> str:
    return f"max abs {comparison.max_abs:.3g}, max rel {comparison.max_rel:.3g}"


def training_stage(training: Training, *, expect_tied: bool) -> Stage:
    """Return stage 4: which parameters stay equal when both branches are trained."""
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
    return Stage("training", "fails" if fails else "holds", ", ".join(parts), tuple(details))


def _words(pair: TrainedPair) -> str:
    what = "statistics" if pair.auxiliary else "copied"
    apart = f"{pair.different_inputs:.3g} apart after one step on different inputs, which changed it by {pair.changed:.3g}"
    return f"{pair.reference!r} and {pair.parameter!r}: {what}: will drift, {apart}"
