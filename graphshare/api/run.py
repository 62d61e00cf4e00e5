"""``run``, ``bind`` and ``train``: compute a model's outputs, often or with training first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from graphshare.analysis.branches import spread_inputs
from graphshare.api.models import Model, Names, Shapes, as_checkpoint, as_names, as_shapes
from graphshare.arguments import Natural, Positive, Seconds
from graphshare.checkpoint.load import locate_refusals
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.execute.bind import Bound
from graphshare.execute.bind import bind as bind_graph
from graphshare.execute.engines.executor import Executor
from graphshare.execute.engines.onnx_session import require_runtime
from graphshare.execute.engines.registry import AUTO, NUMPY, ONNXRUNTIME, create_executor
from graphshare.execute.prepare.variable_values import as_arrays
from graphshare.execute.run import Computed, run_batches
from graphshare.execute.run import run as run_graph
from graphshare.execute.train.sgd import Sgd
from graphshare.execute.train.train import StepListener, Trained
from graphshare.execute.train.train import train as train_graph
from graphshare.formats.images.images import Images, describe_images, suggest_preparation
from graphshare.formats.model_format import Capability, find_format, has_kernels, require
from graphshare.ir.graph import EMPTY
from graphshare.resources import parse_size, resource_limits

_CALLS = 100
"""How often a bound graph is called, as ``auto`` estimates."""


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
    """Compute the heads of a model, or ``targets``, and only what they need.

    ``feeds`` are arrays, or images (:func:`graphshare.open_images`), by variable name, parameters too; an array of another
    dtype is converted where the dtypes of the others determine its variable's. With ``batch`` the images are decoded and
    computed that many at a time. ``profile`` measures each node: ``timings`` of the result. ``seed`` draws the inputs that are
    not fed (random operators use it too), ``params_seed`` the parameters that the model does not hold. Labels and RNN states
    that are not fed are zeros. ``all_outputs`` returns every inner output that the targets need as well, in topological order,
    and the inputs: what :func:`verify` takes as ``recorded``. ``engine`` is what computes: ``"numpy"``, the reference and the
    default, ``"onnxruntime"``, ``"auto"`` (onnxruntime where that is faster, its opening included), or that of an installed
    package. Nodes that it cannot take are computed with numpy, which a note says; with ``strict_engine`` they are refused. What
    would take more than ``max_memory`` (bytes, or a text such as ``"2G"``; without it what is available) is refused before it
    runs, and work ends with an error after ``time_limit`` seconds.

    An ONNX model is computed by onnxruntime alone, as a whole. Its inputs are drawn as it declares them, integers as it uses
    them, and one that has an initializer need not be fed.

    Raises:
        UnsupportedError: operators without a kernel; all are listed before anything runs.
        RefusedError: names that are not in the graph, shapes that do not fit, missing values; all of a kind are listed. The
            limit of memory or time is not enough.
        UsageError: ``batch`` goes with images only, and neither with ``profile`` nor with ``all_outputs``; the engine is not
            installed, or ``profile`` is wanted of another than numpy.
    """
    source = as_checkpoint(model)
    if profile and engine not in (None, NUMPY):
        raise UsageError(Fault(f"`profile` measures numpy's kernels and does not go with `engine={engine!r}`"))
    others = {"`profile`": profile, "`batch`": batch is not None}
    executor = _choose_executor(
        source, engine, others, strict=strict_engine, forwards=_count_batches(feeds or {}, batch), fixed=batch is not None
    )
    if batch is not None:
        _check_batch(batch, profile=profile, all_outputs=all_outputs)

    def compute(values: Mapping[str, Any]) -> Computed:
        return run_graph(
            source.graph,
            params=source.parameter_file,
            feeds=as_arrays(values),
            shapes=sizes,
            targets=as_names(targets),
            seed=seed,
            params_seed=params_seed,
            profile=profile,
            all_outputs=all_outputs,
            executor=executor,
            where=source.where,
        )

    limits = resource_limits(max_memory, time_limit)
    with locate_refusals(source), suggest_preparation(feeds or {}), limits:
        names = as_names(targets)
        given = as_shapes(shapes, source.graph)
        values, sizes, notes = spread_inputs(source.graph, feeds or {}, given, targets=names, held=source.held)
        computed = compute(values) if batch is None else run_batches(source.graph, batch, compute, feeds=values, targets=names)
    computed.notes[:0] = [*describe_images(feeds or {}), *notes]
    return computed


def _choose_executor(
    source: Checkpoint, engine: str | None, others: Mapping[str, bool] = EMPTY, *, strict: bool, forwards: int, fixed: bool
) -> Executor | None:
    """Return what computes a model; None for one that onnxruntime computes as a whole.

    Raises:
        RefusedError: that one is to be computed by another engine, or with ``others`` of the options, which are for kernels.
        UsageError: the engine is not known, or not installed.
    """
    if has_kernels(source.graph):
        return create_executor(NUMPY if engine is None else engine, strict=strict, forwards=forwards, fixed=fixed)
    chosen = {f"`engine={engine!r}`": engine not in (None, ONNXRUNTIME, AUTO), "`strict_engine`": strict, **others}
    options = [what for what, is_chosen in chosen.items() if is_chosen]
    if faults := find_format(source.graph).find_lacks(Capability.KERNELS, options, where=source.where):
        raise RefusedError(faults)
    require_runtime()
    return None


def _count_batches(feeds: Mapping[str, Any], batch: int | None) -> int:
    """Return how often the graph is computed."""
    if batch is None or batch < 1:
        return 1
    return max((-(-len(value) // batch) for value in feeds.values() if isinstance(value, Images)), default=1)


def _check_batch(batch: int, *, profile: bool, all_outputs: bool) -> None:
    """Raise UsageError with all that does not go with ``batch``."""
    faults: list[Fault] = []
    if profile:
        faults.append(Fault("`profile` measures one pass and does not go with `batch`"))
    if all_outputs:
        faults.append(Fault("`all_outputs` keeps the outputs of one pass and does not go with `batch`"))
    if faults:
        raise UsageError(faults)


def bind(
    model: Model,
    *,
    targets: Names = (),
    seed: Natural = 0,
    engine: str | None = None,
    strict_engine: bool = False,
    max_memory: Natural | str | None = None,
) -> Bound:
    """Compile the heads of a model, or ``targets``, to be computed often with the same parameters.

    The first passes are slower than later ones. ``seed`` is for random operators. ``engine``, ``strict_engine``
    and ``max_memory`` are those of :func:`run`; an engine compiles the graph once for each combination of input shapes.
    ``"auto"`` counts on a hundred calls.

    Raises:
        UnsupportedError: operators without a kernel; all are listed.
        RefusedError: parameters that the model does not hold, targets that are not in the graph; all of a kind are listed.
        UsageError: the engine is not installed.
    """
    source = as_checkpoint(model)
    executor = _choose_executor(source, engine, strict=strict_engine, forwards=_CALLS, fixed=True)
    size = parse_size(max_memory) if isinstance(max_memory, str) else max_memory
    names = as_names(targets)
    again = partial(bind, source, targets=names, seed=seed, engine=engine, strict_engine=strict_engine, max_memory=max_memory)
    with locate_refusals(source):
        return bind_graph(
            source.graph,
            again=again,
            params=source.parameter_file,
            targets=names,
            seed=seed,
            max_memory=size,
            executor=executor,
            where=source.where,
        )


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
    """Train the parameters of a model for a number of ``steps``, all on the same inputs, as MXNet's Module does it.

    ``settings`` are those of SGD. ``rescale`` multiplies the gradients; without it they are divided by the batch size of the
    first data input. Heads that are not losses start from ``head_gradients``, by output name, or from ones. The other arguments
    are those of :func:`run`. ``on_step`` is called after each step with its number and the losses so far.
    ``model.with_params(trained.updated)`` is the trained model.

    Raises:
        RefusedError: an operator has no gradient, there is nothing to train, or what :func:`run` refuses.
    """
    source = as_checkpoint(model)
    require(source.graph, Capability.TRAINING, where=source.where)
    limits = resource_limits(max_memory, time_limit)
    with locate_refusals(source), suggest_preparation(feeds or {}), limits:
        values, sizes, notes = spread_inputs(
            source.graph, feeds or {}, as_shapes(shapes, source.graph), targets=as_names(targets), held=source.held
        )
        trained = train_graph(
            source.graph,
            steps=steps,
            settings=settings,
            rescale=rescale,
            head_gradients=head_gradients,
            params=source.parameter_file,
            feeds=as_arrays(values),
            shapes=sizes,
            targets=as_names(targets),
            seed=seed,
            params_seed=params_seed,
            on_step=on_step,
        )
    trained.notes[:0] = [*describe_images(feeds or {}), *notes]
    return trained
