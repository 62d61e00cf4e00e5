"""``train``: parameters trained on fed inputs, step by step as in MXNet's Module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from graphshare.analysis.branches import spread_inputs
from graphshare.arguments import Natural, Seconds
from graphshare.checkpoint.load import Model, Names, Shapes, as_checkpoint, as_names, as_shapes
from graphshare.errors import locate_refusals
from graphshare.execute.prepare.assignment import DrawOptions
from graphshare.execute.prepare.prepare import Prepared, Request, prepare
from graphshare.execute.prepare.variable_values import as_arrays
from graphshare.execute.train.run_training import StepListener, Trained, run_training
from graphshare.execute.train.sgd import Sgd
from graphshare.execute.train.trainer import batch_rescale, first_data
from graphshare.formats.images.images import describe_images, suggest_preparation
from graphshare.formats.model_format import Operation, require
from graphshare.resources import resource_limits


def train(
    model: Model,
    *,
    steps: Natural,
    settings: Sgd | None = None,
    rescale: float | None = None,
    head_gradients: Mapping[str, Any] | None = None,
    feeds: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    targets: Names = (),
    seed: Natural | None = None,
    params_seed: Natural | None = None,
    on_step: StepListener | None = None,
    max_memory: Natural | str | None = None,
    time_limit: Seconds | None = None,
) -> Trained:
    """Train the parameters of a model for a number of ``steps``, all on the same inputs, as in
    MXNet's Module.

    ``settings`` are the settings of SGD. ``rescale`` multiplies the gradients; without it they are
    divided by the batch size of the first data input. Heads that are not losses start from
    ``head_gradients``, by output name, or from ones. The other arguments are the same as in
    :func:`run`. ``on_step`` is called after each step with its number and the losses so far.
    ``model.with_params(trained.updated)`` is the trained model.

    Raises:
        RefusedError: an operator has no gradient, there is nothing to train, or :func:`run` refuses
            the model.
    """
    source = as_checkpoint(model)
    require(source.graph, Operation.TRAINING, where=source.where)
    fed, names = feeds or {}, as_names(targets)
    with locate_refusals(source), suggest_preparation(fed), resource_limits(max_memory, time_limit):
        input_shapes = as_shapes(shapes, source.graph)
        values, sizes, notes = spread_inputs(
            source.graph, fed, input_shapes, targets=names, held=source.held
        )
        params = source.parameter_file
        request = Request(
            draw=DrawOptions(seed, params_seed, training=True), params=params, targets=names
        )
        ready = prepare(source.graph, request, as_arrays(values), sizes)
        ready.notes[:0] = [*describe_images(fed), *notes]
        scaled = msgspec.structs.replace(settings or Sgd(), rescale=_rescale(ready, rescale))
        return run_training(
            ready, params, steps, scaled, as_arrays(head_gradients), seed or 0, on_step
        )


def _rescale(ready: Prepared, factor: float | None) -> float:
    """Return ``factor``, or 1 / axis 0 of the first data input, as in Module."""
    if factor is not None:
        return factor
    inputs = [
        n for n in ready.inference.nodes if n in ready.values and not ready.roles[n].is_parameter
    ]
    node = first_data(inputs, ready.values, ready.roles)  # in the order of list_arguments
    if node is not None:
        ready.notes.append(
            f"gradients are divided by {ready.values[node].shape[0]}, the batch of {node.name!r}"
        )
    return batch_rescale(node, ready.values)
