"""``inspect``: what a graph is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphshare.api.models import Model, Names, Shapes, as_checkpoint, as_names, as_shapes
from graphshare.checkpoint.load import locate_refusals
from graphshare.inspection.graph import Inspection
from graphshare.inspection.graph import inspect as inspect_graph

if TYPE_CHECKING:
    from graphshare.execute.shape_report import Shaped


def inspect(model: Model, *, as_input: Names = (), as_parameter: Names = ()) -> Inspection:
    """List arguments, states, outputs, operators and roles; the lists are MXNet's own, in MXNet's order.

    Raises:
        RefusedError: the parameter file's records have no names.
    """
    source = as_checkpoint(model)
    return inspect_graph(source.graph, held=source.held, as_input=as_names(as_input), as_parameter=as_names(as_parameter))


def infer_shapes(model: Model, shapes: Shapes, *, as_input: Names = (), as_parameter: Names = ()) -> Shaped:
    """Infer the shape and dtype of every output, and count parameters and multiply-adds by operator.

    Raises:
        RefusedError: a name is not a variable; shapes contradict each other.
    """
    from graphshare.execute.shape_report import shape_graph  # brings numpy along

    source = as_checkpoint(model)
    with locate_refusals(source):
        return shape_graph(
            source.graph,
            as_shapes(shapes),
            params=source.parameter_file,
            as_input=as_names(as_input),
            as_parameter=as_names(as_parameter),
        )
