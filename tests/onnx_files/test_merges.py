"""Pairs of models that language models are published as, in one file each: as optimum merges them,
built here without it.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import graphshare as gs
from tests.onnx_files.running import Session
from tests.processes import COMMAND, ROOT, done, environment, graphshare
from tests.surroundings import mark_everyday

pytest.importorskip("onnxruntime")
WIDTH, HEADS, WORDS = 16, 2, 40
DEPTH = WIDTH // HEADS
HEAD_SIZES = np.array([0, 0, HEADS, DEPTH])
JOINED_SIZES = np.array([0, 0, WIDTH])


class Decoder:
    """A decoder of two layers with causal or crossed attention; ``past`` takes keys and values of earlier steps."""

    def __init__(self, *, past: bool, crossed: bool, fused: bool) -> None:
        self.past, self.crossed, self.fused = past, crossed, fused
        self.nodes: list[NodeProto] = []
        self.inputs = {"input_ids": (TensorProto.INT64, ["batch", "sequence"])}
        self.outputs: dict[str, list[Any]] = {"logits": ["batch", "sequence", WORDS]}
        self.weights: dict[str, np.ndarray] = {}
        self.rng = np.random.default_rng(0)  # the same weights with and without the past
        self.constant("head_sizes", HEAD_SIZES)
        self.constant("joined_sizes", JOINED_SIZES)
        self.constant("scale", np.array(DEPTH**-0.5, np.float32))
        hidden = self.op("Gather", [self.weight("table", WORDS, WIDTH), "input_ids"])
        if crossed:
            self.inputs["encoder_hidden_states"] = TensorProto.FLOAT, ["batch", "source", WIDTH]
        for layer in range(2):
            hidden = self.attend(f"l{layer}.self", hidden, hidden)
            if crossed:
                hidden = self.attend(f"l{layer}.cross", hidden, "encoder_hidden_states")
            inner = self.op(
                "Relu", [self.op("MatMul", [hidden, self.weight(f"l{layer}.up", WIDTH, 4 * WIDTH)])]
            )
            hidden = self.op(
                "Add",
                [
                    hidden,
                    self.op("MatMul", [inner, self.weight(f"l{layer}.down", 4 * WIDTH, WIDTH)]),
                ],
            )
        self.op("MatMul", [hidden, self.weight("lm_head", WIDTH, WORDS)], "logits")

    def constant(self, name: str, values: np.ndarray) -> None:
        self.nodes.append(
            helper.make_node("Constant", [], [name], value=numpy_helper.from_array(values))
        )

    def weight(self, name: str, *sizes: int) -> str:
        # torch numbers what it folds and transposes, and the number depends on the graph
        name = f"onnx::MatMul_{len(self.nodes) + 100}" if name.endswith(("up", "down")) else name
        self.weights[name] = self.rng.standard_normal(sizes).astype(np.float32) / 4
        return name

    def op(self, kind: str, inputs: list[str], output: str = "", **values: Any) -> str:
        output = output or f"/{kind}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, inputs, [output], name=f"/{kind}/{len(self.nodes)}", **values)
        )
        return output

    def attend(self, name: str, hidden: str, source: str) -> str:
        if self.fused and source == hidden:  # gpt2: one product for queries, keys and values
            product = self.op("MatMul", [hidden, self.weight(f"{name}.qkv", WIDTH, 3 * WIDTH)])
            parts = [f"{name}.{part}_flat" for part in "qkv"]
            self.nodes.append(
                helper.make_node(
                    "Split", [product], parts, name=f"{name}/Split", axis=2, num_outputs=3
                )
            )
        else:
            parts = [
                self.op("MatMul", [x, self.weight(f"{name}.{part}", WIDTH, WIDTH)])
                for part, x in zip("qkv", (hidden, source, source), strict=True)
            ]
        queries, keys, values = (
            self.op("Transpose", [self.op("Reshape", [x, "head_sizes"])], perm=[0, 2, 1, 3])
            for x in parts
        )
        if self.past and not name.endswith("cross"):
            joined = []
            for part, present in (("key", keys), ("value", values)):
                cache = f"past_key_values.{name}.{part}"
                self.inputs[cache] = TensorProto.FLOAT, ["batch", HEADS, "past", DEPTH]
                joined.append(self.op("Concat", [cache, present], axis=2))
            keys, values = joined
        for part, present in (("key", keys), ("value", values)):
            self.op("Identity", [present], f"present.{name}.{part}")
            self.outputs[f"present.{name}.{part}"] = ["batch", HEADS, "total", DEPTH]
        scores = self.op(
            "Mul",
            [
                self.op("MatMul", [queries, self.op("Transpose", [keys], perm=[0, 1, 3, 2])]),
                "scale",
            ],
        )
        mixed = self.op("MatMul", [self.op("Softmax", [scores], axis=-1), values])
        flat = self.op(
            "Reshape", [self.op("Transpose", [mixed], perm=[0, 2, 1, 3]), "joined_sizes"]
        )
        return self.op(
            "Add", [hidden, self.op("MatMul", [flat, self.weight(f"{name}.o", WIDTH, WIDTH)])]
        )

    def build(self) -> ModelProto:
        inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in self.inputs.items()]
        outputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
            for name, sizes in self.outputs.items()
        ]
        weights = [numpy_helper.from_array(values, name) for name, values in self.weights.items()]
        graph = helper.make_graph(self.nodes, "main_graph", inputs, outputs, weights)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", 18)],
            ir_version=8,
            producer_name="pytorch",
        )
        onnx.checker.check_model(model, full_check=True)
        return model


KINDS = {
    "decoder": {"crossed": False, "fused": False},
    "t5": {"crossed": True, "fused": False},
    "gpt2": {"crossed": False, "fused": True},
}


def write_pair(folder: Path, kind: str, **metadata: tuple[str, str]) -> list[Path]:
    """Write a decoder with past and the one without, whose metadata are the first and second text of each key."""
    paths = []
    for number, name in enumerate(("decoder_with_past_model", "decoder_model")):
        model = Decoder(past=number == 0, **KINDS[kind]).build()
        helper.set_model_props(
            model, {key: values[number] for key, values in metadata.items() if values[number]}
        )
        paths.append(folder / f"{name}.onnx")
        onnx.save(model, paths[-1])
    return paths


def draw_feeds(path: Path, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = {"batch": 1 + seed, "sequence": 3 + seed, "source": 5, "past": 4}
    feeds = {}
    for value in onnx.load(path).graph.input:
        kind = value.type.tensor_type
        shape = [sizes.get(size.dim_param, size.dim_value) for size in kind.shape.dim]
        if kind.elem_type == TensorProto.BOOL:
            continue
        is_ids = kind.elem_type == TensorProto.INT64
        feeds[value.name] = (
            rng.integers(0, WORDS, shape)
            if is_ids
            else rng.standard_normal(shape).astype(np.float32)
        )
    return feeds


@pytest.mark.parametrize("kind", KINDS)
def test_each_branch_has_every_bit_and_the_weights_are_there_once(
    kind: str, tmp_path: Path
) -> None:
    paths, out = write_pair(tmp_path, kind), tmp_path / "decoder_model_merged.onnx"
    merged = gs.group(paths, switch="use_cache_branch")
    assert merged.notes == ()
    gs.save(merged, out)
    onnx.checker.check_model(str(out), full_check=True)
    assert out.stat().st_size < 0.65 * sum(path.stat().st_size for path in paths)
    arrays = [
        tensor.raw_data
        for tensor in onnx.load(out).graph.initializer
        if len(tensor.raw_data) >= 1024
    ]
    assert len(arrays) == len(set(arrays))
    for (number, path), seed in itertools.product(enumerate(paths), range(3)):
        feeds = draw_feeds(out, seed)
        own = {name: feeds[name] for name in draw_feeds(path, seed)}
        for optimize in (False, True):
            wanted = Session(path.read_bytes(), optimize=optimize).run(own)
            values = Session(out.read_bytes(), optimize=optimize).run(
                {**feeds, "use_cache_branch": np.array([number == 0])}
            )
            assert {name: value.tobytes() for name, value in values.items()} == {
                name: value.tobytes() for name, value in wanted.items()
            }
        branch = gs.extract(out, branch=("use_cache_branch", number == 0))
        assert gs.compare(branch, path)


@pytest.mark.parametrize("kind", mark_everyday(KINDS, 3))
def test_ten_runs_write_the_same_bytes(kind: str, tmp_path: Path) -> None:
    paths = write_pair(tmp_path, kind)
    code = (
        "import sys, graphshare as gs\n"
        "for i in range(5): gs.save(gs.group(sys.argv[2:], switch='use_cache'), f'{sys.argv[1]}{i}.onnx')"
    )
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(tmp_path / f"out{seed}"), *map(str, paths)]
        subprocess.run(command, check=True, cwd=ROOT, env=environment(PYTHONHASHSEED=seed))
    assert len({path.read_bytes() for path in tmp_path.glob("out*.onnx")}) == 1
    assert len(list(tmp_path.glob("out*.onnx"))) == 10


def test_metadata_of_both_are_there_and_what_is_lost_is_named(tmp_path: Path) -> None:
    paths = write_pair(
        tmp_path,
        "decoder",
        model=("m", "m"),
        first=("1", ""),
        second=("", "2"),
        use=("past", "no past"),
    )
    words = ("group", *(path.name for path in paths), "--switch", "use_cache", "-o", "both.onnx")
    said = done(graphshare(*words, cwd=tmp_path)).stderr.decode()
    assert (
        "decoder_model.onnx: its metadata 'use', of which the first model has another value, is left out"
        in said
    )
    stated = {one.key: one.value for one in onnx.load(tmp_path / "both.onnx").metadata_props}
    assert stated == {"model": "m", "first": "1", "second": "2", "use": "past"}
    assert graphshare(*words, "--strict", cwd=tmp_path).returncode == 2


def test_two_runs_at_once_leave_a_whole_model(tmp_path: Path) -> None:
    paths = write_pair(tmp_path, "t5")
    code = "import sys, graphshare as gs; gs.save(gs.group(sys.argv[3:], switch=sys.argv[2]), sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path / "both.onnx")]
    runs = [
        subprocess.Popen([*command, name, *map(str, paths)], cwd=ROOT)
        for name in ("one", "two", "one", "two")
    ]
    assert [run.wait() for run in runs] == [0] * 4
    switches = {value.name for value in onnx.load(tmp_path / "both.onnx").graph.input} & {
        "one",
        "two",
    }
    assert len(switches) == 1
    gs.save(gs.group(paths, switch=switches.pop()), tmp_path / "again.onnx")
    assert (tmp_path / "both.onnx").read_bytes() == (tmp_path / "again.onnx").read_bytes()
    assert not list(tmp_path.glob(".graphshare-*"))


def write_large(path: Path, arrays: range) -> Path:
    """Write a model that adds rows of tables of 50 MiB, each with one number and else a hole in a
    file beside the model.
    """
    size, data = 50 << 20, path.with_suffix(".data")
    nodes, tensors, value = [], [], "x"
    with data.open("wb") as file:
        for place, number in enumerate(arrays):
            tensor = TensorProto(
                name=f"w{number}", data_type=TensorProto.FLOAT, dims=[size // 4096, 1024]
            )
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in {
                "location": data.name,
                "offset": str(place * size),
                "length": str(size),
            }.items():
                tensor.external_data.add(key=key, value=text)
            file.seek(place * size)
            file.write(np.float32(number + 1).tobytes())
            nodes.append(helper.make_node("Gather", [f"w{number}", "ids"], [f"row{number}"]))
            nodes.append(helper.make_node("Add", [value, f"row{number}"], [f"sum{number}"]))
            tensors, value = [*tensors, tensor], f"sum{number}"
        file.truncate(len(arrays) * size)
    nodes.append(helper.make_node("Identity", [value], ["y"]))
    inputs = [
        helper.make_tensor_value_info(*facts)
        for facts in (("x", 1, [1, 1024]), ("ids", TensorProto.INT64, [1]))
    ]
    graph = helper.make_graph(
        nodes, "large", inputs, [helper.make_tensor_value_info("y", 1, [1, 1024])], tensors
    )
    path.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8
        ).SerializeToString()
    )
    return path


# A process counts what the one that started it held as its own, so that one is small.
_MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


@pytest.mark.large
@pytest.mark.skipif(
    sys.platform != "linux", reason="memory of processes is counted in KiB on Linux"
)
def test_large_models_take_little_memory(tmp_path: Path) -> None:
    """Files are read by pieces, and onnxruntime maps the weights: it opens the model by its path.

    These have 0.6 GB, since a disk that is written for a minute delays other tests; docs/onnx-tools.md has 2.2 GB.
    """
    write_large(tmp_path / "a.onnx", range(6))
    write_large(tmp_path / "b.onnx", range(5, 12))
    lines = [
        ("pool", "a.onnx", "b.onnx", "-o", "pooled"),
        ("group", "--switch", "first", "pooled/a.onnx", "pooled/b.onnx", "-o", "pooled/both.onnx"),
        ("extract", "--branch", "first=false", "pooled/both.onnx", "-o", "pooled/branch.onnx"),
        ("compare", "pooled/branch.onnx", "b.onnx"),
        ("run", "pooled/both.onnx", "--seed", "0", "-o", "y.npz"),
    ]
    for words in lines:
        line = [sys.executable, "-c", _MEASURE, *COMMAND, *words]
        run = subprocess.run(
            line,
            cwd=tmp_path,
            env=environment(PYTHONPATH=str(ROOT)),
            capture_output=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr.decode()
        assert int(run.stdout.splitlines()[-1]) < 200 << 10, words
    assert (tmp_path / "pooled" / "weights.data").stat().st_size == 12 * (50 << 20)
    for path in tmp_path.rglob("*.data"):
        path.unlink()
