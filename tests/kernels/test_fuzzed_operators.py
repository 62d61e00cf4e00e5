"""What the campaign ``operators`` has found: an operator computes what was inferred for it, or
refuses before it runs.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from graphshare.ops.creation import kernel as creation
from graphshare.ops.detection import boxes as box_kernels
from graphshare.ops.detection.boxes import compute_iou, find_neighbours, suppress_overlaps
from graphshare.ops.inference import infer
from graphshare.ops.rnn import kernel as rnn
from tests.oracle.probed import Refusal, backward, forward, graph_of


def probe(op: str, attrs: dict[str, str], count: int, *, np_shape: bool = False) -> dict[str, Any]:
    """Return the probe of one operator with ``count`` inputs."""
    return {"op": op, "attrs": attrs, "family": "fuzzed", "np_shape": np_shape, "count": count}


def ask(op: str, attrs: dict[str, str], *inputs: Any) -> list[Any]:
    """Compute one operator; what is computed must be what was inferred."""
    np_shape = any(not x.ndim or 0 in x.shape for x in inputs)
    return forward(probe(op, attrs, len(inputs), np_shape=np_shape), list(inputs))


def array(dtype: str, *shape: int) -> Any:
    """Return numbers that are not all equal."""
    return (np.arange(int(np.prod(shape))) % 3).reshape(shape).astype(dtype)


ENDS = (array("float16", 1), array("float16", 1))
REFUSED = [
    (
        "_contrib_quantize",
        {"out_type": "uint8"},
        (array("float16", 3, 4), *ENDS),
        "float16, expected float32",
    ),
    ("_contrib_quantize_v2", {}, (array("float64", 3, 4),), "float64, expected float32"),
    (
        "_contrib_quantized_act",
        {"act_type": "relu"},
        (array("int8", 3, 4), *ENDS),
        "float16, expected float32",
    ),
    (
        "_contrib_quantized_flatten",
        {},
        (array("int8", 3, 2, 2), *ENDS),
        "float16, expected float32",
    ),
    (
        "_contrib_quantized_pooling",
        {"kernel": "(2, 2)", "pool_type": "max"},
        (array("int8", 1, 3, 4, 4), *ENDS),
        "float16, expected float32",
    ),
    (
        "_contrib_quantized_embedding",
        {"input_dim": "5", "output_dim": "3"},
        (array("uint8", 2, 4), array("uint8", 5, 3), *ENDS),
        "uint8, expected int8",
    ),
    (
        "_contrib_quantized_rnn",
        {"mode": "lstm", "state_size": "5", "num_layers": "1", "state_outputs": "True"},
        (
            *(array("int64", *shape) for shape in ((3, 2, 3), (200,), (1, 2, 5), (1, 2, 5))),
            array("int64", 1),
            array("int64", 1),
        ),
        "int64, expected uint8",
    ),
    (
        "_contrib_interleaved_matmul_selfatt_qk",
        {"heads": "2"},
        (array("int32", 5, 3, 24),),
        "expected floating point",
    ),
    (
        "_contrib_interleaved_matmul_encdec_qk",
        {"heads": "2"},
        (array("uint8", 3, 1, 8), array("uint8", 5, 1, 16)),
        "expected floating point",
    ),
    (
        "_contrib_box_iou",
        {"format": "center"},
        (array("int64", 2, 4), array("int64", 5, 4)),
        "expected floating point",
    ),
    (
        "_contrib_box_decode",
        {},
        (array("int8", 2, 6, 4), array("int8", 1, 6, 4)),
        "expected floating point",
    ),
    ("gather_nd", {}, (array("float32", 3, 4, 2), array("int64", 3)), "need at least two axes"),
    (
        "_scatter_elemwise_div",
        {},
        (array("bool", 2, 3), array("bool", 2, 3)),
        "booleans cannot be divided",
    ),
    (
        "Crop",
        {"h_w": "(2, 2)", "offset": "(-1, -1)", "num_args": "1"},
        (array("float32", 1, 1, 4, 4),),
        "at least 0",
    ),
    ("im2col", {"kernel": "None", "stride": "(4, 2)"}, (array("float32", 1, 1, 4, 4),), "kernel"),
    ("gather_nd", {}, (array("float64", 3, 4), array("int64", 0, 5)), "there are no coordinates"),
    (
        "_contrib_dequantize",
        {},
        (array("int32", 3), array("float32", 1), array("float32", 1)),
        "int32 is not supported",
    ),
    (
        "_contrib_MultiBoxTarget",
        {},
        (array("float32", 1, 2, 4), array("float32", 2, 0, 5), array("float32", 2, 3, 2)),
        "there are no labels",
    ),
    ("elemwise_div", {}, (array("bool", 3), array("bool", 3)), "booleans cannot be divided"),
    ("broadcast_mod", {}, (array("bool", 3), array("bool", 3)), "booleans cannot be divided"),
    ("_npi_mod", {}, (array("bool", 3), array("bool", 3)), "booleans cannot be divided"),
    ("_sample_multinomial", {"shape": "(6,)"}, (array("float32", 2, 0),), "there are no classes"),
    ("_sample_multinomial", {"shape": "(6,)"}, (array("float32"),), "probabilities have no axes"),
    (
        "_sample_multinomial",
        {"get_prob": "True"},
        (array("int32", 2, 3),),
        "are int32, expected floating point",
    ),
    (
        "_sample_uniform",
        {"shape": "(5,)"},
        (array("bool", 2),) * 2,
        "parameters are bool, expected numbers",
    ),
    (
        "_random_randint",
        {"shape": "(2,)", "low": "-3", "high": "-3"},
        (),
        "low is -3, expected less than high",
    ),
    (
        "_linalg_inverse",
        {},
        (array("int64", 3, 3),),
        "int64 is not supported, expected float32 or float64",
    ),
    (
        "_linalg_gelqf",
        {},
        (array("int32", 2, 2),),
        "int32 is not supported, expected float32 or float64",
    ),
    (
        "_linalg_syevd",
        {},
        (array("int32", 2, 2),),
        "int32 is not supported, expected float32 or float64",
    ),
    (
        "_npi_cholesky",
        {},
        (array("int32", 2, 2),),
        "int32 is not supported, expected float32 or float64",
    ),
    (
        "_npi_tensorinv",
        {"ind": "1"},
        (array("uint8", 6, 2, 3),),
        "uint8 is not supported, expected float32 or float64",
    ),
    (
        "_contrib_hawkesll",
        {},
        (
            *(array("float32", *shape) for shape in ((1, 2), (2,), (2,), (1, 2), (1, 3))),
            *(array("int32", 1, 3), array("int64", 1), array("float32", 1)),
        ),
        "dtypes float32, int64, expected one floating-point dtype",
    ),
]


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "message"), REFUSED, ids=[op for op, *_ in REFUSED]
)
def test_what_mxnet_refuses_is_refused(
    op: str, attrs: dict[str, str], inputs: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(Refusal, match=message):
        ask(op, attrs, *inputs)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("uint8", [[0, 77, 18, 143], [82, 9, 23, 2]]),
        ("int8", [[0, 77, -67, -113], [82, 9, 23, 2]]),
        ("int32", [[0, 333, -67, 399], [82, 9, 23, 2]]),
        ("int64", [[0, 333, -67, 399], [82, 9, 23, 2]]),
        ("float16", [[-0.333251953125, 333.0, -67.0, 399.5], [83.0, 9.671875, 23.0, 3.0]]),
    ],
)
def test_images_are_normalized_in_their_dtype(dtype: str, expected: list[list[float]]) -> None:
    x = np.array([[[0, 100, -20, 120], [25, 3, 7, 1]]]).astype(dtype)
    (result,) = ask("_image_normalize", {"mean": "(0.1,)", "std": "(0.3,)"}, x)
    assert result.dtype == dtype
    assert result[0].tolist() == expected  # recorded with MXNet 1.9.1


@pytest.mark.parametrize(
    ("shape", "ones"),
    [
        ((3, 3), [0, 4, 8]),
        ((2, 1, 1), [0]),
        ((2, 3), [0, 3]),
        ((3, 2), [0, 4]),
        ((2, 2, 2), [0, 3]),
    ],
)
def test_identities_of_other_shapes_than_squares(shape: tuple[int, ...], ones: list[int]) -> None:
    (result,) = ask("_npi_identity", {"shape": str(shape)})
    assert result.shape == shape
    assert np.flatnonzero(result).tolist() == ones  # recorded with MXNet 1.9.1


def test_gradient_of_a_trace_far_outside() -> None:
    for offset in ("-2147483648", "2147483647"):
        case = probe("_np_trace", {"axis1": "0", "axis2": "2", "offset": offset}, 1)
        assert not backward(case, [array("float32", 2, 3, 4)], 0)[0].any()


@pytest.mark.parametrize(
    ("flatten", "shape"), [("True", (0, 2, 3)), ("False", (3, 0, 6)), ("True", (2, 0))]
)
def test_gradients_of_a_dense_layer_of_nothing(flatten: str, shape: tuple[int, ...]) -> None:
    width = shape[-1] if flatten == "False" else int(np.prod(shape[1:]))
    inputs = [array("float32", *shape), array("float32", 4, width), array("float32", 4)]
    case = probe("FullyConnected", {"num_hidden": "4", "flatten": flatten}, 3, np_shape=True)
    found = backward(case, inputs, 0)
    assert [found[i].shape for i in range(3)] == [x.shape for x in inputs]
    assert not found[1].any()


@pytest.mark.parametrize(
    ("fixed", "shape", "axis"),
    [("True", (0, 3, 4), "1"), ("False", (0, 3, 4), "1"), ("False", (3, 0), "0")],
)
def test_batch_normalization_of_nothing(fixed: str, shape: tuple[int, ...], axis: str) -> None:
    inputs = [array("float32", *shape), *(np.ones(3, np.float32) for _ in range(4))]
    case = probe("BatchNorm", {"fix_gamma": fixed, "axis": axis}, 5, np_shape=True)
    found = backward(case, inputs, 0)
    assert found[0].shape == shape
    assert found[2].tolist() == [0, 0, 0]
    # Recorded with MXNet 1.9.1
    assert found[1].tolist() == [0, 0, 0] if fixed == "True" else np.isnan(found[1]).all()


def test_means_of_the_least_number() -> None:
    mean, variance = ask("moments", {"axes": "(0,)"}, np.array([[8, 3], [-8, 5]], np.int8))
    # Recorded with MXNet 1.9.1: 64 + 64 is -128
    assert (mean.tolist(), variance.tolist()) == ([0, 4], [-64, 1])
    assert ask("mean", {"axis": "(0,)"}, np.full((2, 1), 64, np.int8))[0].tolist() == [-64]
    # 300 is 44
    assert ask("mean", {"axis": "(0,)"}, np.full((300, 1), 1, np.int8))[0].tolist() == [0]


def test_percentiles_of_float16_are_float32() -> None:
    x = np.array([[-0.828, -0.445, 0.31, 0.7]], np.float16)
    (result,) = ask("_npi_percentile", {"q_scalar": "30", "axis": "(1,)"}, x)
    assert result[0] == pytest.approx(float(x[0, 0]) * 0.1 + float(x[0, 1]) * 0.9, rel=1e-6)


def test_the_place_of_a_percentile_is_a_float32() -> None:
    x = np.arange(100, dtype=np.float64) ** 3
    # Recorded with MXNet 1.9.1; exact places give 1811.013 and 92019.384.
    for q, value in ((12.3, 1811.0130214691162), (45.6, 92019.39025497437)):
        assert ask("_npi_percentile", {"q_scalar": repr(q)}, x)[0] == pytest.approx(
            value, rel=1e-13
        )
    (several,) = ask("_npi_percentile", {}, x, np.array([12.3, 45.6], np.float32))
    assert several.tolist() == pytest.approx([1811.0134687423706, 92019.36656188965], rel=1e-13)


def test_lengths_that_are_booleans() -> None:
    data, label = array("float32", 2, 2, 4), np.ones((2, 2), np.float32)
    attrs = {"use_data_lengths": "True", "use_label_lengths": "True"}
    wanted, found = (
        ask("CTCLoss", attrs, data, label, np.ones(2, dtype), np.ones(2, dtype))[0]
        for dtype in ("int32", "bool")
    )
    assert np.array_equal(wanted, found)


def test_standardized_integers_stay_integers() -> None:
    (result,) = ask("InstanceNorm", {}, np.array([[[0, 10]]]), np.full(1, 3), np.full(1, 2))
    assert (result.dtype, result.tolist()) == (np.int64, [[[-1, 5]]])


def test_further_arrays_of_differences_are_not_counted() -> None:
    attrs = {"to_begin_arr_given": "True", "to_end_arr_given": "False"}
    graph = graph_of(probe("_npi_ediff1d", attrs, 3), 1)
    shapes = dict(zip(graph.nodes, ((2, 3, 4), (2,), (3,)), strict=False))
    assert infer(graph, shapes, {}).shapes[graph.nodes[-1]] == [(25,)]


def test_one_equation_has_the_axes_of_its_factor() -> None:
    graph = graph_of(probe("_npi_tensorsolve", {}, 2), 1)
    assert infer(graph, dict.fromkeys(graph.nodes[:2], (1,)), {}).shapes[graph.nodes[-1]] == [(1,)]


@pytest.mark.parametrize(
    ("op", "attrs", "outputs", "x"),
    [
        (
            "_sample_multinomial",
            {"shape": "(6,)", "get_prob": "True"},
            [(0, 6), (0, 6)],
            array("float32", 0, 3),
        ),
        ("_sample_multinomial", {"get_prob": "True"}, [(0,), (0,)], array("float32", 0, 3)),
        ("_linalg_inverse", {}, [(0, 3, 3)], array("int64", 0, 3, 3)),
        ("_linalg_inverse", {}, [(0, 0)], array("bool", 0, 0)),
        ("_linalg_gelqf", {}, [(0, 2, 2), (0, 2, 2)], array("int32", 0, 2, 2)),
        ("_linalg_syevd", {}, [(0, 2, 2), (0, 2)], array("int32", 0, 2, 2)),
    ],
)
def test_results_without_elements(
    op: str, attrs: dict[str, str], outputs: list[tuple[int, ...]], x: Any
) -> None:
    """MXNet takes matrices of any dtype that have no elements."""
    found = ask(op, attrs, x)
    assert [y.shape for y in found] == outputs
    assert found[-1].dtype == x.dtype


def suppress_one_by_one(
    boxes: Any, limit: float, *, most: int | None = None, classes: Any = None, pixels: bool = False
) -> list[int]:
    """Compare every box that remains with all after it."""
    alive = np.ones(len(boxes), bool)
    chosen: list[int] = []
    for i in range(len(boxes)):
        if alive[i] and (most is None or len(chosen) < most):
            chosen.append(i)
            over = compute_iou(boxes[i], boxes[i + 1 :], pixels=pixels) > boxes.dtype.type(limit)
            alive[i + 1 :] &= ~(
                over if classes is None else over & (classes[i + 1 :] == classes[i])
            )
    return chosen


def draw_boxes(rng: np.random.Generator, count: int, dtype: str) -> Any:
    """Return boxes of all sizes, near to and far from the origin, some of them the wrong way round,
    some of equal edges.
    """
    corner = rng.standard_normal((count, 2))
    boxes = np.concatenate(
        [corner, corner + np.abs(rng.standard_normal((count, 2))) * rng.choice([0.1, 1, 3])], axis=1
    )
    if rng.integers(3) == 0:
        boxes = rng.standard_normal((count, 4))
    if rng.integers(3) == 0:
        boxes = np.round(boxes * 2) / 2
    return (boxes * 10.0 ** rng.integers(-6, 4) + rng.choice([0, 0, 100, 1e4])).astype(dtype)


@pytest.mark.parametrize("few", [box_kernels._FEW, 3], ids=["few", "many"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_boxes_are_suppressed_as_if_each_was_compared_with_all(
    dtype: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box_kernels, "_FEW", few)
    monkeypatch.setattr(box_kernels, "_TOGETHER", 8)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for _ in range(300):
            boxes = draw_boxes(rng, int(rng.integers(0, 40)), dtype)
            limit = float(rng.choice([-1, -0.1, 0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1, 1.5]))
            classes = rng.integers(0, 2, len(boxes)) if rng.integers(2) else None
            most = int(rng.integers(1, 20)) if rng.integers(3) == 0 else None
            pixels = bool(rng.integers(2))
            expected = suppress_one_by_one(boxes, limit, most=most, classes=classes, pixels=pixels)
            assert (
                suppress_overlaps(boxes, limit, most=most, classes=classes, pixels=pixels)
                == expected
            )


@pytest.mark.parametrize("limit", [0.0, 0.5, 0.9])
def test_boxes_are_compared_with_their_neighbours_only(limit: float) -> None:
    """The comparisons grow with the number of boxes, not with its square."""
    counts = []
    for count in (1000, 4000):
        left = np.arange(count, dtype=np.float32)
        widths = np.full(count, 2, np.float32)
        starts, ends = find_neighbours(left, widths, 2 * widths, limit)
        counts.append(sum(ends) - sum(starts))
    assert counts[1] < 4.1 * counts[0]


def test_steps_of_an_rnn_are_projected_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No single product is so long that a time limit is not heard, and the numbers are the same."""
    rng = np.random.default_rng(0)
    x, weight, bias = (
        rng.standard_normal(shape).astype("float32") for shape in ((50, 2, 3), (8, 3), (8,))
    )
    cell = rnn.Cell(weight, weight, None, bias, bias)
    whole = rnn.project_inputs(x, cell, bias)
    largest: list[int] = []
    matmul = np.matmul

    def count(a: Any, b: Any, out: Any) -> Any:
        largest.append(out.size * a.shape[-1])
        return matmul(a, b, out=out)

    monkeypatch.setattr(rnn, "_BLOCK", 200)
    monkeypatch.setattr(np, "matmul", count)
    assert rnn.project_inputs(x, cell, bias).tobytes() == whole.tobytes()
    assert len(largest) > 10
    assert max(largest) <= 200


@pytest.mark.parametrize(
    ("mode", "widths", "expected"),
    [
        ("edge", "(-1, -1)", [1, 2]),
        ("edge", "(-1, 1)", [1, 2, 3, 3]),
        ("edge", "(1, -1)", [0, 0, 1, 2]),
        ("constant", "(-1, 1)", [1, 2, 3, 0]),
        ("constant", "(0, -1)", [0, 1, 2]),
    ],
)
def test_negative_padding_takes_elements_away(
    mode: str, widths: str, expected: list[float]
) -> None:
    x = np.arange(4, dtype=np.float32)
    (result,) = ask("_npi_pad", {"pad_width": widths, "mode": mode}, x)
    assert result.tolist() == expected  # recorded with MXNet 1.9.1


@pytest.mark.parametrize(
    ("widths", "kept"), [("(-1, 1)", [1, 2, 3]), ("(0, -1)", [0, 1, 2]), ("(2, -3)", [0])]
)
def test_what_negative_padding_takes_away_has_no_gradient(widths: str, kept: list[int]) -> None:
    case = probe("_npi_pad", {"pad_width": widths, "mode": "constant"}, 1)
    assert np.flatnonzero(backward(case, [np.arange(4, dtype=np.float32)], 0)[0]).tolist() == kept


def test_negative_padding_that_reads_beyond_the_array_is_refused() -> None:
    for widths, mode, message in (
        ("(-1, 1)", "reflect", "memory that was never written"),
        ("(-3, -2)", "edge", "more than there is"),
    ):
        with pytest.raises(Refusal, match=message):
            ask("_npi_pad", {"pad_width": widths, "mode": mode}, np.arange(4, dtype=np.float32))


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [
        ((2, 6, 3), "1", (2, 11, 3)),
        ((4, 5, 3), "0", (6, 5, 3)),
        ((5, 3), "0", (3, 5, 3)),
        ((3,), "None", (33,)),
    ],
)
def test_a_slice_of_one_position_takes_all_values_along_the_axis(
    shape: tuple[int, ...], axis: str, expected: tuple[int, ...]
) -> None:
    x, values = array("float32", 2, 5, 3), array("float32", *shape)
    (result,) = ask(
        "_npi_insert_slice", {"start": "1", "stop": "2", "step": "2", "axis": axis}, x, values
    )
    assert result.shape == expected  # recorded with MXNet 1.9.1


@pytest.mark.parametrize("offset", ["-2147483648", "-3", "4", "2147483647"])
def test_a_diagonal_far_outside_has_no_elements(offset: str) -> None:
    """numpy ends the process for the least of these."""
    (result,) = ask("_np_diagonal", {"offset": offset}, array("float32", 3, 4))
    assert result.shape == (0,)


@pytest.mark.parametrize("channels", [1, 6])
def test_shifts_for_no_class_or_more_classes_than_channels(channels: int) -> None:
    attrs = {
        "spatial_scale": "0.5",
        "output_dim": "2",
        "group_size": "3",
        "pooled_size": "3",
        "part_size": "3",
        "trans_std": "0.1",
    }
    inputs = (
        array("float32", 1, 18, 4, 9),
        array("float32", 3, 5),
        array("float32", 3, channels, 3, 3),
    )
    with pytest.raises(Refusal, match="expected two for each class"):
        ask("_contrib_DeformablePSROIPooling", attrs, *inputs)


class _Written(np.ndarray[Any, Any]):
    """An array that keeps how many elements are written at once."""

    sizes: ClassVar[list[int]] = []

    def __setitem__(self, key: Any, value: Any) -> None:
        self.sizes.append(self[key].size)
        super().__setitem__(key, value)


def test_arrays_of_one_number_are_written_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = np.empty
    monkeypatch.setattr(creation, "_BLOCK", 4)
    monkeypatch.setattr(creation.np, "empty", lambda *given: empty(*given).view(_Written))
    ones = creation.fill((2, 5), 1, np.float32)
    assert (_Written.sizes, ones.tolist()) == ([4, 4, 2], [[1.0] * 5] * 2)
