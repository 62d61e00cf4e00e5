"""Types of inner values: what a file states, else what ONNX infers. What is written has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.errors import Fault, RefusedError
from graphshare.formats.onnx import value_types
from tests.processes import in_process

FLOAT = TensorProto.FLOAT


def value(
    name: str, shape: Sequence[int | str] | None = ("n", 4), dtype: int = FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def write(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[onnx.ValueInfoProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    tensors: Sequence[TensorProto] = (),
    infos: Sequence[onnx.ValueInfoProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
) -> Path:
    graph = helper.make_graph(
        nodes, "g", inputs or [value("x")], outputs, tensors, value_info=infos
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions), path
    )
    return path


def numbers(name: str, *content: int) -> TensorProto:
    return numpy_helper.from_array(np.array(content, np.int64), name)


def inner(folder: Path, **more: Sequence[onnx.ValueInfoProto]) -> Path:
    """A model of whose inner values the file states no type: two halves, one reshaped by a computed shape."""
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], "halves", axis=1, num_outputs=2),
        helper.make_node("Shape", ["x"], ["size"]),
        helper.make_node("Slice", ["size", "zero", "one"], ["batch"]),
        helper.make_node("Concat", ["batch", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["a", "wanted"], ["column"], "fold"),
        helper.make_node("Reshape", ["column", "flat"], ["back"]),
        helper.make_node("Add", ["back", "b"], ["y"], "sum"),
    ]
    tensors = [numbers("zero", 0), numbers("one", 1), numbers("rest", 2, 1), numbers("flat", 0, 2)]
    return write(folder / "inner.onnx", nodes, [value("y", ("n", 2))], tensors=tensors, **more)


def save(model: gs.Checkpoint, path: Path) -> onnx.ModelProto:
    """Write a model, and return it as the full check of ONNX accepts it."""
    gs.save(model, path)
    onnx.checker.check_model(path, full_check=True)
    return onnx.load(path)


def read_dtype(info: onnx.ValueInfoProto) -> tuple[int, list[int | str]]:
    kind = info.type.tensor_type
    return kind.elem_type, [size.dim_param or size.dim_value for size in kind.shape.dim]


def run(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    )


@pytest.mark.parametrize(
    ("cut", "shape"), [("a", ["n", 2]), ("b", ["n", 2]), ("fold", ["n", 2, 1]), ("batch", [1])]
)
def test_a_cut_is_an_input_of_the_type_that_is_inferred(
    cut: str, shape: list[int | str], tmp_path: Path
) -> None:
    part = save(gs.extract(inner(tmp_path), "sum", cuts=cut), tmp_path / "part.onnx")
    assert read_dtype(part.graph.input[-1]) == (
        TensorProto.INT64 if cut == "batch" else FLOAT,
        shape,
    )


@pytest.mark.parametrize("cut", ["a", "b"])
def test_a_cut_at_one_output_of_a_node_that_stays(cut: str, tmp_path: Path) -> None:
    save(gs.extract(inner(tmp_path), "sum", cuts=cut), tmp_path / "part.onnx")
    x, own = np.arange(8, dtype="f").reshape(2, 4), np.full((2, 2), 7, "f")
    a, b = (
        own if name == cut else half for name, half in zip("ab", (x[:, :2], x[:, 2:]), strict=True)
    )
    np.testing.assert_array_equal(run(tmp_path / "part.onnx", {"x": x, cut: own})[0], a + b)


def test_the_type_that_the_file_states_needs_no_inference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = inner(tmp_path, infos=[value("a", ("batch", 2)), value("column", None)])
    monkeypatch.setattr(value_types, "is_installed", lambda: False)
    part = save(gs.extract(gs.rename(path, prefix="p_"), "p_y", cuts="p_a"), tmp_path / "part.onnx")
    assert read_dtype(part.graph.input[-1]) == (FLOAT, ["batch", 2])
    # Nor is onnxruntime
    monkeypatch.setattr("graphshare.verification.measured_types.open_computation", refuse)
    for cut in ("b", "column"):  # of the second the file states the dtype alone
        with pytest.raises(
            RefusedError, match=f"`cuts` '{cut}': .*the onnx package.*not installed"
        ) as caught:
            gs.extract(path, "sum", cuts=cut)
        assert caught.value.faults[0].hint == "pip install onnx onnxruntime, or cut elsewhere"


def test_a_cut_at_a_value_of_unknown_type_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Odd", ["x"], ["odd"], domain="own"),
        helper.make_node("Relu", ["odd"], ["y"]),
    ]
    path = write(tmp_path / "odd.onnx", nodes, [value("y")])
    with pytest.raises(
        RefusedError, match=r"`cuts` 'odd': its type is unknown: .*does not reach it"
    ) as caught:
        gs.extract(path, "y", cuts="odd")
    assert (
        caught.value.faults[0].hint
        == "state it with `types={'gelu': 'float32[n,3]'}`, or cut elsewhere"
    )


def fused(folder: Path) -> Path:
    """A model with an inner value, g, of an operator that onnxruntime knows and ONNX does not."""
    nodes = [
        helper.make_node("Gelu", ["x"], ["g"], domain="com.microsoft"),
        helper.make_node("Relu", ["g"], ["y"]),
    ]
    path = write(folder / "fused.onnx", nodes, [value("y")])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)
    return path


def test_values_that_only_the_runtime_knows_get_their_rank_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fused(tmp_path)
    upto = gs.extract(path, "g")
    assert upto.notes == ()
    assert read_dtype(save(upto, tmp_path / "part.onnx").graph.output[0]) == (FLOAT, [0, 0])
    assert read_dtype(
        save(gs.extract(path, "y", cuts="g"), tmp_path / "part.onnx").graph.input[0]
    ) == (FLOAT, [0, 0])
    stated = gs.extract(path, "g", types={"g": "float32[n, 4]"})
    assert read_dtype(save(stated, tmp_path / "part.onnx").graph.output[0]) == (FLOAT, ["n", 4])
    monkeypatch.setattr("graphshare.verification.measured_types.open_computation", refuse)
    with pytest.raises(RefusedError, match="outputs would be written without a type"):
        gs.extract(path, "g")


def refuse(*_: object, **__: object) -> None:
    raise RefusedError(Fault("no runtime"))


def test_types_that_are_wrong_are_refused(tmp_path: Path) -> None:
    path = odd(tmp_path)
    part = save(
        gs.extract(path, "y", cuts="odd", types={"odd": "float32[?,4]"}), tmp_path / "part.onnx"
    )
    assert read_dtype(part.graph.input[0]) == (FLOAT, [0, 4])
    for name, text, message in (
        ("odd", "float[2]", "which cannot be read"),
        ("odd", "float32", "which cannot be read"),
        ("y", "float32[2]", "is not a target or cut without a type"),
    ):
        with pytest.raises(gs.UsageError, match=message):
            gs.extract(path, ["odd", "y"], types={name: text})
    with pytest.raises(gs.RefusedError, match="is for ONNX models"):
        gs.extract("fixtures/lenet", "fc1", types={"fc1": "float32[2]"})


def test_values_behind_other_domains_of_the_cases(cases: Path, tmp_path: Path) -> None:
    for name, targets, cut in (("skl", "probt", "feat"), ("bert_opt", "y", "g")):
        path = cases / "types" / f"{name}.onnx"
        save(gs.extract(path, targets, cuts=cut), tmp_path / "part.onnx")
        save(gs.extract(path, cut), tmp_path / "part.onnx")


def odd(folder: Path, name: str = "odd.onnx") -> Path:
    """A model with an inner value, odd, of an operator that nothing knows."""
    nodes = [
        helper.make_node("Odd", ["x"], ["odd"], domain="own"),
        helper.make_node("Relu", ["odd"], ["y"]),
    ]
    return write(folder / name, nodes, [value("y")])


UNKNOWN = (
    "unknown dtype or rank of 1 value (odd): the file does not state them, and ONNX's inference "
    "does not reach them"
)


def test_outputs_without_a_type_are_refused_or_noted(tmp_path: Path) -> None:
    """Once, with all of them; outputs of known type have no note, and neither does what the file
    itself states nothing of.
    """
    path = odd(tmp_path)
    with pytest.raises(
        RefusedError, match=re.escape(f"outputs would be written without a type: {UNKNOWN}")
    ):
        gs.extract(path, ["odd", "y"])
    assert gs.extract(path, "y").notes == ()
    part = gs.duplicate(path, "b_", upto="odd")  # has no option to state a type
    assert part.notes[-1] == f"outputs are written without a type: {UNKNOWN}".replace(
        "(odd)", "(b_odd)"
    )
    gs.save(part, tmp_path / "part.onnx")
    assert [
        output.HasField("type") for output in onnx.load(tmp_path / "part.onnx").graph.output
    ] == [True, False]
    assert gs.rename(tmp_path / "part.onnx", prefix="p_").notes == ()
    assert gs.extract(inner(tmp_path), ["column", "size"]).notes == ()


def test_connections_of_unknown_types_are_noted(tmp_path: Path) -> None:
    path, head = odd(tmp_path), ends(tmp_path, "head.onnx", (2, 3))
    assert gs.group([path, head], connect={"odd": "in"}).notes == (
        f"connected without a comparison of types: {UNKNOWN}",
    )
    assert gs.group([path, ends(tmp_path, "fits.onnx", ("n", 4))], connect={"y": "in"}).notes == ()


def test_connected_values_have_the_rank_of_the_runtime_or_the_type_that_is_stated(
    tmp_path: Path,
) -> None:
    flat, deep = ends(tmp_path, "flat.onnx", ("n", 4)), ends(tmp_path, "deep.onnx", ("n", 4, 1))
    whole = ends(tmp_path, "whole.onnx", ("n", 4, 1), TensorProto.INT64)
    assert gs.group([fused(tmp_path), flat], connect={"g": "in"}).notes == ()
    assert (
        gs.group([odd(tmp_path), flat], connect={"odd": "in"}, types={"odd": "float32[n,4]"}).notes
        == ()
    )
    for source, out, types in (
        (fused(tmp_path), "b_g", {}),
        (odd(tmp_path), "b_odd", {"b_odd": "float32[n,4]"}),
    ):
        for head in (deep, whole):
            with pytest.raises(
                RefusedError, match=f"'{out}' of .* is float32 .*, and input 'a_in'"
            ):
                gs.group([head, source], prefixes=["a_", "b_"], connect={out: "a_in"}, types=types)
    with pytest.raises(
        gs.UsageError, match="'in' is not an output or a connected value without a type"
    ):
        gs.group([fused(tmp_path), flat], connect={"g": "in"}, types={"in": "float32[2]"})
    with pytest.raises(gs.RefusedError, match="is for ONNX models"):
        gs.group(
            ["fixtures/lenet", "fixtures/lenet"], prefixes=["a", "b"], types={"in": "float32[2]"}
        )


def test_a_value_that_nothing_computes_does_not_hide_others(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gelu", ["x"], ["g"], domain="com.microsoft"),
        helper.make_node("Odd", ["x"], ["y"], domain="own"),
    ]
    path = write(tmp_path / "both.onnx", nodes, [helper.make_empty_tensor_value_info("y")])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)
    with pytest.raises(
        RefusedError, match=r"'g' of .*both.onnx is float32 \(\?, \?\), and input 'in'"
    ):
        gs.group([path, ends(tmp_path, "deep.onnx", ("n", 4, 1))], connect={"g": "in"})


def test_outputs_of_a_group_have_types(tmp_path: Path) -> None:
    """An input that is an output too gives way to the value that feeds it; a part may state no type
    of its own output.
    """
    through = ends(tmp_path, "through.onnx", ("n", 4))
    model = onnx.load(through)
    model.graph.output.append(model.graph.input[0])
    onnx.save(model, through)
    for source, out, types in (
        (fused(tmp_path), "g", None),
        (odd(tmp_path), "odd", {"odd": "float32[n,4]"}),
    ):
        whole = save(
            gs.group([source, through], connect={out: "in"}, types=types), tmp_path / "whole.onnx"
        )
        assert [read_dtype(output) for output in whole.graph.output][-1] == (
            FLOAT,
            ["n", 4] if types else [0, 0],
        )
    with pytest.raises(
        RefusedError, match=re.escape(f"outputs would be written without a type: {UNKNOWN}")
    ) as caught:
        gs.group([odd(tmp_path), through], connect={"odd": "in"})
    assert caught.value.faults[0].hint == "state them with `types={'gelu': 'float32[n,3]'}`"
    for number, info in enumerate((helper.make_empty_tensor_value_info("y"), value("y", None))):
        model = onnx.load(fused(tmp_path))
        model.graph.node[1].domain, model.graph.node[1].op_type = "com.microsoft", "QuickGelu"
        model.graph.output[0].CopyFrom(info)
        onnx.save(model, tmp_path / f"open{number}.onnx")
    opened = [tmp_path / "open0.onnx", tmp_path / "open1.onnx"]
    for group in (gs.group(opened, prefixes=["a_", "b_"]), gs.group(opened, switch="first")):
        whole = save(group, tmp_path / "whole.onnx")
        assert [read_dtype(output) for output in whole.graph.output] == [(FLOAT, [0, 0])] * len(
            whole.graph.output
        )


@pytest.mark.parametrize("op", ["GatherND", "Odd"])
def test_an_index_of_a_tied_table_has_the_rank_of_the_runtime_or_the_one_that_is_stated(
    op: str, tmp_path: Path
) -> None:
    table = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    domain = "own" if op == "Odd" else "com.microsoft"
    nodes = [
        helper.make_node(
            op, ["x", "places"] if op == "GatherND" else ["x"], ["ids"], domain=domain
        ),
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "head"], ["y"]),
    ]
    tensors = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.ascontiguousarray(table.T), "head"),
    ]
    tensors += [numbers("places", 0)] if op == "GatherND" else []
    whole = value("x", (3, 2), TensorProto.INT64)
    path = write(tmp_path / "index.onnx", nodes, [value("y", (2, 50))], [whole], tensors)
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)
    if op == "Odd":
        with pytest.raises(RefusedError, match="the rank of 'ids' is not known") as caught:
            gs.share(path, transposed=True)
        assert caught.value.faults[0].hint == "state it with `types={'ids': 'int64[n,s]'}`"
    tied = gs.share(path, transposed=True, types={"ids": "int64[2]"} if op == "Odd" else {})
    assert [node.op_type for node in save(tied, tmp_path / "tied.onnx").graph.node][1:] == [
        "Gather",
        "Transpose",
        "MatMul",
    ]
    assert [note for note in tied.notes if "not proved" in note or op == "GatherND"] == list(
        tied.notes
    )
    with pytest.raises(gs.UsageError, match="is not the index of a table without a type"):
        gs.share(path, transposed=True, types={"y": "int64[2]"})
    with pytest.raises(gs.UsageError, match="`types` has no effect without `transposed`"):
        gs.share(path, equal=True, types={"ids": "int64[2]"})


def test_a_size_without_a_name_gets_none(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Neg", ["places"], ["y"]),
    ]
    path = write(tmp_path / "places.onnx", nodes, [value("y", (2, "m"), TensorProto.INT64)])
    part = save(gs.extract(path, "y", cuts="places"), tmp_path / "part.onnx")
    assert read_dtype(part.graph.input[0]) == (TensorProto.INT64, [2, 0])


def test_large_data_is_not_read_for_inference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = numpy_helper.from_array(np.ones((4, 5000), "f"), "w")
    body = helper.make_graph(
        [helper.make_node("Constant", [], ["big"], value=large), helper.make_node("MatMul", ["h", "big"], ["then"])],
        "then", [], [value("then", None)], [numpy_helper.from_array(np.ones((4, 5000), "f"), "unused")],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("MatMul", ["h", "w"], ["else"])], "else", [], [value("else", None)]
    )
    constant = numpy_helper.from_array(np.ones((4, 4), "f").repeat(500, 1), "c")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=constant),
        helper.make_node("Slice", ["c", "zero", "four", "axis"], ["square"]),
        helper.make_node("MatMul", ["x", "square"], ["h"]),
        helper.make_node("If", ["flag"], ["z"], then_branch=body, else_branch=other),
        helper.make_node("Neg", ["z"], ["y"]),
    ]
    inputs = [value("x"), value("flag", (), TensorProto.BOOL)]
    small = [numbers("zero", 0), numbers("four", 4), numbers("axis", 1), large]
    path = write(tmp_path / "large.onnx", nodes, [value("y", ("n", 5000))], inputs, small)
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="large.bin", size_threshold=0)
    sizes = []
    infer = value_types.infer_types
    monkeypatch.setattr(
        value_types, "infer_types", lambda data: sizes.append(len(data)) or infer(data)
    )
    for place in (path, tmp_path / "inside.onnx"):
        onnx.save(onnx.load(path), tmp_path / "inside.onnx")
        part = save(gs.extract(place, "y", cuts="z"), tmp_path / "part.onnx")
        assert read_dtype(part.graph.input[0]) == (FLOAT, ["n", 5000])
    assert sizes
    assert max(sizes) < 4000


@pytest.mark.parametrize(("size", "is_kept"), [(4096, True), (4097, False)])
def test_data_in_another_file_is_read_up_to_a_size(
    size: int, is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [
        helper.make_node("Cast", ["c"], ["wide"], to=FLOAT),
        helper.make_node("Mul", ["x", "wide"], ["z"]),
    ]
    tensor = numpy_helper.from_array(np.ones(size, np.int8), "c")
    path = write(
        tmp_path / "a.onnx",
        [*nodes, helper.make_node("Neg", ["z"], ["y"])],
        [value("y", (size,))],
        [value("x", (size,))],
        [tensor],
    )
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="a.bin", size_threshold=0)
    seen: list[bytes] = []
    infer = value_types.infer_types
    monkeypatch.setattr(value_types, "infer_types", lambda data: seen.append(data) or infer(data))
    part = save(gs.extract(path, "y", cuts="z"), tmp_path / "part.onnx")
    assert read_dtype(part.graph.input[0]) == (FLOAT, [size])
    for data in seen:
        model = onnx.load_from_string(data)
        assert [len(each.raw_data) for each in model.graph.initializer] == [size if is_kept else 0]
    assert seen


def ends(folder: Path, name: str, shape: Sequence[int | str], dtype: int = FLOAT) -> Path:
    node = helper.make_node("Identity", ["in"], ["out"], "last")
    return write(folder / name, [node], [value("out", shape, dtype)], [value("in", shape, dtype)])


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ((2, 6), FLOAT, r"float32 \(2, 6\)"),
        ((2,), FLOAT, r"float32 \(2\)"),
        ((2, 3), TensorProto.INT64, r"int64 \(2, 3\)"),
    ],
)
def test_values_of_other_types_are_not_connected(
    shape: tuple[int, ...], dtype: int, words: str, tmp_path: Path
) -> None:
    node = helper.make_node("Relu", ["x"], ["h"])
    trunk = write(
        tmp_path / "trunk.onnx",
        [node, helper.make_node("Neg", ["h"], ["y"])],
        [value("y", (2, 3))],
        [value("x", (2, 3))],
    )
    head = ends(tmp_path, "head.onnx", shape, dtype)
    for output in ("y", "h"):  # the type of the second is inferred
        with pytest.raises(
            RefusedError,
            match=rf"'{output}' of .*trunk.onnx is float32 \(2, 3\), and input 'in'.* is {words}",
        ):
            gs.group([trunk, head], connect={output: "in"})
    for fitting in (ends(tmp_path, "same.onnx", (2, 3)), ends(tmp_path, "open.onnx", ("n", 3))):
        save(gs.group([trunk, fitting], connect={"y": "in"}), tmp_path / "whole.onnx")


def test_inputs_of_other_types_are_not_shared(tmp_path: Path) -> None:
    one, two = (
        ends(tmp_path, "one.onnx", (2, 3)),
        ends(tmp_path, "two.onnx", (2, 3), TensorProto.INT64),
    )
    with pytest.raises(
        RefusedError, match=r"`share_inputs`: 'in' of .*one.onnx is float32 .* is int64 \(2, 3\)"
    ):
        gs.group([one, two], share_inputs="in", prefixes=["", "b_"])


def shapes_of(
    model: Path, shapes: dict[str, tuple[int | None, ...]]
) -> dict[str, tuple[object, object]]:
    shaped = gs.inspect(model, shapes=shapes).shaped
    assert shaped is not None
    return {output.name: (output.shape, output.dtype) for output in shaped.outputs}


def test_inspect_shows_the_types_of_inner_values(tmp_path: Path) -> None:
    path = inner(tmp_path)
    assert gs.inspect(path).shaped is None
    found = shapes_of(path, {})
    assert found["column"] == (("n", 2, 1), "float32")
    assert found["batch"] == ((1,), "int64")
    assert shapes_of(path, {"x": (5, None)})["column"] == ((5, 2, 1), "float32")
    assert shapes_of(path, {"x": (5, 4)})["y"] == ((5, 2), "float32")
    with pytest.raises(
        RefusedError, match=r"is given the shape \(5,3\), but the file states float32 \(n, 4\)"
    ):
        gs.inspect(path, shapes={"x": (5, 3)})
    with pytest.raises(RefusedError, match="`shapes` 'a' is not an input"):
        gs.inspect(path, shapes={"a": (5, 3)})


def test_a_size_below_zero_is_open(tmp_path: Path) -> None:
    """Paddle's converters write -1, with which ONNX's inference would calculate sizes of 0."""
    node = helper.make_node(
        "Conv", ["x", "w"], ["h"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    weight = numpy_helper.from_array(np.ones((8, 3, 3, 3), np.float32), "w")
    ends = [value("x", (-1, 3, -1, -1)), value("y", (-1, 8, -1, -1))]
    path = write(
        tmp_path / "open.onnx",
        [node, helper.make_node("Relu", ["h"], ["y"])],
        ends[1:],
        ends[:1],
        [weight],
    )
    types = shapes_of(path, {})
    assert types["x"] == ((None, 3, None, None), "float32")
    assert types["h"] == types["y"] == ((None, 8, None, None), "float32")
    assert shapes_of(path, {"x": (2, 3, 8, 16)})["h"] == ((2, 8, 4, 8), "float32")


def test_a_size_of_one_name_is_one_number(tmp_path: Path) -> None:
    inputs = [value("x"), value("other", ("m", "n"))]
    path = write(
        tmp_path / "two.onnx",
        [helper.make_node("MatMul", ["other", "x"], ["y"])],
        [value("y", ("m", 4))],
        inputs,
    )
    assert shapes_of(path, {"x": (5, 4)})["other"] == (("m", 5), "float32")


def test_an_input_without_a_shape_gets_one_only_for_itself(tmp_path: Path) -> None:
    inputs = [value("x", None), value("other", None)]
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["other"], ["z"])]
    types = shapes_of(
        write(tmp_path / "two.onnx", nodes, [value("y", None), value("z", None)], inputs),
        {"x": (2, 3)},
    )
    assert (types["x"], types["y"]) == (((2, 3), "float32"), ((2, 3), "float32"))
    assert types["other"] == (None, "float32")


def test_unknown_types_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = inner(tmp_path)
    shown = in_process("inspect", path, "--names")
    assert (b"column  nx2x1  float32" in shown.stdout, shown.stderr) == (True, b"")
    assert b"multiply-adds" not in shown.stdout
    assert b"2x2x1" in in_process("inspect", path, "--shape", "x=2,4").stdout
    monkeypatch.setattr(value_types, "is_installed", lambda: False)
    for words in (("inspect", path, "--names"), ("draw", path)):
        messages = in_process(*words).stderr
        assert b"unknown dtype or rank of 7 values (a, b, size, batch and 3 more)" in messages
        assert b"the onnx package, which infers types, is not installed" in messages


def test_a_drawing_has_the_types_of_inner_values(tmp_path: Path) -> None:
    drawing = gs.draw(inner(tmp_path), to="mermaid")
    assert ('"n×2×1"' in drawing.text, drawing.notes) == (True, ())
    assert '"7×2×1"' in gs.draw(inner(tmp_path), to="mermaid", shapes={"x": (7, 4)}).text


@pytest.mark.parametrize(("shape", "dtype"), [(("n", 3), FLOAT), (("n", 2), TensorProto.DOUBLE)])
def test_a_stated_type_that_contradicts_the_inferred_one_is_found(
    shape: tuple[object, ...], dtype: int, tmp_path: Path
) -> None:
    path = inner(tmp_path, infos=[value("back", shape, dtype), value("a", ("batch", 2))])
    (finding,) = [each for each in gs.check(path).findings if each.code == "GS606"]
    assert "ONNX's inference" in finding.message
    assert "'back'" in finding.message


def test_a_weight_that_its_file_declares_with_an_open_size_is_drawn_without_a_count(
    tmp_path: Path,
) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    weight = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    path = write(
        tmp_path / "m.onnx",
        nodes,
        [value("y", ("n", 3))],
        [value("x"), value("w", (None, 3))],
        tensors=[weight],
    )
    answer = in_process("draw", path, "--to", "svg", "-o", tmp_path / "m.svg")
    assert answer.returncode == 0, answer.stderr
    assert "? weights" in (tmp_path / "m.svg").read_text()


def test_parts_of_a_split_have_the_rank_of_the_runtime_or_the_type_that_is_stated(
    tmp_path: Path,
) -> None:
    path = fused(tmp_path)
    for number, (types, shape) in enumerate([({}, [0, 0]), ({"g": "float32[n,4]"}, ["n", 4])]):
        first, second = gs.split(path, at="g", types=types).parts
        assert read_dtype(save(first, tmp_path / f"{number}-1.onnx").graph.output[0]) == (
            FLOAT,
            shape,
        )
        assert read_dtype(save(second, tmp_path / f"{number}-2.onnx").graph.input[0]) == (
            FLOAT,
            shape,
        )
    with pytest.raises(gs.UsageError, match="'y' is not a value that crosses without a type"):
        gs.split(path, at="g", types={"y": "float32[n,4]"})
    nodes = [
        helper.make_node("Odd", ["x"], ["odd"], domain="own"),
        helper.make_node("Relu", ["odd"], ["y"]),
    ]
    odd = write(tmp_path / "odd.onnx", nodes, [value("y")])
    with pytest.raises(RefusedError, match="its type is unknown"):
        gs.split(odd, at="odd")
    assert len(gs.split(odd, at="odd", types={"odd": "float32[2,4]"}).parts) == 2
