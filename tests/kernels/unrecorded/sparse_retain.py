"""``_sparse_retain``: what MXNet 1.9.1 gives for row-sparse data, which a recording of dense inputs cannot hold."""

from __future__ import annotations

DATA = {"shape": [5, 3], "values": [float(i) for i in range(15)]}
ROWS = {row: [3.0 * row, 3.0 * row + 1, 3.0 * row + 2] for row in range(5)}

CASES = [
    {
        "op": "_sparse_retain",
        "attrs": {},
        "inputs": [DATA, {"shape": [len(indices)], "dtype": "int64", "values": indices}],
        "outputs": [[x for row in range(5) for x in (ROWS[row] if row in indices else [0.0] * 3)]],
    }
    for indices in ([1, 3], [3, 1], [1, 7], [1, 1], [5, -1, 1], [0, 4])
]
