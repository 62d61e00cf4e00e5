"""``bind`` of ONNX models: one session for many calls."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare import confined_process
from graphshare.execute.backends import confined_session
from tests.onnx_files.made import branches, dense
from tests.onnx_files.test_verify import write


def test_a_bound_model_computes_what_run_computes(tmp_path: Path) -> None:
    path = write(tmp_path, "dense")
    net = gs.bind(path)
    assert (net.inputs, net.outputs, net.notes) == (["data"], ["out"], [])
    for rows in (1, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 2)).astype(np.float32)
        wanted = gs.run(path, feeds={"data": x}).outputs["out"]
        for outputs in (
            net(x),
            net(data=x),
            net({"data": x.tolist()}),
            copy.copy(net)(x),
            pickle.loads(pickle.dumps(net))(x),
        ):
            np.testing.assert_array_equal(outputs["out"], wanted)
    assert list(gs.bind(path, targets=["h", "r"])(x)) == ["h", "r"]


def test_the_session_stays_open_and_is_opened_again_where_its_process_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    initialize = confined_session.ConfinedSession.__init__

    def count(
        self: confined_session.ConfinedSession, *arguments: object, **options: object
    ) -> None:
        opened.append(1)
        initialize(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(confined_session.ConfinedSession, "__init__", count)
    net, x = gs.bind(write(tmp_path, "dense")), np.ones((1, 2), np.float32)
    first = net(x)["out"]
    assert net(x)["out"].tolist() == first.tolist()
    assert len(opened) == 1
    confined_process._kept[confined_session.__name__]._end()
    assert net(x)["out"].tolist() == first.tolist()
    assert len(opened) == 2


def test_inputs_are_checked(tmp_path: Path) -> None:
    net = gs.bind(write(tmp_path, "branches", branches()))
    assert sorted(net.inputs) == ["data", "flag"]
    x = np.ones((2, 2), np.float32)
    assert net(data=x, flag=True)["out"].shape == (2, 2)
    for feeds, words in (
        ({"data": x}, "input 'flag' has no value"),
        ({"data": x, "flag": True, "w": x}, "input 'w' names no variable"),
        ({"data": x[0], "flag": True}, "'data' is (2), but the model declares 2x2"),
    ):
        with pytest.raises(gs.GraphshareError) as raised:
            net(feeds)
        assert words in str(raised.value)
    with pytest.raises(
        gs.GraphshareError, match="`engine='numpy'` is for MXNet graphs, and this is an ONNX model"
    ):
        gs.bind(tmp_path / "branches.onnx", engine="numpy")


def test_an_input_with_an_initializer_may_be_given(tmp_path: Path) -> None:
    model = dense()
    model.graph.input.append(helper.make_tensor_value_info("w", 1, [2, 2]))
    net, x = gs.bind(write(tmp_path, "default", model)), np.array([[1, 2]], np.float32)
    assert net.inputs == ["data"]
    assert net(x)["out"].tolist() == [[0.75, 0.75]]
    assert net(data=x, w=np.ones((2, 2), np.float32))["out"].tolist() == [[3, 3]]


def test_a_call_keeps_to_the_memory_of_the_user(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Expand", ["x", "s"], ["big"]),
        helper.make_node("ReduceSum", ["big"], ["y"], keepdims=0),
    ]
    ends = [
        helper.make_tensor_value_info(*end) for end in (("x", 1, [1]), ("s", 7, [2]), ("y", 1, []))
    ]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:2], ends[2:]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])  # fmt: skip
    net, x = gs.bind(write(tmp_path, "bomb", model), max_memory="100M"), np.ones(1, np.float32)
    with pytest.raises(gs.GraphshareError, match="takes more memory"):
        net(x=x, s=[40_000, 40_000])
    assert net(x=x, s=[4, 4])["y"] == 16


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process maps")
def test_bound_models_of_one_pool_compute_on_its_mapped_pages(tmp_path: Path) -> None:
    """Their sessions are in one process, and an array that is used as it is stays in the file."""
    table = np.random.default_rng(0).standard_normal((4096, 64)).astype(np.float32)  # 1 MiB
    for name, kind in (("one", "Neg"), ("two", "Abs")):
        nodes = [
            helper.make_node("Gather", ["table", "ids"], ["rows"]),
            helper.make_node(kind, ["rows"], ["out"]),
        ]
        inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])]
        outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 64])]
        graph = helper.make_graph(
            nodes, name, inputs, outputs, [numpy_helper.from_array(table, "table")]
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (tmp_path / f"{name}.onnx").write_bytes(model.SerializeToString())
    gs.pool([tmp_path / "one.onnx", tmp_path / "two.onnx"], tmp_path / "pooled")
    ids = np.arange(4096)
    one, two = (gs.bind(tmp_path / "pooled" / f"{name}.onnx") for name in ("one", "two"))
    np.testing.assert_array_equal(one(ids)["out"], -table)
    np.testing.assert_array_equal(two(ids)["out"], abs(table))
    maps = Path(
        f"/proc/{confined_process._kept[confined_session.__name__]._process.pid}/smaps"
    ).read_text()
    mapped = [
        part
        for part in re.split(r"\n(?=[0-9a-f]+-)", maps)
        if str(tmp_path / "pooled" / "weights.data") in part
    ]
    resident = [dict(re.findall(r"^(\w+): +(\d+) kB$", part, re.M)) for part in mapped]
    assert sum(int(one["Rss"]) for one in resident) >= 2 * 1024
    assert all(one["Anonymous"] == "0" for one in resident)
