"""Nets that MXNet's Module and graphshare both train: graphs, shapes, numbers. For Python 3.8 too, where MXNet runs.

A graph is a file of the corpus (``corpus:STEM``), a fixture (``fixture:STEM``) or a symbol recorded
beside this module (``recorded:STEM``). Dropout lets all through, for nobody can draw MXNet's masks.
Numbers follow from names: those of parameters by ``tests/corpus/values.py``, inputs are seeded
here.

MXNet's PReLU gives wrong gradients of its slopes where it writes the gradient of the data over the
output's, which it reads for the slopes afterwards; ``tests/oracle/test_prelu.py`` has the proof. So
det1 is trained twice: with frozen slopes, where both use PReLU itself, and with its slopes, where
MXNet computes PReLU by other operators (``spelled_out``).

MobileNet starts with its betas raised by 3, halfway between the kinks of relu6, and ResNet with its
betas raised by 1, so that few activations are near a kink. An activation within rounding of one
passes it with the instructions of one processor and not with another's, which changes a gradient by
up to a twentieth: MXNet with AVX2 and with AVX-512 did so in ResNet. As MobileNet is drawn it is
chaotic: ten steps of MXNet in float32 and in float64 end in different places, as
``tests/oracle/test_training.py`` shows.
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

SGD = {
    key: float(np.float32(value))
    for key, value in {"learning_rate": 0.01, "momentum": 0.9, "wd": 0.001}.items()
}
"""The settings of every recording, as MXNet holds them whatever the type of the parameters;
rescale_grad is Module's own.
"""

STEPS = (1, 10)
"""After how many steps parameters are compared."""

KEPT = 24
SLICES = 8

_MOBILENET = {
    "graph": "recorded:mobilenetv2_0.25",
    "heads": [("net_output_flatten0_flatten0", "SoftmaxOutput", {})],
    "data": {"data": ((4, 3, 64, 64), 0)},
    "labels": {"loss0_label": ((4,), 1000)},
}
# MXNet divides factors of losses in float32 whatever the type: by 196 labels, by 196 outputs a
# sample. These go exactly.
_MTCNN = {
    "graph": "corpus:1996scarlet+ArcFace-Multiplex-Recognition__mtcnn-model__det1-symbol",
    "heads": [
        (
            "conv4_1",
            "SoftmaxOutput",
            {
                "multi_output": "True",
                "use_ignore": "True",
                "normalization": "valid",
                "grad_scale": "0.765625",
            },
        ),
        ("conv4_2", "LinearRegressionOutput", {"grad_scale": "0.0478515625"}),
    ],
    "data": {"data": ((4, 3, 24, 24), 0)},
    "labels": {"loss0_label": ((4, 7, 7), 2), "loss1_label": ((4, 4, 7, 7), 0)},
}

# graph; new heads: (name of the node, operator, attributes), kept heads None; data and labels:
# shape and, of indices, limit.
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
        "beta": 1.0,
    },
    "mobilenetv2_0.25": {**_MOBILENET, "beta": 3.0},
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
    "det1": {**_MTCNN, "frozen": "prelu"},
    "det1_slopes": {**_MTCNN, "spelled_out": True},
}

LIVE: dict[str, dict[str, Any]] = {"mobilenetv2_0.25_unmoved": _MOBILENET}
"""Nets that are compared with a living MXNet alone."""


def net(name: str) -> dict[str, Any]:
    """One of all of them."""
    return NETS[name] if name in NETS else LIVE[name]


def symbol_text(name: str, corpus: Path | None, dtype: str = "float32") -> str:
    """The graph that is trained, as a symbol file; one that asks for float32 by itself asks for ``dtype``."""
    kind, stem = net(name)["graph"].split(":", 1)
    if kind == "recorded":
        text = gzip.decompress((HERE / "recorded" / (stem + ".json.gz")).read_bytes()).decode()
    elif kind == "fixture":
        text = (ROOT / "fixtures" / (stem + "-symbol.json")).read_text()
    else:
        assert corpus is not None
        text = (corpus / "graphs" / (stem + ".json")).read_text()
    graph = json.loads(text)
    for node in graph["nodes"]:
        _prepare(node, net(name).get("frozen"), dtype)
    if net(name)["heads"] is not None:
        _end_in(graph, net(name)["heads"])
    return json.dumps(graph)


def _prepare(node: dict[str, Any], frozen: str | None, dtype: str) -> None:
    """Takes chance and foreign types out of a node."""
    attrs = node.setdefault(
        next((key for key in ("attrs", "attr", "param") if key in node), "attrs"), {}
    )
    if node["op"] == "Dropout":
        attrs["p"] = "0"
    if node["op"] == "null" and frozen and node["name"].startswith(frozen):
        attrs["__lr_mult__"] = "0.0"
    if "__dtype__" in attrs:
        attrs["__dtype__"] = {"float32": "0", "float64": "1"}[dtype]
    if node["op"] in ("Embedding", "_zeros") and attrs.get("dtype", "float32") == "float32":
        attrs["dtype"] = dtype


def _end_in(graph: dict[str, Any], heads: list[Any]) -> None:
    """Replaces the heads of a graph by losses, each with a label."""
    nodes = graph["nodes"]
    graph["heads"] = []
    for number, (head, op, attrs) in enumerate(heads):
        place = next(i for i, node in enumerate(nodes) if node["name"] == head)
        nodes.append({"op": "null", "name": f"loss{number}_label", "inputs": []})
        graph["arg_nodes"].append(len(nodes) - 1)
        inputs = [[place, 0, 0], [len(nodes) - 1, 0, 0]]
        nodes.append({"op": op, "name": f"loss{number}", "attrs": attrs, "inputs": inputs})
        graph["heads"].append([len(nodes) - 1, 0, 0])
    graph.pop("node_row_ptr", None)


def without_prelu(text: str) -> str:
    """A graph in which PReLU is ``relu(x) - slope * relu(-x)``: the same function of the same parameters."""
    graph = json.loads(text)
    found: list[dict[str, Any]] = []
    places: list[int] = []

    def add(op: str, name: str, inputs: list[int], **attrs: str) -> int:
        found.append(
            {"op": op, "name": name, "attrs": attrs, "inputs": [[i, 0, 0] for i in inputs]}
        )
        return len(found) - 1

    for node in graph["nodes"]:
        moved = [[places[entry[0]], *entry[1:]] for entry in node["inputs"]]
        attrs = node.get("attrs") or node.get("attr") or node.get("param") or {}
        if node["op"] == "LeakyReLU" and attrs["act_type"] == "prelu":
            (x, *_), (slope, *_) = moved
            source = found[x]
            filters = (source.get("attrs") or source.get("attr") or source["param"])["num_filter"]
            found[slope]["attrs"] = {**found[slope].get("attrs", {}), "__shape__": f"({filters},)"}
            above = add("Activation", node["name"] + "_above", [x], act_type="relu")
            below = add(
                "Activation",
                node["name"] + "_below",
                [add("negative", node["name"] + "_minus", [x])],
                act_type="relu",
            )
            shaped = add("Reshape", node["name"] + "_slopes", [slope], shape="(1,-1,1,1)")
            scaled = add("broadcast_mul", node["name"] + "_scaled", [shaped, below])
            add("elemwise_sub", node["name"], [above, scaled])
        else:
            found.append({**node, "inputs": moved})
        places.append(len(found) - 1)
    graph["nodes"] = found
    graph["arg_nodes"] = [i for i, node in enumerate(found) if node["op"] == "null"]
    graph["heads"] = [[places[entry[0]], *entry[1:]] for entry in graph["heads"]]
    graph.pop("node_row_ptr", None)
    return json.dumps(graph)


def inputs(name: str) -> dict[str, Any]:
    """The values of data and labels."""
    found = {}
    for key, (shape, limit) in {**net(name)["data"], **net(name)["labels"]}.items():
        stream = np.random.RandomState(zlib.crc32(f"{name}:{key}".encode()))
        value = stream.randint(0, limit, size=shape) if limit else stream.standard_normal(shape)
        found[key] = value.astype("float32")
    if name == "bert_small":
        found["data2"] = 1 + found["data2"] % 6  # valid lengths
    return found


def first_value(name: str, key: str, shape: Any, auxiliary: bool) -> Any:
    """What a parameter or an auxiliary state begins as."""
    value = parameter(key, shape, "float32", auxiliary)
    return value + np.float32(net(name).get("beta", 0.0)) if key.endswith("beta") else value


def summary(name: str, before: Any, after: Any) -> Any:
    """What a recording keeps of a parameter after some steps; in float32, computed in float64.

    The largest absolute value and change; for each of ``SLICES`` slices of the flat array the sum
    of the changes, each with a sign drawn from ``name``, divided by the square root of their
    number, which no error of some extent leaves as it is; and the changes of ``KEPT`` elements
    drawn from it.
    """
    old, new = np.asarray(before, "float64").reshape(-1), np.asarray(after, "float64").reshape(-1)
    change = new - old
    stream = np.random.RandomState(zlib.crc32(name.encode()))
    places = stream.randint(0, new.size, size=KEPT)
    signs = (
        2.0 * np.unpackbits(np.frombuffer(stream.bytes(new.size // 8 + 1), "uint8"))[: new.size] - 1
    )
    sums = [
        part.sum() / max(1.0, np.sqrt(part.size)) for part in np.array_split(signs * change, SLICES)
    ]
    return np.array([np.abs(new).max(), np.abs(change).max(), *sums, *change[places]], "float32")
