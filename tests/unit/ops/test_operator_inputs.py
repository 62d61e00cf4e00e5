"""Inputs, outputs, auxiliary slots and initializers by attributes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphshare.ops.registry import lookup
from graphshare.ops.signature import Signature


def row(name: str) -> Signature:
    found = lookup(name)
    assert found is not None
    return found


BN = "data gamma beta moving_mean moving_var"
INPUTS = [
    ("Convolution", {}, "data weight bias"),
    ("Convolution", {"no_bias": "1"}, "data weight"),
    ("Convolution", {"no_bias": "nonsense"}, "data weight bias"),
    ("Convolution_v1", {"no_bias": "TRUE"}, "data weight"),
    ("Deconvolution", {}, "data weight"),
    ("Deconvolution", {"no_bias": "False"}, "data weight bias"),
    ("FullyConnected", {"no_bias": "True"}, "data weight"),
    ("BatchNorm", {}, BN),
    ("BatchNorm_v1", {}, BN),
    ("IdentityAttachKLSparseReg", {}, "data moving_avg"),
    ("LeakyReLU", {}, "data"),
    ("LeakyReLU", {"act_type": "prelu"}, "data gamma"),
    ("softmax", {"use_length": "True"}, "data length"),
    ("log_softmax", {"use_length": "True"}, "data"),
    ("RNN", {"mode": "gru"}, "data parameters state"),
    ("RNN", {"mode": "lstm"}, "data parameters state state_cell"),
    (
        "RNN",
        {"mode": "lstm", "use_sequence_length": "1"},
        "data parameters state state_cell sequence_length",
    ),
    ("CTCLoss", {}, "data label"),
    ("CTCLoss", {"use_label_lengths": "True"}, "data label label_lengths"),
    ("SequenceMask", {"use_sequence_length": "True"}, "data sequence_length"),
    ("UpSampling", {"sample_type": "nearest", "num_args": "2"}, "arg0 arg1"),
    ("UpSampling", {"sample_type": "bilinear", "num_args": "1"}, "data weight"),
    ("_contrib_BilinearResize2D", {"mode": "like"}, "data like"),
    ("_contrib_DeformablePSROIPooling", {}, "data rois trans"),
    ("_contrib_DeformablePSROIPooling", {"no_trans": "True"}, "data rois"),
    ("_contrib_ModulatedDeformableConvolution", {}, "data offset mask weight bias"),
    ("Crop", {"num_args": "2"}, "arg0 arg1"),
    ("Concat", {"num_args": "3"}, "arg0 arg1 arg2"),
    ("Concat", {}, ""),
    ("add_n", {"num_args": "2"}, "arg0 arg1"),
    ("_npi_concatenate", {"num_args": "2"}, "data0 data1"),
    ("_np_atleast_1d", {"num_args": "1"}, "ary0"),
    ("amp_multicast", {"num_outputs": "2"}, "data_0 data_1"),
    ("multi_sum_sq", {"num_arrays": "2"}, "array_0 array_1"),
    ("_foreach", {"num_args": "3"}, "fn data0 data1"),
    ("_while_loop", {"num_args": "3"}, "cond func data0"),
    ("_cond", {"num_args": "3"}, "cond then_branch else_branch"),
    (
        "_contrib_quantized_conv",
        {"no_bias": "True"},
        "data weight min_data max_data min_weight max_weight",
    ),
    (
        "_contrib_quantized_fully_connected",
        {},
        "data weight bias min_data max_data min_weight max_weight min_bias max_bias",
    ),
    (
        "_contrib_quantized_concat",
        {"num_args": "2"},
        "arg0 arg1 arg0_min arg0_max arg1_min arg1_max",
    ),
    ("_contrib_MultiProposal", {}, "cls_prob bbox_pred im_info"),
    ("_sample_normal", {}, "mu sigma"),
    ("_np_dot", {}, "a b"),
    ("elemwise_add", {}, "lhs rhs"),
    ("_equal", {}, "lhs rhs"),
    ("_npi_where", {}, "condition x y"),
    ("_npi_normal", {"loc": "0.5", "scale": "None"}, "input1"),
    ("_zeros", {}, ""),
    ("multi_sgd_update", {"num_weights": "2"}, "weight_0 grad_0 weight_1 grad_1"),
    *(("multi_sgd_update", {"num_weights": count}, "") for count in ("0", "-1", "65537")),
    ("multi_mp_sgd_update", {"num_weights": "1"}, "weight_0 grad_0 weight32_0"),
    ("preloaded_multi_sgd_update", {"num_weights": "2"}, "weight_0 grad_0 weight_1 grad_1 lrs wds"),
    (
        "preloaded_multi_mp_sgd_mom_update",
        {"num_weights": "1"},
        "weight_0 grad_0 mom_0 weight32_0 lrs wds",
    ),
    (
        "_multi_lamb_update",
        {"num_tensors": "2"},
        "weight_0 weight_0 weight_0 weight_0 grad_1 grad_1 grad_1 grad_1",
    ),
    (
        "_multi_adamw_update",
        {"num_weights": "2"},
        "weight_0 weight_0 weight_0 weight_0 weight_0 grad_1 grad_1 grad_1 grad_1",
    ),
    (
        "_multi_mp_adamw_update",
        {"num_weights": "1"},
        "weight_0 weight_0 weight_0 weight_0 weight_0 weight_0",
    ),
    *(
        ("_contrib_dgl_graph_compact", {"num_args": count}, "graph0 graph1 varray0 varray1")
        for count in ("4", "5")
    ),
    ("_contrib_dgl_subgraph", {"num_args": "3"}, "graph varray0 varray1"),
    ("_npi_normal", {"loc": "None", "scale": "None"}, "input1 input2"),
    ("_npi_normal", {"loc": "1", "scale": "2"}, ""),
    ("_npi_bernoulli", {"prob": "0.5", "logit": "None"}, ""),
    ("_npi_bernoulli", {"prob": "None", "logit": "None"}, "input1"),
    ("_npi_average", {"weighted": "False"}, "a"),
    ("_npi_average", {}, "a weights"),
    ("_npi_percentile", {}, "a q"),
    ("_npi_percentile", {"q_scalar": "1"}, "a"),
    ("_npi_choice", {}, "input1"),
    ("_npi_insert_slice", {}, "arr values"),
    ("_npi_insert_slice", {"int_ind": "1", "val": "2"}, "arr"),
    (
        "_sg_mkldnn_selfatt_valatt",
        {"quantized": "1"},
        "queries_keys_values attention min_qkv max_qkv min_attention max_attention",
    ),
    (
        "_contrib_quantized_rnn",
        {"mode": "lstm"},
        "data parameters state state_cell min_data max_data",
    ),
    ("_contrib_quantized_rnn", {"mode": "gru"}, "data parameters state min_data max_data"),
    (
        "_contrib_quantized_fully_connected",
        {"no_bias": "1"},
        "data weight min_data max_data min_weight max_weight",
    ),
]


@pytest.mark.parametrize(("name", "attrs", "names"), INPUTS)
def test_input_names(name: str, attrs: dict[str, str], names: str) -> None:
    assert row(name).input_names(attrs, 9) == tuple(names.split())


@pytest.mark.parametrize(
    "name",
    [
        "Activation",
        "Cast",
        "Flatten",
        "Reshape",
        "relu",
        "_plus_scalar",
        "sum",
        "clip",
        "slice",
        "transpose",
        "topk",
        "sgd_update",
    ],
)
def test_operators_that_register_no_names(name: str) -> None:
    assert row(name).input_names({}, 1) is None
    assert row(name).formal_inputs({})
    assert not row(name).registers_inputs


def test_custom_takes_what_the_node_has() -> None:
    assert row("Custom").input_names({"op_type": "mine"}, 2) == ("arg0", "arg1")
    assert row("Custom").outputs({"op_type": "mine"}) is None
    assert not row("Custom").inputs_known


OUTPUTS = [
    ("relu", {}, 1, 1, "output"),
    ("BatchNorm", {}, 3, 1, "output mean var"),
    ("BatchNorm", {"output_mean_var": "True"}, 3, 3, "output mean var"),
    ("_contrib_BatchNormWithReLU", {}, 4, 1, "output mean var workspace"),
    ("_contrib_BatchNormWithReLU", {"output_mean_var": "1"}, 4, 3, "output mean var workspace"),
    ("LayerNorm", {}, 3, 1, "output mean std"),
    ("GroupNorm", {"output_mean_var": "1"}, 3, 3, "output mean std"),
    ("InstanceNorm", {}, 3, 1, "output mean var"),
    ("Pooling", {"kernel": "(2,2)"}, 2, 1, "output workspace"),
    ("Pooling", {"kernel": "(2,2)", "layout": "NHWC"}, 1, 1, "output"),
    ("Pooling", {"kernel": "(2,2)", "pool_type": "avg"}, 1, 1, "output"),
    ("Pooling", {"global_pool": "True"}, 1, 1, "output"),
    ("Pooling", {"global_pool": "True", "kernel": "(7, 7)"}, 2, 1, "output workspace"),
    ("Pooling_v1", {"kernel": "(2,2)"}, 1, 1, "output"),
    ("Dropout", {}, 2, 1, "output mask"),
    ("LRN", {}, 2, 1, "output tmp_norm"),
    ("L2Normalization", {}, 2, 1, "output norm"),
    ("ROIPooling", {}, 2, 1, "output maxidx"),
    ("GridGenerator", {}, 2, 1, "output grid_dst"),
    ("BilinearSampler", {}, 2, 1, "output tmp"),
    ("SpatialTransformer", {}, 3, 1, "output grid_dst grid_src"),
    ("Correlation", {}, 3, 1, "output tmp1 tmp2"),
    ("_contrib_DeformablePSROIPooling", {}, 2, 1, "output top_count"),
    ("_contrib_Proposal", {}, 2, 1, "output score"),
    ("_contrib_MultiProposal", {"output_score": "True"}, 2, 2, "output score"),
    ("_contrib_MultiBoxTarget", {}, 3, 3, "loc_target loc_mask cls_target"),
    ("CTCLoss", {}, 2, 1, "output0 output1"),
    ("sort", {}, 2, 1, "output0 output1"),
    ("_contrib_box_nms", {}, 2, 1, "output0 output1"),
    ("topk", {}, 1, 1, "output"),
    ("topk", {"ret_typ": "value"}, 2, 1, "output0 output1"),
    ("topk", {"ret_typ": "both"}, 2, 2, "output0 output1"),
    ("topk", {"ret_typ": "mask"}, 1, 1, "output"),
    ("LeakyReLU", {"act_type": "rrelu"}, 2, 2, "output mask"),
    ("RNN", {"mode": "gru"}, 1, 1, "output"),
    ("RNN", {"mode": "gru", "state_outputs": "True"}, 2, 2, "output state_output"),
    (
        "RNN",
        {"mode": "lstm", "state_outputs": "True"},
        3,
        3,
        "output state_output statecell_output",
    ),
    ("SliceChannel", {"num_outputs": "1"}, 1, 1, "output0"),
    ("SliceChannel", {"num_outputs": "2"}, 2, 2, "output0 output1"),
    ("_split_v2", {"indices": "(0, 2)"}, 2, 2, "output0 output1"),
    ("_split_v2", {"indices": "(0, 2)", "sections": "3"}, 3, 3, "output0 output1 output2"),
    ("amp_multicast", {"num_outputs": "2"}, 2, 2, "output0 output1"),
    ("_foreach", {"num_outputs": "1"}, 1, 1, "output"),
    ("make_loss", {}, 1, 1, "loss"),
    ("_contrib_quantize_v2", {}, 3, 3, "output0 output1 output2"),
    ("_contrib_quantize_asym", {}, 3, 3, "output scale shift"),
    ("_contrib_quantized_conv", {}, 3, 3, "output min_output max_output"),
    ("_contrib_quantized_elemwise_mul", {"enable_float_output": "True"}, 1, 1, "output"),
    ("_sg_mkldnn_conv", {"quantized": "true"}, 3, 3, "output output_min output_max"),
    ("_sg_mkldnn_fully_connected", {"quantized": "1", "enable_float_output": "1"}, 1, 1, "output"),
    ("_sg_mkldnn_fully_connected", {"quantized": "1"}, 3, 3, "output min_output max_output"),
    ("_sg_mkldnn_selfatt_qk", {"quantized": "1"}, 3, 3, "output min_output max_output"),
    ("moments", {}, 2, 2, "output0 output1"),
    ("_contrib_hawkesll", {}, 2, 2, "output out_state"),
    ("_contrib_calibrate_entropy", {}, 2, 2, "threshold divergence"),
    ("_sample_multinomial", {"get_prob": "True"}, 2, 2, "output0 output1"),
    ("_linalg_det", {}, 3, 1, "output0 output1 output2"),
    ("_linalg_slogdet", {}, 4, 2, "output0 output1 output2 output3"),
    ("reset_arrays", {}, 0, 0, ""),
    ("multi_sgd_update", {"num_weights": "2"}, 2, 2, "output0 output1"),
    ("_multi_lamb_update", {"num_tensors": "2"}, 2, 2, "output0 output1"),
    ("_np_atleast_2d", {"num_args": "2"}, 2, 2, "output0 output1"),
    ("_npi_concatenate", {}, 1, 1, "out"),
    ("_npi_std", {}, 2, 1, "std mean"),
    ("_npi_norm", {}, 4, 1, "output0 output1 output2 output3"),
    ("_npi_average", {"returned": "True"}, 2, 2, "output0 output1"),
    ("_npi_unique", {"return_counts": "True"}, 2, 2, "output0 output1"),
    ("_npi_svd", {}, 3, 3, "output0 output1 output2"),
    *(
        ("_contrib_dgl_csr_neighbor_non_uniform_sample", {"num_args": count}, 0, 0, "")
        for count in ("1", "2")
    ),
    (
        "_contrib_dgl_csr_neighbor_non_uniform_sample",
        {"num_args": "3"},
        4,
        4,
        "output0 output1 output2 output3",
    ),
    ("_contrib_dgl_csr_neighbor_uniform_sample", {"num_args": "1"}, 0, 0, ""),
    (
        "_contrib_dgl_csr_neighbor_uniform_sample",
        {"num_args": "3"},
        6,
        6,
        "output0 output1 output2 output3 output4 output5",
    ),
    *(
        ("_contrib_dgl_subgraph", {"num_args": count, "return_mapping": "1"}, 0, 0, "")
        for count in ("0", "1")
    ),
    ("_contrib_dgl_subgraph", {"num_args": "2", "return_mapping": "0"}, 1, 1, "output"),
    (
        "_contrib_dgl_subgraph",
        {"num_args": "3", "return_mapping": "1"},
        4,
        4,
        "output0 output1 output2 output3",
    ),
    (
        "_contrib_dgl_graph_compact",
        {"num_args": "2", "return_mapping": "1"},
        2,
        2,
        "output0 output1",
    ),
    (
        "_contrib_dgl_graph_compact",
        {"num_args": "5", "return_mapping": "1"},
        4,
        4,
        "output0 output1 output2 output3",
    ),
    (
        "_contrib_dgl_graph_compact",
        {"num_args": "5", "return_mapping": "0"},
        2,
        2,
        "output0 output1",
    ),
    ("_split_v2", {"indices": "(0, 2)", "sections": "0"}, 2, 2, "output0 output1"),
    *(("Pooling", {"kernel": kernel}, 2, 1, "output workspace") for kernel in ("(2,)", "(2,2,2)")),
    *(("Pooling", {"kernel": kernel}, 1, 1, "output") for kernel in ("()", "(2,2,2,2)")),
    *(("SliceChannel", {"num_outputs": count}, 0, 0, "") for count in ("0", "-1", "65537")),
    ("_npi_unique", {"return_index": "1", "return_inverse": "1"}, 3, 3, "output0 output1 output2"),
    ("_npi_unique", {}, 1, 1, "output"),
    ("_contrib_quantized_elemwise_mul", {}, 3, 3, "output min_output max_output"),
]


@pytest.mark.parametrize(("name", "attrs", "total", "visible", "labels"), OUTPUTS)
def test_outputs(name: str, attrs: dict[str, str], total: int, visible: int, labels: str) -> None:
    outputs = row(name).outputs(attrs)
    assert outputs is not None
    assert (outputs.total, outputs.visible) == (total, visible)
    assert [outputs.label(i) for i in range(total)] == labels.split()


SLOTS = [
    ("BatchNorm", {}, 5, (3, 4)),
    ("BatchNorm", {}, 3, ()),
    ("BatchNorm", {}, 4, (3,)),
    ("_contrib_SyncBatchNorm", {}, 5, (3, 4)),
    ("_contrib_quantized_batch_norm", {}, 7, (3, 4)),
    ("IdentityAttachKLSparseReg", {}, 2, (1,)),
    ("sgd_update", {}, 2, ()),
    ("sgd_mom_update", {}, 3, (2,)),
    ("adam_update", {}, 4, (2, 3)),
    ("ftml_update", {}, 5, (2, 3, 4)),
    ("mp_lamb_update_phase2", {}, 5, (4,)),
    ("multi_sgd_mom_update", {"num_weights": "2"}, 6, (2, 5)),
    ("preloaded_multi_mp_sgd_mom_update", {"num_weights": "2"}, 10, (2, 3, 6, 7)),
    ("_multi_mp_lamb_update", {"num_tensors": "1"}, 5, (2, 3, 4)),
    ("reset_arrays", {"num_arrays": "2"}, 2, (0, 1)),
    ("_foreach", {"num_args": "6"}, 5, ()),
    ("relu", {}, 1, ()),
    ("_multi_adamw_update", {"num_weights": "2"}, 9, (2, 3, 6, 7)),
    ("_multi_mp_adamw_update", {"num_weights": "2"}, 11, (2, 3, 4, 7, 8, 9)),
    ("_multi_lamb_update", {"num_tensors": "2"}, 8, (2, 3, 6, 7)),
    ("multi_mp_sgd_update", {"num_weights": "2"}, 6, (2, 5)),
    ("preloaded_multi_sgd_mom_update", {"num_weights": "2"}, 8, (2, 5)),
    ("multi_sgd_update", {"num_weights": "2"}, 4, ()),
]


@pytest.mark.parametrize(("name", "attrs", "count", "slots"), SLOTS)
def test_auxiliary_slots(
    name: str, attrs: dict[str, str], count: int, slots: tuple[int, ...]
) -> None:
    assert row(name).auxiliary_slots(attrs, count) == slots


@pytest.mark.parametrize(
    ("names", "initializers"),
    [
        (
            "BatchNorm BatchNorm_v1 _contrib_SyncBatchNorm _contrib_BatchNormWithReLU",
            {3: '["zero", {}]', 4: '["one", {}]'},
        ),
        ("IdentityAttachKLSparseReg", {1: '["zero", {}]'}),
        ("LeakyReLU", {1: '["Constant", {"value": 0.25}]'}),
        ("UpSampling", {1: '["bilinear", {}]'}),
        ("Convolution", {}),
    ],
)
def test_initializers(names: str, initializers: dict[int, str]) -> None:
    assert all(row(name).initializers == initializers for name in names.split())


def graph(*nodes: tuple[str, dict[str, str], tuple[int, ...]]) -> Any:
    """A subgraph whose last node is its head; a node's name is its position."""
    made: list[Any] = []
    for op, attrs, inputs in nodes:
        entries = tuple(SimpleNamespace(node=made[i], index=0, version=0) for i in inputs)
        made.append(
            SimpleNamespace(
                op=op, is_variable=not op, name=f"i{len(made)}", attrs=attrs, inputs=entries
            )
        )
    return SimpleNamespace(
        nodes=tuple(made), heads=(SimpleNamespace(node=made[-1], index=0, version=0),)
    )


VARIABLE = ("", {}, ())


def test_fused_convolution_looks_inside() -> None:
    conv = row("_sg_mkldnn_conv")
    body = graph(
        VARIABLE,
        VARIABLE,
        ("Convolution", {"no_bias": "True"}, (0, 1)),
        *[VARIABLE] * 4,
        ("BatchNorm", {}, (2, 3, 4, 5, 6)),
    )
    attrs = {"with_bn": "true"}
    assert conv.input_names(attrs, 6, subgraphs=[body]) == (
        "data",
        "weight",
        "gamma",
        "beta",
        "mean",
        "var",
    )
    assert conv.auxiliary_slots(attrs, 6, subgraphs=[body]) == (4, 5)
    plain = graph(VARIABLE, VARIABLE, VARIABLE, ("Convolution", {}, (0, 1, 2)))
    assert conv.input_names({"quantized": "true"}, 5, subgraphs=[plain]) == (
        "data",
        "weight",
        "bias",
        "data_min",
        "data_max",
    )
    assert conv.auxiliary_slots({}, 3, subgraphs=[plain]) == ()


def test_fused_dense_takes_the_inner_names() -> None:
    body = graph(VARIABLE, VARIABLE, ("FullyConnected", {"no_bias": "True"}, (0, 1)))
    dense = row("_sg_mkldnn_fully_connected")
    assert dense.input_names({}, 2, subgraphs=[body]) == ("i0", "i1")
    assert dense.input_names({}, 2) == ()
    whole = dense.input_names({"quantized": "1"}, 6, subgraphs=[body])
    assert whole == ("i0", "i1", "min_data", "max_data", "min_weight", "max_weight")
    by_unit = dense.input_names(
        {"quantized": "1", "channel_wise_quantize": "1"}, 4, subgraphs=[body]
    )
    assert by_unit == ("i0", "i1", "min_data", "max_data")


def test_ranges_and_a_sum_are_inputs_of_a_fused_convolution() -> None:
    body = graph(VARIABLE, VARIABLE, ("Convolution", {"no_bias": "1"}, (0, 1)))
    conv = row("_sg_mkldnn_conv")
    assert conv.input_names({"with_sum": "1"}, 3, subgraphs=[body]) == ("data", "weight", "sum")
    whole = conv.input_names({"with_sum": "1", "quantized": "1"}, 7, subgraphs=[body])
    assert whole == ("data", "weight", "sum", "data_min", "data_max", "sum_min", "sum_max")
    assert conv.input_names({}, 3, subgraphs=[graph(VARIABLE), body]) == ("data", "weight", "bias")
    assert conv.input_names({}, 3) == ("data", "weight", "bias")


def test_a_fused_operator_without_heads_has_all_its_nodes() -> None:
    body = graph(VARIABLE, VARIABLE, ("FullyConnected", {}, (0, 1)))
    dense = row("_sg_mkldnn_fully_connected")
    for heads in (body.heads, ()):
        one = SimpleNamespace(
            nodes=(*body.nodes, SimpleNamespace(op="", is_variable=True, name="i9", inputs=())),
            heads=heads,
        )
        names = ("i0", "i1") if heads else ("i0", "i1", "i9")
        assert dense.input_names({}, 9, subgraphs=[one]) == names
        ranges = ("min_data", "max_data", "min_weight", "max_weight", "min_bias", "max_bias")
        assert dense.input_names({"quantized": "1"}, 9, subgraphs=[one]) == (*names, *ranges)


def test_old_keys_of_fused_operators() -> None:
    conv = row("_sg_mkldnn_conv")
    assert conv.current_attributes({"with_relu": "1", "with_act": "0"}) == {"with_act": "1"}
    assert conv.parse({"with_relu": "true"}) == conv.parse({"with_act": "true"})
    assert row("_sg_mkldnn_fully_connected").renamed_attributes == {"with_relu": "with_eltwise"}


def test_what_couples_the_batch() -> None:
    expected = {
        "BatchNorm": "training",
        "Convolution": "never",
        "Reshape": "shape",
        "softmax": "axis",
        "dot": "always",
        "Custom": None,
    }
    assert {name: row(name).couples_batch for name in expected} == expected
