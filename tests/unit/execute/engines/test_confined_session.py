"""Sessions in a process of their own: the same answers, a limit of memory, an end with this
process, no foreign modules.
"""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from graphshare import confined_process
from graphshare.errors import InputError, RefusedError
from graphshare.execute.backends import confined_session
from graphshare.execute.backends.confined_session import ConfinedSession, open_session
from graphshare.execute.backends.onnx_session import OnnxSession
from graphshare.execute.backends.session import pack
from graphshare.resources import memory_limit, time_limit
from tests.processes import ROOT, environment, is_running, module_path

onnx = pytest.importorskip("onnx", reason="onnx is of the onnx extra")
pytest.importorskip("onnxruntime", reason="onnxruntime is of the onnx extra")
onlinux = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA is kept on Linux alone")


def build(
    nodes: list[object],
    inputs: list[object],
    outputs: list[object],
    initializers: list[object] | None = None,
) -> bytes:
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, initializers or [])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    return bytes(model.SerializeToString())


def value(name: str, dtype: int = 1, shape: list[int | str] | None = None) -> object:
    return onnx.helper.make_tensor_value_info(name, dtype, shape if shape is not None else [2])


def bomb(side: int = 40_000) -> bytes:
    """A model of 150 bytes whose inner value has ``side`` times ``side`` numbers."""
    sides = onnx.helper.make_tensor("s", onnx.TensorProto.INT64, [2], [side, side])
    nodes = [
        onnx.helper.make_node("Expand", ["x", "s"], ["big"]),
        onnx.helper.make_node("ReduceSum", ["big"], ["y"], keepdims=0),
    ]
    return build(nodes, [value("x", shape=[1])], [value("y", shape=[])], [sides])


def doubling() -> bytes:
    return build(
        [onnx.helper.make_node("Add", ["x", "x"], ["y"])],
        [value("x", shape=["n"])],
        [value("y", shape=["n"])],
    )


def test_a_session_gives_what_one_in_this_process_gives() -> None:
    x = np.arange(3, dtype="float32")
    for session in (OnnxSession(doubling()), ConfinedSession(doubling())):
        assert (session.inputs, session.dtypes, session.outputs) == (
            {"x": ("n",)},
            {"x": "float"},
            ["y"],
        )
        (y,) = session.run({"x": x, "other": x})
        np.testing.assert_array_equal(y, 2 * x)
        assert y.dtype == np.float32


@pytest.mark.parametrize(
    "array",
    [np.array(["a", "ü"], object), np.zeros((0, 2), "float16"), np.array(True), np.float64(2)],
)
def test_values_of_every_kind_go_there_and_back(array: np.ndarray) -> None:
    code = {"O": 8, "e": 10, "?": 9, "d": 11}[np.asarray(array).dtype.char]
    shape = list(np.asarray(array).shape)
    model = build(
        [onnx.helper.make_node("Identity", ["x"], ["y"])],
        [value("x", code, shape)],
        [value("y", code, shape)],
    )
    (y,) = ConfinedSession(model).run({"x": np.asarray(array)})
    assert y.shape == np.shape(array)
    assert y.tolist() == np.asarray(array).tolist()


def test_sequences_come_back_as_lists() -> None:
    sequence = onnx.helper.make_tensor_sequence_value_info("y", 1, None)
    model = build(
        [onnx.helper.make_node("SequenceConstruct", ["x", "x"], ["y"])], [value("x")], [sequence]
    )
    (y,) = ConfinedSession(model).run({"x": np.ones(2, "float32")})
    assert [each.tolist() for each in y] == [[1, 1], [1, 1]]


def test_maps_come_back_with_their_keys() -> None:
    node = onnx.helper.make_node(
        "ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[7, 9]
    )
    types = onnx.helper.make_map_type_proto(
        onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(1, [])
    )
    output = onnx.helper.make_value_info("y", onnx.helper.make_sequence_type_proto(types))
    graph = onnx.helper.make_graph([node], "g", [value("x", shape=[1, 2])], [output])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    assert ConfinedSession(model).run({"x": np.array([[1, 2]], "float32")}) == [[{7: 1.0, 9: 2.0}]]


def test_a_value_that_has_no_message_is_refused() -> None:
    with pytest.raises(RefusedError, match="a value of type object cannot be compared"):
        pack(object(), [])


def test_a_python_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined_process, "_kept", {})
    for path in ("", None, "/nowhere/python"):
        monkeypatch.setattr(sys, "executable", path)
        with pytest.raises(RefusedError, match="no process can be started"):
            ConfinedSession(doubling())


def test_without_files_in_memory_a_model_goes_beside_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> int:
        raise OSError("no such call")

    monkeypatch.setattr(confined_process, "_kept", {})
    monkeypatch.setattr("os.memfd_create", refuse, raising=False)
    for model in (doubling(), iter([doubling()[:10], doubling()[10:]])):
        assert ConfinedSession(model).run({"x": np.ones(1, "float32")})[0].tolist() == [2]


def test_the_streams_of_a_process_are_closed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined_process, "_kept", {})
    ConfinedSession(doubling())
    process = confined_process._kept[confined_session.__name__]
    inner = process._process
    process._end()
    assert inner.stdin is not None
    assert inner.stdout is not None
    assert (inner.poll() is not None, inner.stdin.closed, inner.stdout.closed) == (True, True, True)


def test_a_time_limit_ends_what_runs_there() -> None:
    body_inputs = [value("i", 7, []), value("c", 9, []), value("s", shape=[])]
    body = onnx.helper.make_graph(
        [
            onnx.helper.make_node(op, [a], [b])
            for op, a, b in (("Identity", "c", "d"), ("Sin", "s", "t"))
        ],
        *("body", body_inputs, [value("d", 9, []), value("t", shape=[])]),
    )
    constants = [
        onnx.helper.make_tensor("n", 7, [], [1 << 40]),
        onnx.helper.make_tensor("yes", 9, [], [True]),
    ]
    model = build(
        [onnx.helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)],
        [value("x", shape=[])],
        [value("y", shape=[])],
        constants,
    )
    session = ConfinedSession(model)
    process = confined_process._kept[confined_session.__name__]._process
    with pytest.raises(RefusedError, match="time limit of 1 s"), time_limit(1):
        session.run({"x": np.array(1, "float32")})
    assert process.poll() is not None
    assert ConfinedSession(doubling()).run({"x": np.ones(1, "float32")})[0].tolist() == [2]


def test_what_onnxruntime_refuses_is_an_error() -> None:
    with pytest.raises(InputError, match="refuses the model"):
        ConfinedSession(b"no model")
    session = ConfinedSession(doubling())
    with pytest.raises(InputError, match="fails"):
        session.run({"x": np.ones((2, 2), "float32")})
    assert session.run({"x": np.ones(1, "float32")})[0].tolist() == [2]  # and the process goes on


@onlinux
def test_a_limit_of_memory_is_kept() -> None:
    with memory_limit(500_000_000):
        session = ConfinedSession(bomb())
        with pytest.raises(
            RefusedError,
            match=r"takes more memory in onnxruntime than the limit of 500\.0 MB allows",
        ):
            session.run({"x": np.ones(1, "float32")})
        with pytest.raises(RefusedError, match="has ended"):
            session.run({"x": np.ones(1, "float32")})
        assert ConfinedSession(bomb(4_000)).run({"x": np.ones(1, "float32")})[0] == 16e6
    # Of 1.6 GB: no limit but the machine's
    assert ConfinedSession(bomb(20_000)).run({"x": np.ones(1, "float32")})[0] > 1e8


@onlinux
def test_feeds_beyond_the_limit_are_refused() -> None:
    """The other process cannot read the message, and this one does not wait for its answer."""
    with memory_limit(10_000_000):
        session = ConfinedSession(doubling())
        with pytest.raises(
            RefusedError,
            match=r"takes more memory in onnxruntime than the limit of 10\.0 MB allows",
        ):
            session.run({"x": np.zeros(60_000_000, "float32")})


def test_models_translated_here_leave_this_process_under_a_limit_alone() -> None:
    assert type(open_session(doubling())) is OnnxSession
    with memory_limit(10**9):
        assert type(open_session(doubling())) is ConfinedSession


def test_threads_share_the_process() -> None:
    session = ConfinedSession(doubling())

    def run(number: int) -> float:
        return float(
            ConfinedSession(doubling()).run({"x": np.full(1, number, "float32")})[0][0]
        ) + float(session.run({"x": np.full(1, number, "float32")})[0][0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(12))) == [4 * number for number in range(12)]


def test_a_process_that_dies_is_an_error_and_the_next_session_has_another() -> None:
    session = ConfinedSession(doubling())
    process = confined_process._kept[confined_session.__name__]._process
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(RefusedError, match="has ended"):
        session.run({"x": np.ones(1, "float32")})
    with warnings.catch_warnings(record=True) as files:
        warnings.simplefilter("always", ResourceWarning)
        ConfinedSession(doubling())
        del session
        gc.collect()
    assert not files
    assert ConfinedSession(doubling()).run({"x": np.ones(1, "float32")})[0].tolist() == [2]


SCRIPT = """
import os, sys
import numpy as np
from graphshare import confined_process
from graphshare.execute.backends import confined_session
model = sys.stdin.buffer.read()
session = confined_session.ConfinedSession(model)
print(session._process._process.pid, session.run({"x": np.ones(1, "float32")})[0].tolist(), flush=True)
if "kill" in sys.argv:
    os.kill(os.getpid(), 9)
"""


@onlinux
@pytest.mark.parametrize("how", ["end", "kill"])
def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path, how: str) -> None:
    """A script without a guard, and one that is killed: nothing is left, also of a session in the
    middle of its work.
    """
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, script, how],
        input=doubling(),
        capture_output=True,
        env=environment(PYTHONPATH=module_path()),
        timeout=60,
    )
    assert run.returncode == (0 if how == "end" else -9), run.stderr.decode()
    pid, result = run.stdout.decode().split(" ", 1)
    assert result.strip() == "[2.0]"
    for _ in range(100):
        if not is_running(int(pid)):
            break
        time.sleep(0.05)
    assert not is_running(int(pid))


def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    """Beside a stranger's model may lie any file."""
    script = tmp_path / "scripts" / "script.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    hostile = tmp_path / "models"
    (hostile / "graphshare").mkdir(parents=True)
    for name in (
        "numpy.py",
        "onnxruntime.py",
        "msgspec.py",
        "sitecustomize.py",
        "queue.py",
        "graphshare/__init__.py",
    ):
        (hostile / name).write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\nraise SystemExit(3)\n"
        )
    for entries in ([module_path()], [module_path(), ""], [module_path(), str(hostile)]):
        script.write_text(f"import sys\nsys.path += {entries[1:]!r}\n{SCRIPT}")
        run = subprocess.run(
            [sys.executable, script],
            input=doubling(),
            capture_output=True,
            cwd=hostile,
            env=environment(PYTHONPATH=entries[0]),
        )
        assert run.returncode == 0, run.stderr.decode()
        assert run.stdout.decode().split(" ", 1)[1].strip() == "[2.0]"
        assert not (tmp_path / "ran").exists()


def test_onnxruntime_keeps_nothing_for_telemetry(tmp_path: Path) -> None:
    """Versions that send telemetry have a database in the home of the user, and a file in the
    folder for temporary files.
    """
    variables = environment(HOME=str(tmp_path), TMPDIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    variables.pop("ORT_DISABLE_TELEMETRY", None)
    model = str(ROOT / "fixtures" / "small.onnx")
    load = "from graphshare.execute.backends.onnx_session import load_runtime"
    code = f"{load}; load_runtime().InferenceSession({model!r}, providers=['CPUExecutionProvider'])"
    subprocess.run([sys.executable, "-c", code], env=variables, cwd=ROOT, check=True, timeout=60)
    assert list(tmp_path.rglob("*")) == []
