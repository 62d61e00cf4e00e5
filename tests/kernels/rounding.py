"""What rounding may leave of a result: absolute tolerances that follow from how a number is computed.

Two programs that add the same n terms in another order, or that fuse products with sums, differ by
rounding. After k of n terms of size s the sum is about s * sqrt(k), and rounding it is off by up to
half a unit in the last place of that. Over the n additions this grows like a random walk, to about
eps / 2 * n * s / sqrt(6) on either side; ``sum_rounding`` is four times that of both sides
together. It is absolute: where the terms cancel, the sum is small and its rounding is not.
"""

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10}
"""The distance from 1 to the next number of a dtype."""


def sum_rounding(terms, size=1.0, dtype="float32"):
    """The absolute difference that two sums of so many terms of about this size may have."""
    return EPS[dtype] * max(terms, 2) * size


def with_atol(cases, atol):
    """The cases with an absolute tolerance; ``atol`` is a number, or a function of the case that
    may give None for none.
    """
    pairs = [(case, atol(case) if callable(atol) else atol) for case in cases]
    return [case if tolerance is None else dict(case, atol=tolerance) for case, tolerance in pairs]
