"""Operators that compute dtypes for which MXNet has no code: by the kind of dtype, and what MXNet says.

numpy computes in any dtype, and there is no reason to refuse what has one meaning only. A dtype of
an operator that is not listed is reported as a disagreement.
"""

from __future__ import annotations

import re
from typing import Any

MESSAGES = (
    "Unknown type enum|support floating point types|does not support boolean|does not support "
    "float16|Unsupported (data )?type|"
    "data type do not match specified type|get_with_shape|unknown type for MKLDNN|FP16 gemm|float16 fully connected|"
    "Other DTypes|Only FP32|[Nn]ot impl|dot only supports|only supports|Type inconsistent|should be int type|"
    "Binary function only support|could not create a (primitive )?descriptor|== mshadow::kFloat32 "
)
OPERATORS: dict[str, frozenset[str]] = {
    "bool": frozenset(
        """
        Activation BatchNorm BatchNorm_v1 BilinearSampler CTCLoss Concat Convolution Convolution_v1 Crop
        Deconvolution Dropout Embedding FullyConnected GridGenerator GroupNorm IdentityAttachKLSparseReg
        L2Normalization LayerNorm Pad RNN ROIPooling SequenceLast SequenceMask SequenceReverse SliceChannel
        SoftmaxActivation SpatialTransformer SwapAxis UpSampling _contrib_AdaptiveAvgPooling2D
        _contrib_BatchNormWithReLU _contrib_BilinearResize2D _contrib_DeformableConvolution
        _contrib_DeformablePSROIPooling _contrib_ModulatedDeformableConvolution _contrib_MultiBoxPrior
        _contrib_PSROIPooling _contrib_ROIAlign _contrib_RROIAlign _contrib_SyncBatchNorm _contrib_allclose
        _contrib_arange_like _contrib_bipartite_matching _contrib_div_sqrt_dim _contrib_index_copy
        _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_valatt _contrib_quadratic
        _contrib_quantize _contrib_quantize_v2 _contrib_quantized_act _contrib_quantized_batch_norm
        _contrib_quantized_conv _contrib_quantized_elemwise_mul _contrib_quantized_embedding
        _contrib_quantized_fully_connected _contrib_quantized_rnn _contrib_requantize _contrib_round_ste
        _contrib_sign_ste _equal _grad_add _greater _greater_equal _histogram _hypot _image_crop
        _image_flip_left_right _image_flip_top_bottom _image_to_tensor _lesser _lesser_equal _linalg_det
        _linalg_extractdiag _linalg_extracttrian _linalg_gemm _linalg_gemm2 _linalg_makediag _linalg_maketrian
        _linalg_slogdet _linalg_sumlogdiag _linalg_syrk _linalg_trmm _logical_and _logical_or _logical_xor _maximum
        _minimum _not_equal _np_atleast_1d _np_atleast_2d _np_atleast_3d _np_diag _np_diagflat _np_diagonal _np_dot
        _np_moveaxis _np_roll _np_trace _np_transpose _npi_absolute _npi_arccos _npi_arccosh _npi_arcsin
        _npi_arcsinh _npi_arctan _npi_arctanh _npi_argmax _npi_argmin _npi_around _npi_average _npi_bincount
        _npi_bitwise_and _npi_bitwise_or _npi_bitwise_xor _npi_cbrt _npi_ceil _npi_column_stack _npi_copysign
        _npi_cos _npi_cosh _npi_degrees _npi_delete _npi_diff _npi_dstack _npi_ediff1d _npi_eig _npi_eigh
        _npi_eigvals _npi_eigvalsh _npi_exp _npi_expm1 _npi_fix _npi_flip _npi_floor _npi_hsplit _npi_hstack
        _npi_insert_scalar _npi_insert_slice _npi_insert_tensor _npi_ldexp _npi_log _npi_log10 _npi_log1p _npi_log2
        _npi_matmul _npi_percentile _npi_polyval _npi_radians _npi_reciprocal _npi_rint _npi_rot90 _npi_sign
        _npi_sin _npi_sinh _npi_sqrt _npi_std _npi_tan _npi_tanh _npi_tensordot _npi_tensordot_int_axes _npi_tril
        _npi_true_divide _npi_trunc
        _npi_unique _npi_var _npi_vstack _npx_relu _npx_sigmoid _power _random_pdf_dirichlet _random_pdf_exponential
        _random_pdf_gamma _random_pdf_generalized_negative_binomial _random_pdf_negative_binomial _random_pdf_normal
        _random_pdf_poisson _random_pdf_uniform _ravel_multi_index _rnn_param_concat _slice_assign
        _slice_assign_scalar _split_v2 _unravel_index abs add_n arccos arccosh arcsin arcsinh arctan arctanh argmax
        argmax_channel argmin argsort batch_dot batch_take broadcast_add broadcast_axis broadcast_equal
        broadcast_greater broadcast_greater_equal broadcast_hypot broadcast_lesser broadcast_lesser_equal
        broadcast_logical_and broadcast_logical_or broadcast_logical_xor broadcast_maximum broadcast_minimum
        broadcast_mul broadcast_not_equal broadcast_power cbrt ceil clip col2im cos cosh degrees depth_to_space diag
        dot elemwise_add elemwise_mul erf erfinv exp expm1 fix floor gamma gammaln gather_nd im2col khatri_rao log
        log10 log1p log2 logical_not one_hot pick radians rcbrt reciprocal relu reverse rint round rsqrt sigmoid
        sign sin sinh slice_axis slice_like smooth_l1 softsign sort space_to_depth sqrt tan tanh topk transpose
        trunc where
        """.split()
    ),
    "whole": frozenset(
        """
        Activation BatchNorm BatchNorm_v1 BilinearSampler CTCLoss Convolution Convolution_v1 Crop Deconvolution
        Dropout FullyConnected GridGenerator GroupNorm IdentityAttachKLSparseReg L2Normalization LayerNorm Pad
        Pooling RNN ROIPooling SoftmaxActivation SpatialTransformer UpSampling _contrib_AdaptiveAvgPooling2D
        _contrib_BilinearResize2D _contrib_DeformableConvolution _contrib_DeformablePSROIPooling
        _contrib_ModulatedDeformableConvolution _contrib_MultiBoxDetection _contrib_MultiBoxPrior
        _contrib_MultiBoxTarget _contrib_MultiProposal _contrib_PSROIPooling _contrib_Proposal _contrib_ROIAlign
        _contrib_RROIAlign _contrib_SyncBatchNorm _contrib_bipartite_matching _contrib_box_encode _contrib_box_nms
        _contrib_dequantize _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_valatt
        _contrib_quantize _contrib_quantize_asym _contrib_quantize_v2 _contrib_quantized_act
        _contrib_quantized_batch_norm _contrib_quantized_concat _contrib_quantized_conv
        _contrib_quantized_elemwise_add _contrib_quantized_elemwise_mul _contrib_quantized_fully_connected
        _contrib_quantized_pooling _contrib_quantized_rnn _contrib_requantize _linalg_det _linalg_extractdiag
        _linalg_extracttrian _linalg_gemm _linalg_gemm2 _linalg_makediag _linalg_maketrian _linalg_potri
        _linalg_slogdet _linalg_sumlogdiag _linalg_syrk _linalg_trmm _np_atleast_1d _np_atleast_2d _np_atleast_3d
        _np_dot _npi_cholesky _npi_matmul _npi_tensordot _npi_tensordot_int_axes _npi_tensorinv
        _npx_constraint_check _random_pdf_dirichlet _random_pdf_exponential _random_pdf_gamma
        _random_pdf_generalized_negative_binomial _random_pdf_negative_binomial _random_pdf_normal
        _random_pdf_poisson _random_pdf_uniform batch_dot col2im dot im2col khatri_rao
        """.split()
    ),
    "float16": frozenset(
        """
        BatchNorm_v1 CTCLoss Convolution Convolution_v1 Crop Deconvolution FullyConnected GridGenerator
        IdentityAttachKLSparseReg InstanceNorm LRN RNN SoftmaxActivation SpatialTransformer
        _contrib_DeformableConvolution _contrib_ModulatedDeformableConvolution _contrib_MultiBoxDetection
        _contrib_MultiBoxPrior _contrib_MultiBoxTarget _contrib_MultiProposal _contrib_Proposal
        _contrib_SyncBatchNorm _contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt
        _contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt _contrib_quantize
        _contrib_quantize_v2 _contrib_quantized_act _contrib_quantized_batch_norm _contrib_quantized_conv
        _contrib_quantized_elemwise_mul _contrib_quantized_fully_connected _contrib_quantized_pooling
        _contrib_quantized_rnn _contrib_requantize _linalg_extractdiag _linalg_extracttrian _linalg_gemm
        _linalg_gemm2 _linalg_makediag _linalg_maketrian _linalg_potri _linalg_sumlogdiag _linalg_syrk _linalg_trmm
        _np_atleast_1d _np_atleast_2d _np_atleast_3d _np_dot _npi_around _npi_bincount _npi_matmul _npi_tensordot
        _npi_tensordot_int_axes _npi_true_divide _npx_constraint_check argsort batch_dot dot khatri_rao sort
        """.split()
    ),
    "float32": frozenset(
        """
        _contrib_quantized_act _contrib_quantized_batch_norm _contrib_quantized_conv _contrib_quantized_elemwise_mul
        _contrib_quantized_fully_connected _contrib_quantized_pooling _contrib_quantized_rnn _contrib_requantize
        _npi_bincount _npi_true_divide _npx_constraint_check
        """.split()
    ),
    "float64": frozenset(
        """
        BatchNorm_v1 CTCLoss Crop GridGenerator IdentityAttachKLSparseReg InstanceNorm LRN SoftmaxActivation
        _contrib_MultiBoxDetection _contrib_MultiBoxPrior _contrib_MultiBoxTarget _contrib_MultiProposal
        _contrib_Proposal _contrib_SyncBatchNorm _contrib_interleaved_matmul_encdec_qk
        _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_qk
        _contrib_interleaved_matmul_selfatt_valatt _contrib_quantize _contrib_quantize_v2 _contrib_quantized_act
        _contrib_quantized_batch_norm _contrib_quantized_conv _contrib_quantized_elemwise_mul
        _contrib_quantized_fully_connected _contrib_quantized_pooling _contrib_quantized_rnn _contrib_requantize
        _np_atleast_1d _np_atleast_2d _np_atleast_3d _npi_bincount _npi_true_divide _npx_constraint_check
        """.split()
    ),
}


def has_wider_dtype(case: dict[str, Any], inputs: list[Any], what: str) -> bool:
    """Whether MXNet refuses a dtype of an input that the operator is listed with."""
    if not (what.startswith("MXNet refuses") and re.search(MESSAGES, what)):
        return False
    kinds = {"whole" if x.dtype.kind in "iu" else str(x.dtype) for x in inputs}
    return any(case["op"] in OPERATORS.get(kind, ()) for kind in kinds)
