"""``verify``: prove that branches, or the graphs of two models, compute the same."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.branches import pair_all
from graphshare.arguments import Natural, NotNegative, Positive, Seconds
from graphshare.checkpoint.load import Model, Names, Shapes, StrPath, as_checkpoint, as_names, as_path, as_shapes
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError, UsageError, locate_refusals
from graphshare.execute.engines.registry import NUMPY, ONNXRUNTIME
from graphshare.execute.prepare.fed_values import as_values
from graphshare.formats.model_format import Capability, find_format, has_kernels, require
from graphshare.formats.params.array_files import read_arrays
from graphshare.resources import resource_limits
from graphshare.rewrite.batched_graph import Batched, find_batch
from graphshare.text.urls import is_url, local_path
from graphshare.verification.batched import verify_batched
from graphshare.verification.branches import check_names, upgrade_side, verify_pairs
from graphshare.verification.by_name import verify_by_name, verify_recorded
from graphshare.verification.coverage import BodyCoverage
from graphshare.verification.input_sets import merge_reports, read_sets
from graphshare.verification.inputs import VerifyOptions
from graphshare.verification.pairing import (
    pair_branches,
    pair_by_rewrite,
)
from graphshare.verification.report import (
    Report,
)


def verify(
    model: Model,
    *,
    prefixes: Names = (),
    map: StrPath | None = None,
    against: Model | None = None,
    recorded: StrPath | Mapping[str, Any] | None = None,
    feeds: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    params_seed: Natural | None = None,
    as_input: Names = (),
    inputs: StrPath | Sequence[Mapping[str, Any]] | None = None,
    rounds: Positive = 1,
    seed: Natural = 0,
    atol: NotNegative = 1e-8,
    rtol: NotNegative = 1e-5,
    train_step: bool = False,
    expect_tied: bool = False,
    layers: bool = False,
    values_only: bool = False,
    across_dtypes: bool = False,
    allow_unsupported: bool = False,
    engine: Names = (),
    strict_engine: bool = False,
    reduce: StrPath | None = None,
    max_memory: Natural | str | None = None,
    time_limit: Seconds | None = None,
) -> Report:
    """Prove that the branches of ``model`` compute the same, or that its graph computes what that of ``against`` does.

    With ``values_only`` the outputs are compared with those of ``against`` by their names, whatever the structure of both: a
    folded model computes what its source does. Of two ONNX models the report also has what differs between them, and is false
    where nothing that was computed shows a difference in a function, a weight or the value of an attribute. With
    ``recorded``, a file or arrays by name, the outputs are those that were recorded (``run`` with ``all_outputs``, or MXNet's
    own by their names), for the recorded inputs. With ``across_dtypes`` a float32 model is compared with its float16 twin,
    outputs by their names as with ``values_only``: by value where dtypes differ, with the tolerance of the least precise dtype
    in which either has parameters, which the report names: of the largest number in an output 8e-2 in bfloat16, 1e-2 in
    float16, 1e-4 in float32 and 1e-9 in float64, or ``rtol`` if it is more.

    Branches of an ONNX model, and ONNX models, are computed in onnxruntime, each in a session of its own. An ONNX model and an
    MXNet graph are compared output by output, whichever is in ``against``.

    Structure, parameters and values are compared, with ``train_step`` also one step of SGD. The branches are those of the
    rewrites that made ``model``; for a model from a file they are named by ``prefixes`` or the ``map`` of the rewrite, else
    found from the names of its outputs. ``feeds`` and ``shapes`` are by variable name, as for :func:`run`; they hold for the
    branch of the variable, and for branches that have none of their own. Where two branches have different ones, both run at
    the sizes of either. Other inputs are drawn with ``seed``, ``rounds`` times, and with ``params_seed`` so are parameters that
    no file holds. ``inputs`` are sets of inputs by name, each a round: mappings, or a folder with ``.npz`` files, ``.npy``
    files or ONNX's ``test_data_set_N/input_K.pb``; what is in neither a set nor ``feeds`` is drawn. ``as_input`` are
    variables that are inputs, whatever they look like. ``layers`` compares every inner output too. ``expect_tied`` makes a
    copied parameter a failure. ``allow_unsupported`` accepts structure and parameters alone where an operator has no
    kernel. ``engine`` computes both branches, each for itself, as in :func:`run`, by default numpy; several engines compute
    everything and are compared with the first. With ``reduce``, which implies ``values_only``, the smallest parts that show the
    first difference are written to that folder, with their inputs, once a run of the files has shown it again; the report has
    them as ``reduced``. ``max_memory`` and ``time_limit`` are those of :func:`run`.

    The report is true if all holds; ``report.verdict`` is one line.

    Raises:
        UsageError: options that exclude each other, engines that are not installed.
        InputError: the map cannot be read or is of another graph.
        RefusedError: the branches cannot be told apart; shapes, values or parameters are missing; the folder of
            ``reduce`` has files of another origin.
        UnsupportedError: operators without a kernel, unless they are allowed; all are listed.
        OutputError: a file of ``reduce`` could not be written; what it held before is still there.
    """
    by_branch = bool(as_names(prefixes) or map)
    options = VerifyOptions(
        seed=seed,
        rounds=rounds,
        atol=atol,
        rtol=rtol,
        params_seed=params_seed,
        as_input=as_names(as_input),
        allow_unsupported=allow_unsupported,
        layers=layers,
        values_only=values_only or (reduce is not None and not across_dtypes),
        across_dtypes=across_dtypes,
        train_step=train_step,
        expect_tied=expect_tied,
        engines=tuple(name for text in as_names(engine) for name in text.split(",")),
        strict_engine=strict_engine,
    )
    if reduce is not None and (against is None or is_url(os.fspath(reduce))):
        message = "`reduce` needs `against`" if against is None else "`reduce` writes to a folder on this machine"
        raise UsageError(Fault(message, hint="name the other model with `against`, and a folder here with `reduce`"))
    _check_options(options, by_branch, against is not None, recorded is not None, inputs)
    source = as_checkpoint(model)
    # A copy: who compares a model with itself compares two models, not the branches of one.
    sides = [source] if against is None else [source, msgspec.structs.replace(as_checkpoint(against))]
    graphs = [side.graph for side in sides]
    options = msgspec.structs.replace(options, feeds=as_values(feeds, *graphs), shapes=as_shapes(shapes, *graphs))
    _check_formats(sides, options, reduces=reduce is not None)
    if reduce is not None:
        from graphshare.verification.reduction import refuse_folder  # start-up: few proofs look for parts

        refuse_folder(local_path(os.fspath(reduce)))
    with locate_refusals(source), resource_limits(max_memory, time_limit):
        for side in sides:
            side.held  # noqa: B018  (refuses records without names)
        record = read_arrays(os.fspath(recorded)) if isinstance(recorded, (str, os.PathLike)) else recorded
        options = _choose_engines(sides, options)
        if not all(has_kernels(side.graph) for side in sides):
            from graphshare.execute.engines.confined_session import start_process  # start-up: few proofs are of ONNX models

            start_process()
        if record is not None:
            check_names([source.graph], [source.graph], options, {})
            name = os.fspath(recorded) if isinstance(recorded, (str, os.PathLike)) else "the recorded arrays"
            return verify_recorded(source, as_values(record, source.graph), options, name=name)
        sets = read_sets(os.fspath(inputs), source.graph) if isinstance(inputs, (str, os.PathLike)) else inputs or [{}]
        reports = []
        for arrays in sets:
            own = msgspec.structs.replace(options, feeds={**as_values(arrays, *graphs), **options.feeds})
            if against is not None:
                reports.append(_verify_models(source, sides[1], own))
            else:
                reports.append(_verify_branches(source, own, as_names(prefixes), as_path(map)))
        report = merge_reports(reports) if len(reports) > 1 else reports[0]
        report = msgspec.structs.replace(report, notes=(*report.notes, *options.coverage.describe()))
        return report if reduce is None else _reduce(report, local_path(os.fspath(reduce)), options)


def _reduce(report: Report, folder: str, options: VerifyOptions) -> Report:
    """Write the parts that show the difference of a report, and return the report with them."""
    if report:
        return msgspec.structs.replace(report, notes=(*report.notes, f"no difference, so nothing was written to {folder}"))
    from graphshare.verification.reduction import write_reduction  # start-up: few proofs find a difference

    own = msgspec.structs.replace(options, rounds=1, shapes={}, as_input=(), coverage=BodyCoverage(), departures=[])

    def confirm(left: Checkpoint, right: Checkpoint, feeds: Mapping[str, Any]) -> Report:
        return _verify_models(left, right, msgspec.structs.replace(own, feeds=feeds))

    return msgspec.structs.replace(report, reduced=write_reduction(folder, options, report, confirm))


def _check_options(options: VerifyOptions, by_branch: bool, by_file: bool, by_record: bool, inputs: Any) -> None:
    """Refuse options that do not go together. Raises UsageError with all of them."""
    faults: list[Fault] = []
    is_repeated = options.rounds > 1 or options.train_step
    if inputs is not None and is_repeated:
        faults.append(Fault("each set of `inputs` is a round: `rounds` and `train_step` cannot be combined with it"))
    if inputs == [] or inputs == ():
        faults.append(Fault("`inputs` contains no set"))
    if inputs is not None and by_record:
        faults.append(Fault("`recorded` has its own inputs: leave `inputs` out"))
    if options.expect_tied and not options.train_step:
        faults.append(Fault("`expect_tied` needs `train_step`"))
    if by_record and by_file:
        faults.append(Fault("`recorded` and `against` cannot be combined"))
    if by_record and by_branch:
        faults.append(Fault("`recorded` compares a graph with its outputs; `prefixes` and `map` are for branches"))
    if by_record and is_repeated:
        message = "`recorded` has one set of inputs and no gradients: `rounds` and `train_step` cannot be combined with it"
        faults.append(Fault(message))
    if options.values_only and not by_file:
        faults.append(Fault("`values_only` needs `against`", hint="`recorded` compares outputs by name anyway"))
    if options.across_dtypes and not by_file:
        faults.append(Fault("`across_dtypes` needs `against`", hint="name the model in the other dtype"))
    option = "`values_only`" if options.values_only else "`across_dtypes`"
    if options.by_name and options.train_step:
        faults.append(Fault(f"{option} has no gradients: leave `train_step` out"))
    if by_file and by_branch:
        faults.append(Fault("`against` compares two files; `prefixes` and `map` are for branches in one"))
    if faults:
        raise UsageError(faults)


def _check_formats(sides: Sequence[Checkpoint], options: VerifyOptions, *, reduces: bool) -> None:
    """Refuse options that models of these formats do not have. Raises RefusedError with all of them."""
    faults: list[Fault] = []
    is_one_format = len({has_kernels(side.graph) for side in sides}) == 1
    if is_one_format and options.by_name and options.rounds > 1 and (options.layers or has_kernels(sides[0].graph)):
        option = "`layers`" if options.layers else "`values_only`"
        faults.append(Fault(f"{option} of two models by the names of outputs has one set of inputs: leave `rounds` out"))
    if is_one_format and options.layers and reduces:
        faults.append(
            Fault("`reduce` looks for the region that departs, and `layers` for an inner output: leave one of them out")
        )
    for side in sides if options.train_step else ():
        faults += find_format(side.graph).find_lacks(Capability.TRAINING, ["`train_step`"], where=side.where)
    if faults:
        raise RefusedError(faults)


def _choose_engines(sides: Sequence[Checkpoint], options: VerifyOptions) -> VerifyOptions:
    """Return options with the engines that compute graphs with kernels: numpy, unless there are others.

    Raises:
        RefusedError: onnxruntime computes all graphs, and the options have another engine.
        UsageError: onnxruntime computes one of two graphs, and there are several engines for the other.
    """
    by_kernels = [has_kernels(side.graph) for side in sides]
    if not any(by_kernels) and (options.engines not in ((), (ONNXRUNTIME,)) or options.strict_engine):
        what = "`strict_engine`" if options.strict_engine else f"`engine={','.join(options.engines)!r}`"
        require(sides[0].graph, Capability.KERNELS, what=what, where=sides[0].where)
    if not all(by_kernels) and any(by_kernels) and len(options.engines) > 1:
        message = "a graph that is compared with a model in onnxruntime is computed by one engine"
        raise UsageError(Fault(message, hint="give `engine` one name"))
    return msgspec.structs.replace(options, engines=options.engines or (NUMPY,))


def _verify_models(left: Checkpoint, right: Checkpoint, options: VerifyOptions) -> Report:
    """Compare two models by their nodes, or by the names of their outputs where that is wanted or the formats differ."""
    if options.by_name or find_format(left.graph) is not find_format(right.graph):
        graphs = [left.graph, right.graph]
        check_names(graphs, graphs, options, {})
        return verify_by_name(left, right, options)
    return verify_pairs([pair_all(left.graph, right.graph)], left, right, options)


def _verify_branches(model: Checkpoint, options: VerifyOptions, prefixes: Sequence[str], map_file: str | None) -> Report:
    """Compare the branches of a model, which a map or prefixes name, the rewrite that made it, or the outputs.

    Each branch of a batch is compared with a run of its own.
    """
    batch = find_batch(model.graph) if not map_file else None
    # The prefixes of the batch itself name its branches; any others ask for branches by the names of outputs.
    if batch is not None and set(prefixes) in (set(), {label for label in batch.labels if label}):
        return _verify_batch(batch, model, options)
    rewrite = model.rewrite
    if rewrite is not None and len(rewrite.branches) > 1 and not prefixes and not map_file:
        return verify_pairs(pair_by_rewrite(rewrite), model, model, options)
    return verify_pairs(pair_branches(model.graph, prefixes, map_file), model, model, options)


def _verify_batch(batch: Batched, side: Checkpoint, options: VerifyOptions) -> Report:
    """Compare the branches of a batch with runs of their own. Raises UsageError for what has no meaning in one run."""
    faults = []
    if options.train_step:
        hint = "leave --train-step out; `graphshare run --sgd-steps` trains such a graph"
        faults.append(Fault("branches of a batch are one run on one set of parameters, which cannot drift", hint=hint))
    if options.layers:
        message = "branches of a batch are one run, so `layers` has no inner outputs of each to compare"
        faults.append(Fault(message, hint="leave `layers` out"))
    if faults:
        raise UsageError(faults)
    notes: dict[str, None] = {}
    upgraded, _ = upgrade_side(side, side.graph.heads, notes)
    check_names([upgraded.graph], [side.graph], options, notes)
    return verify_batched(find_batch(upgraded.graph) or batch, upgraded, options, notes)
