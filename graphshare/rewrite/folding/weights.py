"""The arrays of a folded layer, from those in the parameter file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING

from graphshare.errors import Fault, MemoryLimitError
from graphshare.formats.params.records import Record
from graphshare.ops.folding import fold_scaling, is_same
from graphshare.ops.kernel import KernelError
from graphshare.resources import MORE_MEMORY, describe_excess
from graphshare.rewrite.folding.plan import Pair
from graphshare.text.format import format_bytes, format_shape

if TYPE_CHECKING:
    from graphshare.ops.kernel import Array

_FLOATS = ("float16", "float32", "float64")
_SCRATCH = (
    16  # bytes for each number of a weight while it is folded: itself and the result in float64
)


def check_fold_memory(groups: Iterable[tuple[Pair, ...]], records: Mapping[str, Record]) -> None:
    """Compare the memory for folding weights one by one, beside earlier results, with the limit.

    Raises:
        MemoryLimitError: it is more; the first weight beyond the limit is named with its bytes.
    """
    kept = 0
    for first, *_ in groups:
        record = records.get(first.weight.name)
        if record is None or record.shape is None:
            continue
        # The read array and the folded one stay beside the scratch until the next weight.
        taken = kept + prod(record.shape) * _SCRATCH + 2 * record.dense_size
        if excess := describe_excess(taken):
            message = f"folding the weight {format_shape(record.shape)} takes {format_bytes(taken)}, {excess}"
            raise MemoryLimitError(Fault(message, node=first.weight.name, hint=MORE_MEMORY))
        kept += record.dense_size


def fold_group(
    group: tuple[Pair, ...], params: Mapping[str, Array], records: Mapping[str, Record]
) -> tuple[Array, Array]:
    """Return the weight and bias of all layers of a group after folding their BatchNorms.

    Raises:
        KernelError: an array is missing or does not fit, the result overflows, or layers would need
            different weights; the message ends a sentence about each BatchNorm.
    """
    first = fold_pair(group[0], params, records)
    for other in group[1:]:
        if not is_same(first, fold_pair(other, params, records)):
            names = f"{group[0].norm.name!r} and {other.norm.name!r}"
            raise KernelError(
                f"is after a layer that shares its weight {other.weight.name!r}: {names} differ"
            )
    return first


def fold_pair(
    pair: Pair, params: Mapping[str, Array], records: Mapping[str, Record]
) -> tuple[Array, Array]:
    """Return the weight and bias of a folded layer. Raises KernelError as :func:`fold_group`."""
    names = [
        pair.weight.name,
        *([pair.bias.name] if pair.bias is not None else []),
        *pair.statistics,
    ]
    for name in names:
        record = records.get(name)
        if record is None or record.shape is None:
            raise KernelError(f"needs {name!r}, which the parameter file does not hold")
        # Arrays of other dtypes are listed as bytes
        dtype = record.layout.partition(" ")[2] or record.dtype
        if dtype not in _FLOATS:
            raise KernelError(f"needs {name!r}, which is {dtype}")
    weight, *rest = (params[name] for name in names)
    bias = rest.pop(0) if pair.bias is not None else None
    linear, scaling = pair.linear.linear, pair.scaling.scaling
    assert linear is not None
    assert scaling is not None
    return fold_scaling(
        linear, scaling, (pair.linear.attrs, pair.scaling.attrs), weight, bias, rest
    )
