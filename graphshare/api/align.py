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
    versions = [
        None if own is None else own.find_used_version(source.graph)
        for own, source in zip(sets, sources, strict=True)
    ]
    newest = max((version for version in versions if version is not None), default=0)
    if all(version in (newest, None) for version in versions):
        raise UsageError(
            Fault(
                "`align` changes nothing: no ONNX model has an older operator set",
                hint="leave `align` out",
            )
        )
    return [
        (source, "")
        if own is None or version in (newest, None)
        else _raise(source, own, version, newest)
        for source, own, version in zip(sources, sets, versions, strict=True)
    ]


def _raise(
    source: Checkpoint, sets: OperatorSets, old: int | None, version: int
) -> tuple[Checkpoint, str]:
    with locate_refusals(source):
        result = follow_rewrite(source, sets.raise_version(source.graph, version))
    return (
        result,
        f"operator set {old} became {version}, and the results are equal, {_prove(source, result)}",
    )


def _prove(source: Checkpoint, result: Checkpoint) -> str:
    from graphshare.api.compare import compare  # start-up: --help must not import numpy

    report = compare(source, result, allow_unsupported=True)
    if not report:
        reasons = [
            text
            for _, stage in report.list_stages("skipped")
            if stage.name == "values"
            for text in stage.details
        ]
        message = (
            f"its conversion to another operator set is not equal for sure: "
            f"{'; '.join([report.verdict, *reasons])}"
        )
        fault = Fault(
            message,
            where=source.where,
            hint="nothing was written; export the model at the later operator set",
        )
        raise (DisprovedError if report.outcome == "not equal" else RefusedError)(fault)
    return report.rung
