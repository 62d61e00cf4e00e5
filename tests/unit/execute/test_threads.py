"""The number of BLAS threads changes no bit of a result."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.surroundings import ROOT

PROGRAM = """
import hashlib
import numpy as np
from graphshare.ops.kernel import Context
from graphshare.ops.registry import find_kernel, lookup

draw, digest = np.random.default_rng(0).standard_normal, hashlib.sha256()
for shape, filters, kernel, groups in (
    ((20, 128, 7, 7), 128, (3, 3), 1), ((1, 64, 56, 56), 64, (3, 3), 1), ((1, 256, 28, 28), 128, (1, 1), 1),
    ((1, 64, 56, 56), 64, (3, 3), 64), ((1, 32, 4, 14, 14), 64, (3, 3, 3), 1),
):
    texts = {"kernel": str(kernel), "num_filter": str(filters), "num_group": str(groups), "no_bias": "True"}
    attrs, _ = lookup("Convolution").parse(texts)
    x, weight = draw(shape, np.float32), draw((filters, shape[1] // groups, *kernel), np.float32)
    digest.update(find_kernel("Convolution").forward(Context(), attrs, x, weight).tobytes())
print(digest.hexdigest())
"""


def digest_with(threads: int) -> str:
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    environment = {**os.environ, **limits, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.large
def test_results_do_not_depend_on_the_number_of_threads() -> None:
    assert digest_with(1) == digest_with(2) == digest_with(3)
