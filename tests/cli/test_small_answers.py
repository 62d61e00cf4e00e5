"""Answers that name the cause: the rounding of a Pooling, the separator of scopes, the tolerance of
float16, labels of RNNs.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.api.export import ExportFacts
from graphshare.errors import DisprovedError, RefusedError
from graphshare.ops.registry import TRANSLATIONS, register_translation
from graphshare.ops.translation import Translation, Translator
from tests.symbols import Document, Record, document, operator, variable

CONVENTION = "pooling_convention"


def write(folder: Path, graph: Document) -> str:
    (folder / "m-symbol.json").write_text(json.dumps(graph))
    return str(folder / "m-symbol.json")


def pools(count: int, **attrs: str) -> Document:
    """A convolution that rounds up beside pools of the same input, all joined."""
    window = {"kernel": "(3, 3)", "stride": "(2, 2)"}
    nodes = [variable("data"), variable("w")]
    nodes.append(
        operator(
            "Convolution",
            "c",
            [0, 1],
            attrs={**window, "pad": "(1, 1)", "num_filter": "2", "no_bias": "True"},
        )
    )
    nodes += [
        operator("Pooling", f"p{i}", [0], attrs={**window, "pool_type": "max", **attrs})
        for i in range(count)
    ]
    nodes.append(
        operator("Concat", "cat", list(range(2, 3 + count)), attrs={"num_args": str(count + 1)})
    )
    return document(nodes, [len(nodes) - 1])


def find_hints(path: str, size: int) -> list[str]:
    report = gs.check(path, shapes={"data": (1, 3, size, size)})
    return [finding.hint for finding in report.findings if finding.code == "GS307"]


@pytest.mark.parametrize("count", [1, 3])
def test_a_pooling_that_would_fit_if_it_rounded_the_other_way_is_named(
    tmp_path: Path, count: int
) -> None:
    (hint,) = find_hints(write(tmp_path, pools(count)), 28)
    assert all(f"{CONVENTION}=full of 'p{i}'" in hint for i in range(count))
    assert find_hints(write(tmp_path, pools(count, pooling_convention="full")), 28) == []


@pytest.mark.parametrize(("size", "attrs"), [(29, {}), (28, {"global_pool": "True"})])
def test_a_pooling_is_not_named_where_no_rounding_fits(
    tmp_path: Path, size: int, attrs: dict[str, str]
) -> None:
    assert not any(
        CONVENTION in hint for hint in find_hints(write(tmp_path, pools(1, **attrs)), size)
    )


def test_one_of_several_poolings_is_named(tmp_path: Path) -> None:
    graph = pools(2, pooling_convention="full")
    del graph["nodes"][3]["attrs"][CONVENTION]
    (hint,) = find_hints(write(tmp_path, graph), 28)
    assert hint.startswith(f"{CONVENTION}=full of 'p0' fits")


@pytest.mark.parametrize(("scope", "named"), [("a", True), ("a_", True), ("b", False)])
def test_a_scope_of_another_separator_is_answered_with_the_separator(
    tmp_path: Path, scope: str, *, named: bool
) -> None:
    nodes = [variable("x"), variable("a_weight"), variable("c_weight")]
    nodes += [operator("broadcast_add", "s", [0, 1]), operator("broadcast_add", "t", [3, 2])]
    with pytest.raises(RefusedError, match="matches no parameter") as refused:
        gs.share(write(tmp_path, document(nodes, [4])), overrides={scope: "c"})
    assert ("`separator='_'`" in str(refused.value.faults[0].hint)) is named


def mixed(folder: Path) -> gs.Checkpoint:
    """Layers in float16 between two casts, as automatic mixed precision writes them."""
    nodes = [
        variable("data"),
        operator("amp_cast", "low", [0], attrs={"dtype": "float16"}),
        operator("sin", "wave", [1]),
        variable("w", attrs={"__dtype__": "2"}),
        operator("FullyConnected", "fc", [2, 3], attrs={"num_hidden": "64", "no_bias": "True"}),
        operator("amp_cast", "high", [4], attrs={"dtype": "float32"}),
    ]
    np.savez(folder / "w.npz", w=np.random.default_rng(0).normal(size=(64, 512)).astype("float16"))
    return gs.load(write(folder, document(nodes, [5])), params=str(folder / "w.npz"))


def test_a_float32_output_of_float16_layers_is_judged_as_float16_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def translate(t: Translation) -> str:
        factor = t.constant(np.float16(1.003), "float16")
        return t.emit("Mul", t.emit("Sin", t.inputs[0]), factor)

    # A difference between the two tolerances, larger than what processors round differently.
    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    register_translation(Translator("sin", translate))
    model, shapes = mixed(tmp_path), {"data": (4, 512)}
    exported = gs.export(model, str(tmp_path / "m.onnx"), shapes=shapes)
    assert [note for note in exported.notes if "float16" in note] == [
        "compared up to 0.01 of the largest value, as values inside are float16"
    ]
    with pytest.raises(DisprovedError):
        gs.export(model, str(tmp_path / "n.onnx"), shapes=shapes, tolerance=1e-3)


def label_of(steps: list[Record]) -> Document:
    nodes = [
        variable("data"),
        variable("w"),
        operator(
            "FullyConnected",
            "fc",
            [0, 1],
            attrs={"num_hidden": "4", "no_bias": "True", "flatten": "False"},
        ),
    ]
    nodes += [
        operator("Reshape", "rows", [2], attrs={"shape": "(-1, 4)"}),
        variable("softmax_label"),
        *steps,
    ]
    nodes.append(operator("SoftmaxOutput", "softmax", [3, len(nodes) - 1]))
    return document(nodes, [len(nodes) - 1])


@pytest.mark.parametrize(
    "steps",
    [
        [operator("Reshape", "r", [4], attrs={"shape": "(-1,)"})],
        [
            operator("SwapAxis", "t", [4], attrs={"dim1": "0", "dim2": "1"}),
            operator("Reshape", "r", [5], attrs={"shape": "(-1,)"}),
        ],
    ],
)
def test_a_label_that_goes_through_a_reshape_needs_no_shape(
    tmp_path: Path, steps: list[Record]
) -> None:
    np.savez(tmp_path / "w.npz", w=np.ones((4, 3), np.float32))
    model = gs.load(write(tmp_path, label_of(steps)), params=str(tmp_path / "w.npz"))
    exported = gs.export(model, str(tmp_path / "m.onnx"), shapes={"data": (5, 37, 3)})
    assert isinstance(exported.report, ExportFacts)
    assert list(exported.report.outputs) == ["softmax_output"]
    assert exported.report.proof
    assert gs.run(model, shapes={"data": (5, 37, 3)}, seed=0).outputs["softmax_output"].shape == (
        185,
        4,
    )
