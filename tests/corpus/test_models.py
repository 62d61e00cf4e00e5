"""Whole models of every kind, as a user proves them: duplicated, verified equal, and a changed
weight found and located.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.formats.params.format import read_index
from graphshare.text.names import split_key
from tests import params_bytes
from tests.corpus.encoder import encoder
from tests.corpus.test_forward import seeded_feeds
from tests.corpus.values import DETECTOR, parameter, with_fewer_regions
from tests.processes import done, graphshare, write_json
from tests.surroundings import recorded

DETECTORS = ("SSD, in integers", "YOLO", "Faster R-CNN")
MODELS = {
    "SSD, in integers": "dmlc+gluon-cv__gluoncv__model_zoo__quantized__ssd_512_mobilenet1.0_voc_int8-symbol",
    "YOLO": "soumyaiitkgp+modelServer__yolo-symbol",
    "Faster R-CNN": DETECTOR,
    "BERT": "nlp_bert_small",
    "a net in integers": "quant_lenet_mkldnn_uint8",
    "an RNN of foreach": "cf_foreach",
    "an LSTM over words": "awslabs+multi-model-server__examples__lstm_ptb__model__lstm_ptb-symbol",
}
#: Those that take seconds are for another day.
MARKED = [
    pytest.param(model, marks=[pytest.mark.large] if model in DETECTORS else []) for model in MODELS
]
#: Operators whose weight is changed: the first of them in the graph.
LAYERS = ("Convolution", "FullyConnected", "_sg_mkldnn_conv", "_foreach")


def prepared(folder: Path, corpus: Path, stem: str) -> None:
    """The model's graph, parameters and inputs in ``folder``."""
    meta = recorded(corpus, stem)
    graph = (corpus / "graphs" / f"{stem}.json").read_text()
    (folder / "net.json").write_text(with_fewer_regions(graph) if stem == DETECTOR else graph)
    inputs = [
        name
        for name in meta["input_names"]
        if not name.rstrip("_0123456789").endswith(("anchor", "offset"))
    ]
    held: set[str] = set()
    if meta.get("params_file"):
        shutil.copy(corpus / meta["params_file"], folder / "net.params")
        held = {
            split_key(record.key or "")[1] for record in read_index(folder / "net.params").records
        }
    values = seeded_feeds(corpus, stem, held)
    np.savez(folder / "feeds.npz", **{name: values[name] for name in inputs})
    if not held:
        auxiliary = meta["aux_shapes"]
        keys = {
            name: f"{'aux' if name in auxiliary else 'arg'}:{name}"
            for name in values
            if name not in inputs
        }
        write_arrays(folder / "net.params", {key: values[name] for name, key in keys.items()})


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    records = [
        params_bytes.dense(x.shape, str(x.dtype), np.ascontiguousarray(x).tobytes())
        for x in arrays.values()
    ]
    path.write_bytes(params_bytes.container(records, list(arrays)))


def proved(folder: Path) -> dict[str, Any]:
    """Duplicates the model of ``folder``, verifies the branches, changes a weight of the copy, and
    gives what was said then.
    """
    names = [
        "net.json",
        "--params",
        "net.params",
        "--prefix",
        "sha-",
        "-o",
        "siam.json",
        "--params-out",
        "siam.params",
    ]
    done(graphshare("duplicate", *names, cwd=folder))
    arguments = [
        "verify",
        "siam.json",
        "--params",
        "siam.params",
        "--prefix",
        "sha-",
        "--feed",
        "feeds.npz",
    ]
    run = done(graphshare(*arguments, cwd=folder))
    assert run.stdout.decode().splitlines()[-1] == "EQUAL: sha- and the original, bit for bit"
    name = first_weight(json.loads((folder / "siam.json").read_text()))
    change(folder / "siam.params", name)
    run = graphshare(*arguments, "--format", "json", cwd=folder)
    assert run.returncode == 1, run.stderr.decode()
    said: dict[str, Any] = json.loads(run.stdout)
    assert said["branches"][0]["rounds"][0]["first"]["node"] == name
    return said


def first_weight(graph: dict[str, Any], prefix: str = "sha-") -> str:
    """The weight of the copy's first layer."""
    for node in graph["nodes"]:
        if node["op"] in LAYERS and node["name"].startswith(prefix):
            for entry in node["inputs"]:
                name = graph["nodes"][entry[0]]["name"]
                if (
                    name.endswith(("weight", "weight_quantize"))
                    and graph["nodes"][entry[0]]["op"] == "null"
                ):
                    return str(name)
    raise AssertionError("no layer with a weight")


def change(path: Path, name: str) -> None:
    """Another number in the middle of a weight, as large as its largest twice over."""
    (record,) = [r for r in read_index(path).records if split_key(r.key or "")[1] == name]
    shape, dtype = record.shape_and_dtype()
    assert record.data_offset is not None
    array = np.memmap(path, dtype, "r+", record.data_offset, shape)
    flat = array.reshape(-1)
    flat[flat.size // 2] = 100 if array.dtype.kind == "i" else 2 * np.abs(array).max() + 1
    array.flush()


def stages(said: dict[str, Any]) -> dict[str, str]:
    return {stage["name"]: stage["verdict"] for stage in said["branches"][0]["stages"]}


@pytest.mark.corpus
@pytest.mark.parametrize("model", MARKED)
def test_a_model_is_proved_and_its_fault_is_found(model: str, corpus: Path, tmp_path: Path) -> None:
    prepared(tmp_path, corpus, MODELS[model])
    said = proved(tmp_path)
    assert stages(said) == {"structure": "holds", "parameters": "fails", "values": "fails"}


@pytest.mark.corpus
@pytest.mark.parametrize("model", MARKED)
def test_a_model_is_what_was_recorded_layer_by_layer(
    model: str, corpus: Path, tmp_path: Path
) -> None:
    """A record of all outputs agrees; with a changed weight its consumer is the first operator that departs."""
    prepared(tmp_path, corpus, MODELS[model])
    values = ["net.json", "--params", "net.params", "--feed", "feeds.npz"]
    done(graphshare("run", *values, "--seed", "0", "--all", "-o", "dump.npz", cwd=tmp_path))
    arguments = ["compare", *values, "dump.npz", "--layers", "--format", "json"]
    layers = json.loads(done(graphshare(*arguments, cwd=tmp_path)).stdout)["branches"][0]["rounds"][
        0
    ]["layers"]
    assert all(layer["comparison"]["identical"] for layer in layers)
    graph = json.loads((tmp_path / "net.json").read_text())
    name = first_weight(graph, prefix="")
    change(tmp_path / "net.params", name)
    run = graphshare(*arguments, cwd=tmp_path)
    assert run.returncode == 1, run.stderr.decode()
    first = json.loads(run.stdout)["branches"][0]["rounds"][0]["first"]
    consumer = next(node for node in graph["nodes"] if node["name"] == first["node"])
    assert name in [graph["nodes"][entry[0]]["name"] for entry in consumer["inputs"]]


def test_a_transformer_encoder_is_proved_and_its_fault_is_found(tmp_path: Path) -> None:
    graph, inputs, parameters = encoder()
    write_json(tmp_path / "net.json", graph)
    values = {name: parameter(name, shape, "float32", False) for name, shape in parameters.items()}
    write_arrays(tmp_path / "net.params", {f"arg:{name}": value for name, value in values.items()})
    feeds = {
        "data": parameter("data", inputs["data"], "float32", False),
        "valid_length": np.array([5, 3, 1], "float32"),
    }
    np.savez(tmp_path / "feeds.npz", **feeds)
    assert stages(proved(tmp_path)) == {
        "structure": "holds",
        "parameters": "fails",
        "values": "fails",
    }
