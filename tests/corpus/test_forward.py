"""Every recorded, deterministic forward of the corpus, computed again: one test per graph, and the counts.

The largest difference, relative to the largest finite output that MXNet computed, is held against a limit.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.execute.inference import infer
from graphshare.execute.plan import UnsupportedError, without_kernel
from graphshare.formats.parameter_files import read_index
from graphshare.formats.symbol import read_symbol
from graphshare.ir.graph import Graph
from graphshare.ir.walk import post_order
from graphshare.names import split_key
from graphshare.rules.listing import internals
from graphshare.transforms.upgrade import upgrade
from graphshare.workflows.run import run
from tests.corpus.values import parameter
from tests.surroundings import NONE, corpus_stems, recorded

pytestmark = pytest.mark.corpus

LIMIT = 1e-5
_DEEP = "float32 in another order through a deep network; MXNet's own distance from the same in float64 is larger than ours"
_BOXES = "boxes are exp() of what the network says, up to 1e12 and beyond, which multiplies a rounding of it"
LIMITS: dict[str, tuple[float, str]] = {
    "1996scarlet+ArcFace-Multiplex-Recognition__model__R50-symbol": (4e-5, _DEEP),
    "1996scarlet+ArcFace-Multiplex-Recognition__model__R50-symbol.v2": (4e-5, _DEEP),
    "Lohika-Labs+whatsonpizza__whatsonpizza_backend__models__mxnet__resnet-50-symbol": (3e-5, _DEEP),
    "cv_faster_rcnn_resnet50_v1b_voc": (4e-5, _BOXES),
    "cv_yolo3_darknet53_voc": (4e-4, _BOXES),
    "soumyaiitkgp+modelServer__yolo-symbol": (2e-4, _BOXES),
}
#: What differs and is not settled; a test that begins to pass must leave this list.
OPEN: dict[str, str] = {}


def is_recorded(meta: dict[str, Any]) -> bool:
    return bool(meta.get("forward")) and bool(meta.get("deterministic"))


STEMS = corpus_stems(is_recorded)
SHAPED = corpus_stems(lambda meta: bool(meta.get("internal_shapes")))


def graph_of(corpus: Path, stem: str) -> Graph:
    path = corpus / "graphs" / f"{stem}.json"
    return read_symbol(path.read_bytes(), where=path.name)


def difference(got: Any, wanted: Any) -> float:
    """The largest difference relative to the largest finite value; infinite where shapes or infinities differ."""
    got, wanted = np.asarray(got, "float64"), np.asarray(wanted, "float64")
    finite = np.isfinite(wanted)
    if got.shape != wanted.shape or not np.array_equal(np.isfinite(got), finite):
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - wanted[finite]).max() / (np.abs(wanted[finite]).max() or 1))


def forward(corpus: Path, stem: str) -> dict[str, Any]:
    """How far the outputs of a graph are from MXNet's, or which operators cannot be run."""
    meta = recorded(corpus, stem)
    arrays = np.load(corpus / "oracle" / f"{stem}.io.npz")
    params = read_index(corpus / meta["params_file"]) if meta.get("params_file") else None
    held = {split_key(record.key or "")[1] for record in params.records} if params else set()
    feeds = {key.removeprefix("in__"): arrays[key] for key in arrays.files if key.startswith("in__")}
    types = meta.get("arg_types") or {}
    for name, shape in {**meta["arg_shapes"], **meta["aux_shapes"]}.items():
        if name not in held and name not in feeds:
            feeds[name] = parameter(name, shape, types.get(name, "float32"), name in meta["aux_shapes"])
    try:
        done = run(graph_of(corpus, stem), params=params, feeds=feeds)
    except UnsupportedError as error:
        return {"unsupported": sorted({fault.message for fault in error.faults})}
    assert len(done.outputs) == len(meta["outputs"])
    pairs = ((got, arrays[f"out__{i}"]) for i, got in enumerate(done.outputs.values()))
    return {"difference": max(difference(got, wanted) for got, wanted in pairs)}


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run share, so that no graph is computed twice."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "forward"
    folder.mkdir(exist_ok=True)
    return folder


def outcome(corpus: Path, shared: Path, stem: str) -> dict[str, Any]:
    """What :func:`forward` says, computed once."""
    kept = shared / f"{stem}.json"
    if not kept.exists():
        text = json.dumps(forward(corpus, stem))
        beside = kept.with_suffix(f".{os.getpid()}")
        beside.write_text(text)
        beside.replace(kept)
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


_FUSED = ("_sg_mkldnn_conv",)
_FUSED_BOTH = (*_FUSED, "_sg_mkldnn_fully_connected")
_GLUON_CV = "dmlc+gluon-cv__gluoncv__model_zoo__quantized__"
UNSUPPORTED: dict[str, tuple[str, ...]] = {
    f"{_GLUON_CV}mobilenet1.0_int8-symbol": _FUSED,
    f"{_GLUON_CV}resnet50_v1_int8-symbol": _FUSED,
    f"{_GLUON_CV}ssd_512_mobilenet1.0_voc_int8-symbol": _FUSED,
    f"{_GLUON_CV}ssd_512_resnet50_v1_voc_int8-symbol": _FUSED,
    "quant_lenet_mkldnn_auto": _FUSED_BOTH,
    "quant_lenet_mkldnn_fp32": _FUSED_BOTH,
    "quant_lenet_mkldnn_uint8": _FUSED_BOTH,
}


@pytest.mark.parametrize("stem", STEMS)
def test_forward(stem: str, corpus: Path, shared: Path) -> None:
    assert stem != NONE
    found = outcome(corpus, shared, stem)
    operators = sorted({f"operator {op} cannot be run" for op in UNSUPPORTED.get(stem, ())})
    assert found.get("unsupported", []) == operators
    if stem in OPEN:
        assert found["difference"] > LIMIT, f"{stem} is settled: take it off the list"
    elif not operators:
        assert found["difference"] <= LIMITS.get(stem, (LIMIT, ""))[0]


def test_counts(corpus: Path, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    blocking: Counter[str] = Counter()
    for stem in STEMS:
        found = outcome(corpus, shared, stem)
        if "unsupported" in found:
            counts["unsupported"] += 1
            blocking.update(found["unsupported"])
        else:
            counts["run"] += 1
            counts[f"equal within {LIMIT:g}"] += found["difference"] <= LIMIT
    lines = [f"{len(STEMS):5} graphs with a recorded, deterministic forward"]
    lines += [f"{count:5} {what}" for what, count in counts.items()]
    lines += [f"{count:5} blocked: {what}" for what, count in blocking.most_common()]
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert counts[f"equal within {LIMIT:g}"] >= 140
    assert counts["unsupported"] == len(UNSUPPORTED)


SHAPED_BY_RUNNING = ("_foreach", "_while_loop", "_cond")  # their sub-graphs tell the shapes, and kernels know no graph


@pytest.mark.parametrize("stem", SHAPED)
def test_inferred_shapes(stem: str, corpus: Path) -> None:
    """From the shapes of the inputs alone every shape that follows is the one that MXNet inferred, and all follow that can."""
    meta = recorded(corpus, stem)
    graph = upgrade(graph_of(corpus, stem)).graph
    nodes = post_order(entry.node for entry in graph.heads)
    given = {n: meta["arg_shapes"][n.name] for n in nodes if n.is_variable and n.name in meta["input_names"]}
    types = {n: meta["arg_types"][n.name] for n in nodes if n.is_variable and n.name in (meta.get("arg_types") or {})}
    found = infer(graph, given, types, nodes=nodes)
    wrong, unknown = [], []
    repeated = Counter(name for name, _ in internals(nodes))
    for name, entry in internals(nodes):
        shape = found.shapes[entry.node][entry.index]
        wanted = meta["internal_shapes"].get(name)
        if wanted is None or repeated[name] > 1:
            continue
        if shape is None or None in shape:
            unknown.append(f"{entry.node.op} {name}: {shape}, where MXNet says {wanted}")
        elif list(shape) != list(wanted):
            wrong.append(f"{entry.node.op} {name}: {shape}, not {wanted}")
    assert wrong == []
    blind = without_kernel(nodes) or any(node.op in SHAPED_BY_RUNNING for node in nodes)
    assert unknown == [] or blind
