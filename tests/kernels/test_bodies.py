"""Nodes that carry sub-graphs, against what MXNet 1.9.1 computed and inferred: control flow, and
layers that oneDNN joins.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from graphshare.analysis.cost import multiply_adds
from graphshare.errors import RefusedError
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan, missing_kernels
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph
from graphshare.ops.inference import infer
from graphshare.ops.onednn import convolution, products
from graphshare.ops.onednn.products import sum_by_channel
from tests.elementwise import describe_mismatch
from tests.export.judge import export_graph
from tests.kernels.cases.joined import conv_case
from tests.kernels.recordings import WITH_BODIES, cases, recorded, recorded_outputs, tolerance_of
from tests.symbols import document, operator, variable


def graph_of(case: dict[str, Any], outputs: int) -> Graph:
    count = len(case["inputs"])
    node = operator(
        case["op"], "node", range(count), attrs=case["attrs"], subgraphs=case["subgraphs"]
    )
    nodes = [*(variable(f"in{i}") for i in range(count)), node]
    return read_symbol(
        json.dumps(document(nodes, [(count, i, 0) for i in range(outputs)], row_ptr=False)).encode()
    )


@pytest.mark.parametrize(("family", "number", "case"), cases(WITH_BODIES))
def test_a_node_with_bodies(family: str, number: int, case: dict[str, Any]) -> None:
    kept = recorded(family)
    wanted = recorded_outputs(family, number)
    graph = graph_of(case, len(wanted))
    values = {node: kept[f"{number}_{node.name}"] for node in graph.variables()}
    node = graph.nodes[-1]
    found = infer(
        graph, {n: x.shape for n, x in values.items()}, {n: str(x.dtype) for n, x in values.items()}
    )
    assert found.shapes[node] == [x.shape for x in wanted]
    assert found.types[node] == [str(x.dtype) for x in wanted]
    outputs = run_plan(make_plan(graph.heads), values, shapes=found.shapes).outputs
    assert [(x.shape, x.dtype) for x in outputs] == [(x.shape, x.dtype) for x in wanted]
    for got, want in zip(outputs, wanted, strict=True):
        mismatch = describe_mismatch(got, want, tolerance_of(case, want))
        assert mismatch is None, mismatch


def test_integers_with_a_filter_for_each_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_MANY", 1)
    calls = Counter[str]()

    def count_and_sum(*given: Any) -> Any:
        calls["sums"] += 1
        return sum_by_channel(*given)

    monkeypatch.setattr(convolution, "sum_by_channel", count_and_sum)
    for parameters in cases(WITH_BODIES):
        family, number, case = parameters.values
        if (
            case["op"] == "_sg_mkldnn_conv"
            and "num_group" in str(case["subgraphs"])
            and "quantized" in case["attrs"]
        ):
            test_a_node_with_bodies(family, number, case)
    assert calls


def bare(case: dict[str, Any], **shapes: tuple[int, ...]) -> Any:
    graph = graph_of(case, int(case["attrs"].get("num_outputs", "1")))
    return graph, infer(
        graph, {node: shapes[node.name] for node in graph.variables() if node.name in shapes}, {}
    )


def case_of(family: str, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(str(recorded(family)["cases"]))[number]
    return found


def test_weights_inside_of_a_step_are_sized() -> None:
    graph, found = bare(case_of("flow", 3), in0=(4, 2, 5), in1=(2, 3))
    assert [found.shapes[node][0] for node in graph.variables()] == [
        (4, 2, 5),
        (2, 3),
        (3, 5),
        (3, 3),
    ]
    assert found.shapes[graph.nodes[-1]] == [(4, 2, 3), (2, 3)]
    assert found.types[graph.nodes[-1]] == ["float32", "float32"]


def test_what_an_output_tells_reaches_the_inputs() -> None:
    case = case_of("flow", 0)
    graph = graph_of(case, 2)
    nodes = [variable("other"), *(variable(f"in{i}") for i in range(3))]
    nodes.append(
        operator("_foreach", "loop", [1, 2, 3], attrs=case["attrs"], subgraphs=case["subgraphs"])
    )
    nodes.append(operator("elemwise_add", "add", [(4, 1, 0), 0]))
    graph = read_symbol(json.dumps(document(nodes, [5], row_ptr=False)).encode())
    found = infer(graph, {graph.nodes[0]: (2,), graph.nodes[3]: (None,)}, {})
    assert found.shapes[graph.nodes[2]] == [(2,)]


def test_a_contradiction_inside_of_a_body_names_both_nodes() -> None:
    with pytest.raises(RefusedError) as caught:
        bare(case_of("flow", 3), in0=(4, 2, 5), in1=(2, 3), in2=(3, 6))
    (fault,) = caught.value.faults
    assert fault.node == "node"
    assert "in its subgraph, FullyConnected cannot take x (2,5), A (3,6)" in fault.message


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, {"in_data_locs": "[7]"}),
        (0, {"in_data_locs": "[0, 0]"}),
        (0, {"remain_locs": "[]"}),
        (6, {"func_var_locs": "[0, 9]"}),
        (6, {"cond_input_locs": "[0, 9]"}),
        (6, {"cond_input_locs": "[0]"}),
        (7, {"then_input_locs": "[1, -1]"}),
        (0, {"num_out_data": "0"}),
        (0, {"num_out_data": "2"}),
        (0, {"num_out_data": "-1"}),
        (6, {"num_out_data": "0"}),
        (6, {"num_out_data": "4"}),
        (6, {"func_var_locs": "[]"}),
    ],
)
def test_places_that_are_not_there_are_refused(number: int, change: dict[str, str]) -> None:
    case = case_of("flow", number)
    case["attrs"].update(change)
    with pytest.raises(RefusedError, match="node"):
        bare(case, in0=(4, 2))


def test_data_without_axes_has_no_steps() -> None:
    with pytest.raises(RefusedError, match="data without axes has no steps"):
        bare(case_of("flow", 0), in0=())


def test_what_integers_cannot_go_through_is_said_before_anything_runs() -> None:
    case = case_of("joined", 5)
    assert case["attrs"]["quantized"] == "true"
    assert missing_kernels(graph_of(case, 3).nodes) == []
    (body,) = case["subgraphs"]
    next(node for node in body["nodes"] if node["op"] == "Activation").update(op="tan", attrs={})
    (fault,) = missing_kernels(graph_of(case, 3).nodes)
    assert (
        "_sg_mkldnn_conv cannot be run with these attributes: tan in its subgraph cannot be computed in integers"
        in fault.message
    )
    del case["subgraphs"][0]
    (fault,) = missing_kernels(graph_of(case, 3).nodes)
    assert "0 subgraphs" in fault.message


def infer_joined(case: dict[str, Any], *dtypes: str, **shapes: tuple[int, ...]) -> None:
    """Infer from the shapes and dtypes of a case of fused layers, with other dtypes and shapes."""
    graph = graph_of(case, 1)
    found = {node: case["inputs"][int(node.name[2:])] for node in graph.variables()}
    known = {node: shapes.get(node.name, tuple(x["shape"])) for node, x in found.items()}
    infer(
        graph,
        known,
        {node: dtypes[int(node.name[2:])] for node in graph.variables()} if dtypes else {},
    )


END = "float32"
DTYPES_OF_LAYERS = [  # each with the dtype that MXNet 1.9.1 names
    (75, ("uint8", END, END), "input 0 is uint8, expected int8"),
    (75, ("int8", "float64", END), "input 1 is float64, expected float32"),
    (78, ("uint8", "uint8", *[END] * 4), "input 0 is uint8, expected int8"),
    (78, ("int8", "int8", *[END] * 4), "input 1 is int8, expected uint8"),
    (57, ("int8", "int32", "int8", *[END] * 6), "input 1 is int32, expected int8"),
    (57, ("int8", "int8", "int8", "float64", *[END] * 5), "input 3 is float64, expected float32"),
    (
        23,
        ("uint8", "float32", "float32", "int8", "float64", *[END] * 3),
        "input 4 is float64, expected float32",
    ),
]


@pytest.mark.parametrize(("number", "dtypes", "message"), DTYPES_OF_LAYERS)
def test_dtypes_that_a_quantized_layer_does_not_take(
    number: int, dtypes: tuple[str, ...], message: str
) -> None:
    case = case_of("joined", number)
    assert case["attrs"]["quantized"].lower() == "true"
    with pytest.raises(RefusedError, match=message):
        infer_joined(case, *dtypes)


@pytest.mark.parametrize("number", [75, 78])
@pytest.mark.parametrize("heads", ["0", "-2", "1", "3", "5"])
def test_heads_that_do_not_divide_or_differ_from_the_subgraph(number: int, heads: str) -> None:
    case = case_of("joined", number)
    infer_joined(case)
    case["attrs"]["heads"] = heads
    with pytest.raises(RefusedError, match=r"heads is|not a multiple of|does not fit"):
        infer_joined(case)


def test_attention_of_other_ranks() -> None:
    for number in (75, 78):
        with pytest.raises(RefusedError):
            infer_joined(case_of("joined", number), in0=(3, 24))


def test_weights_quantized_by_unit_need_a_range_of_the_result() -> None:
    case = case_of("joined", 50)
    infer_joined(case)
    del case["attrs"]["max_calib_range"]
    with pytest.raises(
        RefusedError, match="channel_wise_quantize needs min_calib_range and max_calib_range"
    ):
        infer_joined(case)


@pytest.mark.parametrize("number", [11, 44])
@pytest.mark.parametrize(
    ("op", "act_type"),
    [
        ("LeakyReLU", "rrelu"),
        ("LeakyReLU", "prelu"),
        ("LeakyReLU", "selu"),
        ("Activation", "softsign"),
    ],
)
def test_activations_that_onednn_does_not_have(number: int, op: str, act_type: str) -> None:
    case = case_of("joined", number)
    for node in case["subgraphs"][0]["nodes"]:
        if node["op"] in ("LeakyReLU", "Activation"):
            node.update(op=op, attrs={"act_type": act_type})
    (fault,) = missing_kernels(graph_of(case, 3).nodes)
    assert (
        f"{op} of act_type {act_type} in its subgraph cannot be computed in integers"
        in fault.message
    )
    graph = graph_of(case, 1)
    refused = export_graph(
        graph, {node: recorded("joined")[f"{number}_{node.name}"] for node in graph.variables()}, ()
    )
    assert isinstance(refused, RefusedError)
    assert f"{op} of act_type {act_type} in its subgraph" in str(refused)


def test_a_fused_convolution_without_elements() -> None:
    case = case_of("joined", 30)
    graph = graph_of(case, 1)
    values = {node: recorded("joined")[f"30_{node.name}"] for node in graph.variables()}
    values = {
        node: x[:0] if x.ndim == 4 and node.name != "in1" else x for node, x in values.items()
    }
    with pytest.raises(RefusedError, match="no elements"):
        run_plan(make_plan(graph.heads), values)


@pytest.mark.parametrize(
    ("number", "shapes", "wanted"),
    [
        (
            3,
            {"in0": (4, 2, 5), "in1": (2, 3), "in2": (3, 5), "in3": (3, 3)},
            4 * (2 * 3 * 5 + 2 * 3 * 3),
        ),
        (3, {"in0": (None, 2, 5), "in1": (2, 3), "in2": (3, 5), "in3": (3, 3)}, None),
        (6, {"in0": (1,), "in1": (1,), "in2": (1,)}, 0),
        (7, {"in0": (1,), "in1": (2, 3), "in2": (2, 3)}, 0),
    ],
)
def test_what_a_loop_costs(number: int, shapes: dict[str, Any], wanted: int | None) -> None:
    graph, found = bare(case_of("flow", number), **shapes)
    node = graph.nodes[-1]
    assert (
        multiply_adds(
            node, [found.shapes[entry.node][0] for entry in node.inputs], found.shapes[node]
        )
        == wanted
    )


def test_what_joined_layers_cost() -> None:
    case = case_of("joined", 5)  # 3 x 3 from 4 channels to 4 filters, 3 x 4 places, two samples
    graph, found = bare(case, in0=(2, 4, 6, 7))
    node = graph.nodes[-1]
    assert (
        multiply_adds(
            node, [found.shapes[entry.node][0] for entry in node.inputs], found.shapes[node]
        )
        == 2 * 4 * 12 * 36
    )


def test_arrays_made_inside_of_a_body_get_the_shape_that_follows() -> None:
    body = document(
        [
            variable("x"),
            operator("_zeros", "z", [], attrs={"shape": "(0, 3)"}),
            operator("_plus_scalar", "one", [1], attrs={"scalar": "1"}),
            operator("elemwise_add", "sum", [0, 2]),
        ],
        [3],
    )
    del body["attrs"]
    attrs = {"num_args": "2", "num_outputs": "1", "num_out_data": "1", "in_data_locs": "[0]"}
    attrs |= {"in_state_locs": "[]", "remain_locs": "[]"}
    case = {"op": "_foreach", "attrs": attrs, "inputs": [{}], "subgraphs": [body]}
    graph = graph_of(case, 1)
    data = np.arange(24, dtype="float32").reshape(4, 2, 3)
    assert np.array_equal(
        run_plan(make_plan(graph.heads), {graph.nodes[0]: data}).outputs[0], data + 1
    )


RESULTS = {  # MXNet 1.9.1
    ("sigmoid", False): ("uint8", [0, 0, 0, 0, 0, 1, 1, 1]),
    ("sigmoid", True): ("int8", [13, -13, 27, -27, 40, -39, 127, -128]),
    ("tanh", False): ("int8", [-1, -1, -1, -1, 0, 1, 1, 1]),
    ("tanh", True): ("int8", [12, -14, 26, -28, 40, -39, 127, -128]),
    ("softrelu", False): ("uint8", [0, 0, 0, 0, 1, 13, 133, 255]),
    ("softrelu", True): ("int8", [13, -13, 27, -27, 41, -33, 127, -1]),
    ("relu", False): ("uint8", [0, 0, 0, 0, 0, 13, 133, 255]),
    ("relu", True): ("int8", [13, -13, 27, -27, 40, -33, 127, -1]),
}


@pytest.mark.parametrize(("act_type", "with_sum"), RESULTS)
def test_activations_of_integers(act_type: str, with_sum: bool) -> None:
    conv = {"kernel": "(1, 1)", "num_filter": "1", "no_bias": "True"}
    case = conv_case(
        conv,
        "int8",
        "int8" if with_sum else None,
        None,
        ("Activation", {"act_type": act_type}),
        None,
        ("-1.5", "3"),
    )
    arrays = [
        np.array([-127, -60, -20, -3, 0, 5, 50, 127], "int8").reshape(1, 1, 2, 4),
        np.full((1, 1, 1, 1), 2, "float32"),
    ]
    ends = [-2.0, 1.5]
    if with_sum:
        arrays.append(np.array([10, -10, 20, -20, 30, -30, 127, -127], "int8").reshape(1, 1, 2, 4))
        ends += [-1.0, 4.0]
    arrays += [np.array([end], "float32") for end in ends]
    graph = graph_of(case, 3)
    # The dtypes of weights and ranges follow from those of the data.
    types = {
        node: str(x.dtype)
        for node, x in zip(graph.variables(), arrays, strict=True)
        if x.dtype == np.int8
    }
    values = dict(zip(graph.variables(), arrays, strict=True))
    found = infer(graph, {node: x.shape for node, x in values.items()}, types)
    dtype, expected = RESULTS[act_type, with_sum]
    assert [found.types[node] for node in graph.variables()] == [[str(x.dtype)] for x in arrays]
    assert found.types[graph.nodes[-1]] == [dtype, "float32", "float32"]
    output, low, high = run_plan(make_plan(graph.heads), values, shapes=found.shapes).outputs
    assert (str(output.dtype), output.ravel().tolist(), low.tolist(), high.tolist()) == (
        dtype,
        expected,
        [-1.5],
        [3.0],
    )
