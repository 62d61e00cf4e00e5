"""What follows from partly known shapes and types, forwards and backwards, and what contradicts itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.ops.kernel import Context, Kernel, KernelError
from graphshare.ops.registry import find_kernel, lookup


def find_node_kernel(op: str, attrs: dict[str, str]) -> tuple[Kernel, dict[str, Any]]:
    signature, kernel = lookup(op), find_kernel(op)
    assert signature is not None
    assert kernel is not None
    values, faults = signature.parse(attrs)
    assert not faults
    return kernel, values


def shapes(
    op: str, attrs: dict[str, str], inputs: list[Any], outputs: list[Any]
) -> tuple[list[Any], list[Any]]:
    kernel, values = find_node_kernel(op, attrs)
    known, results = kernel.shapes(values, inputs, outputs)
    return list(known), list(results)


def types(
    op: str, attrs: dict[str, str], inputs: list[Any], outputs: list[Any]
) -> tuple[list[Any], list[Any]]:
    kernel, values = find_node_kernel(op, attrs)
    known, results = kernel.types(values, inputs, outputs)
    return list(known), list(results)


BACKWARD = [
    ("exp", {}, [None], [(2, 3)], [(2, 3)], [(2, 3)]),
    ("elemwise_add", {}, [None, (2, None)], [(None, 3)], [(2, 3), (2, 3)], [(2, 3)]),
    ("add_n", {"num_args": "3"}, [None, (2, 3), None], [None], [(2, 3)] * 3, [(2, 3)]),
    ("_mul_scalar", {"scalar": "2"}, [None], [(4,)], [(4,)], [(4,)]),
    ("broadcast_add", {}, [(2, None), (1, 5)], [None], [(2, None), (1, 5)], [(2, 5)]),
    ("amp_multicast", {"num_outputs": "2"}, [(2,), None], [None, (3,)], [(2,), (3,)], [(2,), (3,)]),
    (
        "softmax",
        {"use_length": "True", "axis": "1"},
        [(2, 3, 4), None],
        [None],
        [(2, 3, 4), (2, 4)],
        [(2, 3, 4)],
    ),
    ("softmax", {}, [None], [(2, 3)], [(2, 3)], [(2, 3)]),
    ("LeakyReLU", {"act_type": "prelu"}, [(2, 3, 4), None], [None], [(2, 3, 4), (3,)], [(2, 3, 4)]),
    ("LeakyReLU", {"act_type": "prelu"}, [(2, 3, 4), (1,)], [None], [(2, 3, 4), (1,)], [(2, 3, 4)]),
    ("SoftmaxOutput", {}, [(2, 3), None], [None], [(2, 3), (2,)], [(2, 3)]),
    ("SoftmaxOutput", {}, [(2, 3, 4), None], [None], [(2, 3, 4), (2, 3)], [(2, 3, 4)]),
    (
        "SoftmaxOutput",
        {"multi_output": "True"},
        [(2, 3, 4, 5), None],
        [None],
        [(2, 3, 4, 5), (2, 20)],
        [(2, 3, 4, 5)],
    ),
    ("SoftmaxOutput", {"multi_output": "True"}, [(2, 3), None], [None], [(2, 3), (2, 1)], [(2, 3)]),
    (
        "SoftmaxOutput",
        {"preserve_shape": "True"},
        [None, None],
        [(2, 3, 4)],
        [(2, 3, 4), (2, 3)],
        [(2, 3, 4)],
    ),
    ("LinearRegressionOutput", {}, [(2, 3), None], [None], [(2, 3), (2, 3)], [(2, 3)]),
    ("LogisticRegressionOutput", {}, [(2, 1), None], [None], [(2, 1), (2,)], [(2, 1)]),
    ("SVMOutput", {}, [(2, 3, 4), None], [None], [(2, 3, 4), (2, 3)], [(2, 3, 4)]),
    ("softmax_cross_entropy", {}, [(None, 3), (4,)], [None], [(4, 3), (4,)], [(1,)]),
    ("CTCLoss", {}, [(5, None, 4), (2, 3)], [None], [(5, 2, 4), (2, 3)], [(2,)]),
    (
        "Embedding",
        {"input_dim": "5", "output_dim": "4"},
        [(2, 3), None],
        [None],
        [(2, 3), (5, 4)],
        [(2, 3, 4)],
    ),
    (
        "Embedding",
        {"input_dim": "5", "output_dim": "4"},
        [None, None],
        [(2, 4)],
        [(2,), (5, 4)],
        [(2, 4)],
    ),
    ("pick", {}, [(2, 3), None], [None], [(2, 3), (2,)], [(2,)]),
    ("one_hot", {"depth": "3"}, [None], [(2, 3)], [(2,)], [(2, 3)]),
    ("where", {}, [(2,), (2, 3), None], [None], [(2,), (2, 3), (2, 3)], [(2, 3)]),
    ("where", {}, [(2, None), None, None], [(None, 3)], [(2, 3)] * 3, [(2, 3)]),
    ("scatter_nd", {"shape": "(4, 5)"}, [None, (1, 2)], [None], [(2, 5), (1, 2)], [(4, 5)]),
    ("batch_take", {}, [(None, 4), (3,)], [None], [(3, 4), (3,)], [(3,)]),
    (
        "SequenceMask",
        {"use_sequence_length": "True"},
        [None, None],
        [(3, 2, 4)],
        [(3, 2, 4), (2,)],
        [(3, 2, 4)],
    ),
    (
        "SequenceLast",
        {"use_sequence_length": "1", "axis": "1"},
        [(3, 2, 4), None],
        [None],
        [(3, 2, 4), (3,)],
        [(3, 4)],
    ),
    ("_contrib_boolean_mask", {}, [(4, 3), None], [None], [(4, 3), (4,)], [(None, 3)]),
    ("sum", {"axis": "1"}, [(None, 3)], [(2,)], [(None, 3)], [(2,)]),
    ("sum", {}, [(None, 3)], [None], [(None, 3)], [(1,)]),
    ("_np_cumsum", {}, [(None, 3)], [None], [(None, 3)], [(None,)]),
    (
        "topk",
        {"k": "2", "ret_typ": "both"},
        [(3, None)],
        [None, None],
        [(3, None)],
        [(3, 2), (3, 2)],
    ),
    ("sum", {"axis": "1"}, [None], [None], [None], [None]),
    ("sort", {}, [None], [None], [None], [None]),
    ("shape_array", {}, [(None, None)], [None], [(None, None)], [(2,)]),
]


@pytest.mark.parametrize(("op", "attrs", "inputs", "outputs", "known", "results"), BACKWARD)
def test_shapes_that_follow(
    op: str, attrs: Any, inputs: Any, outputs: Any, known: Any, results: Any
) -> None:
    assert shapes(op, attrs, inputs, outputs) == (known, results)


CONTRADICTIONS = [
    ("elemwise_add", {}, [(2, 3), (3,)], [None], "(2,3) does not fit (3)"),
    ("broadcast_add", {}, [(2, 3), (4,)], [None], "sizes 3 and 4"),
    ("softmax", {"axis": "2"}, [(2, 3)], [None], "axis 2 of an array with 2 axes"),
    (
        "softmax",
        {"use_length": "True"},
        [(2, 3), (3,)],
        [None],
        "length needs the shape of data without axis",
    ),
    ("log_softmax", {"use_length": "True"}, [(2, 3)], [None], "supported only by softmax"),
    ("SoftmaxActivation", {"mode": "channel"}, [(2, 3)], [None], "expected 3 or more"),
    ("LeakyReLU", {"act_type": "prelu"}, [(2, 3, 4), (4,)], [None], "expected (1) or (3)"),
    ("SoftmaxOutput", {}, [(2, 3), (3,)], [None], "label is (3), expected (2)"),
    (
        "SoftmaxOutput",
        {"multi_output": "True"},
        [(2, 3, 4), (2, 3)],
        [None],
        "label is (2,3), expected (2,4)",
    ),
    ("SoftmaxOutput", {"multi_output": "True"}, [(3,), None], [None], "no axis 1"),
    ("LinearRegressionOutput", {}, [(2, 3), (2,)], [None], "label is (2), expected (2,3)"),
    ("SVMOutput", {}, [(2, 3), (6,)], [None], "label is (6), expected (2)"),
    ("softmax_cross_entropy", {}, [(2, 3), (4,)], [None], "label is (4), expected (2)"),
    (
        "Embedding",
        {"input_dim": "5", "output_dim": "4"},
        [None, (4, 5)],
        [None],
        "(input_dim, output_dim) is (5,4)",
    ),
    ("pick", {}, [(3, 4), (4,)], [None], "index is (4), expected (3) or (3,1)"),
    ("pick", {"axis": "None"}, [(3, 4), None], [None], "axis is None"),
    ("take", {"axis": "2"}, [(3, 4), (2,)], [None], "axis 2"),
    ("gather_nd", {}, [(3, 4), (3, 2)], [None], "3 coordinates for an array with 2 axes"),
    ("scatter_nd", {"shape": "(3,)"}, [None, (2, 2)], [None], "2 coordinates"),
    ("where", {}, [(2, 3), (2, 3, 4), None], [None], "one value per row"),
    ("_contrib_boolean_mask", {"axis": "1"}, [(3, 4), None], [None], "only axis 0"),
    ("SequenceReverse", {"axis": "1"}, [(3, 2, 4)], [None], "only axis 0"),
    (
        "SequenceMask",
        {"use_sequence_length": "True"},
        [(3, 2), (3,)],
        [None],
        "sequence_length is (3), expected (2)",
    ),
    ("SequenceMask", {"axis": "2"}, [(3, 2, 4)], [None], "expected 0 or 1"),
    ("norm", {"ord": "3"}, [(3, 2)], [None], "ord is 3, expected 1 or 2"),
    ("moments", {}, [(3, 2)], [None, None], "axes are required"),
    ("topk", {"k": "9"}, [(3, 4)], [None], "k is 9, expected at most 4"),
    ("sum", {"axis": "(0, 4)"}, [(3, 4)], [None], "axis 4"),
    ("CTCLoss", {}, [(5, 2, 4), (3, 3)], [None], "does not fit"),
]


@pytest.mark.parametrize(("op", "attrs", "inputs", "outputs", "words"), CONTRADICTIONS)
def test_shapes_that_contradict(op: str, attrs: Any, inputs: Any, outputs: Any, words: str) -> None:
    with pytest.raises(KernelError) as raised:
        shapes(op, attrs, inputs, outputs)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "outputs", "known", "results"),
    [
        ("exp", {}, [None], ["float16"], ["float16"], ["float16"]),
        ("elemwise_add", {}, ["float32", None], [None], ["float32", "float32"], ["float32"]),
        ("_plus_scalar", {"is_int": "False"}, ["int32"], [None], ["int32"], ["float64"]),
        ("_plus_scalar", {}, [None], ["float32"], ["float32"], ["float32"]),
        ("_plus_scalar", {"is_int": "False"}, [None], ["float64"], [None], ["float64"]),
        ("Cast", {"dtype": "int8"}, [None], [None], [None], ["int8"]),
        ("amp_cast", {"dtype": "float16"}, ["int32"], [None], ["int32"], ["int32"]),
        ("amp_cast", {"dtype": "float32"}, ["bfloat16"], [None], ["bfloat16"], ["float32"]),
        (
            "amp_multicast",
            {"num_outputs": "2"},
            ["float16", "float32"],
            [None] * 2,
            ["float16", "float32"],
            ["float32"] * 2,
        ),
        (
            "amp_multicast",
            {"num_outputs": "3", "cast_narrow": "1"},
            ["float64", "float32", "float16"],
            [None] * 3,
            ["float64", "float32", "float16"],
            ["float64", "float16", "float16"],
        ),
        ("SoftmaxOutput", {}, ["float16", None], [None], ["float16", "float16"], ["float16"]),
        (
            "Embedding",
            {"input_dim": "3", "output_dim": "2"},
            ["int32", None],
            [None],
            ["int32", "float32"],
            ["float32"],
        ),
        (
            "Embedding",
            {"input_dim": "3", "output_dim": "2"},
            ["int32", "float64"],
            [None],
            ["int32", "float64"],
            ["float64"],
        ),
        (
            "where",
            {},
            ["int32", None, "float16"],
            [None],
            ["int32", "float16", "float16"],
            ["float16"],
        ),
        (
            "SequenceMask",
            {"use_sequence_length": "1"},
            ["float16", None],
            [None],
            ["float16", "float16"],
            ["float16"],
        ),
        ("softmax", {"dtype": "float64"}, ["float32"], [None], ["float32"], ["float64"]),
        ("_npi_mean", {}, ["int32"], [None], ["int32"], ["float32"]),
        ("batch_take", {}, ["float32", None], [None], ["float32", "int32"], ["float32"]),
    ],
)
def test_types_that_follow(
    op: str, attrs: Any, inputs: Any, outputs: Any, known: Any, results: Any
) -> None:
    assert types(op, attrs, inputs, outputs) == (known, results)


@pytest.mark.parametrize(
    ("op", "attrs", "inputs"),
    [
        ("elemwise_add", {}, ["float32", "float64"]),
        ("softmax", {}, ["int32"]),
        ("softmax", {"use_length": "True"}, ["float32", "float32"]),
        ("LeakyReLU", {}, ["int32"]),
        ("SoftmaxOutput", {}, ["float32", "int32"]),
        ("MakeLoss", {}, ["int32"]),
        ("batch_take", {}, ["float32", "float32"]),
    ],
)
def test_types_that_contradict(op: str, attrs: Any, inputs: Any) -> None:
    with pytest.raises(KernelError):
        types(op, attrs, inputs, [None])


def run(op: str, attrs: dict[str, str], *inputs: Any, **context: Any) -> Any:
    kernel, values = find_node_kernel(op, attrs)
    return kernel.forward(Context(**context), values, *inputs)


def test_results_are_written_into_dead_inputs() -> None:
    for op in (
        "exp",
        "abs",
        "relu",
        "clip",
        "_mul_scalar",
        "_rminus_scalar",
        "LeakyReLU",
        "softmax",
        "log_softmax",
    ):
        x = np.ones((2, 3), np.float32)
        attrs = {"a_min": "0", "a_max": "6"} if op == "clip" else {}
        assert np.shares_memory(run(op, attrs, x, reusable=(True,)), x), op
    x, y = np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)
    assert np.shares_memory(run("broadcast_add", {}, x, y, reusable=(True, True)), x)
    assert np.shares_memory(run("broadcast_add", {}, y, x, reusable=(True, True)), x)
    assert not np.shares_memory(run("broadcast_add", {}, x, y, reusable=(False, True)), x)


def test_the_same_array_added_three_times() -> None:
    x = np.ones(4, np.float32)
    assert run("add_n", {"num_args": "3"}, x, x, x, reusable=(True, True, True)).tolist() == [
        3,
        3,
        3,
        3,
    ]


def test_random_slopes_lie_between_the_bounds() -> None:
    x = -np.ones(1000, np.float32)
    attrs = {"act_type": "rrelu", "lower_bound": "0.2", "upper_bound": "0.4"}
    result, slopes = run(
        "LeakyReLU", attrs, x, training=True, rng=np.random.default_rng(0), num_outputs=2
    )
    assert np.array_equal(result, -slopes)
    assert 0.2 <= slopes.min() < 0.22 < 0.38 < slopes.max() <= 0.4
    with pytest.raises(KernelError):
        run("LeakyReLU", attrs, x, training=True)


def test_rows_by_mask() -> None:
    x = np.arange(8).reshape(4, 2)
    assert run("_contrib_boolean_mask", {}, x, np.array([1.0, 0.0, 0.0, 2.0])).tolist() == [
        [0, 1],
        [6, 7],
    ]


@pytest.mark.parametrize(
    ("op", "attrs", "inputs"),
    [
        ("take", {"mode": "raise"}, [np.ones(3), np.array([3])]),
        ("gather_nd", {}, [np.ones(3), np.array([[3]])]),
        ("softmax_cross_entropy", {}, [np.ones((1, 3)), np.array([3.0])]),
        ("CTCLoss", {}, [np.ones((4, 1, 3), np.float32), np.array([[1, 7]])]),
        ("SequenceLast", {"use_sequence_length": "True"}, [np.ones((3, 1)), np.array([0])]),
        ("Cast", {"dtype": "bfloat16"}, [np.ones(3)]),
        ("_np_sum", {"initial": "1"}, [np.ones(3)]),
    ],
)
def test_values_that_do_not_fit(op: str, attrs: Any, inputs: Any) -> None:
    with pytest.raises(KernelError):
        run(op, attrs, *inputs)


def test_division_by_zero_is_silent() -> None:
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    with np.errstate(all="raise"):
        assert np.isinf(run("elemwise_div", {}, one, zero)).all()
        assert run("elemwise_div", {}, one.astype("int32"), zero.astype("int32")).dtype == np.int32
        assert run("_mod_scalar", {"scalar": "0"}, one).tolist() == [0, 0, 0]
        assert np.isinf(run("rsqrt", {}, zero)).all()
        assert np.isneginf(run("log", {}, zero)).all()


@pytest.mark.parametrize(
    ("attrs", "labels", "message"),
    [
        ({}, [[1, 7]], "label 0 has classes outside of 0 to 2"),
        ({"blank_label": "last"}, [[0, 2], [3, -1]], "label 1 has classes outside of 0 to 2"),
        ({"use_data_lengths": "True"}, [[1, 2]], "data lengths are 5 to 5, expected 0 to 4"),
    ],
)
def test_a_label_that_does_not_fit_is_named(attrs: Any, labels: Any, message: str) -> None:
    lengths = [np.full(1, 5.0, np.float32)] if attrs.get("use_data_lengths") else []
    with pytest.raises(KernelError, match=message):
        run("CTCLoss", attrs, np.ones((4, len(labels), 3), np.float32), np.array(labels), *lengths)
