"""A table and its transpose tied: every value as before, in half the bytes, and what cannot be tied stays."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

import graphshare as gs
from tests.onnx_files.mutable import build, declare, node
from tests.onnx_files.running import Session
from tests.processes import done, graphshare, refused

pytest.importorskip("onnxruntime")
TABLE = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)


def language(
    *more: NodeProto,
    table: np.ndarray = TABLE,
    head: np.ndarray = TABLE.T,
    rank: int = 2,
    **gather: int,
) -> ModelProto:
    """Embedding, activation, and the last layer on the transpose."""
    nodes = [
        node("Gather", "table ids", "embedded", **gather),
        node("Relu", "embedded", "hidden"),
        node("MatMul", "hidden head", "logits"),
        *more,
    ]
    sizes = ("N", "S", "T")[:rank]
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(a), name)
        for a, name in ((table, "table"), (head, "head"))
    ]
    return build(
        nodes,
        [declare("ids", sizes, TensorProto.INT64)],
        [declare("logits", (*sizes, 50))],
        tensors,
    )


def write(path: Path, model: ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("gather", [{}, {"axis": 0}, {"axis": -2}])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_table_is_gone_and_all_bits_are_as_before(
    rank: int, gather: dict[str, int], tmp_path: Path
) -> None:
    source = write(tmp_path / "a.onnx", language(rank=rank, **gather))
    tied = gs.share(source, transposed=True)
    gs.save(tied, tmp_path / "b.onnx")
    assert [(one.name, one.to) for one in tied.report.ties.tied] == [("table", "head")]
    assert tied.notes == ()
    model = onnx.load(tmp_path / "b.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [tensor.name for tensor in model.graph.initializer] == ["head"]
    assert [one.op_type for one in model.graph.node] == ["Gather", "Transpose", "Relu", "MatMul"]
    sessions = [Session((tmp_path / name).read_bytes()) for name in ("a.onnx", "b.onnx")]
    for seed in range(5):
        ids = np.random.default_rng(seed).integers(0, 50, (1, 7, 3)[:rank])
        left, right = (
            session.run({"ids": np.asarray(ids, np.int64)})["logits"] for session in sessions
        )
        assert left.tobytes() == right.tobytes()


def test_a_note_tells_why_a_tied_model_was_not_computed(tmp_path: Path) -> None:
    more = node("Identity", "logits", "named", domain="elsewhere")
    model = language(more)
    model.opset_import.add(domain="elsewhere", version=1)
    model.graph.output.append(declare("named", ("N", "S", 50)))
    tied = gs.share(write(tmp_path / "a.onnx", model), transposed=True)
    assert [note.partition(": onnxruntime")[0] for note in tied.notes] == [
        "not proved by a run: not computed"
    ]


def test_values_keep_their_names_and_inner_ones_can_be_outputs(tmp_path: Path) -> None:
    model = language()
    model.graph.output.append(declare("embedded", ("N", "S", 8)))
    source = write(tmp_path / "a.onnx", model)
    tied = gs.share(source, transposed=True)
    assert [head.node.name for head in tied.graph.heads] == ["logits", "embedded"]
    assert gs.compare(tied, source)


def test_two_gathers_of_one_table(tmp_path: Path) -> None:
    more = (node("Gather", "table ids", "again"), node("MatMul", "again head", "other"))
    model = language(*more)
    model.graph.output.append(declare("other", ("N", "S", 50)))
    tied = gs.share(write(tmp_path / "a.onnx", model), transposed=True)
    assert [one.op for one in tied.graph.nodes if one.op].count("Transpose") == 2


def test_a_twin_in_a_constant_that_comes_after_the_table(tmp_path: Path) -> None:
    model = language()
    head = model.graph.initializer.pop()
    model.graph.node.insert(2, node("Constant", "", "head", value=head))
    source = write(tmp_path / "a.onnx", model)
    tied = gs.share(source, transposed=True)
    gs.save(tied, tmp_path / "b.onnx")
    onnx.checker.check_model(tmp_path / "b.onnx", full_check=True)
    assert gs.compare(tmp_path / "b.onnx", source)


def test_models_are_tied_before_they_are_merged(tmp_path: Path) -> None:
    other = language()
    other.graph.node[1].op_type = "Tanh"
    paths = [write(tmp_path / "a.onnx", language()), write(tmp_path / "b.onnx", other)]
    gs.save(gs.group(paths, switch="first"), tmp_path / "untied.onnx")
    with pytest.raises(gs.RefusedError) as refusal:
        gs.share(tmp_path / "untied.onnx", transposed=True)
    assert "tie models before they are merged" in refusal.value.faults[0].hint
    for path in paths:
        gs.save(gs.share(path, transposed=True), tmp_path / f"tied-{path.name}")
    merged = tmp_path / "merged.onnx"
    gs.save(gs.group([tmp_path / f"tied-{path.name}" for path in paths], switch="first"), merged)
    onnx.checker.check_model(merged, full_check=True)
    assert [tensor.name for tensor in onnx.load(merged).graph.initializer] == ["head"]
    ids = np.arange(21, dtype=np.int64).reshape(3, 7)
    for path, first in zip(paths, (True, False), strict=True):
        wanted = Session(path.read_bytes()).run({"ids": ids})["logits"]
        values = Session(merged.read_bytes()).run({"ids": ids, "first": np.array([first])})[
            "logits"
        ]
        assert values.tobytes() == wanted.tobytes()


def almost() -> np.ndarray:
    other = TABLE.T.copy()
    other[3, 3] = np.nextafter(other[3, 3], 9)
    return other


STAY: dict[str, ModelProto] = {
    "other values": language(head=almost()),
    "columns already": language(table=TABLE, head=TABLE.T, axis=1),
    "another user": language(node("Neg", "table", "neg")),
    "a shape alone": language(head=TABLE.reshape(8, 50)),
}


@pytest.mark.parametrize("name", STAY)
def test_what_is_not_tied(name: str, tmp_path: Path) -> None:
    with pytest.raises(gs.RefusedError, match="no table that Gathers read has its transpose"):
        gs.share(write(tmp_path / "a.onnx", STAY[name]), transposed=True)


def test_an_unknown_rank_is_named(tmp_path: Path) -> None:
    model = language()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(gs.RefusedError, match="the rank of 'ids' is not known"):
        gs.share(write(tmp_path / "a.onnx", model), transposed=True)


def test_on_the_command_line(tmp_path: Path) -> None:
    write(tmp_path / "a.onnx", language())
    said = done(
        graphshare("share", "a.onnx", "--transposed", "-o", "b.onnx", cwd=tmp_path)
    ).stderr.decode()
    assert "tied: 1\n  table -> head\nseparate: 0 (none)\n" in said
    assert (tmp_path / "b.onnx").stat().st_size < 0.6 * (tmp_path / "a.onnx").stat().st_size
    refused(
        graphshare("share", "a.onnx", "--transposed", "--untie", "head", cwd=tmp_path),
        "several purposes cannot be combined",
    )
    symbol = "fixtures/lenet-symbol.json"
    refused(graphshare("share", symbol, "--transposed"), "--transposed is for ONNX models")


@pytest.mark.skipif(
    sys.platform != "linux", reason="a process keeps a limit of memory on Linux alone"
)
def test_a_proof_keeps_the_limit_of_memory(tmp_path: Path) -> None:
    size = numpy_helper.from_array(np.array([200_000_000]))
    more = (
        node("ConstantOfShape", "size", "zeros"),
        node("ReduceMax", "zeros", "most", keepdims=0),
    )
    model = language(node("Constant", "", "size", value=size), *more)
    model.graph.output.append(declare("most", ()))
    write(tmp_path / "a.onnx", model)
    words = ("share", "a.onnx", "--transposed", "--max-memory", "500M", "-o", "b.onnx")
    refused(
        graphshare(*words, cwd=tmp_path),
        "takes more memory in onnxruntime than the limit of 500.0 MB",
        "--max-memory SIZE",
    )
    assert not (tmp_path / "b.onnx").exists()
