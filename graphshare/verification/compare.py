"""``compare``: what is known of two models, or of a model and recorded outputs: are they the same, and for which inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from graphshare.checkpoint.load import Model, Names, Shapes, StrPath, as_checkpoint, as_names, as_path, as_shapes
from graphshare.checkpoint.map_file import read_map
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, locate_refusals
from graphshare.execute.backends.backend import warm_up
from graphshare.execute.prepare.fed_values import as_values
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import EMPTY
from graphshare.ops.kernel import Array
from graphshare.resources import Resources
from graphshare.text.urls import is_url, local_path
from graphshare.verification.branches import check_names
from graphshare.verification.comparison import (
    BY_ELEMENT,
    Tolerance,
)
from graphshare.verification.flow import (
    ProofOptions,
    check_options,
    refuse_options,
)
from graphshare.verification.inputs import Inputs
from graphshare.verification.model_comparison import ModelComparison
from graphshare.verification.records import Recording, compare_record, find_record
from graphshare.verification.report import (
    Report,
)


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
    layers: bool = False,
    allow_unsupported: bool = False,
    engine: Names = (),
    strict_engine: bool = False,
    reduce: StrPath | None = None,
    resources: Resources | None = None,
) -> Report:
    """Find out whether two models compute the same, whatever their formats, dtypes and operators; or a model and a record.

    Outputs and inputs are paired by their names, in their order where the names differ, or by the ``map`` of a rewrite that
    made ``other`` of ``model``. An output that one model alone has is not judged; ``targets`` are the names of outputs or inner
    values that are compared instead of all. First the structure is compared, then what is exact by identities, for every input
    and bit for bit. What is left is divided into regions, which are judged on drawn inputs, as the outputs are: each on the
    values that either model has there. The order of the two models does not matter. A record is a file or a mapping of arrays
    by name, such as ``run`` with ``all_outputs`` gives, or a folder of ONNX's test data: its outputs are compared for its
    inputs.

    The report names the weakest that is known of an output or region: exact, on so many inputs, different, not judged. With
    ``exact`` anything but the first is a failure. Numbers may differ by ``tolerance``, by default 1e-5 of themselves or of the
    largest in their output, and by as much as either model differs from itself when its sums are taken in another order, up to
    1e-5 of the range of an output. Where parameters have unlike dtypes the least precise one decides: of the largest number
    8e-2 for bfloat16, 1e-2 for float16.

    ``feeds``, ``shapes``, ``inputs``, ``layers``, ``engine`` and ``strict_engine`` are those of :func:`verify`; the engine is
    for models whose operators have kernels. With ``allow_unsupported`` one graph with equal parameters is an answer where an
    operator cannot be computed. With ``reduce`` the smallest parts that show the first difference are written to that folder,
    with their inputs, once a run of the files has shown it again; the report has them as ``reduced``. ``resources`` limit
    memory and time.

    Raises:
        UsageError: options that exclude each other, engines that are not installed.
        InputError: a model, record or map cannot be read.
        RefusedError: outputs or inputs cannot be paired; shapes or values are missing; the folder of ``reduce`` has files of
            another origin.
        UnsupportedError: operators without a kernel, unless they are allowed; all are listed.
        OutputError: a file of ``reduce`` could not be written; what it held before is still there.
    """
    own = inputs or Inputs()
    options = ProofOptions(
        inputs=own,
        tolerance=tolerance or BY_ELEMENT,
        feeds=EMPTY,
        shapes=EMPTY,
        targets=tuple(as_names(targets)),
        as_input=tuple(as_names(own.as_input)),
        layers=layers,
        allow_unsupported=allow_unsupported,
        engines=tuple(name for text in as_names(engine) for name in text.split(",")) or (None,),
        strict_engine=strict_engine,
    )
    faults = check_options(options)
    if reduce is not None and is_url(os.fspath(reduce)):
        faults.append(Fault("`reduce` writes to a folder on this machine", hint="name a folder here"))
    refuse_options(faults)
    record = find_record(other)
    if record is None and (swapped := find_record(model)) is not None:
        record, model = swapped, other  # type: ignore[assignment]
    if record is not None:
        needing_two = {"map": map, "exact": exact, "allow_unsupported": allow_unsupported, "reduce": reduce}
        return _compare_record(as_checkpoint(model), record, options, feeds, shapes, tolerance, resources, needing_two)
    # A copy: who compares a model with itself compares two models.
    left, right = as_checkpoint(model), msgspec.structs.replace(as_checkpoint(other))  # type: ignore[arg-type]
    graphs = (left.graph, right.graph)
    options = msgspec.structs.replace(options, feeds=as_values(feeds, *graphs), shapes=as_shapes(shapes, *graphs))
    names = _read_names(as_path(map))
    if reduce is not None:
        from graphshare.verification.reduction import refuse_folder  # start-up: few proofs look for parts

        refuse_folder(local_path(os.fspath(reduce)))
    with locate_refusals(left), (resources or Resources()).limit():
        for side in (left, right):
            side.held  # noqa: B018  (refuses records without names)
            warm_up(find_format(side.graph).backends)
        comparison = ModelComparison(left, right, options, names, exact=exact)
        report = comparison.run()
        if reduce is None:
            return report
        from graphshare.verification.reduction import reduce_difference  # start-up: as above

        return reduce_difference(
            local_path(os.fspath(reduce)), report, comparison.departures, comparison.tolerate, options, _confirm
        )


def _confirm(left: Checkpoint, right: Checkpoint, feeds: Mapping[str, Array], options: ProofOptions) -> Report:
    """Compare two models on inputs by name."""
    own = msgspec.structs.replace(
        options, feeds=feeds, shapes={}, targets=(), inputs=Inputs(seed=options.inputs.seed), layers=False
    )
    return ModelComparison(left, right, own, {}).run()


def _compare_record(
    model: Checkpoint,
    record: Recording,
    options: ProofOptions,
    feeds: Mapping[str, Any] | None,
    shapes: Shapes | None,
    tolerance: Tolerance | None,
    resources: Resources | None,
    needing_two: Mapping[str, object],
) -> Report:
    faults = [Fault(f"`{name}` needs two models, and one is a record") for name, value in needing_two.items() if value]
    if options.inputs.sets is not None or options.inputs.rounds > 1:
        faults.append(Fault("a record has inputs of its own: leave `sets` and `rounds` out"))
    refuse_options(faults)
    options = msgspec.structs.replace(options, feeds=as_values(feeds, model.graph), shapes=as_shapes(shapes, model.graph))
    with locate_refusals(model), (resources or Resources()).limit():
        model.held  # noqa: B018  (refuses records without names)
        warm_up(find_format(model.graph).backends)
        check_names([model.graph], [model.graph], options, {})
        return compare_record(model, record, options, tolerance)


def _read_names(path: str | None) -> dict[str, str]:
    """Return the names that a rewrite gave to the nodes of its source, from its map file."""
    entries = () if path is None else read_map(path).entries
    return {entry.source.name: entry.target.name for entry in entries if entry.target is not None}
