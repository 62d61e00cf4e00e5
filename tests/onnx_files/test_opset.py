"""``group --align``: models brought up to a later operator set compute the same, keep what did not
change, or are refused.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import graphshare as gs
from graphshare.errors import DisprovedError, RefusedError, UsageError
from graphshare.formats.onnx import opset
from tests.onnx_files import odd
from tests.onnx_files.made import MADE
from tests.onnx_files.running import Session

LATEST = 18
OLD = {
    "attributes that become inputs": (
        11,
        "(float[n,4] x) => (float[n,4] y) { a = Unsqueeze <axes = [0]> (x) y = Squeeze <axes = [0]> (a) }",
    ),
    "a default that changed": (11, "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax (x) }"),
    "an operator that was replaced": (
        9,
        "(float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 2}> { y = Upsample (x, s) }",
    ),
    "a body of operators that stayed": (
        11,
        """(float[2,3,4] x, bool c) => (float[2,3,4] y) { a = Softmax (x)
        y = If (c) <then_branch = t () => (float[2,3,4] p) { p = Neg (a) },
                    else_branch = e () => (float[2,3,4] q) { q = Relu (x) }> }""",
    ),
    "names of an earlier conversion": (
        11,
        "(float[2] x) => (float[1,2] y) { _v_2 = Relu (x) _v_3 = Neg (_v_2) y = Unsqueeze <axes = [0]> (_v_3) }",
    ),
    "another domain": (
        11,
        """(float[1,2] x) => (float[1,1] y) { a = Clip (x) b = Identity (a)
        y = com.microsoft.FusedMatMul <transB = 1> (a, b) }""",
    ),
}


def read(text: str, version: int, rest: str = "", ir: int = 7) -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: {ir}, opset_import: ["" : {version}, "com.microsoft" : 1, "f" : 1]> g {text} {rest}'
    )


def align(
    tmp_path: Path, model: onnx.ModelProto, *, others: int = 0, latest: int = LATEST, **options: Any
) -> onnx.ModelProto:
    """Return a model in one file with one of the latest operator set, which reads it at its inputs."""
    onnx.save(model, tmp_path / "old.onnx")
    onnx.save(
        read("(float[2] new) => (float[2] out) { out = Relu (new) }", latest, ir=8),
        tmp_path / "new.onnx",
    )
    names = ["new", *["old"] * (1 + others)]
    gs.save(
        gs.group([tmp_path / f"{name}.onnx" for name in names], align=True, **options),
        tmp_path / "both.onnx",
    )
    return onnx.load(tmp_path / "both.onnx")


@pytest.mark.parametrize("case", OLD)
def test_an_older_model_computes_the_same_at_the_newest_operator_set(
    tmp_path: Path, case: str
) -> None:
    version, text = OLD[case]
    model = read(text, version)
    both = align(tmp_path, model)
    assert {each.domain: each.version for each in both.opset_import}[""] == LATEST
    if case != "another domain":
        onnx.checker.check_model(both, full_check=True)
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {"x": None, "c": np.array(True), "new": np.ones(2, "float32")}
    shape = [size.dim_value or 3 for size in model.graph.input[0].type.tensor_type.shape.dim]
    feeds["x"] = rng.standard_normal(shape).astype("float32")
    wanted, found = (
        Session(model.SerializeToString()).run(feeds),
        Session(both.SerializeToString()).run(feeds),
    )
    assert np.array_equal(found["y"], wanted["y"])


def test_what_the_converter_leaves_alone_stays_as_it_was(tmp_path: Path) -> None:
    model = read(
        OLD["attributes that become inputs"][1]
        .replace("(x) y", "(x) b = Relu (a) y")
        .replace("> (a)", "> (b)"),
        11,
    )
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    relu.name, relu.doc_string = "middle", "what it is for"
    model.graph.node[0].name = "first"
    relu.metadata_props.add(key="from", value="a tool")
    model.metadata_props.add(key="author", value="me")
    model.graph.quantization_annotation.add(tensor_name="a").quant_parameter_tensor_names.add(
        key="SCALE_TENSOR", value="a"
    )
    both = align(tmp_path, model)
    assert relu in both.graph.node
    assert [(each.key, each.value) for each in both.metadata_props] == [("author", "me")]
    assert list(both.graph.quantization_annotation) == list(model.graph.quantization_annotation)
    assert [node.name for node in both.graph.node if node.op_type == "Unsqueeze"] == ["first"]


def test_large_weights_stay_where_they_are(tmp_path: Path) -> None:
    model = read(
        "(float[1,64] x) => (float[1,1,64] y) <float[64,64] w> { a = MatMul (x, w) y = Unsqueeze <axes = [0]> (a) }",
        11,
    )
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
    del model.graph.initializer[:]
    del model.graph.value_info[:]
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(
        model,
        tmp_path / "old.onnx",
        save_as_external_data=True,
        location="old.data",
        size_threshold=0,
    )
    stored = onnx.load(tmp_path / "old.onnx", load_external_data=False)
    both = align(tmp_path, stored)
    onnx.load_external_data_for_model(both, str(tmp_path))
    assert np.array_equal(numpy_helper.to_array(both.graph.initializer[0]), weight)
    unread = onnx.load(tmp_path / "both.onnx", load_external_data=False).graph.initializer[0]
    assert {pair.key: pair.value for pair in unread.external_data}["location"] == "old.data"


def test_new_values_of_several_models_have_names_of_their_own(tmp_path: Path) -> None:
    both = align(
        tmp_path,
        read(OLD["attributes that become inputs"][1], 11),
        others=1,
        prefixes=["", "", "b_"],
    )
    names = [name for node in both.graph.node for name in node.output]
    assert len(set(names)) == len(names)
    assert {"a_constant", "y_constant", "b_a_constant", "b_y_constant"} < set(names)


@pytest.mark.parametrize("name", [*MADE, *odd.ODD])
def test_models_of_every_kind_are_converted_and_proved_or_refused(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "w.bin").write_bytes(np.arange(12, dtype=np.float32).tobytes())
    model = ({**MADE, **odd.ODD})[name]()
    uses_onnx = any(
        not node.domain for nodes in (model.graph, *model.functions) for node in nodes.node
    )
    group = partial(align, tmp_path, model, latest=22, prefixes=["a_", "b_"])
    if not uses_onnx:
        with pytest.raises(UsageError, match="no ONNX model has an older operator set"):
            group()
    elif model.graph.sparse_initializer:
        with pytest.raises(RefusedError, match="Sparse tensors not supported"):
            group()
    else:
        assert {each.domain or "ai.onnx": each.version for each in group().opset_import}[
            "ai.onnx"
        ] == 22


FUNCTION = '<domain: "f", opset_import: ["" : 11]> F (x) => (y) {{ y = {} (x) }}'


def test_a_function_of_operators_that_stayed_imports_the_new_version(tmp_path: Path) -> None:
    text = "(float[2,3] x) => (float[1,2,3] y) { a = f.F (x) y = Unsqueeze <axes = [0]> (a) }"
    both = align(tmp_path, read(text, 11, FUNCTION.format("Relu"), ir=8))
    onnx.checker.check_model(both, full_check=True)
    with pytest.raises(
        RefusedError, match=r"Softmax in function f.F changed after operator set 11"
    ):
        align(tmp_path, read(text, 11, FUNCTION.format("Softmax"), ir=8))


def test_operators_in_bodies_that_the_converter_skips_are_all_named(tmp_path: Path) -> None:
    text = (
        OLD["a body of operators that stayed"][1]
        .replace("Neg (a)", "Softmax (a)")
        .replace("Relu (x)", "Hardmax (x)")
    )
    with pytest.raises(RefusedError) as caught:
        align(tmp_path, read(text, 11))
    assert sorted(fault.node for fault in caught.value.faults) == ["p", "q"]
    assert not (tmp_path / "both.onnx").exists()


@pytest.mark.parametrize("body", ["Upsample (x, s)", "Scatter <axis = 3> (x, i, x)"])
def test_an_operator_in_a_body_that_the_later_set_does_not_have_is_named(
    tmp_path: Path, body: str
) -> None:
    text = f"""(float[1,1,2,2] x, bool c) => (float[1,1,n,m] y)
        <float[4] s = {{1, 1, 2, 2}}, int64[1,1,2,2] i = {{0, 1, 1, 0}}> {{
        y = If (c) <then_branch = t () => (float[1,1,n,m] p) {{ p = {body} }},
                    else_branch = e () => (float[1,1,n,m] q) {{ q = Relu (x) }}> }}"""
    with pytest.raises(
        RefusedError, match=f"{body.split()[0]} in a body changed after operator set 9"
    ):
        align(tmp_path, read(text, 9))


def test_a_conversion_to_an_invalid_model_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_version_alone(data: bytes, version: int) -> bytes:
        model = onnx.load_from_string(data)
        next(each for each in model.opset_import if not each.domain).version = version
        return model.SerializeToString()

    monkeypatch.setattr(opset, "convert_version", set_version_alone)
    with pytest.raises(
        RefusedError, match=r"after its conversion ONNX's checker refuses it: .*Upsample"
    ):
        align(tmp_path, read(OLD["an operator that was replaced"][1], 9))
    assert not (tmp_path / "both.onnx").exists()


def test_a_conversion_that_computes_something_else_is_disproved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = read(
        "(float[2] x) => (float[1,2] y) { a = LeakyRelu <alpha = 0.5> (x) y = Unsqueeze <axes = [0]> (a) }",
        11,
    )
    convert = opset.convert_version

    def convert_wrongly(data: bytes, version: int) -> bytes:
        converted = onnx.load_from_string(convert(data, version))
        node = next(node for node in converted.graph.node if node.op_type == "LeakyRelu")
        node.CopyFrom(helper.make_node("LeakyRelu", node.input, node.output, alpha=0.25))
        return converted.SerializeToString()

    monkeypatch.setattr(opset, "convert_version", convert_wrongly)
    with pytest.raises(
        DisprovedError, match=r"old.onnx: its conversion to another operator set is not equal"
    ):
        align(tmp_path, model)
    assert not (tmp_path / "both.onnx").exists()


def test_a_model_of_an_old_version_gets_initializers_that_are_no_inputs(tmp_path: Path) -> None:
    text = (
        "(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Pad <pads = [0, 0, 1, 1, 0, 0, 1, 1]> (x) }"
    )
    both = align(tmp_path, read(text, 9, ir=3))
    onnx.checker.check_model(both, full_check=True)
    assert [value.name for value in both.graph.input] == ["new", "x"]


def test_a_model_that_nothing_can_compare_is_refused(tmp_path: Path) -> None:
    """onnxruntime computes operator sets from 7 on."""
    text = "(float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, 3}> { y = Add <axis = 1, broadcast = 1> (x, w) }"
    with pytest.raises(RefusedError, match=r"NOT PROVED: .* onnxruntime"):
        align(tmp_path, read(text, 6, ir=3))


def test_an_alignment_without_effect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no ONNX model has an older operator set"):
        align(tmp_path, read("(float[2] x) => (float[2] y) { y = Relu (x) }", LATEST))


def test_both_branches_of_a_switch_are_aligned(tmp_path: Path) -> None:
    both = align(
        tmp_path,
        read("(float[1,2] x) => (float[2] out) { out = Squeeze <axes = [0]> (x) }", 11),
        switch="first",
    )
    onnx.checker.check_model(both, full_check=True)
    feeds = {
        "first": np.array([False]),
        "x": np.array([[1, 2]], "float32"),
        "new": np.zeros(2, "float32"),
    }
    assert Session(both.SerializeToString()).run(feeds)["out"].tolist() == [1, 2]
