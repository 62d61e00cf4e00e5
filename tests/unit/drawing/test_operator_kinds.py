"""The kinds of operators by which a picture colours them, in every format."""

from __future__ import annotations

import pytest

from graphshare.drawing.operator_kinds import KINDS, find_kind
from graphshare.drawing.palette import DARK, LIGHT
from graphshare.ir.graph import MXNET_DOMAIN, Node, NodeDetails

MXNET = {
    "layer": "Convolution Deconvolution FullyConnected RNN Embedding batch_dot _contrib_quantized_conv _npi_matmul",
    "normalization": "BatchNorm BatchNorm_v1 LayerNorm L2Normalization LRN Dropout",
    "activation": "Activation LeakyReLU softmax tanh _npi_tanh hard_sigmoid _npx_relu",
    "pooling": "Pooling ROIPooling sum mean max norm argmax topk _np_sum",
    "movement": "Reshape Flatten transpose Concat SliceChannel slice_axis expand_dims take Pad UpSampling SwapAxis",
    "arithmetic": "elemwise_add _Plus _plus_scalar broadcast_mul add_n exp clip _npi_add arctanh",
    "flow": "_cond _foreach _while_loop",
    "loss": "SoftmaxOutput Softmax LinearRegressionOutput MakeLoss make_loss CTCLoss softmax_cross_entropy",
    "": "_zeros _random_normal Custom Cast _linspace sgd_update _contrib_box_nms OfNoFramework",
}
ONNX = {
    "layer": "Conv ConvTranspose Gemm MatMul MatMulInteger QLinearConv LSTM GRU RNN Attention Einsum FusedConv",
    "normalization": "BatchNormalization LayerNormalization InstanceNormalization LRN Dropout SkipLayerNormalization",
    "activation": "Relu LeakyRelu Sigmoid Tanh Softmax Gelu HardSwish Elu PRelu QuickGelu SwiGLU",
    "pooling": "MaxPool GlobalAveragePool ReduceMean ReduceSum ArgMax TopK",
    "movement": "Reshape Transpose Concat Split Slice Gather Squeeze Unsqueeze Expand Tile Pad Resize DepthToSpace Where",
    "arithmetic": "Add Sub Mul Div Pow Sqrt Exp Neg Clip Erf Equal Sum Max Mean Atanh GreaterOrEqual",
    "flow": "If Loop Scan",
    "loss": "SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss",
    "": "Constant Cast Shape Identity RandomNormal QuantizeLinear DequantizeLinear RotaryEmbedding DynamicQuantizeLinear",
}
PADDLE = {
    "layer": "conv2d depthwise_conv2d conv2d_transpose matmul embedding rnn",
    "normalization": "batch_norm_ layer_norm dropout",
    "activation": "relu relu_ hardswish hardsigmoid softmax",
    "pooling": "pool2d sum mean max",
    "movement": "reshape transpose flatten slice concat stack split_with_num squeeze_ pad3d nearest_interp",
    "arithmetic": "add multiply scale sqrt greater_than elementwise_pow",
    "flow": "if while",
    "": "full full_int_array assign_value_ cast shape64",
}


@pytest.mark.parametrize(
    ("domain", "operators"), [(MXNET_DOMAIN, MXNET), ("", ONNX), ("pd_op", PADDLE)]
)
def test_operators_have_kinds(domain: str, operators: dict[str, str]) -> None:
    details = NodeDetails(domain=domain)
    found = {
        op: find_kind(Node(op, "x", details=details))
        for names in operators.values()
        for op in names.split()
    }
    assert found == {op: kind for kind, names in operators.items() for op in names.split()}


def test_every_kind_has_colours_of_its_own() -> None:
    for palette in (LIGHT, DARK):
        assert palette.kinds.keys() >= KINDS.keys()
        unmarked = [paint.fill for kind, paint in palette.kinds.items() if kind != "highlight"]
        assert len(set(unmarked)) == len(unmarked)
