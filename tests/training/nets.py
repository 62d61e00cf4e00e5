"""Nets that MXNet's Module and graphshare both train: graphs, shapes, numbers. For Python 3.8 too, where MXNet runs.

A graph is a file of the corpus (``corpus:STEM``), a fixture (``fixture:STEM``) or a symbol recorded beside this module
A graph is a file of the corpus (``corpus:STEM``), a fixture (``fixture:STEM``) or a symbol recorded beside this module
draw MXNet's masks. The slopes of PReLU are frozen: MXNet's executor often writes the gradient of the data over the output's
before it forms theirs from it, so that they come out multiplied by the slope; when, its memory plan decides. Numbers follow
from names: those of parameters by ``tests/corpus/values.py``, inputs are seeded here.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.corpus.values import parameter

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

SGD = {"learning_rate": 0.01, "momentum": 0.9, "wd": 0.001}
"""The settings of every recording, unless a net has its own; rescale_grad is Module's own."""

KEPT = 12

# graph; new heads: (name of the node, operator, attributes), kept heads None; data and labels: shape and, of indices, limit.
NETS: dict[str, dict[str, Any]] = {
    "lenet": {
        "graph": "fixture:lenet",
        "heads": None,
        "data": {"data": ((8, 1, 28, 28), 0)},
        "labels": {"softmax_label": ((8,), 10)},
    },
    "resnet18_v1": {
        "graph": "recorded:resnet18_v1",
        "heads": [("net_dense0_fwd", "SoftmaxOutput", {})],
        "data": {"data": ((4, 3, 64, 64), 0)},
        "labels": {"loss0_label": ((4,), 1000)},
    },
    "mobilenetv2_0.25": {
        "graph": "recorded:mobilenetv2_0.25",
        "heads": [("net_output_flatten0_flatten0", "SoftmaxOutput", {})],
        "data": {"data": ((4, 3, 64, 64), 0)},
        "labels": {"loss0_label": ((4,), 1000)},
        # With its many kinks it is so sensitive that two builds of MXNet differ in every digit after a few steps of usual size.
        "beta": 2.0,
        "sgd": {"learning_rate": 0.001},
    },
    "lstm_ptb": {
        "graph": "corpus:awslabs+multi-model-server__examples__lstm_ptb__model__lstm_ptb-symbol",
        "heads": None,
        "data": {"data": ((4, 10), 10000)},
        "labels": {"softmax_label": ((4, 10), 10000)},
    },
    "bert_small": {
        "graph": "corpus:nlp_bert_small",
        "heads": [("bert_cls_fwd", "SoftmaxOutput", {})],
        "data": {"data0": ((4, 6), 40), "data1": ((4, 6), 2), "data2": ((4,), 6)},
        "labels": {"loss0_label": ((4,), 2)},
    },
    "det1": {
        "graph": "corpus:1996scarlet+ArcFace-Multiplex-Recognition__mtcnn-model__det1-symbol",
        "heads": [
            ("conv4_1", "SoftmaxOutput", {"multi_output": "True", "use_ignore": "True", "normalization": "valid"}),
            ("conv4_2", "LinearRegressionOutput", {"grad_scale": "0.05"}),
        ],
        "data": {"data": ((4, 3, 24, 24), 0)},
        "labels": {"loss0_label": ((4, 7, 7), 2), "loss1_label": ((4, 4, 7, 7), 0)},
    },
}


def symbol_text(name: str, corpus: Path | None) -> str:
    """The graph that is trained, as a symbol file."""
    kind, stem = NETS[name]["graph"].split(":", 1)
    if kind == "recorded":
        text = gzip.decompress((HERE / "recorded" / (stem + ".json.gz")).read_bytes()).decode()
    elif kind == "fixture":
        text = (ROOT / "fixtures" / (stem + "-symbol.json")).read_text()
    else:
        assert corpus is not None
        text = (corpus / "graphs" / (stem + ".json")).read_text()
    graph = json.loads(text)
    nodes = graph["nodes"]
    for node in nodes:
        if node["op"] == "Dropout":
            node[next(key for key in ("attrs", "attr", "param") if key in node)]["p"] = "0"
        if node["op"] == "null" and node["name"].startswith("prelu"):
            node.setdefault("attrs", {})["__lr_mult__"] = "0.0"
    if NETS[name]["heads"] is not None:
        graph["heads"] = []
        for number, (head, op, attrs) in enumerate(NETS[name]["heads"]):
            place = next(i for i, node in enumerate(nodes) if node["name"] == head)
            nodes.append({"op": "null", "name": f"loss{number}_label", "inputs": []})
            graph["arg_nodes"].append(len(nodes) - 1)
            inputs = [[place, 0, 0], [len(nodes) - 1, 0, 0]]
            nodes.append({"op": op, "name": f"loss{number}", "attrs": attrs, "inputs": inputs})
            graph["heads"].append([len(nodes) - 1, 0, 0])
        graph.pop("node_row_ptr", None)
    return json.dumps(graph)


def settings(name: str) -> dict[str, float]:
    """The settings that a net is trained with."""
    return {**SGD, **NETS[name].get("sgd", {})}


def inputs(name: str) -> dict[str, Any]:
    """The values of data and labels."""
    found = {}
    for key, (shape, limit) in {**NETS[name]["data"], **NETS[name]["labels"]}.items():
        stream = np.random.RandomState(zlib.crc32(f"{name}:{key}".encode()))
        value = stream.randint(0, limit, size=shape) if limit else stream.standard_normal(shape)
        found[key] = value.astype("float32")
    if name == "bert_small":
        found["data2"] = 1 + found["data2"] % 6  # valid lengths
    return found


def first_value(name: str, key: str, shape: Any, auxiliary: bool) -> Any:
    """What a parameter or an auxiliary state begins as."""
    value = parameter(key, shape, "float32", auxiliary)
    return value + np.float32(NETS[name].get("beta", 0.0)) if key.endswith("beta") else value


def places(name: str, size: int) -> Any:
    """Which numbers of a parameter a recording keeps, drawn from its name."""
    return np.random.RandomState(zlib.crc32(name.encode())).randint(0, size, size=KEPT)


def summary(name: str, before: Any, after: Any) -> Any:
    """What a recording keeps of a parameter after some steps: sizes of the change and of the values, sums, and samples.

    The largest absolute value and change, the sums of values, of their squares and of changes, then for each of ``KEPT`` places
    the value and the change; in float32, computed in float64.
    """
    old, new = np.asarray(before, "float64").reshape(-1), np.asarray(after, "float64").reshape(-1)
    change = new - old
    kept = places(name, new.size)
    sizes = [np.abs(new).max(), np.abs(change).max(), new.sum(), np.square(new).sum(), change.sum()]
    return np.concatenate([sizes, new[kept], change[kept]]).astype("float32")
