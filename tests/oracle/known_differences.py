"""Where this package and MXNet 1.9.1 are known to differ, and why that is left as it is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

WITHOUT_NUMBERS = frozenset(
    """
    attention batch_normalization boxes columns convolution ctc deconvolution deformable_regions densities detection hawkes
    image layers linear linear_algebra loss matching normalization numpy_editing numpy_linear numpy_statistics ordering
    proposals quantized quantized_elementwise reduction regions resizing rnn rotated_regions sampling softmax sparse
    """.split()
)
"""Families whose NaN and infinities are not compared.

Where they come up depends on the order in which oneDNN and LAPACK multiply and add, on their approximations, and in sums on
the compensation that loses an infinity unless it comes last.
"""

KNOWN: tuple[tuple[str, str, str], ...] = (
    # --- MXNet reads or leaves memory that nobody wrote
    ("_image_flip_.*", "values", "an image of one byte a pixel is turned in place, and its middle is not written"),
    ("_contrib_SyncBatchNorm", "output [12]", "outside training the statistics that it outputs are not written"),
    (
        "_npi_unique|_npx_nonzero|_npi_bincount|_npi_delete",
        "shape",
        "no array is given to a shape that values decide",
    ),
    ("gather_nd|_ravel_multi_index", "values", "indices below 0 are taken as they are"),
    ("_split_v2|_npi_hsplit", "values", "parts beyond the array are not written"),
    ("CTCLoss", "gradient", "of a label that is too long the gradient is not written"),
    ("_contrib_AdaptiveAvgPooling2D", "not finite", "the mean of an image without cells"),
    # --- MXNet is wrong, and only where nobody goes
    ("_npi_matmul", "gradient", "both sides stretched: their gradients are added up wrongly"),
    ("LeakyReLU", "gradient 0: values", "elu with a slope below 0 in float16 takes the sign of the output"),
    ("_contrib_Proposal|_contrib_MultiProposal", "values", "an image of less than one pixel"),
    ("_arange|_npi_arange", "values", "in float16 the beginning loses its fraction"),
    ("_npi_(hanning|hamming|blackman)", "values", "as whole numbers, where 1 has become a little less"),
    ("_npi_(eye|delete|insert_slice)|_histogram|_npi_identity|one_hot", "values|shape", "arguments that contradict each other"),
    (
        "_npi_around|_npi_average|_npi_square|_contrib_quadratic",
        "values",
        "whole numbers that overflow, or fractions between",
    ),
    ("_contrib_quantize_v2|_contrib_quantized_act", "values", "uint8 where int8 belongs is copied, not converted"),
    ("(amp_cast|_np_sum|_np_prod)", "dtype", "sums as booleans"),
    # --- drawn, or in an order that is none
    ("Dropout|RNN", "", "it draws, and nobody can draw the same again"),
    ("LeakyReLU", "output 1", "the slopes of rrelu, likewise"),
    ("argsort|sort|topk", "", "the order of equal numbers is that in which std::sort leaves them"),
    # --- written otherwise on purpose, or elsewhere
    ("SliceChannel", "shape", "a part without axes is kept with one: without numpy shapes () means unknown"),
    ("_linalg_(det|slogdet)", "shape|values", "likewise; and the sign of a determinant that is not finite"),
    ("Activation", "not finite", "oneDNN makes NaN 0 in some places of an array, and keeps it in others"),
    ("gammaln", "not finite", "the slope at a pole: a large number there, infinity here"),
    ("_random_pdf_uniform", "not finite", "bounds the wrong way round"),
    (".*", "bug AssertionError: inferred type", "of whole numbers where floating point belongs the result is floating point"),
    (".*", "bug AssertionError: inferred shape .*-", "a size below 0"),
    ("_npi_identity", "bug", "a shape that is not square"),
)
"""Operator, how the answers differ, and the reason; both of the former are regular expressions."""


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


WHERE = {
    "Deconvolution": (_is_wide_with_gaps, "values|not finite"),
    "Pooling": (_loses_its_largest, "gradient 0: values"),
    "_contrib_ROIAlign": (_is_of_no_image, "output 0"),
}
"""Operators that differ for some inputs only: for which, and how the answers differ."""


def is_known(case: dict[str, Any], inputs: list[Any], what: str) -> bool:
    """Whether this difference is one of those that are left."""
    if case["family"] in WITHOUT_NUMBERS and not all(np.isfinite(x).all() for x in inputs):
        return True
    where, how = WHERE.get(case["op"], (None, ""))
    if where is not None and where(case, inputs) and re.search(how, what):
        return True
    return any(re.fullmatch(op, case["op"]) and re.search(how, what) for op, how, _ in KNOWN)
