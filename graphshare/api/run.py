"""``run``: the outputs of a model for given inputs and parameters, with numpy or another engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from graphshare.analysis.branches import spread_inputs
from graphshare.arguments import Natural, Positive, Seconds
from graphshare.checkpoint.load import Model, Names, Shapes, as_checkpoint, as_names, as_shapes
from graphshare.errors import Fault, UsageError, locate_refusals
from graphshare.execute.backends.backend import REFERENCE, EngineOptions, choose_executor
from graphshare.execute.outputs import Computed, compute_outputs, run_batches
from graphshare.execute.prepare.assignment import DrawOptions
from graphshare.execute.prepare.prepare import Request
from graphshare.formats.images.images import Images, describe_images, suggest_preparation
from graphshare.resources import resource_limits


def run(
    model: Model,
    *,
    feeds: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    targets: Names = (),
    seed: Natural | None = None,
    params_seed: Natural | None = None,
    profile: bool = False,
    batch: Positive | None = None,
    all_outputs: bool = False,
    engine: str | None = None,
    strict_engine: bool = False,
    max_memory: Natural | str | None = None,
    time_limit: Seconds | None = None,
) -> Computed:
    """Compute the heads of a model, or ``targets``, and only the nodes that they need.

    ``feeds`` are arrays, or images (:func:`graphshare.open_images`), by variable name, parameters
    too; an array of another dtype is converted if the other dtypes determine its variable's. With
    ``batch`` the images are decoded and computed that many at a time. ``profile`` measures each
    node: ``timings`` of the result. ``seed`` draws the inputs that are not fed (random operators
    use it too), ``params_seed`` the parameters that the model does not contain. Labels and RNN
    states that are not fed are zeros. ``all_outputs`` also returns every inner output that the
    targets need, in topological order, and the inputs: :func:`compare` takes this result as a
    record. ``engine`` is ``"numpy"``, the reference and the default, ``"onnxruntime"``, ``"auto"``
    (onnxruntime if that is faster, its opening included), or the name of an installed package's
    engine. Nodes that it cannot take are computed with numpy, with a note; with ``strict_engine``
    they are refused. A run that would take more than ``max_memory`` (bytes, or a text such as
    ``"2G"``; by default the available memory) is refused before it starts, and work ends with an
    error after ``time_limit`` seconds.

    onnxruntime alone computes an ONNX model, as a whole. Its inputs are drawn as it declares them,
    integers as it uses them, and one with an initializer need not be fed.

    Raises:
        UnsupportedError: operators without a kernel; all are listed before anything runs.
        RefusedError: names that are not in the graph, shapes that do not fit, missing values; all
            of a kind are in one error. The limit of memory or time is not enough.
        UsageError: ``batch`` is without images, or combined with ``profile`` or ``all_outputs``;
            the engine is not installed, or ``profile`` is combined with an engine other than numpy.
    """
    source, fed, names = as_checkpoint(model), feeds or {}, as_names(targets)
    _check_options(engine, batch, profile=profile, all_outputs=all_outputs)
    others = {"`profile`": profile, "`batch`": batch is not None}
    forwards, fixed = _count_batches(fed, batch), batch is not None
    use = EngineOptions(strict_engine, forwards, fixed=fixed)
    executor = choose_executor(source.graph, engine, others, where=source.where, options=use)
    with locate_refusals(source), suggest_preparation(fed), resource_limits(max_memory, time_limit):
        input_shapes = as_shapes(shapes, source.graph)
        values, sizes, notes = spread_inputs(
            source.graph, fed, input_shapes, targets=names, held=source.held
        )
        request = Request(
            draw=DrawOptions(seed, params_seed),
            params=source.parameter_file,
            targets=names,
            all_outputs=all_outputs,
            where=source.where,
            executor=executor,
        )
        compute = partial(compute_outputs, source.graph, request, sizes, profile)
        computed = (
            compute(values)
            if batch is None
            else run_batches(source.graph, batch, compute, feeds=values, targets=names)
        )
    computed.notes[:0] = [*describe_images(fed), *notes]
    return computed


def _check_options(
    engine: str | None, batch: int | None, *, profile: bool, all_outputs: bool
) -> None:
    has_engine, has_batch = engine not in (None, REFERENCE), batch is not None
    refused = (
        (
            profile and has_engine,
            f"`profile` measures numpy's kernels, and cannot be combined with `engine={engine!r}`",
        ),
        (profile and has_batch, "`profile` measures one pass, and cannot be combined with `batch`"),
        (
            all_outputs and has_batch,
            "`all_outputs` keeps the outputs of one pass, and cannot be combined with `batch`",
        ),
    )
    if faults := [Fault(text) for is_refused, text in refused if is_refused]:
        raise UsageError(faults)


def _count_batches(feeds: Mapping[str, Any], batch: int | None) -> int:
    if batch is None or batch < 1:
        return 1
    return max(
        (-(-len(value) // batch) for value in feeds.values() if isinstance(value, Images)),
        default=1,
    )
