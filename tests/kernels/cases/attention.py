"""Cases for the products of attention. Plain data."""

from tests.kernels.rounding import sum_rounding, with_atol

CASES = [
    {
        "op": "_contrib_interleaved_matmul_" + op,
        "attrs": {"heads": str(heads)},
        "inputs": [{"shape": s} for s in shapes],
    }
    for heads in (1, 2, 4)
    for batch in (1, 3)
    for op, shapes in (
        ("selfatt_qk", [[5, batch, 24]]),
        ("selfatt_valatt", [[5, batch, 24], [batch * heads, 5, 5]]),
        ("encdec_qk", [[3, batch, 8], [5, batch, 16]]),
        ("encdec_valatt", [[5, batch, 16], [batch * heads, 3, 5]]),
    )
]
CASES = with_atol(CASES, sum_rounding(8))  # no product sums over more than 8 numbers
