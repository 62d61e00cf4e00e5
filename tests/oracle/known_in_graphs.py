"""What MXNet 1.9.1 does only to operators inside of graphs: inputs that it rewrites, refusals,
gradients that are wrong.
"""

from __future__ import annotations

import re

REWRITTEN: dict[str, tuple[int, ...] | None] = {
    "BatchNorm": (1,),
    "BatchNorm_v1": (1,),
    "_contrib_SyncBatchNorm": (1,),
    "_contrib_BatchNormWithReLU": (1,),
    "_npi_insert_scalar": None,
    "_npi_insert_slice": None,
    "_npi_insert_tensor": None,
    "_npi_concatenate": None,
    "_npi_hstack": None,
    "_npi_dstack": None,
    "_npi_vstack": None,
    "_npi_column_stack": None,
    "_npi_polyval": None,
}
"""Operators of which MXNet writes inputs in place, and which (None: all): gamma with fix_gamma, or the inferred shape.

``InferShape`` of insertions and of joins assigns another shape to its inputs
(np_insert_op_scalar.cc: ``valshape.assign``), so a value that others read is reshaped for them too.
Alone, with variables of their own, they compute what they should.
"""

GUESSED = {"_rnn_param_concat": 0, "FullyConnected": 1}
"""The size that MXNet takes where none is known: that of weights, or of what the inputs were computed from."""

IN_GRAPHS: tuple[tuple[str, str, str, str], ...] = (
    (
        "_npi_column_stack|_npi_hstack|_npi_dstack|_npi_vstack",
        "refusal",
        "Shape inconsistent",
        "each pass of inference joins the inputs anew",
    ),
    (
        "FullyConnected",
        "refusal",
        "Shape inconsistent",
        "data of one axis: a second pass of inference gives it the size of the output",
    ),
    (
        "_npi_norm",
        "refusal",
        "Invalid norm order|Improper number|bad optional access|Incompatible attr",
        "a second pass of inference takes other axes",
    ),
    (
        "_cond|_foreach|_while_loop|_npi_unique|_npx_nonzero|_npi_delete|_npi_bincount|_contrib_boolean_mask",
        "refusal",
        (
            r"Shape is unknown|must be in range \[0, -1\)|shape ndim must be|ndim\(\) == \d+U? \(-1 "
            r"vs\.|: InferShape\(in_shape"
        ),
        "behind an operator whose shapes are not inferred the executor binds anew, with shapes that it does not know",
    ),
    (
        "_contrib_interleaved_matmul_.*",
        "gradient",
        "relative difference",
        "where no gradient of the first input is requested, that of the second is not written",
    ),
    (
        "LayerNorm",
        "gradient",
        "relative difference",
        "the gradient of numbers without a deviation is what rounding leaves of 0, times 1 / sqrt(eps)",
    ),
    (
        "_npi_eig|_npi_eigvals",
        "refusal",
        "Complex eigvals",
        "rounding from before makes a pair of close eigenvalues complex",
    ),
    (
        "LeakyReLU",
        "gradient",
        "relative difference",
        "the memory plan overwrites what the slopes of prelu still read",
    ),
    (
        "_sg_mkldnn_.*",
        "refusal",
        r"must be >= -1, while received -\d{6}",
        "their shapes are read from memory that was freed",
    ),
    (
        "_sg_mkldnn_.*",
        "crash",
        "ends",
        "layers that oneDNN joins do not live in graphs that are bound anew",
    ),
    (
        "_contrib_BatchNormWithReLU",
        "crash",
        "ends",
        "oneDNN reads a row-sparse output as if it were dense",
    ),
    (
        "amp_cast",
        "crash",
        "ends",
        "done in place it is left out where sizes are equal: bits of floats are read as indices",
    ),
    (
        "_contrib_quantize_asym",
        "crash",
        "ends",
        "without oneDNN's own graph passes it calls a function that is not there",
    ),
    (
        ".*",
        "refusal",
        r"== kWriteTo \(0 vs\. 1\)|only supports kWriteTo|!= kNullOp",
        "an operator insists on writing an output that nobody reads",
    ),
)
"""Differences of graphs that no operator shows alone: an operator they need, their kind, MXNet's
message, and the reason.
"""


WRONG_GRADIENTS: dict[str, tuple[int, ...]] = {
    "LinearRegressionOutput": (1,),
    "LogisticRegressionOutput": (1,),
    "MAERegressionOutput": (1,),
    "SVMOutput": (1,),
    "_image_to_tensor": (0,),
    "_contrib_SyncBatchNorm": (0, 1, 2),
    "SequenceLast": (1,),
    "SequenceMask": (1,),
    "SequenceReverse": (1,),
}
"""Operators whose gradients are wrong in graphs, and right or not compared alone: the inputs that have them.

Losses leave the gradient of the label as the memory was (regression_output-inl.h writes
``data_grad`` only). That of an image is shaped as the tensor, so the operator before it reads it
wrongly. Lengths of sequences have a gradient that is not written. SyncBatchNorm keeps its sums by
``key`` for the whole process.
"""

NOT_ADDED: dict[str, tuple[int, ...]] = {
    "BatchNorm": (1,),
    "CTCLoss": (1,),
    "Crop": (0, 1),
    "LeakyReLU": (1,),
    "LinearRegressionOutput": (0, 1),
    "LogisticRegressionOutput": (0, 1),
    "MAERegressionOutput": (0, 1),
    "SVMOutput": (0, 1),
    "SequenceLast": (0,),
    "SoftmaxOutput": (0, 1),
    "SpatialTransformer": (0, 1),
    "_contrib_BatchNormWithReLU": (1,),
    "_contrib_DeformableConvolution": (0, 1),
    "_contrib_MultiBoxDetection": (0, 1, 2),
    "_contrib_MultiBoxPrior": (0,),
    "_contrib_MultiBoxTarget": (0, 1, 2),
    "_contrib_bipartite_matching": (0,),
    "_contrib_box_iou": (0, 1),
    "_contrib_box_nms": (0,),
    "_linalg_gelqf": (0,),
    "_linalg_gemm": (0, 1, 2),
    "_linalg_gemm2": (0, 1),
    "_linalg_inverse": (0,),
    "_linalg_syevd": (0,),
    "_linalg_trmm": (0,),
    "_linalg_trsm": (0, 1),
    "_np_cumsum": (0,),
    "_np_dot": (0, 1),
    "_np_trace": (0,),
    "_npi_diff": (0,),
    "_npi_ediff1d": (0, 1, 2),
    "_npi_einsum": (0, 1, 2),
    "_npi_flip": (0,),
    "_npi_hsplit": (0,),
    "_npi_mean": (0,),
    "_npi_norm": (0,),
    "_npi_rot90": (0,),
    "_npi_solve": (0, 1),
    "_npi_tensordot": (0, 1),
    "_npi_tensorinv": (0,),
    "_npi_where": (2,),
    "_split_v2": (0,),
    "amp_cast": (0,),
    "amp_multicast": (0, 1),
    "clip": (0,),
    "elemwise_add": (1,),
    "mean": (0,),
    "moments": (0,),
    "reverse": (0,),
}
"""Operators that do not add a gradient to what other users gave, by input.

Recorded cases with ``grad_req`` "add" and gradients of ones do not give those of "write" and 1 more.
"""

OF_VALUES = frozenset(
    ("_npi_unique", "_npx_nonzero", "_npi_delete", "_contrib_boolean_mask", "_npi_bincount")
)
"""Operators whose output has a shape that values decide: in a symbol, MXNet's shapes behind them are below 0."""

BOUND_ANEW = OF_VALUES | {"_cond", "_foreach", "_while_loop", "_npi_dstack"}
"""Operators whose shapes are not inferred before they run: the executor binds what follows when it gets there."""

JOINED = frozenset(
    (
        "_sg_mkldnn_conv",
        "_sg_mkldnn_fully_connected",
        "_sg_mkldnn_selfatt_qk",
        "_sg_mkldnn_selfatt_valatt",
    )
)
"""Layers that oneDNN joins. In a graph that binds anew they end the process."""

NO_GRADIENT = frozenset(
    """Dropout Embedding _CrossDeviceCopy _sg_mkldnn_conv _sg_mkldnn_fully_connected
    _sg_mkldnn_selfatt_qk _sg_mkldnn_selfatt_valatt _sparse_retain
    _contrib_ModulatedDeformableConvolution _contrib_RROIAlign _contrib_SparseEmbedding
    _contrib_allclose _contrib_hawkesll _contrib_quantized_act _contrib_quantized_elemwise_add
    _contrib_quantized_pooling _contrib_quantized_rnn _grad_add _histogram _npi_copysign_scalar
    _npi_delete _cond _contrib_boolean_mask _npi_bincount _npi_dstack _npi_unique _npx_nonzero
    _npi_insert_scalar _npi_insert_slice _npi_insert_tensor _npi_pad _npi_rcopysign_scalar
    _npi_share_memory _slice_assign _slice_assign_scalar _while_loop argmax_channel batch_take
    khatri_rao softmax_cross_entropy sort""".split()
)
"""Operators through which MXNet computes no gradient on a CPU, for some of their inputs or attributes at least.

A graph that holds one is refused as a whole, so they are replaced by their values before gradients
are compared. So are operators of shapes that are not inferred: the executor binds anew behind them,
and counts the gradients of ``where`` and others wrongly (graph_executor.cc:
``fopnode.exec->in_array.size() == opnode.exec->out_array.size()``).
"""


def list_patterns(what: str, how: str) -> list[str]:
    """Return the patterns of operators that may cause a difference of a whole graph, by :data:`IN_GRAPHS`."""
    return [
        pattern
        for pattern, kind, message, _ in IN_GRAPHS
        if kind == what and re.search(message, how)
    ]
