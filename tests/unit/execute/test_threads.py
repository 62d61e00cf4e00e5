"""The number of BLAS threads changes no bit of a result, where it changes none of BLAS's own products."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.surroundings import ROOT

PROGRAM = """
import sys
import numpy as np
from graphshare.ops.kernel import Context
from graphshare.ops.registry import find_kernel, lookup

draw, arrays = np.random.default_rng(0).standard_normal, {}
for rows, length, columns in ((128, 1152, 980), (64, 576, 3136), (128, 256, 784), (64, 864, 784)):
    arrays[f"product {length}"] = draw((rows, length), np.float32) @ draw((length, columns), np.float32)
for number, (shape, filters, kernel, groups) in enumerate((
    ((20, 128, 7, 7), 128, (3, 3), 1), ((1, 64, 56, 56), 64, (3, 3), 1), ((1, 256, 28, 28), 128, (1, 1), 1),
    ((1, 64, 56, 56), 64, (3, 3), 64), ((1, 32, 4, 14, 14), 64, (3, 3, 3), 1),
)):
    texts = {"kernel": str(kernel), "num_filter": str(filters), "num_group": str(groups), "no_bias": "True"}
    attrs, _ = lookup("Convolution").parse(texts)
    x, weight = draw(shape, np.float32), draw((filters, shape[1] // groups, *kernel), np.float32)
    arrays[f"convolution {number}"] = find_kernel("Convolution").forward(Context(), attrs, x, weight)
np.savez(sys.argv[1], **arrays)
"""


def run_with(threads: int, folder: Path) -> dict[str, np.ndarray]:
    """Return products of numpy alone, and convolutions, by name."""
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    environment = {**os.environ, **limits, "PYTHONPATH": str(ROOT)}
    path = folder / f"{threads}.npz"
    subprocess.run([sys.executable, "-c", PROGRAM, path], env=environment, check=True)
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.mark.large
def test_results_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    one, two, three = (run_with(threads, tmp_path) for threads in (1, 2, 3))
    products = [name for name in one if name.startswith("product")]
    assert len(products) == 4
    assert len(one) == 9
    same = all(
        np.array_equal(one[name], other[name]) for name in products for other in (two, three)
    )
    for name, array in one.items():
        for other in (two, three):
            if same:
                assert np.array_equal(array, other[name]), name
            else:  # OpenBLAS's kernels without AVX-512 split a long sum in other places for one thread than for several
                assert np.abs(array - other[name]).max() <= 1e-5 * np.abs(array).max(), name
