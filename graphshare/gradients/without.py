"""Operators through which no gradient goes, each with the reason."""

from __future__ import annotations

from graphshare.gradients.gradient import no_gradient

_COUNTED = (
    "_contrib_allclose _contrib_bipartite_matching _contrib_box_encode _contrib_index_array _histogram "
    "_np_all _np_any _npi_around _npi_bincount _npi_bitwise_and_scalar _npi_bitwise_not "
    "_npi_bitwise_or_scalar _npi_bitwise_xor_scalar _npi_blackman _npi_diag_indices_from _npi_hamming "
    "_npi_hanning _npi_indices _npi_lcm_scalar _npi_logspace _npi_percentile _npi_share_memory "
    "_npi_unique _npx_constraint_check _npx_nonzero _zeros_without_dtype "
)
_INTEGERS = (
    "_contrib_quantize _contrib_quantize_asym _contrib_quantized_batch_norm "
    "_contrib_quantized_elemwise_add _contrib_quantized_elemwise_mul _contrib_quantized_embedding "
    "_sg_mkldnn_conv _sg_mkldnn_fully_connected _sg_mkldnn_selfatt_qk _sg_mkldnn_selfatt_valatt "
)
_DRAWN = "uniform normal exponential gamma poisson negative_binomial generalized_negative_binomial".split()

GRADIENTS = (
    *no_gradient(
        "it has no inputs of floating point",
        *"_zeros _ones _full _arange _linspace _eye _npi_zeros _npi_ones _npi_identity _npi_arange _npi_eye".split(),
        *(f"_random_{name}" for name in _DRAWN),
        "_random_randint",
    ),
    *no_gradient(
        "it reads no values, the shape alone",
        "_contrib_arange_like",
        "_npi_full_like",
        *(f"_random_{name}_like" for name in _DRAWN),
    ),
    *no_gradient(
        "a draw has no derivative by what it is drawn from",
        *(f"_sample_{name}" for name in _DRAWN),
        "_sample_multinomial",
        "_shuffle",
    ),
    *no_gradient(
        "boxes are chosen, not computed",
        *"_contrib_MultiBoxPrior _contrib_MultiBoxDetection _contrib_MultiBoxTarget _contrib_Proposal".split(),
        *"_contrib_MultiProposal _contrib_box_iou _contrib_box_decode".split(),
    ),
    *no_gradient(
        "quantized layers are for inference",
        *"_contrib_quantize_v2 _contrib_dequantize _contrib_requantize _contrib_quantized_act".split(),
        *"_contrib_quantized_flatten _contrib_quantized_pooling _contrib_quantized_concat".split(),
        *"_contrib_quantized_conv _contrib_quantized_fully_connected".split(),
    ),
    *no_gradient("quantized layers are for inference", *_INTEGERS.split()),
    *no_gradient("MXNet gives it none", "_np_atleast_1d", "_np_atleast_2d", "_np_atleast_3d"),
    *no_gradient("what it gives is counted, compared or constant", *_COUNTED.split()),
    *no_gradient(
        "MXNet registers none and refuses to go back through it",
        *"_contrib_RROIAlign _contrib_quantized_rnn".split(),
        is_zero=False,
    ),
)
