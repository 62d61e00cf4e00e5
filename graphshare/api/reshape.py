"""``reshape``: free or fix sizes of an ONNX model's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.analysis.free_sizes import (
    BATCH,
    NamedShapes,
    Symbol,
    choose_symbols,
    join_places,
    refuse_empty,
)
from graphshare.arguments import Natural, NotNegative, Positive, Seconds
from graphshare.checkpoint.load import Model, StrPath, as_checkpoint
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import notes_on
from graphshare.errors import Fault, UsageError, locate_refusals
from graphshare.files.paths import as_paths
from graphshare.formats.model_format import Operation, require
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import Tensor
from graphshare.resources import resource_limits
from graphshare.rewrite.fix_sizes import fix_sizes
from graphshare.rewrite.fold_constants import find_constants, fold_constants
from graphshare.rewrite.free_sizes import (
    FreedGraph,
    find_batch,
    find_batch_axes,
    find_batch_places,
    free_sizes,
    list_inputs,
    list_shapes,
)
from graphshare.text.summary import ShortRepr

if TYPE_CHECKING:
    from graphshare.verification.flow import ProofOptions
    from graphshare.verification.free_sizes import SizesProof

Sizes = Mapping[str, tuple[int | str | None, ...] | None]


class Reshaping(ShortRepr, msgspec.Struct, frozen=True):
    """The result of ``reshape``: the shapes of ``inputs`` and ``outputs`` by name, and the
    ``changed`` operators.

    A size is a number, the name of a free size, or None if it follows from others; a shape is None
    if its rank does. ``proof`` is None if none was requested, and ``folded`` counts operators that
    constants replace.
    """

    inputs: Sizes
    outputs: Sizes
    changed: tuple[str, ...]
    proof: SizesProof | None = None
    folded: int = 0


def reshape(
    model: Model,
    *,
    shapes: NamedShapes | None = None,
    dynamic_batch: bool = False,
    fix_batch: Positive | None = None,
    witness: StrPath | Iterable[StrPath] = (),
    feeds: Mapping[str, Any] | None = None,
    sets: StrPath | Sequence[Mapping[str, Any]] | None = None,
    rounds: Positive = 1,
    seed: Natural = 0,
    fold: bool = False,
    verify: bool = True,
    tolerance: NotNegative | None = None,
    max_memory: int | str | None = None,
    time_limit: Seconds | None = None,
) -> Checkpoint:
    """Free sizes of an ONNX model's inputs for the caller to choose, or fix them, and verify the
    result.

    In ``shapes`` a name frees a size and a number fixes it (``{"data": ("n", 3, "h", "w")}``;
    ``"32*h"`` is a multiple of 32); None leaves it. ``dynamic_batch`` frees the batch of all
    inputs, ``fix_batch`` fixes it. The targets of reshapes, initial states, joined constants and
    the like are adapted; ``report`` of the result is a :class:`Reshaping`. With ``fold`` constants
    of up to 64 KiB replace operators whose values fixed sizes determine.

    With ``verify`` both models run in onnxruntime. At the sizes of the file, and at fixed sizes,
    outputs are equal bit for bit. Each sample of a batch must match the original's values for it,
    up to ``tolerance`` of the output's largest number (by default 1e-4, for float16 1e-2, for
    float64 1e-9), and stay equal bit for bit when other samples change. At other sizes the model is
    only computed; each model of ``witness``, the same network exported at such sizes, is compared
    with it. Constants that may come from a size that the file fixes are listed in the notes. Inputs
    are drawn with ``seed``; where sizes differ, inputs in ``feeds`` and ``sets`` are drawn from the
    given values. ``rounds`` above 1 adds as many sets.

    Raises:
        UsageError: no size would change, a name is not an input's, or a size gets two numbers;
            onnxruntime is needed and not installed.
        RefusedError: the format states no sizes; operators mix samples or need a fixed size; all
            are listed.
        DisprovedError: onnxruntime computes different outputs, or none.
    """
    source = as_checkpoint(model)
    witnesses = as_paths(witness)
    require(source.graph, Operation.RESHAPE, where=source.where)
    with resource_limits(max_memory, time_limit):
        with locate_refusals(source):
            symbols, numbers = _choose_sizes(source, shapes or {}, dynamic_batch, fix_batch)
            if witnesses:
                _check_witness(symbols, verify)
            if fold and not numbers:
                message = "`fold` folds what fixed sizes decide, and none gets fixed"
                raise UsageError(Fault(message, hint="leave it out"))
            stages, rewrite = _change_sizes(source, symbols, numbers)
        folded = 0
        if fold:
            with locate_refusals(source):
                result, folded = _fold(stages[-1])
            stages = (*stages[:2], result)
        proof = None
        if verify:
            # Start-up: --help must not import numpy
            from graphshare.verification.flow import make_options
            from graphshare.verification.inputs import Inputs  # start-up: as above

            options = make_options(Inputs(sets=sets, rounds=rounds, seed=seed), None, ())
            options = options.with_values(feeds, None, source.graph)
            proof = _prove(source, stages, rewrite, witnesses, options, tolerance)
    result = stages[-1]
    notes = [*notes_on(source.parameter_file, source.graph), *result.notes]
    changed: tuple[str, ...] = ()
    if rewrite is not None:
        changed = tuple(node.details.label or node.name for node in rewrite.changed)
        notes += rewrite.notes
        if proof is not None and not proof.tells_apart:
            notes.append(
                "all drawn samples have the same outputs, so only the operators show that no sample depends on others"
            )
    inputs, outputs = list_shapes(result.graph)
    report = Reshaping(inputs, outputs, changed, proof, folded)
    return msgspec.structs.replace(result, report=report, notes=tuple(notes))


def _check_witness(symbols: Sequence[Symbol], verify: bool) -> None:
    """Raise UsageError if nothing would be compared with a witness."""
    if not verify:
        reason = "`verify=False` compares nothing"
    elif not symbols:
        reason = "none is free"
    else:
        return
    message = f"`witness` is compared with free sizes, and {reason}"
    raise UsageError(Fault(message, hint="leave it out"))


def _choose_sizes(
    source: Checkpoint, shapes: NamedShapes, dynamic_batch: bool, fix_batch: int | None
) -> tuple[list[Symbol], dict[tuple[str, int], int]]:
    """Return the sizes that become free, and the numbers of fixed ones, by (input, axis).

    A fixed size that gets a different number is in both: it is freed first under a name of its own.
    """
    inputs = list_inputs(source.graph)
    axes = find_batch_axes(source.graph, inputs)
    if dynamic_batch and fix_batch is not None:
        raise UsageError(
            Fault(
                "`dynamic_batch` and `fix_batch` cannot be combined", hint="leave one of them out"
            )
        )
    refuse_empty(shapes)
    symbols = choose_symbols(shapes, dynamic_batch, inputs, lambda: find_batch(inputs, axes))
    wanted = {
        (name, axis): size
        for name, shape in shapes.items()
        for axis, size in enumerate(shape)
        if isinstance(size, int)
    }
    if fix_batch is not None:
        wanted |= dict.fromkeys(find_batch_places(inputs, axes), fix_batch)
    numbers: dict[tuple[str, int], int] = {}
    refixed: dict[tuple[int, int, bool], list[tuple[str, int]]] = {}
    for (name, axis), size in wanted.items():
        own = inputs[name][axis]
        if own == size:
            continue
        numbers[name, axis] = size
        if isinstance(own, int):
            refixed.setdefault((own, size, axis == axes[name]), []).append((name, axis))
    for (_, _, is_batch), places in refixed.items():
        label = BATCH if is_batch else "{}.{}".format(*places[0])
        symbols.append(join_places(label, places))
    if not symbols and not numbers:
        hint = (
            "`dynamic_batch` frees the batch, `shapes={'data': ('n', 3, 'h', 'w')}` sizes by "
            "name; a number fixes one"
        )
        raise UsageError(Fault("no size changes", hint=hint))
    return symbols, numbers


def _change_sizes(
    source: Checkpoint, symbols: Sequence[Symbol], numbers: Mapping[tuple[str, int], int]
) -> tuple[tuple[Checkpoint, Checkpoint, Checkpoint], FreedGraph | None]:
    """Return the model after each step (open sizes fixed, others freed, those fixed), and the
    freeing rewrite.

    Open sizes come first, because some number must be assumed for those that stay open.
    """
    inputs = list_inputs(source.graph)
    early: dict[tuple[str, int], int] = {}
    late: dict[tuple[str, int], int] = {}
    for (name, axis), size in numbers.items():
        is_fixed = isinstance(inputs[name][axis], int)
        step = late if is_fixed else early
        step[name, axis] = size
    fixed = _fix(source, early)
    if not symbols:
        return (fixed, fixed, fixed), None
    rewrite = free_sizes(fixed.graph, symbols, partial(_measure, fixed), partial(_evaluate, fixed))
    freed = follow_rewrite(fixed, rewrite)
    return (fixed, freed, _fix(freed, late)), rewrite


def _fix(model: Checkpoint, numbers: Mapping[tuple[str, int], int]) -> Checkpoint:
    if not numbers:
        return model
    return follow_rewrite(model, fix_sizes(model.graph, list_inputs(model.graph), numbers))


def _fold(model: Checkpoint) -> tuple[Checkpoint, int]:
    entries = find_constants(model.graph)
    values = _evaluate(model, entries) if entries else {}
    if not values:
        return model, 0
    from graphshare.export_onnx.dynamic import read_array  # start-up: --help must not import numpy

    rewrite, weights = fold_constants(model.graph, values)
    folded = _count_operators(model.graph) - _count_operators(rewrite.graph)
    arrays = {name: read_array(tensor) for name, tensor in weights.items()}
    return follow_rewrite(model, rewrite, drop_unused=True).with_params(arrays), folded


def _count_operators(graph: Graph) -> int:
    return sum(node.op not in ("", "Constant") for node in graph.nodes)


def _evaluate(model: Checkpoint, entries: Sequence[Entry]) -> Mapping[Node, Tensor]:
    # Start-up: --help must not import numpy
    from graphshare.verification.measured_types import measure_constants

    return measure_constants(model, entries)


def _prove(
    source: Checkpoint,
    stages: tuple[Checkpoint, Checkpoint, Checkpoint],
    rewrite: FreedGraph | None,
    witness: Sequence[str],
    options: ProofOptions,
    tolerance: float | None,
) -> SizesProof:
    # Start-up: as above
    from graphshare.api.compare import compare
    from graphshare.verification.free_sizes import (
        SizesProof,
        judge_witness,
        prove_fixed,
        prove_sizes,
    )

    fixed, freed, result = stages
    if rewrite is None:
        return SizesProof(fixed=prove_fixed(result, source, options))
    proof = prove_sizes(freed, rewrite, fixed, options, tolerance)
    verdicts = tuple((path, judge_witness(path, compare(freed, path))) for path in witness)
    proof = msgspec.structs.replace(proof, witnesses=verdicts)
    for model, other in ((fixed, source), (result, freed)):
        if model is not other:
            proof = msgspec.structs.replace(proof, fixed=prove_fixed(model, other, options))
    return proof


def _measure(
    model: Checkpoint, entries: Sequence[Entry], shapes: Mapping[str, Sequence[int]]
) -> Mapping[tuple[Node, int], Sequence[int]]:
    # Start-up: --help must not import numpy
    from graphshare.verification.free_sizes import measure_shapes

    return measure_shapes(model, entries, shapes)
