"""Cases of operators that no recording has: what they need in a graph is not one operator and its inputs."""

from __future__ import annotations

import numpy as np

from tests.kernels.recordings import cases_of, recorded_inputs
from tests.oracle.probing import Probe

BEFORE = {"_sparse_retain": ("cast_storage", {"stype": "row_sparse"})}
"""The operator that computes the first input: rows are retained of row-sparse arrays, which no variable is."""
BEHIND = {"_copyto": "elemwise_add"}
"""The operator that reads the output: it tells the dtype, which ``_copyto`` does not infer."""


def more_cases() -> dict[str, list[Probe]]:
    """Return cases by operator; those that oneDNN joins have ``subgraphs``."""
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    mask = np.array([1, 0, 2, 0], np.float32)
    embedding = {"input_dim": "4", "output_dim": "2"}
    found = {
        "_contrib_SparseEmbedding": [
            _case("_contrib_SparseEmbedding", embedding, np.array([1, 3, 0], np.float32), rows)
        ],
        "_contrib_boolean_mask": [_case("_contrib_boolean_mask", {}, rows, mask)],
        "_copyto": [_case("_copyto", {}, rows + shift) for shift in (0, 0.5)],
        "_sparse_retain": [
            _case("_sparse_retain", {}, rows, np.array(kept, np.int64))
            for kept in ([1, 3], [3, 0], [2, 2])
        ],
    }
    for number, case in enumerate(cases_of("joined")):
        inputs = [_quarter(x) for x in recorded_inputs("joined", number)]
        if inputs[0].dtype == np.int8 and inputs[1].dtype == np.float32 and inputs[1].size > 1:
            continue  # weights that become int8 inside, up to 127: sums of signed data times those are not exact
        if "quantized" in case["attrs"] and "with_sum" in case["attrs"]:
            continue  # the sum is added in another order
        one = {key: case[key] for key in ("op", "attrs", "subgraphs")}
        found.setdefault(case["op"], []).append(({**one, "family": "joined"}, inputs))
    return found


def _quarter(x: np.ndarray) -> np.ndarray:
    """Return bytes up to 64, whose products no instruction set cuts off (see ``tests/oracle/int8_sums.py``)."""
    return (x // 4).astype(x.dtype) if x.dtype.itemsize == 1 else x


def _case(op: str, attrs: dict[str, str], *inputs: np.ndarray) -> Probe:
    return {"op": op, "attrs": attrs, "family": ""}, list(inputs)
