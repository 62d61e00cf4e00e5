"""``compare``: do two models, or a model and recorded outputs, compute the same, and for which inputs?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from graphshare.checkpoint.load import (
    Model,
    Names,
    Shapes,
    StrPath,
    as_checkpoint,
    as_names,
    as_path,
)
from graphshare.checkpoint.map_file import read_map
from graphshare.errors import Fault, UsageError
from graphshare.files.paths import find_stdout_faults
from graphshare.resources import Resources
from graphshare.text.urls import is_url
from graphshare.verification.branches import check_names
from graphshare.verification.comparison import Tolerance
from graphshare.verification.flow import (
    ProofOptions,
    check_options,
    limit_proof,
    make_options,
)
from graphshare.verification.inputs import Inputs
from graphshare.verification.model_comparison import ModelComparison, Rung
from graphshare.verification.records import compare_record, find_record
from graphshare.verification.report import Report


def compare(
    model: Model,
    other: Model | Mapping[str, Any],
    *,
    map: StrPath | None = None,
    feeds: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    targets: Names = (),
    inputs: Inputs | None = None,
    tolerance: Tolerance | None = None,
    exact: bool = False,
    by_weights: bool = False,
    layers: bool = False,
    allow_unsupported: bool = False,
    engine: Names = (),
    strict_engine: bool = False,
    reduce: StrPath | None = None,
    resources: Resources | None = None,
) -> Report:
    """Find out whether two models of any format, dtype and operators, or a model and a record, compute the same.

    Outputs and inputs are paired by name, by order where names differ, or by the ``map`` of the rewrite that made
    ``other`` from ``model``. An output of only one model is not judged; ``targets`` names outputs or inner values to
    compare instead of all outputs. First the structure is compared; then identities find values that are exact, bit for
    bit for every input. The rest is divided into regions. Regions and outputs are judged on drawn inputs, each region
    on the values of either model. The order of the two models does not matter. A record is a file or a mapping of
    arrays by name, such as the result of ``run`` with ``all_outputs``, or a folder of ONNX's test data: its outputs are
    compared for its inputs.

    The report names the weakest result of any output or region: exact; by weights (equal for every input up to
    rounding); on N inputs; different; not judged. With ``exact`` every result but the first is a failure, with
    ``by_weights`` every result but the first two. Numbers may differ by ``tolerance``, by default 1e-5 of themselves or
    of the largest number in their output, and by as much as either model differs from itself when sums are taken in a
    different order, up to 1e-5 of the range of an output. If parameters have different dtypes, the least precise one
    decides: 8e-2 of the largest number for bfloat16, 1e-2 for float16.

    ``feeds``, ``shapes``, ``inputs``, ``layers``, ``engine`` and ``strict_engine`` are used as in :func:`verify`; the
    engine is for models whose operators have kernels. With ``allow_unsupported`` equal graphs with equal parameters are
    an answer even if an operator cannot be computed. With ``reduce`` the smallest parts that show the first difference
    are written to that folder with their inputs, after a run of the files has reproduced it; the report has them as
    ``reduced``. ``resources`` limit memory and time.

    Raises:
        UsageError: options exclude each other, engines are not installed, or ``reduce`` is stdout or a URL.
        InputError: a model, record or map cannot be read.
        RefusedError: outputs or inputs cannot be paired; shapes or values are missing; the folder ``reduce`` contains
            foreign files.
        UnsupportedError: operators have no kernel, unless that is allowed; all are listed.
        OutputError: a file of ``reduce`` could not be written; its previous contents are still there.
    """
    options = make_options(
        inputs,
        tolerance,
        engine,
        targets=tuple(as_names(targets)),
        layers=layers,
        allow_unsupported=allow_unsupported,
        strict_engine=strict_engine,
    )
    faults = check_options(options)
    if reduce is not None and is_url(os.fspath(reduce)):
        faults.append(
            Fault("`reduce` writes to a folder on this machine", hint="name a folder here")
        )
    hint = "name a folder with `reduce`"
    faults += find_stdout_faults(os.fspath(reduce or ""), "a folder of parts", hint)
    if exact and by_weights:
        faults.append(Fault("`exact` accepts less than `by_weights`: give one of them"))
    UsageError.raise_any(faults)
    record = find_record(other)
    if record is None and (swapped := find_record(model)) is not None:
        record, model = swapped, other  # type: ignore[assignment]
    left = as_checkpoint(model)
    if record is not None:
        needing_two: dict[str, object] = {
            "map": map,
            "exact": exact,
            "by_weights": by_weights,
            "allow_unsupported": allow_unsupported,
            "reduce": reduce,
        }
        _check_record_options(options, needing_two)
        options = options.with_values(feeds, shapes, left.graph)
        with limit_proof(resources, left):
            check_names([], [left.graph], options, {})
            return compare_record(left, record, options, tolerance)
    # A copy, so that a model compared with itself counts as two models.
    right = msgspec.structs.replace(as_checkpoint(other))  # type: ignore[arg-type]
    options = options.with_values(feeds, shapes, left.graph, right.graph)
    least: Rung = "exact" if exact else "by weights" if by_weights else "on inputs"
    names = _read_names(as_path(map))
    if reduce is None:
        with limit_proof(resources, left, right):
            return ModelComparison(left, right, options, names, least).run()
    # Start-up: few proofs look for parts
    from graphshare.verification.reduction import reduce_difference, refuse_folder

    folder = os.fspath(reduce)
    refuse_folder(folder)
    with limit_proof(resources, left, right):
        return reduce_difference(
            folder, ModelComparison(left, right, options, names, least), options
        )


def _check_record_options(options: ProofOptions, needing_two: Mapping[str, object]) -> None:
    """Reject options that do not apply to a record; those in ``needing_two`` need two models."""
    faults = [
        Fault(f"`{name}` needs two models, and one is a record")
        for name, value in needing_two.items()
        if value
    ]
    if options.inputs.sets is not None or options.inputs.rounds > 1:
        faults.append(Fault("a record has inputs of its own: leave `sets` and `rounds` out"))
    UsageError.raise_any(faults)


def _read_names(path: str | None) -> dict[str, str]:
    entries = () if path is None else read_map(path).entries
    return {entry.source.name: entry.target.name for entry in entries if entry.target is not None}
