"""Operators that differ from MXNet 1.9.1 for some inputs only: a predicate each, the kind of difference, and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np


def _is_wide_with_gaps(case: dict[str, Any], inputs: list[Any]) -> bool:
    """In float64, strides together with dilation sum the wrong taps in MXNet."""
    steps = [re.findall(r"\d+", case["attrs"].get(key, "")) for key in ("stride", "dilate")]
    return inputs[0].dtype == np.float64 and all(
        any(int(step) > 1 for step in each) for each in steps
    )


def _loses_its_largest(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Windows of NaN and minus infinity alone, and roots of powers that nearly cancel."""
    return case["attrs"].get("pool_type") == "lp" or not np.isfinite(inputs[0]).all()


def _averages_in_full(case: dict[str, Any], inputs: list[Any]) -> bool:
    """oneDNN spreads the gradient of windows that reach beyond the padding otherwise; in float64,
    without it, it does not.
    """
    attrs = case["attrs"]
    averages = attrs.get("pool_type") == "avg" and attrs.get("pooling_convention") == "full"
    return averages and inputs[0].dtype == np.float32


def _is_of_no_image(case: dict[str, Any], inputs: list[Any]) -> bool:
    """What regions of an image below 0 give is not written."""
    return bool((inputs[1][..., 0] < 0).any())


def _is_ill_conditioned(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A matrix whose inverse loses half of the digits of its dtype, or one that is called symmetric and is not."""
    a = inputs[0].astype(np.float64)
    if not np.isfinite(a).all():
        return True
    square = a.shape[-1] == a.shape[-2]
    if (
        case["attrs"].get("hermitian") == "True"
        and square
        and not np.allclose(a, a.swapaxes(-1, -2))
    ):
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
    if not np.isfinite(inputs[0]).all():
        return True
    _, values, right = np.linalg.svd(inputs[0].astype(np.float64), full_matrices=False)
    gaps = np.abs(
        np.diff(np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1), axis=-1)
    )
    largest = np.sort(np.abs(right), axis=-1)
    tied = right.shape[-1] > 1 and bool((largest[..., -1] - largest[..., -2] < 1e-3).any())
    return tied or bool((gaps < 0.1 * values[..., :1]).any())


def _has_close_values(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Eigenvalues so close that the gradient, divided by their differences, loses digits."""
    if not np.isfinite(inputs[0]).all():
        return True
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
    deviation = (
        x.std(axis=int(case["attrs"].get("axis", -1)))
        if case["op"] == "LayerNorm"
        else x.std(axis=-1)
    )
    return bool((deviation < 1e-2 * abs(x).max(initial=0)).any())


def _has_negative_eps(case: dict[str, Any], inputs: list[Any]) -> bool:
    """The root of a variance less more than it is: NaN or an infinity."""
    return float(case["attrs"].get("eps", 0)) < 0


def _round_half_away(x: Any) -> Any:
    """Return the classes or lengths that MXNet reads numbers as."""
    return np.trunc(x + np.copysign(0.5, x)).astype(np.int64)


def _has_no_steps(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A sample without steps, or no label in any sample: the loss is not written."""
    padding = 0 if case["attrs"].get("blank_label", "first") == "first" else -1
    if case["attrs"].get("use_label_lengths") == "True":
        empty = bool((inputs[-1] < 1).all())
    else:
        empty = bool((_round_half_away(inputs[1])[:, :1] == padding).all())
    return empty or (
        case["attrs"].get("use_data_lengths") == "True" and bool((inputs[2] < 1).any())
    )


def _is_outside_of_softmax(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Lengths beyond the array, behind which memory is read; temperatures below 0, for which the
    exponential overflows.
    """
    if len(inputs) > 1 and bool(
        (inputs[1] > max(inputs[0].shape, default=0)).any() or (inputs[1] < 0).any()
    ):
        return True
    if len(inputs) > 1 and bool(
        (inputs[1] > inputs[0].shape[int(case["attrs"].get("axis", -1))]).any()
    ):
        return True
    if case["op"] == "log_softmax" and inputs[0].shape[int(case["attrs"].get("axis", -1))] == 1:
        return True  # oneDNN's logarithm of 1 is 1.4e-6
    return (
        case["attrs"].get("temperature", "None") != "None"
        and float(case["attrs"]["temperature"]) < 0
    )


def _counts_beyond(case: dict[str, Any], inputs: list[Any]) -> bool:
    """More events than there are: what lies behind them in memory is read."""
    return bool((inputs[6] > inputs[4].shape[1]).any())


def _is_outside_of_domain(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Parameters for which there is no density: deviations, rates and scales that are not above 0."""
    return any(bool((x <= 0).any()) for x in inputs[1:])


def _is_whole(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Whole numbers: a last digit of 12! (the exponential of a logarithm) or of tanh(19) becomes
    one whole when truncated.
    """
    return inputs[0].dtype.kind != "f"


def _is_beyond_dtype(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Bounds that the dtype does not hold: what C++ makes of them is undefined."""
    if inputs[0].dtype.kind not in "iu":
        return False
    limits = np.iinfo(inputs[0].dtype)
    return any(
        not limits.min <= float(case["attrs"].get(key, 0)) <= limits.max
        for key in ("a_min", "a_max", "scalar")
    )


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


def _has_reversed_or_empty_range(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A range that ends below its beginning, or that is 0: a bias in steps of nothing is converted from an infinity."""
    ends = [float(x[0]) for x in inputs if x.shape == (1,) and x.dtype == np.float32]
    pairs = list(zip(ends[::2], ends[1::2], strict=False))
    return _has_reversed_range(case, inputs) or any(low == high == 0 for low, high in pairs)


def _has_one_axis(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Data of one axis: a second pass of inference gives it the size of the output."""
    return inputs[0].ndim == 1


def _is_beyond_double(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Powers of whole numbers beyond 2**53, of bytes 2**24: the last digits are those of the C library's ``pow``."""
    if inputs[0].dtype.kind == "f":
        return False
    largest = 2.0**24 if inputs[0].dtype.itemsize == 1 else 2.0**53
    with np.errstate(all="ignore"):
        return bool(
            (
                np.abs(np.power(inputs[0].astype(np.float64), inputs[-1].astype(np.float64)))
                > largest
            ).any()
        )


def _has_close_eigenvalues(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Eigenvalues so close that rounding decides whether two of them are complex, which MXNet refuses above 1e-15."""
    if not np.isfinite(inputs[0]).all():
        return False
    values = np.linalg.eigvals(inputs[0].astype(np.float64))
    gaps = np.abs(values[..., :, None] - values[..., None, :])
    gaps[..., np.eye(values.shape[-1], dtype=bool)] = np.inf
    return bool((gaps < 1e-5 * np.abs(values).max(initial=0)).any())


def _has_inferred_front_axis(case: dict[str, Any], inputs: list[Any]) -> bool:
    """In reverse, -2 takes all axes, and MXNet ends while it looks for the one that -1 stands for."""
    shape = case["attrs"].get("shape", "").replace(" ", "")
    return (
        case["attrs"].get("reverse") in ("True", "1") and shape.startswith("(-1,") and "-2" in shape
    )


def _has_no_products(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A product of an array without elements, or one stretched to none: the other array's gradient is not written."""
    return any(not x.size for x in inputs)


def _has_long_labels(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A label of more steps than its sample, counting one more for each repetition: its gradient is not written."""
    padding = 0 if case["attrs"].get("blank_label", "first") == "first" else -1
    labels, steps = _round_half_away(inputs[1]), np.full(len(inputs[1]), inputs[0].shape[0])
    if case["attrs"].get("use_data_lengths") == "True":
        steps = inputs[2]
    lengths = np.where(
        (labels == padding).any(axis=1), (labels == padding).argmax(axis=1), labels.shape[1]
    )
    if case["attrs"].get("use_label_lengths") == "True":
        lengths = inputs[-1].astype(np.int64)
    rows = [row[: max(int(length), 0)] for row, length in zip(labels, lengths, strict=True)]
    return any(
        len(row) + int((row[1:] == row[:-1]).sum()) > count
        for row, count in zip(rows, steps, strict=True)
    )


def _labels_blank(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A label that is the blank itself, which is no class: its gradient is that of another path."""
    last = case["attrs"].get("blank_label", "first") == "last"
    return last and bool((_round_half_away(inputs[1]) == inputs[0].shape[2] - 1).any())


def _is_nuclear(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A sum of singular values that are close to each other or to 0."""
    return case["attrs"].get("flag") == "2" and _has_open_vectors(case, inputs)


def _takes_lengths(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Lengths have a gradient, which is not written."""
    return len(inputs) > 2


def _has_sequence_lengths(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Lengths have a gradient, which is not written."""
    return case["attrs"].get("use_sequence_length") == "True"


def _repeats_nothing(case: dict[str, Any], inputs: list[Any]) -> bool:
    """The output has no elements, and the gradient of the input is not written."""
    return "0" in re.findall(r"\d+", case["attrs"].get("reps", case["attrs"].get("repeats", "")))


def _is_beyond_integers(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A whole scalar that no int64 holds: MXNet takes its last 64 bits."""
    return case["attrs"].get("is_int") == "True" and abs(float(case["attrs"]["scalar"])) >= 2.0**63


def _has_more_inputs(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Both ends of differences are copied whatever is asked for; the image whose size is taken has
    a gradient not written.
    """
    return len(inputs) > 1


def _has_no_differences(case: dict[str, Any], inputs: list[Any]) -> bool:
    """No more elements than differences are taken: the gradient of an output without elements is not written."""
    return bool(
        inputs[0].shape[int(case["attrs"].get("axis", -1))] <= int(case["attrs"].get("n", 1))
    )


def _casts_to_whole(case: dict[str, Any], inputs: list[Any]) -> bool:
    """MXNet goes on through whole numbers with whole gradients, whose bits amp_cast leaves to be read as floats."""
    return not case["attrs"].get("dtype", "float32").startswith("float")


def _flips_odd_size(case: dict[str, Any], inputs: list[Any]) -> bool:
    """The middle row or column of an odd number is not written, unless the image is turned in place."""
    return bool(inputs[0].shape[1 if case["op"] == "_image_flip_left_right" else 0] % 2)


def _has_one_channel(case: dict[str, Any], inputs: list[Any]) -> bool:
    """An image of one channel is not written."""
    return bool(inputs[0].shape[-1] == 1)


def _has_negative_indices(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Indices below 0 are taken as they are."""
    return bool((inputs[-1] < 0).any())


def _is_half(case: dict[str, Any], inputs: list[Any]) -> bool:
    """In float16 the beginning loses its fraction."""
    return case["attrs"].get("dtype") == "float16"


def _is_not_single(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Windows are computed in float32: as whole numbers 1 has become a little less, and float64 has no more digits."""
    return case["attrs"].get("dtype", "float32") != "float32"


def _is_bytes(case: dict[str, Any], inputs: list[Any]) -> bool:
    """uint8 where int8 belongs is copied, not converted."""
    return bool(inputs[0].dtype == np.uint8)


def _draws(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Dropout between layers draws, and nobody can draw the same again."""
    return float(case["attrs"].get("p", 0)) != 0


def _drops(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A part of the numbers is dropped, and nobody can draw the same again."""
    return float(case["attrs"].get("p", 0.5)) != 0


def _always_drops(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Outside of training too."""
    return _drops(case, inputs) and case["attrs"].get("mode") == "always"


def _leaves_no_axis(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Parts of one axis that is taken away, or one matrix: what has no axis is kept with one, as () means unknown."""
    axes = inputs[0].ndim - 2 if "linalg" in case["op"] else inputs[0].ndim - 1
    return axes == 0 and not case.get("np_shape")


def _splits_beyond(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Parts beyond the array are not written, nor is the last one of indices together with sections below 0."""
    if int(case["attrs"].get("sections", 0)) < 0:
        return True
    axis = (
        1
        if case["op"] == "_npi_hsplit" and inputs[0].ndim > 1
        else int(case["attrs"].get("axis", 0))
    )
    places = [int(place) for place in re.findall(r"-?\d+", case["attrs"].get("indices", ""))]
    return places != sorted(places) or any(
        not 0 <= place <= inputs[0].shape[axis] for place in places
    )


def _is_infinite(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A determinant that is not finite has the sign, and the gradient, of the order of its products."""
    return (
        not np.isfinite(inputs[0]).all()
        or not np.isfinite(np.linalg.det(inputs[0].astype(np.float32))).all()
    )


def _has_unit_determinant(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A determinant of 1 or -1 but for rounding, which is all that its logarithm holds."""
    return bool((np.abs(np.linalg.slogdet(inputs[0].astype(np.float64))[1]) < 1e-6).any())


def _is_less_than_a_pixel(case: dict[str, Any], inputs: list[Any]) -> bool:
    """An image of less than one pixel, or proposals of NaN, which are in no order."""
    return bool((inputs[2][:, :2] < 1).any()) or not all(np.isfinite(x).all() for x in inputs)


def _has_large_counts(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Counts whose logarithms of the gamma function lose digits in their difference, which is taken in float32."""
    return bool((np.abs(inputs[0]) + np.abs(inputs[1].max(initial=0)) > 30).any())


def _pads_less(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Negative widths read gradients beyond the array."""
    return "-" in case["attrs"].get("pad_width", "")


def _has_sign_of_rounding(case: dict[str, Any], inputs: list[Any]) -> bool:
    """A row of Q whose sign LAPACK takes from a number that is 0 but for rounding.

    LAPACK gives a row the sign opposite to that of its first number, unless nothing is left to
    reflect. Which zeros are exact depends on the dtype, in MXNet float32, and on the processor. A
    noise spares the zeros that no arithmetic has touched.
    """
    a = inputs[0].astype(np.float64).swapaxes(-1, -2)
    noise = 1 + 1e-7 * np.random.default_rng(0).standard_normal(a.shape)
    reflectors, scales = np.linalg.qr(a * noise, mode="raw")
    remainders = np.abs(np.triu(reflectors, 1)).max(axis=-1)
    firsts = scales - 1  # relative to the norm of what is left of the row
    return any(bool(((x > 0) & (x < 1e-5)).any()) for x in (remainders, firsts))


def _has_ties(case: dict[str, Any], inputs: list[Any]) -> bool:
    """The order of equal numbers, and that of NaN, is the one in which std::sort leaves them."""
    return len(np.unique(inputs[0])) < inputs[0].size or not np.isfinite(inputs[0]).all()


def _has_nan(case: dict[str, Any], inputs: list[Any]) -> bool:
    """oneDNN makes NaN 0 in some places of an array, and keeps it in others."""
    return not np.isfinite(inputs[0]).all()


def _has_reversed_bounds(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Bounds the wrong way round, or equal."""
    return not bool((inputs[1] < inputs[2]).all())


def _divides_whole_by_zero(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Whole numbers by 0 end the process."""
    zero = "scalar" in case["attrs"] and abs(float(case["attrs"]["scalar"])) < 1
    return inputs[0].dtype.kind != "f" and (zero or any(bool((x == 0).any()) for x in inputs))


def _projects(case: dict[str, Any], inputs: list[Any]) -> bool:
    """An LSTM with projection has no code on a CPU."""
    return case["attrs"].get("projection_size", "None") != "None"


def _has_marks_outside(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Marks out of range are written to the memory beside the array; without marks there is none."""
    return not inputs[0].shape[1] or bool(
        (inputs[5] < 0).any() or (inputs[5] >= inputs[0].shape[1]).any()
    )


_PRODUCTS = "_npi_tensordot|_npi_tensordot_int_axes|_np_dot|_npi_matmul|broadcast_.*|"
_PRODUCTS += "_npi_(add|subtract|multiply|power|hypot|ldexp|arctan2|copysign|mod|true_divide|maximum|minimum|fmax|fmin)"
_DIVISIONS = (
    "elemwise_div|_scatter_elemwise_div|broadcast_div|_npi_true_divide|broadcast_mod|_npi_mod|_.*div_scalar|_.*mod_scalar|"
    "_.*divide_scalar"
)
_INVERSES = (
    "_linalg_gelqf|_linalg_inverse|_linalg_potri|_linalg_potrf|_npi_cholesky|_npi_solve|_npi_pinv|_npi_pinv_scalar_rcond|"
    "_npi_tensorinv|_npi_tensorsolve"
)
_BATCH_NORMS = "_contrib_quantized_batch_norm|BatchNorm|BatchNorm_v1|_contrib_SyncBatchNorm|_contrib_BatchNormWithReLU"
_DENSITIES = "_random_pdf_normal|_random_pdf_exponential|_random_pdf_gamma|_random_pdf_poisson|_random_pdf_negative_binomial"
WHERE: tuple[tuple[str, Callable[[dict[str, Any], list[Any]], bool], str], ...] = (
    (_INVERSES, _is_ill_conditioned, "values|not finite|[sS]ingular|convertible|in lapack"),
    ("_linalg_gelqf", _has_sign_of_rounding, "gradient 0: values"),
    (_BATCH_NORMS, _has_negative_eps, "values|not finite"),
    (_DENSITIES, _is_outside_of_domain, "values|not finite"),
    ("LayerNorm|GroupNorm|InstanceNorm", _is_far_from_zero, "values"),
    ("prod|nanprod|_np_prod", _overflows_in_between, "not finite"),
    ("_linalg_syrk|_linalg_gemm|_linalg_gemm2|_linalg_trmm", _has_no_elements, "values|not finite"),
    ("Pooling_v1", _has_no_elements, "not finite"),
    ("gamma|tanh|_npi_norm", _is_whole, "values"),
    ("_npi_around|_npi_average|_npi_square|_contrib_quadratic", _is_whole, "values"),
    ("_image_flip_.*", _flips_odd_size, "values|not finite"),
    ("_image_adjust_lighting", _has_one_channel, "values|not finite"),
    ("gather_nd|_ravel_multi_index", _has_negative_indices, "values"),
    ("_arange|_npi_arange", _is_half, "values"),
    ("_npi_(hanning|hamming|blackman)", _is_not_single, "values"),
    ("_contrib_quantize_v2|_contrib_quantized_act", _is_bytes, "values"),
    ("RNN", _draws, ""),
    ("Dropout", _drops, "gradient"),
    ("Dropout", _always_drops, ""),
    ("SliceChannel", _leaves_no_axis, "shape"),
    ("_split_v2|_npi_hsplit", _leaves_no_axis, r"shape \(1,\), MXNet \(\)"),
    ("_split_v2|_npi_hsplit", _splits_beyond, "values|not finite"),
    ("_linalg_(det|slogdet)", _leaves_no_axis, "shape"),
    ("_linalg_(det|slogdet)", _is_infinite, "values"),
    ("_linalg_(det|slogdet)", _is_ill_conditioned, "output [01]: values|gradient 0: values"),
    ("_linalg_slogdet", _has_unit_determinant, "output 1: values"),
    ("_npi_rldexp_scalar", _is_beyond_integers, "values"),
    ("_contrib_Proposal|_contrib_MultiProposal", _is_less_than_a_pixel, "values"),
    ("_random_pdf_.*negative_binomial", _has_large_counts, "values"),
    ("_npi_pad", _pads_less, "gradient"),
    ("RNN", _projects, "MXNet ends"),
    ("argsort|sort|topk", _has_ties, ""),
    ("Activation", _has_nan, "not finite"),
    ("_random_pdf_uniform", _has_reversed_bounds, "not finite"),
    ("_random_pdf_.*", _has_no_elements, "MXNet ends"),
    (_DIVISIONS, _divides_whole_by_zero, "MXNet ends"),
    ("_contrib_hawkesll", _has_marks_outside, "MXNet ends"),
    ("clip|_rdiv_scalar", _is_beyond_dtype, "values"),
    ("_minimum_scalar|_maximum_scalar", _is_beyond_dtype, "gradient"),
    ("_power|broadcast_power|_npi_power", _is_beyond_double, "values"),
    ("_contrib_quantized_fully_connected", _has_reversed_or_empty_range, "values"),
    ("_contrib_quantized_fully_connected", _has_one_axis, "Shape inconsistent"),
    ("_contrib_quantized_concat", _has_reversed_range, "values"),
    ("_npi_svd", _has_open_vectors, "gradient"),
    ("_npi_bincount|_npi_diff", _cancels, r"e-0[78]\)|np.float32\(-?0.0\)"),
    ("_linalg_syevd", _has_close_values, "gradient"),
    ("_npi_eigvals|_npi_eig", _has_close_eigenvalues, "Complex eigvals"),
    ("_npi_var|_npi_std", _divides_by_nothing, "values|not finite"),
    ("softmax|softmin|log_softmax", _is_outside_of_softmax, "values|not finite"),
    ("CTCLoss", _has_no_steps, "values|not finite"),
    ("CTCLoss", _has_long_labels, "gradient"),
    ("CTCLoss", _labels_blank, "gradient"),
    ("_npi_norm", _is_nuclear, "gradient"),
    ("CTCLoss", _takes_lengths, "in graphs: gradient"),
    ("_contrib_hawkesll", _counts_beyond, "values|not finite|MXNet ends"),
    ("Deconvolution", _is_wide_with_gaps, "values|not finite"),
    ("Pooling", _averages_in_full, "gradient 0: values"),
    ("Pooling", _loses_its_largest, "gradient 0: values"),
    ("_contrib_ROIAlign", _is_of_no_image, "output 0|in graphs: gradient"),
    ("Reshape", _has_inferred_front_axis, "MXNet ends"),
    (_PRODUCTS, _has_no_products, "in graphs: gradient"),
    ("_npi_ediff1d", _has_more_inputs, "in graphs: gradient"),
    ("_contrib_BilinearResize2D", _has_more_inputs, "in graphs: gradient"),
    ("_npi_diff", _has_no_differences, "in graphs: gradient"),
    ("tile|repeat", _repeats_nothing, "in graphs: gradient"),
    ("RNN", _has_sequence_lengths, "in graphs: gradient"),
    ("amp_cast|Cast", _casts_to_whole, "in graphs: gradient"),
)
"""Operators that differ for some inputs only: for which, and how the answers differ; "in graphs"
only the graph's gradients.
"""


def differs_where(case: dict[str, Any], inputs: list[Any], what: str) -> bool:
    """Whether a difference is one of :data:`WHERE`."""
    rows = [(where, how) for op, where, how in WHERE if re.fullmatch(op, case["op"])]
    return any(re.search(how, what) and _holds(where, case, inputs) for where, how in rows)


def _holds(
    where: Callable[[dict[str, Any], list[Any]], bool], case: dict[str, Any], inputs: list[Any]
) -> bool:
    """Whether a predicate holds; it does not for inputs of a refused node that have other axes."""
    try:
        return where(case, inputs)
    except (IndexError, TypeError, ValueError, np.linalg.LinAlgError):
        return False
