"""``verify --values-only`` of two ONNX models: outputs compared by name, whatever the structure of both."""

from __future__ import annotations

from collections.abc import Sequence

from graphshare.errors import Fault, RefusedError
from graphshare.text.format import format_count, format_names
from graphshare.verification.inputs import Settings
from graphshare.verification.onnx_inputs import InputDrawer
from graphshare.verification.onnx_values import (
    ENGINE,
    compare_values,
    describe_value,
    open_session,
    run_drawn,
    run_or_refuse,
)
from graphshare.verification.report import BranchReport, Report
from graphshare.verification.sides import Side
from graphshare.verification.stages import value_stage
from graphshare.verification.values import OutputComparison, Values

OTHER = "the other model"


def compare_models(side: Side, other: Side, settings: Settings) -> Report:
    """Run two models in onnxruntime on equal inputs, and compare their outputs.

    Inputs and outputs are paired by name, or in their order where the names differ.

    Raises:
        UsageError: onnxruntime is not installed.
        RefusedError: the models have different numbers of inputs or outputs; inputs cannot be drawn, or are not computed.
    """
    left = open_session(side.graph, side.graph.heads, side.params)
    right = open_session(other.graph, other.graph.heads, other.params)
    inputs = _pair(list(left.inputs), list(right.inputs), "input")
    outputs = _pair(left.outputs, right.outputs, "output")
    notes: dict[str, None] = {}
    rounds = []
    for number in range(settings.rounds):
        drawer = InputDrawer(left, settings.feeds, settings.shapes, settings.seed + number)
        feeds, values = run_drawn(left, drawer)
        notes.update({f"{name!r} {how}": None for name, how in drawer.describe(feeds)})
        got = dict(zip(right.outputs, run_or_refuse(right, {inputs[name]: x for name, x in feeds.items()}), strict=True))
        compared = [
            OutputComparison(
                name,
                outputs[name],
                *describe_value(got[outputs[name]]),
                compare_values(got[outputs[name]], wanted, atol=settings.atol, rtol=settings.rtol),
            )
            for name, wanted in zip(left.outputs, values, strict=True)
        ]
        rounds.append(Values(tuple(compared), None, 0, engine=ENGINE))
    return Report((BranchReport("", OTHER, (value_stage(rounds),), tuple(rounds)),), tuple(notes))


def _pair(left: Sequence[str], right: Sequence[str], noun: str) -> dict[str, str]:
    """Return the names of ``right`` for those of ``left``. Raises RefusedError where their numbers differ."""
    if len(left) != len(right):
        counts = f"{format_count(len(left), noun)} ({format_names(left, 4)}) and {len(right)} ({format_names(right, 4)})"
        raise RefusedError(Fault(f"the models have {counts}", hint="`graphshare extract` cuts out what both have"))
    return dict(zip(left, left if set(left) == set(right) else right, strict=True))
