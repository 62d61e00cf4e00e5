"""Other names of operators: what MXNet 1.9.1 accepts in a file, and writes back as the canonical name."""

from __future__ import annotations

# One prefix in place of another: the alias's, the canonical name's, what follows.
_BY_PREFIX = (
    (
        "_sparse_",
        "",
        (
            "Embedding FullyConnected LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput "
            "_contrib_round_ste _contrib_sign_ste abs adam_update add_n arccos arccosh arcsin arcsinh arctan arctanh "
            "broadcast_add broadcast_div broadcast_mul broadcast_sub cast_storage cbrt ceil clip cos cosh degrees dot "
            "elemwise_add elemwise_div elemwise_mul elemwise_sub exp expm1 fix floor ftrl_update gamma gammaln log log10 "
            "log1p log2 make_loss mean negative norm radians relu rint round rsqrt sgd_mom_update sgd_update sigmoid sign "
            "sin sinh slice sqrt square sum tan tanh trunc where zeros_like"
        ),
    ),
    (
        "_npi_",
        "",
        "Custom argsort clip expand_dims gather_nd slice sort take tile",
    ),
    (
        "_npi_",
        "_",
        (
            "copyto cvimdecode cvimread cvimresize full histogram hypot_scalar linspace maximum_scalar minimum_scalar "
            "random_randint rnn_param_concat scatter_set_nd shuffle slice_assign slice_assign_scalar"
        ),
    ),
    (
        "_npi_",
        "_contrib_",
        "boolean_mask",
    ),
    (
        "_npx_",
        "",
        (
            "_image_adjust_lighting _image_crop _image_flip_left_right _image_flip_top_bottom _image_normalize "
            "_image_random_brightness _image_random_color_jitter _image_random_contrast _image_random_flip_left_right "
            "_image_random_flip_top_bottom _image_random_hue _image_random_lighting _image_random_saturation "
            "_image_resize _image_to_tensor batch_dot erf erfinv gamma gammaln gather_nd log_softmax one_hot pick "
            "reshape_like shape_array slice smooth_l1 softmax topk"
        ),
    ),
    (
        "_npx_",
        "_contrib_",
        "arange_like",
    ),
    (
        "linalg_",
        "_linalg_",
        (
            "det extractdiag extracttrian gelqf gemm gemm2 inverse makediag maketrian potrf potri slogdet sumlogdiag syrk "
            "trmm trsm"
        ),
    ),
    (
        "random_",
        "_random_",
        (
            "exponential gamma generalized_negative_binomial negative_binomial normal pdf_dirichlet pdf_exponential "
            "pdf_gamma pdf_generalized_negative_binomial pdf_negative_binomial pdf_normal pdf_poisson pdf_uniform poisson "
            "randint uniform"
        ),
    ),
    (
        "sample_",
        "_sample_",
        "exponential gamma generalized_negative_binomial multinomial negative_binomial normal poisson uniform",
    ),
)

# The canonical name, then its aliases.
_BY_NAME = """
_contrib_box_nms: _contrib_box_non_maximum_suppression
_contrib_MultiBoxDetection: _npx_multibox_detection
_contrib_MultiBoxPrior: _npx_multibox_prior
_contrib_MultiBoxTarget: _npx_multibox_target
_copy: identity
_div_scalar: _DivScalar
_equal: _Equal
_equal_scalar: _EqualScalar
_greater: _Greater
_greater_equal: _Greater_Equal
_greater_equal_scalar: _GreaterEqualScalar
_greater_scalar: _GreaterScalar
_hypot: _Hypot
_hypot_scalar: _HypotScalar
_lesser: _Lesser
_lesser_equal: _Lesser_Equal
_lesser_equal_scalar: _LesserEqualScalar
_lesser_scalar: _LesserScalar
_linalg_det: _npi_det
_linalg_inverse: _npi_inv
_linalg_slogdet: _npi_slogdet
_logical_and: _Logical_And
_logical_and_scalar: _LogicalAndScalar
_logical_or: _Logical_Or
_logical_or_scalar: _LogicalOrScalar
_logical_xor: _Logical_Xor
_logical_xor_scalar: _LogicalXorScalar
_maximum: _Maximum
_maximum_scalar: _MaximumScalar
_minimum: _Minimum
_minimum_scalar: _MinimumScalar
_minus_scalar: _MinusScalar
_mod: _Mod
_mod_scalar: _ModScalar
_mul_scalar: _MulScalar
_not_equal: _Not_Equal
_not_equal_scalar: _NotEqualScalar
_np_any: _np_sometrue
_np_cumsum: cumsum
_np_max: _np_amax
_np_min: _np_amin
_np_prod: _np_product
_npi_absolute: _npi_abs
_npx_nonzero: _npi_nonzero
_npx_reshape: _npi_reshape
_plus_scalar: _PlusScalar
_power: _Power
_power_scalar: _PowerScalar
_random_normal: normal
_random_uniform: uniform
_ravel_multi_index: ravel_multi_index
_rdiv_scalar: _RDivScalar
_rminus_scalar: _RMinusScalar
_rmod_scalar: _RModScalar
_rpower_scalar: _RPowerScalar
_shuffle: shuffle
_slice_assign: _crop_assign
_slice_assign_scalar: _crop_assign_scalar
_split_v2: _npi_split
_unravel_index: unravel_index
Activation: _npx_activation
add_n: ElementWiseSum _sparse_ElementWiseSum
BatchNorm: _npx_batch_norm
BlockGrad: _sparse_stop_gradient stop_gradient
broadcast_add: _sparse_broadcast_plus broadcast_plus
broadcast_axis: broadcast_axes
broadcast_maximum: _npi_maximum
broadcast_minimum: _npi_minimum
broadcast_sub: _sparse_broadcast_minus broadcast_minus
Cast: _npi_cast _npx_cast cast
Concat: _sparse_concat concat
Convolution: _npx_convolution
CTCLoss: _contrib_CTCLoss _contrib_ctc_loss ctc_loss
Deconvolution: _npx_deconvolution
Dropout: _npx_dropout
elemwise_add: _Plus _add _plus
elemwise_div: _Div _div
elemwise_mul: _Mul _mul
elemwise_sub: _Minus _minus _sub
Embedding: _npx_embedding
Flatten: _npx_batch_flatten flatten
FullyConnected: _npx_fully_connected
LayerNorm: _npx_layer_norm
LeakyReLU: _npx_leaky_relu
max: max_axis
min: min_axis
Pad: pad
pick: choose_element_0index
Pooling: _npx_pooling
repeat: _np_repeat
Reshape: reshape
reverse: flip
RNN: _npx_rnn
ROIPooling: _npx_roi_pooling
SequenceMask: _npx_sequence_mask
slice: crop
SliceChannel: split
SoftmaxOutput: Softmax
sum: sum_axis
SwapAxis: _npi_swapaxes swapaxes
"""


def _read() -> dict[str, str]:
    aliases = {alias + name: canonical + name for alias, canonical, names in _BY_PREFIX for name in names.split()}
    for line in _BY_NAME.strip().splitlines():
        canonical, _, names = line.partition(": ")
        aliases.update(dict.fromkeys(names.split(), canonical))
    return aliases


ALIASES = _read()
