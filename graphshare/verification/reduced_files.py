"""The files of a reduced difference: both parts, their inputs, and a page that says what they are and how to run them."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from graphshare.checkpoint.load import load
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.save import input_files, save
from graphshare.errors import Fault, RefusedError
from graphshare.files.atomic import OutputTransaction, make_folder
from graphshare.files.paths import UsedFile, join, refuse_inputs_as_outputs
from graphshare.formats.model_format import find_format, has_kernels
from graphshare.formats.params.array_files import write_arrays
from graphshare.formats.params.format import find_format as find_parameter_format
from graphshare.ops.kernel import Array
from graphshare.resources import end_time_limit
from graphshare.text.format import format_count, format_dims
from graphshare.verification.inputs import VerifyOptions
from graphshare.verification.reduction import Parts, Reducer
from graphshare.verification.region_plan import compute_part, cut_part
from graphshare.verification.regions import Operator
from graphshare.verification.report import Reduction, Report

_STEMS = ("original", "rewrite")
_INPUTS, _PAGE = "inputs.npz", "README.md"
_RUN = """import numpy as np, onnxruntime as rt; x = dict(np.load("inputs.npz")); \
a, b = (rt.InferenceSession(name).run(None, x)[0] for name in {}); print(abs(a - b).max())"""
Confirm = Callable[[Checkpoint, Checkpoint, Mapping[str, Array]], Report]
"""Compares two models on inputs by name."""


def write_reduction(folder: str, options: VerifyOptions, report: Report, confirm: Confirm) -> Reduction:
    """Write the smallest parts that show the first difference which ``report`` has, once ``confirm`` found it in them again.

    Raises:
        RefusedError: no region departs on equal inputs, or the difference is not there in parts of their own.
        OutputError: a file could not be written; what it held before is still there.
    """
    if not options.departures:
        message = "the difference has no place: no region departs on equal inputs, so nothing was written"
        raise RefusedError(Fault(f"{message} ({report.verdict})", where=folder))
    reducer = Reducer(options.departures[0], options)
    parts = reducer.reduce()
    if parts is None:
        raise _refuse(folder, report)
    parts = parts.free_names()
    with tempfile.TemporaryDirectory(prefix="graphshare-") as scratch:
        names = [_write_part(reducer.models[side], parts, side, scratch) for side in (0, 1)]
        inputs = {name: parts.values[name] for name in _list_shared(parts)}
        with open(os.path.join(scratch, _INPUTS), "wb") as file:
            write_arrays(inputs, file, find_parameter_format("npz"))
        left, right = (load(os.path.join(scratch, name)) for name in names)
        confirmed = confirm(left, right, inputs)
        if confirmed:
            raise _refuse(folder, report)
        verdict = confirmed.verdict.replace(os.path.join(scratch, ""), "")
        operators, others = (tuple(Operator(n.op, n.name) for n in parts.list_nodes(side)) for side in (0, 1))
        shapes = {name: array.shape for name, array in inputs.items()}
        files = tuple(join(folder, name) for name in (*sorted(os.listdir(scratch)), _PAGE))
        reduction = Reduction(files, operators, others, shapes, _make_command(folder, names, options), verdict)
        commands = [_make_command("", names, options)]
        if not any(has_kernels(model.graph) for model in reducer.models):
            commands.append(f"python -c {shlex.quote(_RUN.format(tuple(names)))}")
        page = _format_page(reduction, [model.where for model in reducer.models], commands)
        sources = [used for model in reducer.models for used in input_files(model)]
        refuse_inputs_as_outputs([UsedFile(path, "graph") for path in files], sources)
        end_time_limit()
        with make_folder(folder), OutputTransaction() as stage:
            for name, path in zip(sorted(os.listdir(scratch)), files, strict=False):
                with open(os.path.join(scratch, name), "rb") as file:
                    shutil.copyfileobj(file, stage.open(path))
            stage.open(files[-1]).write(page.encode())
            stage.commit()
    return reduction


def _refuse(folder: str, report: Report) -> RefusedError:
    message = f"the difference is not there in parts that run by themselves, so nothing was written ({report.verdict})"
    return RefusedError(Fault(message, where=folder))


def _list_shared(parts: Parts) -> list[str]:
    """Return the names of what both sides start from."""
    used = [{parts.starts[side][place] for place in parts.find_values(side)} for side in (0, 1)]
    return [name for name in parts.values if name in used[0] & used[1]]


def _write_part(model: Checkpoint, parts: Parts, side: int, folder: str) -> str:
    """Write a side, and return its name there; what that side alone starts from is a parameter."""
    values = parts.find_values(side)
    names = {place: parts.starts[side][place] for place in values}
    own = {names[place]: value for place, value in values.items() if names[place] not in _list_shared(parts)}
    (end,) = compute_part(model, [parts.end[side]], values)
    rewrite, _ = cut_part(model, [parts.end[side]], values, names, own)
    part = follow_rewrite(model, rewrite, drop_unused=True)
    graph = find_format(part.graph).declare_output(part.graph, str(end.dtype), end.shape)
    outputs = save(replace(part, graph=graph, epoch=0).with_params(own), os.path.join(folder, _STEMS[side]))
    return _STEMS[side] if outputs.params else os.path.basename(outputs.graph)


def _make_command(folder: str, names: Sequence[str], options: VerifyOptions) -> str:
    """Return the command line that compares both parts in a folder."""
    original, rewrite = (join(folder, name) if folder else name for name in names)
    words = ["graphshare", "verify", original, "--against", rewrite, "--inputs", folder or "."]
    words += ["--across-dtypes" if options.across_dtypes else "--values-only"]
    for option, value, default in (("--atol", options.atol, 1e-8), ("--rtol", options.rtol, 1e-5)):
        words += [option, repr(value)] if value != default else []
    return shlex.join(words)


def _format_page(reduction: Reduction, sources: Sequence[str], commands: Sequence[str]) -> str:
    """Return the page: what the parts are, from which files, on which inputs, and how to run them."""
    lines = ["# A difference between two models", "", reduction.verdict, ""]
    for stem, where, operators in zip(_STEMS, sources, (reduction.operators, reduction.other_operators), strict=True):
        listed = ", ".join(map(str, operators))
        lines.append(f"- {stem}: {format_count(len(operators), 'operator')} of {where or 'a model'}: {listed or 'none'}")
    shapes = ", ".join(f"{name} {format_dims(shape)}" for name, shape in reduction.inputs.items())
    lines += [f"- {_INPUTS}: {shapes or 'none'}", "", "Run in this folder:"]
    return "\n".join([*lines, *(line for command in commands for line in ("", f"    {command}"))]) + "\n"
