"""``group(align=True)``: convert older ONNX models to the newest operator set, and prove it."""

from __future__ import annotations

from collections.abc import Sequence

from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.errors import DisprovedError, Fault, RefusedError, UsageError, locate_refusals
from graphshare.formats.facets import OperatorSets
from graphshare.formats.model_format import find_format


def align(sources: Sequence[Checkpoint]) -> list[tuple[Checkpoint, str]]:
    """Convert ``sources`` to their newest ONNX operator set; return each with its change in words.

    Each converted model is compared with its original.

    Raises:
        UsageError: all models already use the same version.
        RefusedError: ONNX's converter cannot convert a model (all operators that it skips are
            listed), or nothing shows that the result is equal.
        DisprovedError: a converted model computes different outputs.
    """
    sets = [find_format(source.graph).operator_sets for source in sources]
    versions: list[int | None] = []
    for source, own in zip(sources, sets, strict=True):
        versions.append(None if own is None else own.find_used_version(source.graph))
    newest = max((version for version in versions if version is not None), default=0)
    if all(version in (newest, None) for version in versions):
        message = "`align` changes nothing: no ONNX model has an older operator set"
        raise UsageError(Fault(message, hint="leave `align` out"))
    results: list[tuple[Checkpoint, str]] = []
    for source, own, version in zip(sources, sets, versions, strict=True):
        if own is None or version in (newest, None):
            results.append((source, ""))
        else:
            results.append(_raise(source, own, version, newest))
    return results


def _raise(
    source: Checkpoint, sets: OperatorSets, old: int | None, version: int
) -> tuple[Checkpoint, str]:
    with locate_refusals(source):
        result = follow_rewrite(source, sets.raise_version(source.graph, version))
    rung = _prove(source, result)
    return result, f"operator set {old} became {version}, and the results are equal, {rung}"


def _prove(source: Checkpoint, result: Checkpoint) -> str:
    from graphshare.api.compare import compare  # start-up: --help must not import numpy

    report = compare(source, result, allow_unsupported=True)
    if report:
        return report.rung
    reasons = [report.verdict]
    for _, stage in report.list_stages("skipped"):
        if stage.name == "values":
            reasons += stage.details
    message = f"its conversion to another operator set is not equal for sure: {'; '.join(reasons)}"
    hint = "nothing was written; export the model at the later operator set"
    fault = Fault(message, where=source.where, hint=hint)
    raise (DisprovedError if report.outcome == "not equal" else RefusedError)(fault)
