"""Where this package and MXNet 1.9.1 are known to differ, and why that is left as it is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tests.oracle.known_inputs import differs_where

WITHOUT_NUMBERS = frozenset(
    """attention batch_normalization boxes columns convolution ctc deconvolution deformable_regions
    densities detection hawkes image layers linear linear_algebra loss matching normalization
    numpy_editing numpy_linear numpy_statistics ordering proposals quantized quantized_elementwise
    reduction regions resizing rnn rotated_regions sampling softmax sparse""".split()
)
"""Families whose NaN and infinities are not compared.

Where they come up depends on the order in which oneDNN and LAPACK multiply and add, on their
approximations, and in sums on the compensation that loses an infinity unless it comes last.
"""

KNOWN: tuple[tuple[str, str, str], ...] = (
    # --- MXNet reads or leaves memory that nobody wrote
    ("_while_loop", "output 0: (values|not finite)", "rows behind the last step are not written"),
    (
        "_contrib_SyncBatchNorm",
        "output [12]",
        "outside training the statistics that it outputs are not written",
    ),
    (
        "_npi_unique|_npx_nonzero|_npi_bincount|_npi_delete|_contrib_boolean_mask",
        "shape",
        "no array is given to a shape that values decide",
    ),
    (
        "_npi_pad",
        "refused .*nobody wrote",
        "negative widths read the memory beside the array in all modes but constant and edge",
    ),
    ("_contrib_AdaptiveAvgPooling2D", "not finite", "the mean of an image without cells"),
    # --- MXNet is wrong, and only where nobody goes
    ("_npi_matmul", "gradient", "both sides stretched: their gradients are added up wrongly"),
    (
        "LeakyReLU",
        "gradient 0: values",
        "elu with a slope below 0 in float16 takes the sign of the output",
    ),
    (
        "_npi_(eye|delete|insert_slice)|_histogram|_npi_identity|one_hot",
        "values|shape",
        "arguments that contradict each other",
    ),
    ("(amp_cast|_np_sum|_np_prod)", "dtype", "sums as booleans"),
    (
        "_npi_insert_scalar",
        "refused .* broadcast",
        "values longer than the array read the memory behind them",
    ),
    ("_npi_pinv.*", "refused .*square", "hermitian matrices that are not square"),
    (
        ".*",
        "refused .*has no elements",
        "limits of kernels, where MXNet gives nothing or what lies in memory",
    ),
    (
        "CTCLoss",
        "refused .* classes outside",
        "classes out of range read the memory behind the array",
    ),
    ("_contrib_MultiBoxDetection", "refused .*no class except", "scores without classes"),
    ("Pad", "refused .*must be smaller", "reflections of arrays without elements"),
    ("_npi_arange|_arange", "refused .*is empty", "without NumPy shapes 0 means unknown"),
    (
        "_contrib_index_array",
        "refused .*(axis .* of an array|axes is empty)",
        "no axes, or axes out of range read the memory behind the shape",
    ),
    (
        "SequenceLast|SequenceMask|SequenceReverse",
        "refused .*lengths are",
        "likewise, lengths beyond the array",
    ),
    ("CTCLoss", "refused .* lengths", "lengths beyond the array read the memory behind it"),
    ("_unravel_index", "refused .*out of bounds", "the first axis is taken as if it had no end"),
    ("_linalg_gelqf", "refused .*Singular", "the gradient of a singular matrix is not finite"),
    (
        "_npi_norm",
        r"shape .*, MXNet",
        "without an axis, a second pass of inference gives another shape than the first",
    ),
    (
        "broadcast_like",
        "refused .*lhs_axes",
        "axes of one side only: the other side's are read without a value",
    ),
    (
        "_npi_share_memory",
        "values",
        "whether two values have one buffer is a matter of the executor",
    ),
    (
        "_contrib_quantized_rnn",
        "(nan|inf)\\) instead of np.float32\\((nan|-?inf)",
        "overflows in another order of operations",
    ),
    (
        "_contrib_quantized_elemwise_add",
        "values",
        "sums of about 2**24 are rounded to float32 before they are added",
    ),
    (
        "Activation",
        r"values: .*e-0[678]\) instead",
        "oneDNN's softrelu of numbers far below 0 has an error of 2e-7",
    ),
    ("_npi_(hanning|hamming|blackman)", r"e-1\d\) instead", "0 but for rounding to float32"),
    (
        "_image_crop",
        "refused .*is not inside",
        "a part that begins before the image reads the memory before it",
    ),
    (
        "_npi_tensorsolve",
        r"refused .*axis -?\d+ of an array",
        "an axis beyond the array is taken for none",
    ),
    ("_npi_solve", r"e-1\d\) instead of .*e-0[5-9]\)", "0 but for the rounding of the factors"),
    (
        "BatchNorm",
        "refused .*length of gamma, beta and statistics",
        "it takes the number of channels for the length of each",
    ),
    (
        "_contrib_BatchNormWithReLU",
        "refused .*has 2 axes, expected 1",
        "it takes the number of channels for the shape of each",
    ),
    (
        "_contrib_interleaved_matmul_.*",
        "refused .*is not a multiple of",
        "sizes that the heads do not divide: the rest of a row is left out",
    ),
    (
        "_contrib_ModulatedDeformableConvolution",
        r"refused .*does not fit \(",
        "masks of more samples than there are",
    ),
    ("cast_storage", "refused .*only dense arrays", "sparse storage"),
    (
        "LeakyReLU",
        r"output 0: values: .*e-0[5-9]\) instead of .*e-0[5-9]\)",
        "gelu far below 0 is the rounding of 1 + erf(x)",
    ),
    (
        "_contrib_hawkesll",
        "refused .*expected one floating-point dtype",
        "logarithms of whole rates, truncated",
    ),
    (
        ".*",
        "refused .*bfloat16 is not supported; float32 holds",
        "bfloat16 is read from files, and computed as float32",
    ),
    # --- drawn, or in an order that is none
    ("LeakyReLU", "output 1", "the slopes of rrelu, likewise"),
    # --- written otherwise on purpose, or elsewhere
    ("gammaln", "not finite", "the slope at a pole: a large number there, infinity here"),
    (".*", "bug AssertionError: inferred shape .*-", "a size below 0"),
)
"""Operator, how the answers differ, and the reason; both of the former are regular expressions."""


WIDER: tuple[tuple[str, str, str], ...] = (
    (
        "_npi_flip|reverse|_np_cumsum|transpose|broadcast_axis",
        "index = -[0-9]+ must be in range",
        "axes are counted from the end, as elsewhere",
    ),
    ("_np_max|_np_min|_np_sum|_np_prod", "initial is not supported yet", "as in numpy"),
    (
        "norm",
        "data type do not match specified type",
        "out_dtype converts, as its description says",
    ),
    (
        "slice|_slice_assign.*",
        "sub-memory|delay_alloc|MKLDNN|Invalid",
        "bounds are clipped as in MXNet without oneDNN",
    ),
    (
        "Reshape",
        "0 dimensions|index = 0 must be in range|from.Size.. == to.Size",
        "without a shape the array is unchanged",
    ),
    (
        "Flatten|Reshape|reshape_like|_np_reshape|_npx_reshape|Concat|elemwise_add",
        "delay_alloc",
        "arrays without elements",
    ),
    (
        "_contrib_BatchNormWithReLU",
        "only supports MKL-DNN Backend",
        "oneDNN takes four axes and channels on axis 1",
    ),
    (
        "Pooling|_contrib_quantized_pooling",
        "< kernel",
        "oneDNN wants padding that is smaller than the kernel, MXNet without it does not",
    ),
    ("Pooling", "index = 1 must be in range", "the convention same reads a pad of three sizes"),
    (
        "Pooling|Pooling_v1|_contrib_quantized_pooling",
        r"dimensions are invalid|cannot be zero|exceeds input|index = 1 must be in range|stride.ndim\(\) >= 2",
        "global pooling has no use for kernel and padding",
    ),
    (
        "Convolution|Deconvolution|Pooling",
        "could not create a descriptor",
        "oneDNN has not all layouts and paddings that MXNet has",
    ),
    ("Deconvolution", "Dilate is not supported in 3d", "three axes are as two"),
    ("_np_atleast_.*", "Incompatible attr", "the arrays have nothing to do with each other"),
    (
        "_contrib_quantized_rnn",
        r"Provided = \[\d+\], inferred",
        "projection_size 0 is no projection",
    ),
    (
        "RNN",
        r"Provided = \[\d+,\d+,\d+\], inferred shape=\(\d+,\d+,0\)",
        "projection_size 0 is no projection",
    ),
    (
        "RNN",
        "use_sequence_length option is only available for cuDNN",
        "a projection of samples of several lengths",
    ),
    (
        "Dropout",
        r"index = -?\d+ must be in range",
        "where nothing is dropped axes of its mask have no meaning",
    ),
    (
        "_contrib_MultiBoxTarget",
        "negative_mining_thresh > 0",
        "a threshold below which no score is",
    ),
    (
        "sum",
        r"Exceeds input dimensions \[\]",
        "an array without axes may be reduced along its first, as in numpy",
    ),
    ("_npi_percentile", r"qshape.ndim\(\) <= 1U", "a matrix of percentiles, as in numpy"),
    (
        "_histogram",
        "cnt and range should both or neither",
        "where there are bins the range has no meaning",
    ),
    (
        "amp_cast|amp_multicast",
        "unknown type for MKLDNN",
        "oneDNN has no such dtype, and the cast is one",
    ),
    (
        "_cond|_while_loop|_foreach",
        "Incompatible attr|operands shape mismatch",
        "bodies under NumPy shapes",
    ),
    ("_while_loop", "Shape is unknown", "a loop without a step"),
    ("_contrib_quantized_batch_norm", "channel_count", "channels on another axis than 1"),
    ("dot", "dns.shape_.ndim", "a sparse forward pass is a hint"),
    (
        "softmax|softmin|log_softmax",
        r"index = \d must be in range",
        "axes are counted from the end, as elsewhere",
    ),
    ("softmax|softmin|log_softmax", "bad optional access", "use_length None is False"),
    ("_random_pdf_.*", "InferShape failed", "parameters without axes"),
    ("_npi_delete", "Shape is unknown", "a position, and a step that only counts without one"),
    (
        "_contrib_ModulatedDeformableConvolution|_contrib_DeformableConvolution",
        "tuple.h|dilate",
        "a negative dilate",
    ),
    (
        "_npi_norm",
        "Invalid norm order|Shape size mismatch|Improper number",
        "the flag only says which function MXNet calls",
    ),
    (
        "_sg_mkldnn_.*",
        "Type inconsistent",
        "the ends of a range in another dtype are numbers all the same",
    ),
    ("_copyto", "cannot decide dtypes", "it infers no dtype"),
    (
        "RNN",
        "state clipping is only supported",
        "oneDNN's layers ignore the limits of states, those without it refuse them",
    ),
    ("_sparse_retain", "not implemented", "dense rows stand for row-sparse ones"),
    (
        "_zeros_without_dtype",
        "cannot decide dtypes",
        "float32, MXNet's own default, where nothing says otherwise",
    ),
)
"""Operators that compute what MXNet refuses: the operator, MXNet's message, and what it does instead or why."""

CRASHES: tuple[tuple[str, str], ...] = (
    (
        "_contrib_quantize_asym",
        "without oneDNN's own graph passes it calls a function that is not there",
    ),
    ("_contrib_quantized_concat", "an axis from the end"),
    ("_contrib_ModulatedDeformableConvolution|_contrib_DeformableConvolution", "im2col_step 0"),
    ("_npi_lcm_scalar|smooth_l1", "whole numbers with an attribute of floating point"),
    ("_contrib_quantized_elemwise_add", "int8 and uint8 together"),
    ("_npi_var|_npi_std|_npi_average", "whole numbers divided by a count of 0"),
    ("_split_v2|_npi_hsplit", "indices together with sections below 0"),
    ("_linalg_gemm2|_linalg_gemm", "an axis of rows that is not the last but one"),
)
"""Operators that end MXNet's process, alone in a graph."""

WITHOUT_ELEMENTS = frozenset(
    """
    _contrib_boolean_mask _contrib_index_copy _linalg_trmm _linalg_trsm dot
    Activation BatchNorm CTCLoss Convolution Deconvolution Flatten FullyConnected GridGenerator GroupNorm
    InstanceNorm LRN LayerNorm Pooling RNN Reshape SequenceLast SequenceMask SequenceReverse SoftmaxActivation
    SoftmaxOutput _contrib_BatchNormWithReLU _contrib_ModulatedDeformableConvolution _contrib_MultiBoxDetection
    _contrib_MultiBoxPrior _contrib_MultiProposal _contrib_ROIAlign _contrib_bipartite_matching _contrib_box_nms
    _contrib_dequantize _contrib_quantize _contrib_quantize_asym _contrib_quantize_v2 _contrib_quantized_act
    _contrib_quantized_batch_norm _contrib_quantized_concat _contrib_quantized_conv _contrib_quantized_elemwise_add
    _contrib_quantized_flatten _contrib_quantized_fully_connected _contrib_quantized_pooling _contrib_quantized_rnn
    _contrib_requantize _linalg_gelqf _linalg_gemm _linalg_gemm2 _linalg_syevd _linalg_syrk _np_diagflat _np_prod
    _np_sum _npi_average _npi_mean _npi_std _npi_var _random_pdf_dirichlet _random_pdf_exponential _random_pdf_gamma
    _random_pdf_generalized_negative_binomial _random_pdf_negative_binomial _random_pdf_normal _random_pdf_poisson
    _random_pdf_uniform _ravel_multi_index _unravel_index amp_cast amp_multicast batch_take broadcast_axis
    broadcast_like broadcast_to depth_to_space elemwise_add max mean min moments nanprod nansum norm prod repeat
    space_to_depth sum
    """.split()
)
"""Operators that compute arrays without elements, of which MXNet says that they are not allocated, or ends."""


def lacks_elements(case: dict[str, Any], inputs: list[Any], what: str) -> bool:
    """Whether MXNet refuses an array without elements, or ends, where the operator is listed."""
    return (
        case["op"] in WITHOUT_ELEMENTS
        and what.startswith("MXNet")
        and any(not x.size for x in inputs)
    )


def is_wider(case: dict[str, Any], what: str) -> bool:
    """Whether MXNet's refusal is one of those where this package computes."""
    return what.startswith("MXNet refuses") and any(
        re.fullmatch(op, case["op"]) and re.search(message, what) for op, message, _ in WIDER
    )


def may_crash(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Whether the operator is one of those that end MXNet's process, for these inputs at least."""
    return any(re.fullmatch(op, case["op"]) for op, _ in CRASHES) or differs_where(
        case, inputs, "MXNet ends"
    )


def is_known(case: dict[str, Any], inputs: list[Any], what: str) -> bool:
    """Whether this difference is one of those that are left."""
    if case["family"] in WITHOUT_NUMBERS and not all(np.isfinite(x).all() for x in inputs):
        return True
    return differs_where(case, inputs, what) or any(
        re.fullmatch(op, case["op"]) and re.search(how, what) for op, how, _ in KNOWN
    )
