"""``verify``: prove that branches, or the graphs of two models, compute the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from graphshare.api.models import Model, Names, Shapes, as_checkpoint, as_names, as_path, as_shapes
from graphshare.arguments import Natural, NotNegative, Positive, Seconds
from graphshare.checkpoint.load import StrPath, locate_refusals
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.execute.prepare.variable_values import as_arrays
from graphshare.formats.model_format import Capability, find_format
from graphshare.formats.params.array_files import read_arrays
from graphshare.resources import resource_limits
from graphshare.verification.inputs import VerifyOptions
from graphshare.verification.pairing import Side
from graphshare.verification.report import Report
from graphshare.verification.verify import verify as verify_sides


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
    max_memory: Natural | str | None = None,
    time_limit: Seconds | None = None,
) -> Report:
    """Prove that the branches of ``model`` compute the same, or that its graph computes what that of ``against`` does.

    With ``values_only`` the outputs are compared with those of ``against`` by their names, whatever the structure of both: a
    folded model computes what its source does. Of two ONNX models the report also has what differs between them, and is false
    where nothing that was computed shows a difference in a body, a function, a weight or the value of an attribute. With
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
    no file holds. ``as_input`` are variables that are inputs, whatever they look like. ``layers`` compares every inner output
    too. ``expect_tied`` makes a copied parameter a failure. ``allow_unsupported`` accepts structure and parameters alone where
    an operator has no kernel. ``engine`` computes both branches, each for itself, as in :func:`run`, by default numpy; several
    engines compute everything and are compared with the first. ``max_memory`` and ``time_limit`` are those of :func:`run`.

    The report is true if all holds; ``report.verdict`` is one line.

    Raises:
        UsageError: options that exclude each other, engines that are not installed.
        InputError: the map cannot be read or is of another graph.
        RefusedError: the branches cannot be told apart; shapes, values or parameters are missing.
        UnsupportedError: operators without a kernel, unless they are allowed; all are listed.
    """
    by_branch = bool(as_names(prefixes) or map)
    _check_options(
        by_branch, against is not None, recorded is not None, rounds, train_step, expect_tied, values_only, across_dtypes
    )
    source = as_checkpoint(model)
    other = None if against is None else as_checkpoint(against)
    graphs = [each.graph for each in (source, other) if each is not None]
    options = VerifyOptions(
        seed=seed,
        rounds=rounds,
        atol=atol,
        rtol=rtol,
        feeds=as_arrays(feeds),
        shapes=as_shapes(shapes, *graphs),
        params_seed=params_seed,
        as_input=as_names(as_input),
        allow_unsupported=allow_unsupported,
        layers=layers,
        values_only=values_only or across_dtypes,
        across_dtypes=across_dtypes,
        train_step=train_step,
        expect_tied=expect_tied,
        engines=tuple(name for text in as_names(engine) for name in text.split(",")),
        strict_engine=strict_engine,
    )
    _check_formats(source, other, layers=layers, train_step=train_step)
    with locate_refusals(source), resource_limits(max_memory, time_limit):
        arrays = read_arrays(os.fspath(recorded)) if isinstance(recorded, (str, os.PathLike)) else recorded
        return verify_sides(
            _side(source),
            None if other is None else _side(other),
            options,
            recorded=None if arrays is None else as_arrays(arrays),
            recorded_name=os.fspath(recorded) if isinstance(recorded, (str, os.PathLike)) else "the recorded arrays",
            rewrite=source.rewrite,
            prefixes=as_names(prefixes),
            map_file=as_path(map),
        )


def _check_options(
    by_branch: bool,
    by_file: bool,
    by_record: bool,
    rounds: int,
    train_step: bool,
    expect_tied: bool,
    values_only: bool,
    across_dtypes: bool,
) -> None:
    """Refuse options that do not go together. Raises UsageError with all of them."""
    faults: list[Fault] = []
    if expect_tied and not train_step:
        faults.append(Fault("`expect_tied` needs `train_step`"))
    if by_record and by_file:
        faults.append(Fault("`recorded` and `against` are two things to compare with"))
    if by_record and by_branch:
        faults.append(Fault("`recorded` compares a graph with its outputs; `prefixes` and `map` are for branches"))
    if by_record and (rounds > 1 or train_step):
        faults.append(Fault("`recorded` has one set of inputs and no gradients: neither `rounds` nor `train_step` go with it"))
    if values_only and not by_file:
        faults.append(Fault("`values_only` needs `against`", hint="`recorded` compares outputs by name anyway"))
    if across_dtypes and not by_file:
        faults.append(Fault("`across_dtypes` needs `against`", hint="name the model in the other dtype"))
    option = "`values_only`" if values_only else "`across_dtypes`"
    if (values_only or across_dtypes) and (rounds > 1 or train_step):
        faults.append(Fault(f"{option} has one set of inputs and no gradients: leave `rounds` and `train_step` out"))
    if by_file and by_branch:
        faults.append(Fault("`against` compares two files; `prefixes` and `map` are for branches in one"))
    if faults:
        raise UsageError(faults)


def _check_formats(source: Checkpoint, other: Checkpoint | None, *, layers: bool, train_step: bool) -> None:
    """Refuse options that models of these formats do not have. Raises RefusedError with all of them."""
    faults: list[Fault] = []
    if layers and other is not None and find_format(source.graph) is not find_format(other.graph):
        hint = "`graphshare run --all` keeps what one computes, and `recorded` compares the other with that, by names"
        faults.append(Fault("`layers` is for two models of one format: others have other nodes", hint=hint))
    for each in (source, other) if train_step else ():
        if each is not None:
            faults += find_format(each.graph).find_lacks(Capability.TRAINING, ["`train_step`"], where=each.where)
    if faults:
        raise RefusedError(faults)


def _side(source: Checkpoint) -> Side:
    """Return the graph with its parameter file. Raises RefusedError where the records have no names."""
    source.held  # noqa: B018  (refuses records without names)
    return Side(source.graph, source.parameter_file, source.where)


def failures(report: Report) -> list[Fault]:
    """Return the differences of a report as faults."""
    return [
        Fault(f"{stage.name} of {branch.branch}: {detail}")
        for branch in report.branches
        for stage in branch.stages
        if stage.verdict == "fails"
        for detail in stage.details or (stage.summary,)
    ] or [Fault(report.verdict)]
