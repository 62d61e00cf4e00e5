"""A model in parts, which compute it one after the other."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.api.split import Splitting
from graphshare.errors import RefusedError, SelfCheckError, UsageError
from graphshare.files.schema import find_violations
from tests.onnx_files.made import MADE
from tests.processes import ROOT, done, graphshare, in_process, refused

onnx = pytest.importorskip("onnx")

# A value that skips a part (a), an input and a tied weight that two parts read (x, w), and an output that crosses (b).
CHAIN = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] idle) => (float[2] y, float[2] b)
    <float[2] w = {1, 2}> { a = Relu(x) b = Add(a, w) c = Mul(b, x) d = Sub(c, a) y = Div(d, w) }"""


def _write(folder: Path, text: str = CHAIN) -> Path:
    onnx.save(onnx.parser.parse_model(text), folder / "m.onnx")
    return folder / "m.onnx"


def _list_ends(result: Splitting) -> list[tuple[list[str], list[str]]]:
    inspections = [gs.inspect(part) for part in result.parts]
    return [(each.inputs, each.outputs) for each in inspections]


def test_values_that_cross_are_found_also_where_they_skip_a_part(tmp_path: Path) -> None:
    result = gs.split(_write(tmp_path), at=["a", "c"])
    assert _list_ends(result) == [(["x"], ["a"]), (["x", "a"], ["b", "c"]), (["a", "c"], ["y"])]
    assert [(each.name, each.source, each.readers) for each in result.crossings] == [
        ("a", 1, (2, 3)),
        ("c", 2, (3,)),
    ]
    assert (result.inputs, result.outputs, result.unused) == (("x",), (), ("idle",))
    assert gs.split(_write(tmp_path), at=["b"]).outputs == ("b",)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_parts_run_one_after_the_other_and_joined_are_the_model(count: int, tmp_path: Path) -> None:
    path = _write(tmp_path)
    run = done(in_process("split", "m.onnx", "--into", str(count), "-o", "parts", cwd=tmp_path))
    values = {"x": np.array([3, -4], "float32")}
    expected = gs.run(path, feeds=values).outputs
    held = dict(values)
    for number in range(1, count + 1):
        part = gs.load(tmp_path / "parts" / f"m-{number}.onnx")
        held.update(
            gs.run(part, feeds={name: held[name] for name in gs.inspect(part).inputs}).outputs
        )
    assert all(np.array_equal(held[name], array) for name, array in expected.items())
    line = next(
        line for line in run.stderr.decode().splitlines() if line.startswith("join them again: ")
    )
    done(graphshare(*shlex.split(line.removeprefix("join them again: "))[1:], cwd=tmp_path))
    done(graphshare("compare", "m.onnx", "joined.onnx", "--target", "y", "--exact", cwd=tmp_path))


def test_weights_in_constants_go_with_their_readers(tmp_path: Path) -> None:
    """As exporters of Paddle write them: all of them at the start, the last one read by two operators."""
    ones = f"{{{', '.join('1' * 16)}}}"
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) {{
        a = Constant<value = float[1] {{1}}>() b = Constant<value = float[2,8] {ones}>() c = Constant<value_float = 3.0>()
        d = Constant<value = float[8,2] {ones}>()
        p = Add(x, a) q = Mul(p, c) r = MatMul(q, b) s = MatMul(r, d) t = Mul(s, c) y = Neg(t) }}"""
    result = gs.split(_write(tmp_path, text), into=2)
    assert [(each.name, each.source, each.readers) for each in result.crossings] == [
        ("r", 1, (2,)),
        ("c", 1, (2,)),
    ]
    assert [sum(node.op == "MatMul" for node in part.graph.nodes) for part in result.parts] == [
        1,
        1,
    ]


@pytest.mark.parametrize(
    "name", [name for name in MADE if name not in ("old", "functions", "kinds", "external")]
)
def test_bodies_stay_whole_and_read_values_of_other_parts(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(MADE[name]().SerializeToString())
    result = gs.split(tmp_path / "m.onnx", into=2)
    assert [len([node for node in part.graph.nodes if node.op]) > 0 for part in result.parts] == [
        True,
        True,
    ]
    for number, part in enumerate(result.parts):
        gs.save(part, tmp_path / f"{number}.onnx")
        onnx.checker.check_model(onnx.load(tmp_path / f"{number}.onnx"))


def test_a_graph_of_mxnet_has_its_parameters_divided(tmp_path: Path) -> None:
    run = done(
        graphshare(
            "split", str(ROOT / "fixtures" / "lenet"), "--at", "pool2", "-o", "parts", cwd=tmp_path
        )
    )
    keys = [set(gs.load(tmp_path / "parts" / f"lenet-{number}").held or ()) for number in (1, 2)]
    assert not keys[0] & keys[1]
    assert keys[0] | keys[1] == gs.load(ROOT / "fixtures" / "lenet").held
    line = run.stderr.decode().split("join them again: ")[1]
    done(graphshare(*shlex.split(line)[1:], cwd=tmp_path))
    assert gs.fingerprint(tmp_path / "joined") == gs.fingerprint(ROOT / "fixtures" / "lenet")


def test_parts_have_about_equal_weights(tmp_path: Path) -> None:
    weights = ", ".join(
        f"float[{size}] w{place} = {{{', '.join(['1'] * size)}}}"
        for place, size in enumerate((8, 2, 2, 4, 4, 4))
    )
    nodes = " ".join(f"h{place + 1} = Concat<axis=0>(h{place}, w{place})" for place in range(6))
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] h0) => (float[26] h6) <{weights}> {{ {nodes} }}'
    for count, sizes in ((3, [32, 32, 32]), (2, [48, 48]), (6, [32, 8, 8, 16, 16, 16])):
        result = gs.split(_write(tmp_path, text), into=count)
        files = [part.parameter_file for part in result.parts]
        assert [
            sum(record.data_size for record in file.records) for file in files if file is not None
        ] == sizes


def test_a_split_that_is_none_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path)
    for settings in ({}, {"at": "a", "into": 2}):
        with pytest.raises(UsageError):
            gs.split(path, **settings)  # type: ignore[arg-type]
    for settings, message in (
        ({"at": "y"}, "leaves no operator for the last part"),
        ({"at": ["c", "a"]}, "leaves no operator for part 2"),
        ({"at": "nix"}, "names no output"),
        ({"into": 6}, "cannot make 6 parts of 5 operators"),
    ):
        with pytest.raises(RefusedError, match=message):
            gs.split(path, **settings)  # type: ignore[arg-type]
    refused(
        in_process("split", "m.onnx", "--at", "y", "-o", "parts", cwd=tmp_path),
        "--at 'y' leaves no operator",
    )
    assert not (tmp_path / "parts").exists()


def test_parts_that_are_not_the_model_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = gs.rename(_write(tmp_path), names={"c": "q"})
    monkeypatch.setattr(
        "graphshare.api.split.group",
        lambda parts, **_: gs.rename(gs.load(tmp_path / "m.onnx"), names={"c": "q"}),
    )
    assert other
    with pytest.raises(SelfCheckError, match="the parts are not the model"):
        gs.split(tmp_path / "m.onnx", at="b")


def test_the_report_as_json(tmp_path: Path) -> None:
    _write(tmp_path)
    found = json.loads(
        done(
            in_process("split", "m.onnx", "--at", "b", "-o", "p", "--format", "json", cwd=tmp_path)
        ).stdout
    )
    assert find_violations(found, "split") == []
    assert found["crossings"][0] == {"name": "b", "source": 1, "readers": [2]}
