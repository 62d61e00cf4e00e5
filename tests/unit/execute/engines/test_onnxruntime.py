"""onnxruntime computes what numpy does, with the weights where they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphshare as gs
from graphshare import resources
from graphshare.errors import InputError, RefusedError, UsageError
from graphshare.execute.backends import onnx_session
from graphshare.execute.backends.confined_session import ConfinedSession
from graphshare.execute.backends.onnx_session import OnnxSession
from graphshare.execute.backends.session import SessionSettings
from graphshare.execute.engines import onnxruntime_engine
from graphshare.execute.engines.engine import GraphPart, NodesRefusedError
from graphshare.execute.engines.onnxruntime_engine import OnnxRuntime, translate_part
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.inference import infer
from graphshare.ops.registry import TRANSLATIONS, register_translation
from graphshare.ops.translation import Translation, Translator
from tests.onnx_files import composed
from tests.processes import ROOT

LENET = str(ROOT / "fixtures" / "lenet")
X = np.random.default_rng(0).uniform(0.5, 2, (3, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def runtime() -> None:
    pytest.importorskip("onnxruntime")


def test_a_bound_network_gives_what_numpy_gives() -> None:
    source = gs.load(LENET)
    numpy, other = gs.bind(source), gs.bind(source, engine="onnxruntime")
    for samples in (1, 3, 1):
        data = (
            np.random.default_rng(samples).standard_normal((samples, 1, 28, 28)).astype(np.float32)
        )
        wanted, found = numpy(data=data), other(data=data)
        assert list(found) == list(wanted)
        for name, array in wanted.items():
            assert np.abs(found[name] - array).max() <= 1e-5 * np.abs(array).max()
    assert other.notes == []


def test_copies_of_weights_beyond_the_memory_limit_are_left_to_numpy() -> None:
    source, data = gs.load(LENET), np.zeros((1, 1, 28, 28), np.float32)
    tight = 90_000  # the weights take 49 kB, numpy's values 39 kB beside them
    net = gs.bind(source, engine="onnxruntime", max_memory=tight)
    wanted = gs.run(source, feeds={"data": data}).outputs["softmax_output"]
    assert np.array_equal(net(data=data)["softmax_output"], wanted)
    (note,) = net.notes
    assert "onnxruntime copies the weights" in note
    assert "and the limit is" in note
    assert gs.bind(source, engine="onnxruntime", max_memory=2 * tight)(data=data)
    with pytest.raises(RefusedError, match="copies the weights"):
        gs.bind(source, engine="onnxruntime", strict_engine=True, max_memory=tight)(data=data)


def test_under_a_limit_of_memory_it_computes_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = np.random.default_rng(0).standard_normal((2, 1, 28, 28)).astype(np.float32)
    wanted = gs.run(LENET, feeds={"data": data}, engine="onnxruntime").outputs["softmax_output"]
    opened = []
    initialize = ConfinedSession.__init__

    def count(self: ConfinedSession, *arguments: Any, **options: Any) -> None:
        opened.append(self)
        initialize(self, *arguments, **options)

    monkeypatch.setattr(ConfinedSession, "__init__", count)
    gs.run(LENET, feeds={"data": data}, engine="onnxruntime")
    assert not opened
    outputs = gs.run(LENET, feeds={"data": data}, engine="onnxruntime", max_memory="100M").outputs
    assert opened
    assert np.array_equal(outputs["softmax_output"], wanted)


def test_repeated_runs_are_equal_bit_for_bit() -> None:
    net = gs.bind(gs.load(LENET), engine="onnxruntime")
    data = np.random.default_rng(0).standard_normal((4, 1, 28, 28)).astype(np.float32)
    first, *others = (net(data=data)["softmax_output"] for _ in range(4))
    assert all(np.array_equal(first, other) for other in others)


def test_random_and_untranslated_nodes_are_left_to_numpy() -> None:
    x = Node("", "x")
    exp = Node("exp", "e", {}, (Entry(x),))
    factors = Node("_linalg_gelqf", "f", {}, (Entry(exp),), 2)
    root = Node("square", "s", {}, (Entry(factors),))
    drawn = Node("_random_normal", "r", {"shape": "(3,4)"})
    total = Node("elemwise_add", "sum", {}, (Entry(root), Entry(drawn)))
    graph = Graph((x, exp, factors, root, drawn, total), (Entry(total), Entry(x)))
    found = gs.run(graph, feeds={"x": X}, seed=7, engine="onnxruntime")
    wanted = gs.run(graph, feeds={"x": X}, seed=7)
    for name, array in wanted.outputs.items():
        assert np.allclose(found.outputs[name], array, rtol=1e-4)
    (note,) = (note for note in found.notes if "onnxruntime" in note)
    assert note.startswith(
        "numpy computes 2 nodes that onnxruntime cannot compute: f (_linalg_gelqf), r (_random_normal)"
    )
    assert note.endswith("; onnxruntime computes the rest in 2 parts")


def test_shapes_that_depend_on_values_are_left_to_numpy() -> None:
    x, index = Node("", "x"), Node("", "index")
    exp = Node("exp", "e", {}, (Entry(x),))
    mask = Node("_contrib_boolean_mask", "m", {}, (Entry(exp), Entry(index)))
    root = Node("sqrt", "s", {}, (Entry(mask),))
    graph = Graph((x, index, exp, mask, root), (Entry(root),))
    feeds = {"x": X, "index": np.array([1, 0, 1], np.float32)}
    found = gs.run(graph, feeds=feeds, engine="onnxruntime")
    assert np.allclose(found.outputs["s_output"], np.sqrt(np.exp(X[::2])))
    assert any(
        "2 nodes that onnxruntime cannot compute: m (_contrib_boolean_mask), s (sqrt)" in note
        for note in found.notes
    )


@pytest.mark.parametrize(
    ("dtype", "operator"),
    [("float64", "Erf"), ("int16", "Erf"), ("float32", "Unheard")],
    ids=["no kernel", "no such type", "no such operator"],
)
def test_a_node_that_onnxruntime_cannot_run_is_found(
    dtype: str, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime says by name what it cannot take; that node alone is left to numpy."""

    def emit(translation: Translation) -> str:
        x = translation.cast(translation.inputs[0], dtype)
        return translation.cast(translation.emit(operator, x), "float32", dtype)

    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    register_translation(Translator("exp", emit))
    x = Node("", "x")
    root = Node("sqrt", "scope/a", {}, (Entry(x),))
    exp = Node("exp", "scope/a/b 1", {}, (Entry(root),))
    found = gs.run(Graph((x, root, exp), (Entry(exp),)), feeds={"x": X}, engine="onnxruntime")
    assert np.allclose(found.outputs["scope/a/b 1_output"], np.exp(np.sqrt(X)))
    (note,) = found.notes
    assert note.startswith(
        "numpy computes 1 node that onnxruntime cannot compute: scope/a/b 1 (exp) (reason for the first: it is refused"
    )


def test_a_missing_runtime_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_session, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as error:
        gs.bind(gs.load(LENET), engine="onnxruntime")
    assert "pip install onnx onnxruntime" in error.value.faults[0].hint
    assert "CPython 3." in error.value.faults[0].hint


def test_onnx_is_not_imported() -> None:
    """Only a proof of an exported file needs it."""
    code = (
        "import sys, numpy as np, graphshare as gs;"
        f"gs.bind(gs.load({LENET!r}), engine='onnxruntime')(data=np.zeros((1, 1, 28, 28), 'f'));"
        "print('onnx' in sys.modules, 'onnxruntime' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ["False", "True"]


def test_refusals_of_the_engine_are_nodes() -> None:
    x = Node("", "x")
    factors = Node("_linalg_gelqf", "f", {}, (Entry(x),), 2)
    graph = Graph((x, factors), (Entry(factors),))
    with pytest.raises(NodesRefusedError) as error:
        OnnxRuntime().compile(GraphPart(graph, infer(graph, {x: (3, 4)}, {}), {}))
    assert list(error.value.reasons) == [factors]


def test_products_of_nothing_are_zeros() -> None:
    """onnxruntime leaves them undefined where it fuses the product with its scale."""
    x = Node("", "x")
    scores = Node("_contrib_interleaved_matmul_selfatt_qk", "a", {"heads": "1"}, (Entry(x),))
    graph = Graph((x, scores), (Entry(scores),))
    part = GraphPart(graph, infer(graph, {x: (5, 3, 0)}, {}), {})
    assert b"MatMul" not in translate_part(part).data
    (found,) = OnnxRuntime().compile(part)({x: np.ones((5, 3, 0), np.float32)})
    assert np.array_equal(found, np.zeros((3, 5, 5), np.float32))


def test_constants_of_a_part_are_no_inputs() -> None:
    """Small ones are in the model, and large ones beside it."""
    x, small, large = Node("", "x"), Node("", "small"), Node("", "large")
    a = Node("broadcast_add", "a", {}, (Entry(x), Entry(small)))
    b = Node("broadcast_add", "b", {}, (Entry(a), Entry(large)))
    constants = {small: np.full((1, 1), 2, np.float32), large: np.ones((64, 1024), np.float32)}
    graph = Graph((x, small, large, a, b), (Entry(b),))
    shapes = {x: (1, 1), **{node: array.shape for node, array in constants.items()}}
    translated = translate_part(GraphPart(graph, infer(graph, shapes, {}), constants))
    assert list(translated.inputs) == [x]
    assert [array.shape for array in translated.arrays.values()] == [(64, 1024)]
    assert constants[small].tobytes() in translated.data


def test_a_dimension_whose_name_is_not_utf_8_is_an_error_of_the_model() -> None:
    kind = ("float32", ("size",))
    graph = composed.model(
        "g", [composed.Operator("Relu", ("x",), ("y",))], {"x": kind}, {"y": kind}
    )
    data = b"".join(encode_model(graph).pieces())
    assert onnx_session.OnnxSession(data).inputs == {"x": ("size",)}
    with pytest.raises(InputError, match="refuses the model"):
        onnx_session.OnnxSession(data.replace(b"size", b"si\xffe"))


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({"OPENBLAS_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, 3),
        ({"OPENBLAS_NUM_THREADS": "0", "OMP_NUM_THREADS": "5"}, 5),
        ({"OPENBLAS_NUM_THREADS": "many", "OMP_NUM_THREADS": "1"}, 1),
        ({"OPENBLAS_NUM_THREADS": "-1"}, 7),
        ({}, 7),
    ],
)
def test_a_session_has_as_many_threads_as_blas(
    variables: dict[str, str], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in resources.THREADS:  # a cluster that another test started may have set some
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        "os.sched_getaffinity", lambda process: range(7 if process == 0 else 1), raising=False
    )
    assert resources.count_threads() == count
    monkeypatch.delattr("os.sched_getaffinity")
    for cores, known in ((7, 7), (None, 1)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert resources.count_threads() == (known if count == 7 else count)


def test_options_of_a_session_are_set_where_they_are_asked_for() -> None:
    def make(**own: Any) -> tuple[bool, bool, int, bool]:
        options = onnx_session._make_options("", SessionSettings(**{"threads": 2, **own}))
        entries = [("session.intra_op.allow_spinning", "0"), ("session.disable_prepacking", "1")]
        off = []
        for name, value in entries:
            try:
                off.append(options.get_session_config_entry(name) == value)
            except RuntimeError:  # it was not set
                off.append(False)
        is_plain = (
            options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        )
        return not is_plain, not off[0], options.intra_op_num_threads, not off[1]

    assert make() == (True, True, 2, True)
    assert make(optimize=False) == (False, True, 2, True)
    assert make(awake=False) == (True, False, 2, True)
    assert make(prepack=False, threads=1) == (True, True, 1, False)
    assert make(threads=0)[2] == resources.count_threads()


def test_a_model_that_is_refused_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    path = str(tmp_path / "m.onnx")
    for model, name in ((path, path), (b"no model", "")):
        with pytest.raises(InputError, match="refuses the model") as caught:
            OnnxSession(model)
        assert caught.value.faults[0].where == name


@pytest.mark.parametrize(
    ("stored", "name", "belongs"),
    [
        ("fc", "fc", True),
        ("fc/MatMul", "fc", True),
        ("fc#2", "fc", True),
        ("fc2", "fc", False),
        ("fc/x", "", False),
        ("", "", False),
    ],
)
def test_a_node_of_onnx_belongs_to_the_operator_whose_name_it_begins_with(
    stored: str, name: str, belongs: bool
) -> None:
    assert onnxruntime_engine._belongs(stored, name) == belongs


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("Failed to find kernel for node with name 'a/b/Mul'", ["a/b"]),
        ('Type Error: bound in node (a) is invalid. In Node, ("c"', ["a"]),
        ('In Node, ("c#1", Relu', ["c"]),
        ("node with name 'other', in node (c) is", ["c"]),
        ("nothing is named", ["a", "a/b", "c"]),
    ],
)
def test_what_onnxruntime_blames_is_the_operator_of_the_longest_name(
    message: str, names: list[str]
) -> None:
    x = Node("", "x")
    nodes = (x, *(Node("relu", name, inputs=(Entry(x),)) for name in ("a", "a/b", "c")))
    graph = Graph(nodes, tuple(map(Entry, nodes[1:])))
    blamed = onnxruntime_engine._blame(GraphPart(graph, infer(graph, {x: (1,)}, {}), {}), message)
    assert sorted(node.name for node in blamed) == names
    assert all(reason.startswith("it is refused: ") for reason in blamed.values())
