"""Operators that differ from MXNet 1.9.1 for some inputs only: a predicate each, the kind of difference, and why."""

from __future__ import annotations

import re
from typing import Any

import numpy as np


def _is_wide_with_gaps(case: dict[str, Any], inputs: list[Any]) -> bool:
    """In float64, strides together with dilation sum the wrong taps in MXNet."""
    steps = [re.findall(r"\d+", case["attrs"].get(key, "")) for key in ("stride", "dilate")]
    return inputs[0].dtype == np.float64 and all(any(int(step) > 1 for step in each) for each in steps)


def _loses_its_largest(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Windows of NaN and minus infinity alone, and roots of powers that nearly cancel."""
    return case["attrs"].get("pool_type") == "lp" or not np.isfinite(inputs[0]).all()


def _is_of_no_image(case: dict[str, Any], inputs: list[Any]) -> bool:
    """What regions of an image below 0 give is not written."""
    return bool((inputs[1][..., 0] < 0).any())


def _is_ill_conditioned(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A matrix whose inverse loses half of the digits of its dtype, or one that is called symmetric and is not."""
    a = inputs[0].astype(np.float64)
    square = a.shape[-1] == a.shape[-2]
    if case["attrs"].get("hermitian") == "True" and square and not np.allclose(a, a.swapaxes(-1, -2)):
        return True
    if case["op"] == "_linalg_potri" and square:
        a = np.tril(a) if case["attrs"].get("lower", "True") == "True" else np.triu(a)
        a = a @ a.swapaxes(-1, -2)
    if case["op"] == "_npi_tensorsolve" or case["op"] == "_npi_tensorinv":
        a = a.reshape(int(np.sqrt(a.size)), -1)
    limit = 1e6 if inputs[0].dtype == np.float64 else 1e2 if "pinv" in case["op"] else 1e3
    values = np.linalg.svd(a, compute_uv=False)
    return values.size > 0 and bool((values[..., -1] * limit <= values[..., 0]).any())


def _overflows_in_between(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Products in float16, which overflow or not as the order of the factors is."""
    return bool(inputs[0].dtype == np.float16)


def _has_open_vectors(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Singular values that are close to each other or to 0, or a sign that two elements of equal size decide."""
    _, values, right = np.linalg.svd(inputs[0].astype(np.float64), full_matrices=False)
    gaps = np.abs(np.diff(np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1), axis=-1))
    largest = np.sort(np.abs(right), axis=-1)
    tied = right.shape[-1] > 1 and bool((largest[..., -1] - largest[..., -2] < 1e-3).any())
    return tied or bool((gaps < 0.1 * values[..., :1]).any())


def _has_close_values(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Eigenvalues so close that the gradient, divided by their differences, loses digits."""
    values = np.linalg.eigvalsh(inputs[0].astype(np.float64))
    return bool((np.diff(values, axis=-1) < 0.1 * abs(values).max(axis=-1, keepdims=True)).any())


def _has_no_elements(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Sums of no products are not written."""
    return any(not x.size for x in inputs)


def _is_far_from_zero(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Numbers far larger than their deviation: float32 loses digits in the difference to the mean."""
    x = inputs[0].astype(np.float64)
    if case["op"] == "LayerNorm" and x.shape[int(case["attrs"].get("axis", -1))] == 2:
        return True  # both are 1 and -1 whatever they were, and the gradient is what rounding leaves of 0
    deviation = x.std(axis=int(case["attrs"].get("axis", -1))) if case["op"] == "LayerNorm" else x.std(axis=-1)
    return bool((deviation < 1e-2 * abs(x).max(initial=0)).any())


def _has_negative_eps(case: dict[str, Any], inputs: list[Any]) -> bool:
    """The root of a variance less more than it is: NaN or an infinity."""
    return float(case["attrs"].get("eps", 0)) < 0


def _has_no_steps(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A sample without steps, or no label in any sample: the loss is not written."""
    padding = 0 if case["attrs"].get("blank_label", "first") == "first" else -1
    empty = case["attrs"].get("use_label_lengths") != "True" and bool((inputs[1].astype(np.int64)[:, :1] == padding).all())
    return empty or (case["attrs"].get("use_data_lengths") == "True" and bool((inputs[2] < 1).any()))


def _is_outside_of_softmax(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Lengths beyond the array, behind which memory is read; temperatures below 0, for which the exponential overflows."""
    if len(inputs) > 1 and bool((inputs[1] > max(inputs[0].shape, default=0)).any() or (inputs[1] < 0).any()):
        return True
    if len(inputs) > 1 and bool((inputs[1] > inputs[0].shape[int(case["attrs"].get("axis", -1))]).any()):
        return True
    if case["op"] == "log_softmax" and inputs[0].shape[int(case["attrs"].get("axis", -1))] == 1:
        return True  # oneDNN's logarithm of 1 is 1.4e-6
    return case["attrs"].get("temperature", "None") != "None" and float(case["attrs"]["temperature"]) < 0


def _counts_beyond(case: dict[str, Any], inputs: list[Any]) -> bool:
    """More events than there are: what lies behind them in memory is read."""
    return bool((inputs[6] > inputs[4].shape[1]).any())


def _is_outside_of_domain(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Parameters for which there is no density: deviations, rates and scales that are not above 0."""
    return any(bool((x <= 0).any()) for x in inputs[1:])


def _is_whole(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Whole numbers: a last digit of 12! (the exponential of a logarithm) or of tanh(19) becomes one whole when truncated."""
    return inputs[0].dtype.kind != "f"


def _is_beyond_dtype(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Bounds that the dtype does not hold: what C++ makes of them is undefined."""
    if inputs[0].dtype.kind not in "iu":
        return False
    limits = np.iinfo(inputs[0].dtype)
    return any(not limits.min <= float(case["attrs"].get(key, 0)) <= limits.max for key in ("a_min", "a_max", "scalar"))


def _has_reversed_range(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A range that ends below its beginning."""
    ends = [float(x[0]) for x in inputs if x.shape == (1,) and x.dtype == np.float32]
    return any(low > high for low, high in zip(ends[::2], ends[1::2], strict=False))


def _cancels(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Sums and differences that are 0 but for rounding, in another order of additions."""
    return inputs[-1].dtype.kind == "f"


def _divides_by_nothing(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Fewer elements than ``ddof``, or whole numbers that overflow, as uint8 does below 0."""
    return float(case["attrs"].get("ddof", 0)) > 1 or inputs[0].dtype.kind != "f"


_INVERSES = (
    "_linalg_gelqf|_linalg_inverse|_linalg_potri|_linalg_potrf|_npi_cholesky|_npi_solve|_npi_pinv|_npi_pinv_scalar_rcond|"
    "_npi_tensorinv|_npi_tensorsolve"
)
_BATCH_NORMS = "_contrib_quantized_batch_norm|BatchNorm|BatchNorm_v1|_contrib_SyncBatchNorm|_contrib_BatchNormWithReLU"
_DENSITIES = "_random_pdf_normal|_random_pdf_exponential|_random_pdf_gamma|_random_pdf_poisson|_random_pdf_negative_binomial"
WHERE = {
    **dict.fromkeys(_INVERSES.split("|"), (_is_ill_conditioned, "values|not finite|[sS]ingular|convertible|in lapack")),
    **dict.fromkeys(_BATCH_NORMS.split("|"), (_has_negative_eps, "values|not finite")),
    **dict.fromkeys(_DENSITIES.split("|"), (_is_outside_of_domain, "values|not finite")),
    **dict.fromkeys(("LayerNorm", "GroupNorm", "InstanceNorm"), (_is_far_from_zero, "values")),
    **dict.fromkeys(("prod", "nanprod", "_np_prod"), (_overflows_in_between, "not finite")),
    **dict.fromkeys(("_linalg_syrk", "_linalg_gemm", "_linalg_gemm2", "_linalg_trmm"), (_has_no_elements, "values|not finite")),
    "Pooling_v1": (_has_no_elements, "not finite"),
    "gamma": (_is_whole, "values"),
    "clip": (_is_beyond_dtype, "values"),
    "_rdiv_scalar": (_is_beyond_dtype, "values"),
    "_contrib_quantized_fully_connected": (_has_reversed_range, "values"),
    "_npi_svd": (_has_open_vectors, "gradient"),
    "_npi_bincount": (_cancels, r"e-0[78]\)|np.float32\(-?0.0\)"),
    "_npi_diff": (_cancels, r"e-0[78]\)|np.float32\(-?0.0\)"),
    "tanh": (_is_whole, "values"),
    "_linalg_syevd": (_has_close_values, "gradient"),
    "_npi_var": (_divides_by_nothing, "values|not finite"),
    "_npi_std": (_divides_by_nothing, "values|not finite"),
    **dict.fromkeys(("softmax", "softmin", "log_softmax"), (_is_outside_of_softmax, "values|not finite")),
    "CTCLoss": (_has_no_steps, "values|not finite"),
    "_contrib_hawkesll": (_counts_beyond, "values|not finite"),
    "Deconvolution": (_is_wide_with_gaps, "values|not finite"),
    "Pooling": (_loses_its_largest, "gradient 0: values"),
    "_contrib_ROIAlign": (_is_of_no_image, "output 0"),
}
"""Operators that differ for some inputs only: for which, and how the answers differ."""
