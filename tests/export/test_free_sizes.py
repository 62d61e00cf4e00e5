"""``export`` with names of sizes: the sizes of inner values are followed, and each size that is tried is proved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.builder import Session, placeholder, save
from graphshare.builder import operators as op
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import RefusedError, UsageError
from graphshare.formats.mxnet.symbol import read_symbol
from tests.corpus.test_export import seeded_model
from tests.export.judge import run_onnx
from tests.symbols import document, mxnet_text, operator, variable

_CONVOLUTION = {
    "kernel": "(3, 3)",
    "num_filter": "4",
    "pad": "(1, 1)",
    "stride": "(2, 2)",
    "no_bias": "True",
}
_TAILS: dict[str, dict[str, Any]] = {
    "Crop": operator("Crop", "cut", [5, 3], attrs={"num_args": "2"}),
    "a centered Crop": operator(
        "Crop", "cut", [5, 3], attrs={"num_args": "2", "center_crop": "True"}
    ),
    "slice_like": operator("slice_like", "cut", [5, 3], attrs={"axes": "(2, 3)"}),
    "slice_like of all axes": operator("slice_like", "cut", [5, 3], attrs={}),
}


def pyramid(tail: dict[str, Any] | None) -> Checkpoint:
    """Two strides, an UpSampling of the second, cut to the size behind the first or not, and their
    sum, as in detectors.
    """
    nodes = [
        variable("data"),
        variable("w"),
        variable("v"),
        operator("Convolution", "first", [0, 1], attrs=_CONVOLUTION),
        operator("Convolution", "second", [3, 2], attrs=_CONVOLUTION),
        operator(
            "UpSampling", "up", [4], attrs={"num_args": "1", "sample_type": "nearest", "scale": "2"}
        ),
        *([tail] if tail is not None else []),
    ]
    nodes.append(operator("elemwise_add", "sum", [3, len(nodes) - 1]))
    rng = np.random.default_rng(0)
    weights = {"w": (4, 3, 3, 3), "v": (4, 4, 3, 3)}
    model = Checkpoint(read_symbol(mxnet_text(document(nodes, [len(nodes) - 1])).encode()))
    return model.with_params(
        {name: rng.normal(size=shape).astype("f4") for name, shape in weights.items()}
    )


@pytest.mark.parametrize("name", _TAILS)
def test_the_size_behind_a_stride_is_followed(name: str, tmp_path: Path) -> None:
    model = pyramid(_TAILS[name])
    report = gs.export(
        model, tmp_path / "free.onnx", shapes={"data": ("n", 3, "h:8", "w:12")}
    ).report
    assert report.inputs == {"data": ("n", 3, "h", "w")}
    assert "at 8 sizes" in report.proof.verdict
    for sizes in ((1, 3, 8, 8), (2, 3, 9, 15), (3, 3, 10, 10), (1, 3, 13, 7)):
        feeds = {"data": np.random.default_rng(1).normal(size=sizes).astype("f4")}
        (got,), _ = run_onnx((tmp_path / "free.onnx").read_bytes(), feeds)
        (wanted,) = gs.run(model, feeds=feeds).outputs.values()
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_network_that_needs_multiples_is_refused_with_the_way_that_works(tmp_path: Path) -> None:
    model = pyramid(None)
    with pytest.raises(RefusedError, match="with h 41") as caught:
        gs.export(model, tmp_path / "free.onnx", shapes={"data": (1, 3, "h:8", 8)})
    assert caught.value.faults[0].hint == "name it 4*h in `shapes`: only multiples can be computed"
    report = gs.export(model, tmp_path / "free.onnx", shapes={"data": (1, 3, "4*h:8", 8)}).report
    assert report.inputs == {"data": (1, 3, "4*h", 8)}


def test_names_of_inputs_that_are_left_out_free_nothing() -> None:
    nodes = [variable("data"), variable("label"), operator("SoftmaxOutput", "s", [0, 1])]
    model = Checkpoint(read_symbol(mxnet_text(document(nodes, [2])).encode()))
    with pytest.raises(
        UsageError, match="`shapes`: label is left out of the model, so no size is free"
    ):
        gs.export(model, shapes={"data": (2, 3), "label": ("n:2",)})
    assert gs.export(model, shapes={"data": ("n:2", 3), "label": ("n",)}).report.inputs == {
        "data": ("n", 3)
    }


def test_a_batch_that_the_graph_fixes_leads_to_reshape_and_not_back(
    cases: Path, tmp_path: Path
) -> None:
    path, shapes = cases / "mxnet" / "s2", {"data": (96, 3, 8, 8)}
    with pytest.raises(RefusedError, match="Reshape sets axis 0 to 96") as caught:
        gs.export(path, shapes=shapes, dynamic_batch=True)
    assert (
        "free the batch of the ONNX file: `gs.reshape(FILE, dynamic_batch=True)`"
        in caught.value.faults[0].hint
    )
    gs.export(path, tmp_path / "s2.onnx", shapes=shapes)
    assert gs.reshape(tmp_path / "s2.onnx", dynamic_batch=True).report.outputs == {
        "sm_output": ("batch", 7, 10)
    }


def test_crop_and_detector_of_the_cases(cases: Path, tmp_path: Path) -> None:
    gs.export(
        cases / "mxnet" / "crop", tmp_path / "crop.onnx", shapes={"data": ("n", 3, "h:8", "w:8")}
    )
    recorded = np.load(cases / "mxnet" / "crop_10.npz")
    (got,), _ = run_onnx((tmp_path / "crop.onnx").read_bytes(), {"data": recorded["data"]})
    np.testing.assert_allclose(got, recorded["out"], rtol=1e-4, atol=1e-5)
    detector = gs.export(
        cases / "mxnet" / "ssd", shapes={"data": (2, 3, 32, 32)}, upto="det_out", dynamic_batch=True
    )
    assert detector.report.inputs == {"data": ("batch", 3, 32, 32)}


@pytest.mark.parametrize(
    "attrs", [{}, {"steps": "(0.1, 0.2)", "offsets": "(0.25, 0.75)", "clip": "True"}]
)
def test_anchors_are_computed_from_the_size(attrs: dict[str, str], tmp_path: Path) -> None:
    more = {"sizes": "(0.2, 0.3)", "ratios": "(1, 2, 0.5)", **attrs}
    nodes = [
        variable("data"),
        operator("_contrib_MultiBoxPrior", "anchors", [0], attrs=more),
        operator("relu", "y", [0]),
    ]
    model = Checkpoint(read_symbol(mxnet_text(document(nodes, [1, 2])).encode()))
    gs.export(model, tmp_path / "free.onnx", shapes={"data": (1, 3, "h:8", "w:12")})
    for sizes in ((1, 3, 8, 12), (1, 3, 5, 7), (1, 3, 1, 20)):
        feeds = {"data": np.zeros(sizes, "f4")}
        (got, _), _ = run_onnx((tmp_path / "free.onnx").read_bytes(), feeds)
        wanted, _ = gs.run(model, feeds=feeds).outputs.values()
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("upto", ["det_out", "multibox_cls_pred"])
def test_a_detector_of_the_cases_is_free_in_height_and_width(
    upto: str, cases: Path, tmp_path: Path
) -> None:
    """With more anchors than take part in the suppression, and with fewer."""
    path = cases / "mxnet" / "ssd"
    report = gs.export(
        path, tmp_path / "free.onnx", shapes={"data": ("n", 3, "h:96", "w:160")}, upto=upto
    ).report
    assert "at 8 sizes" in report.proof.verdict
    for sizes in ((2, 3, 32, 32), (1, 3, 48, 80), (1, 3, 65, 97)):
        feeds = {"data": np.random.default_rng(0).normal(size=sizes).astype("f4")}
        (got,), _ = run_onnx((tmp_path / "free.onnx").read_bytes(), feeds)
        (wanted,) = gs.run(path, feeds=feeds, targets=upto).outputs.values()
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.large
@pytest.mark.corpus
def test_a_face_detector_is_free_in_height_and_width(corpus: Path) -> None:
    model, _ = seeded_model(corpus, "1996scarlet+ArcFace-Multiplex-Recognition__model__M25-symbol")
    report = gs.export(model, shapes={"data": ("n", 3, "h:48", "w:80")}).report
    assert (report.inputs, len(report.outputs)) == ({"data": ("n", 3, "h", "w")}, 9)
    assert "at 8 sizes" in report.proof.verdict


@pytest.mark.large
@pytest.mark.corpus
def test_a_network_of_three_scales_is_free_in_height_and_width(corpus: Path) -> None:
    """YOLOv3: grids are cut from tables to the size, and box_nms puts all boxes of a class in order."""
    model, feeds = seeded_model(corpus, "cv_yolo3_darknet53_voc")
    model = model.with_params({name: array for name, array in feeds.items() if name != "data"})
    # Seeded weights give sizes of boxes that are exp(1000).
    last = [name for name in model.params if "yolooutput" in name and name.endswith("weight")]
    model = model.with_params({name: model.params[name] * 0.01 for name in last})
    report = gs.export(model, shapes={"data": (1, 3, "h:32", "w:64")}).report
    assert (report.inputs, len(report.outputs)) == ({"data": (1, 3, "h", "w")}, 3)
    assert "at 7 sizes" in report.proof.verdict


def decode_centers(x: Any, count: int = 5) -> list[Any]:
    """Return the decoder of CenterNet on two small layers: classes, scores and offsets of the best
    places of a picture.
    """
    layer = {"kernel": (3, 3), "pad": (1, 1), "stride": (2, 2)}
    heat = op.sigmoid(op.Convolution(x, num_filter=3, name="heat", **layer))
    offset = op.Convolution(x, num_filter=2, name="offset", **layer)
    _, _, height, width = op.SliceChannel(op.shape_array(heat), num_outputs=4, axis=0)
    area = op.broadcast_mul(height, width)
    peaks = (
        op.broadcast_equal(op.Pooling(heat, kernel=(3, 3), pad=(1, 1), pool_type="max"), heat)
        * heat
    )
    scores, indices = op.topk(op.Reshape(peaks, shape=(0, -1)), k=count, ret_typ="both")
    indices = op.Cast(indices, dtype="int64")
    rows = op.Reshape(op.transpose(offset, axes=(0, 2, 3, 1)), shape=(0, -1, 2))
    numbers = op.expand_dims(op.slice_like(op._arange(start=0, stop=64), rows, axes=(0,)), axis=-1)
    images = op.Cast(op.tile(numbers, reps=(1, count)), dtype="int64")
    where = op.Reshape(op.Concat(images, op.broadcast_mod(indices, area), dim=0), shape=(2, -1))
    classes = op.Cast(op.broadcast_div(indices, area), dtype="float32", name="classes")
    return [classes, scores, op.Reshape(op.gather_nd(rows, where), shape=(-1, count, 2))]


def test_a_detector_of_centers_is_free_in_all_sizes(tmp_path: Path) -> None:
    with Session(seed=0) as session:
        save(
            session,
            decode_centers(placeholder("data", (None, 3, None, None))),
            str(tmp_path / "centers"),
        )
    path = tmp_path / "centers"
    report = gs.export(
        path, tmp_path / "free.onnx", shapes={"data": ("n", 3, "h:32", "w:48")}
    ).report
    assert report.inputs == {"data": ("n", 3, "h", "w")}
    assert "at 8 sizes" in report.proof.verdict
    for sizes in ((1, 3, 16, 16), (3, 3, 33, 50)):
        feeds = {"data": np.random.default_rng(1).normal(size=sizes).astype("f4")}
        got, _ = run_onnx((tmp_path / "free.onnx").read_bytes(), feeds)
        for value, wanted in zip(got, gs.run(path, feeds=feeds).outputs.values(), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)
