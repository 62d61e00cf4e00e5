"""``inspect``: what a graph is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from graphshare.checkpoint.folder import Sieve, find_models
from graphshare.checkpoint.load import (
    Model,
    Names,
    Shapes,
    StrPath,
    as_checkpoint,
    as_names,
    as_shapes,
    check_roles,
    find_roles,
)
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import RefusedError, locate_refusals
from graphshare.formats.model_format import Capability, find_format
from graphshare.inspection.folder import ModelFacts, inspect_models
from graphshare.inspection.graph import Inspection
from graphshare.inspection.graph import inspect as inspect_graph

if TYPE_CHECKING:
    from graphshare.execute.prepare.shape_report import Shaped
    from graphshare.inspection.sharing import SharedWeights


def inspect(model: Model, *, shapes: Shapes | None = None, as_input: Names = (), as_parameter: Names = ()) -> Inspection:
    """List arguments, states, outputs, operators and roles; the lists are MXNet's own, in MXNet's order.

    With ``shapes``, ``shaped`` has the shape of every output, layers, parameter counts and multiply-adds, as far as they follow
    from ``shapes``, the parameter file and the graph's own annotations. Empty ``shapes`` leave everything to the files; an
    unknown batch is 1 then where nothing else is unknown. Of an ONNX model ``shaped`` has what the file states or ONNX infers.

    Raises:
        RefusedError: the parameter file's records have no names; a name in ``shapes`` is not a variable; ``shapes`` contradict
            the files or each other.
    """
    source = as_checkpoint(model)
    with locate_refusals(source):
        roles = find_roles(source, as_input, as_parameter)
    found = inspect_graph(source.graph, roles)
    if shapes or (shapes is not None and not find_format(source.graph).supports(Capability.COSTS)):
        return msgspec.structs.replace(found, shaped=infer_shapes(source, shapes, as_input=as_input, as_parameter=as_parameter))
    declared = any("__shape__" in node.attrs for node in source.graph.variables())
    if shapes is None or not (declared or source.parameter_file is not None):
        return found  # without any shape there is nothing to infer, and numpy stays out
    try:
        shaped = _infer_shapes(source, {}, as_names(as_input), as_names(as_parameter), one_sample=True)
    except RefusedError as error:
        return msgspec.structs.replace(found, contradiction=str(error.faults[0]))
    return msgspec.structs.replace(found, shaped=shaped)


def infer_shapes(model: Model, shapes: Shapes, *, as_input: Names = (), as_parameter: Names = ()) -> Shaped:
    """Infer the shape and dtype of every output, and count parameters and multiply-adds by layer and operator.

    Raises:
        RefusedError: a name is not a variable; shapes contradict each other.
    """
    return _infer_shapes(as_checkpoint(model), shapes, as_names(as_input), as_names(as_parameter))


def _infer_shapes(
    source: Checkpoint, shapes: Shapes, as_input: tuple[str, ...], as_parameter: tuple[str, ...], *, one_sample: bool = False
) -> Shaped:
    from graphshare.execute.prepare.shape_report import shape_graph  # brings numpy along

    with locate_refusals(source):
        check_roles(source.graph.variables(), as_input, as_parameter)
        return shape_graph(
            source.graph,
            as_shapes(shapes, source.graph),
            params=source.parameter_file,
            as_input=as_input,
            as_parameter=as_parameter,
            one_sample=one_sample,
        )


def inspect_folder(folder: StrPath, *, exclude: Names = ()) -> Iterator[ModelFacts]:
    """Inspect every model below ``folder`` with its newest parameters, one model in memory at a time.

    A model that cannot be read is among the results, with its faults. ``exclude`` are globs of what is left out.

    Raises:
        InputError: there is no model; folders cannot be read.
    """
    return inspect_models(find_models(os.fspath(folder), Sieve(as_names(exclude))))


def inspect_shared(folder: StrPath, *, exclude: Names = ()) -> SharedWeights:
    """Find arrays of equal bytes in the ONNX models below ``folder``, and what a pool of these models would save.

    All weights are read. ``exclude`` are globs of what is left out.

    Raises:
        InputError: there is no model; folders cannot be read.
    """
    from graphshare.inspection.sharing import find_shared  # start-up: few inspections read weights

    return find_shared(find_models(os.fspath(folder), Sieve(as_names(exclude))))
