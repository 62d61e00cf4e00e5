"""Where a rule follows the samples, an exchange of samples exchanges those of the output and nothing else."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from graphshare.analysis.batch_axis import follow_batch
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.walk import reachable
from graphshare.ops.kernel import Context
from graphshare.ops.registry import find_kernel, lookup
from tests.symbols import document, mxnet_text, operator, variable

SAMPLES = 3
ORDER = [2, 0, 1]

Case = tuple[dict[str, str], list[Any]]


def along_axes(key: str, more: int = 0, **others: str) -> Any:
    """All attributes that name one axis of an array, from either end."""
    return lambda x: [
        ({key: str(axis), **others}, [x]) for axis in range(-x.ndim - more, x.ndim + more)
    ]


def along_sets(**others: str) -> Any:
    """One or two axes, from either end."""

    def cases(x: Any) -> list[Case]:
        axes = range(-x.ndim, x.ndim)
        pairs = [(a, b) for a, b in product(axes, axes) if a % x.ndim < b % x.ndim]
        return [
            ({"axis": str(chosen), **others}, [x])
            for chosen in (*((axis,) for axis in axes), *pairs)
        ]

    return cases


def split(x: Any) -> list[Case]:
    """Every axis, into parts of size 1 without that axis."""
    return [
        ({"axis": str(i), "num_outputs": str(x.shape[i]), "squeeze_axis": "True"}, [x])
        for i in range(-x.ndim, x.ndim)
    ]


def pick(x: Any) -> list[Case]:
    """One element along every axis."""
    return [
        ({"axis": str(i)}, [x, np.zeros(np.delete(x.shape, i), "float32")])
        for i in range(-x.ndim, x.ndim)
        if x.ndim > 1
    ]


CASES: dict[str, Any] = {
    "sum": along_sets(),
    "sum kept": along_sets(keepdims="True"),
    "sum excluded": along_sets(exclude="True"),
    "argmax": along_axes("axis"),
    "softmax": along_axes("axis"),
    "sort": along_axes("axis"),
    "repeat": along_axes("axis", repeats="2"),
    "reverse": along_axes("axis"),
    "slice_axis": along_axes("axis", begin="0", end="1"),
    "expand_dims": along_axes("axis", 1),
    "SliceChannel": split,
    "pick": pick,
    "take": lambda x: [
        ({"axis": str(i)}, [x, np.zeros((2, 1), "float32")]) for i in range(-x.ndim, x.ndim)
    ],
    "SwapAxis": lambda x: [
        ({"dim1": str(a), "dim2": str(b)}, [x]) for a, b in product(range(x.ndim), repeat=2)
    ],
    "transpose": lambda x: [({"axes": str(axes)}, [x]) for axes in permutations(range(x.ndim))],
    "tile": lambda x: [
        ({"reps": str(reps)}, [x]) for n in (1, 2, 3, 4) for reps in product((1, 2), repeat=n)
    ],
}


def compute(op: str, attrs: dict[str, str], arrays: list[Any]) -> Any:
    signature, kernel = lookup(op), find_kernel(op)
    assert signature is not None
    assert kernel is not None
    result = kernel.forward(Context(), signature.parse(attrs)[0], *arrays)
    return result[0] if isinstance(result, tuple) else result


def check(op: str, attrs: dict[str, str], arrays: list[Any], batch: int) -> int:
    """1 if the rule follows the samples of the first array, and then rightly; 0 if it names a coupling."""
    names = [
        variable(f"x{i}", attrs={"__shape__": str(array.shape)}) for i, array in enumerate(arrays)
    ]
    nodes = [*names, operator(op, "op", range(len(names)), attrs=attrs)]
    graph = read_symbol(mxnet_text(document(nodes, [len(names)], row_ptr=False)).encode())
    places, couplings = follow_batch(reachable(graph), {graph.nodes[0]: batch})
    if couplings:
        return 0
    axis = places[graph.nodes[-1], 0].axis
    plain, exchanged = (
        compute(op, attrs, arrays),
        compute(op, attrs, [arrays[0].take(ORDER, batch), *arrays[1:]]),
    )
    each = plain.shape[axis] // SAMPLES
    places_of_samples = [sample * each + i for sample in ORDER for i in range(each)]
    assert np.allclose(plain.take(places_of_samples, axis), exchanged), (
        f"{attrs} of {arrays[0].shape}, samples on axis {batch}"
    )
    return 1


@pytest.mark.parametrize("name", CASES)
def test_an_exchange_of_samples_is_seen_where_the_rule_follows_them(name: str) -> None:
    stream, followed = np.random.default_rng(0), 0
    for rank in (1, 2, 3):
        for batch in range(rank):
            shape = [1, 2, 4][:rank]
            shape[batch] = SAMPLES
            for attrs, arrays in CASES[name](stream.random(shape, "float32")):
                followed += check(name.split()[0], attrs, arrays, batch)
    assert followed > 3
