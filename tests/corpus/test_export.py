"""Every recorded, deterministic forward of the corpus as an ONNX model in onnxruntime, against what MXNet recorded."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.api.export import export
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import RefusedError
from graphshare.execute.run import run
from graphshare.formats.params.registry import read_index
from graphshare.ops.registry import canonical
from graphshare.text.names import split_key
from tests.corpus.tails import ORDERING, difference_of_sets
from tests.corpus.test_forward import (
    EXPONENTIAL,
    STEMS,
    as_logarithm,
    difference,
    graph_of,
    recorded_inputs,
    recorded_outputs,
    seeded_feeds,
)
from tests.surroundings import recorded

pytestmark = [pytest.mark.corpus, pytest.mark.large]

LIMIT = 1e-5
_DEEP = "the last bits of a deep network, shown by a softmax; onnxruntime is at 1.1e-5 from float64 at most, MXNet at 2.7e-5"
_EXPONENTS = "exponents up to 85; where they go into the suppression onnxruntime is as near to float64 (6e-6) as our executor"
LIMITS: dict[str, tuple[float, str]] = {
    "1996scarlet+ArcFace-Multiplex-Recognition__model__R50-symbol": (4e-5, _DEEP),
    "1996scarlet+ArcFace-Multiplex-Recognition__model__R50-symbol.v2": (4e-5, _DEEP),
    "Lohika-Labs+whatsonpizza__whatsonpizza_backend__models__mxnet__resnet-50-symbol": (3e-5, _DEEP),
    "cv_yolo3_darknet53_voc": (2e-5, _EXPONENTS),
}
"""Graphs that may differ by more, each with the reason; that float64 is on the side of the deep ones has a test of its own."""
REFUSED: dict[str, str] = {}
"""Graphs that are not exported, each with a part of the message."""


def exported(corpus: Path, stem: str, folder: Path) -> dict[str, Any]:
    """How far the outputs in onnxruntime are from MXNet's, and how they were compared; or why there is no model."""
    try:
        got = computed(corpus, stem, folder)
    except RefusedError as error:
        return {"refused": sorted({fault.message for fault in error.faults})}
    found, how = distance(corpus, stem, got, recorded_outputs(corpus, stem))
    return {"difference": found, "compared": how}


def computed(corpus: Path, stem: str, folder: Path) -> list[Any]:
    """Export a graph on the recorded inputs and return what onnxruntime computes. Raises RefusedError."""
    import onnxruntime

    meta = recorded(corpus, stem)
    params = read_index(corpus / meta["params_file"]) if meta.get("params_file") else None
    held = {split_key(record.key or "")[1] for record in params.records} if params else set()
    graph = graph_of(corpus, stem)
    feeds = seeded_feeds(corpus, stem, held)
    inputs = {name: feeds.pop(name) for name in recorded_inputs(corpus, stem)}
    path = folder / f"{stem}.{os.getpid()}.onnx"
    export(Checkpoint(graph, params).with_params(feeds), path, feeds=inputs, as_input=list(inputs), verify=False)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    path.unlink()
    return list(session.run(None, {value.name: inputs[value.name] for value in session.get_inputs()}))


def distance(corpus: Path, stem: str, got: Sequence[Any], wanted: Sequence[Any]) -> tuple[float, str]:
    """Return how far outputs are from others, relative to the largest, and how they were compared."""
    assert len(got) == len(wanted)
    if stem in EXPONENTIAL:
        got, wanted = ([as_logarithm(x) for x in side] for side in (got, wanted))
    found = max(map(difference, got, wanted))
    if found > LIMIT and any(canonical(node.op) in ORDERING for node in graph_of(corpus, stem).nodes):
        return difference_of_sets(got, wanted), "as sets"
    return found, "as logarithms" if stem in EXPONENTIAL else "in place"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run share, so that no graph is exported twice."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "export"
    folder.mkdir(exist_ok=True)
    return folder


def outcome(corpus: Path, shared: Path, stem: str) -> dict[str, Any]:
    """What :func:`exported` says, computed once."""
    kept = shared / f"{stem}.json"
    if not kept.exists():
        text = json.dumps(exported(corpus, stem, shared))
        beside = kept.with_suffix(f".{os.getpid()}")
        beside.write_text(text)
        beside.replace(kept)
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


@pytest.mark.parametrize("stem", STEMS)
def test_export(stem: str, corpus: Path, shared: Path) -> None:
    found = outcome(corpus, shared, stem)
    if stem in REFUSED:
        assert any(REFUSED[stem] in message for message in found["refused"])
        return
    assert "refused" not in found, found["refused"]
    assert found["difference"] <= LIMITS.get(stem, (LIMIT, ""))[0]


def test_counts(corpus: Path, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    blocking: Counter[str] = Counter()
    for stem in STEMS:
        found = outcome(corpus, shared, stem)
        if "refused" in found:
            counts["refused"] += 1
            blocking.update(found["refused"])
        else:
            limit = LIMITS.get(stem, (LIMIT, ""))[0]
            counts["exported"] += 1
            counts[f"equal within {limit:g}"] += found["difference"] <= limit
            counts[f"compared {found['compared']}"] += 1
    lines = [f"{len(STEMS):5} graphs with a recorded, deterministic forward"]
    lines += [f"{count:5} {what}" for what, count in counts.items()]
    lines += [f"{count:5} blocked: {what}" for what, count in blocking.most_common()]
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert counts["exported"] == len(STEMS) - len(REFUSED)
    assert counts[f"equal within {LIMIT:g}"] == counts["exported"] - len(LIMITS)


@pytest.mark.parametrize("stem", [stem for stem, (_, why) in LIMITS.items() if why == _DEEP])
def test_an_exception_is_nearer_to_float64_than_mxnet(stem: str, corpus: Path, tmp_path: Path) -> None:
    graph, feeds = graph_of(corpus, stem), seeded_feeds(corpus, stem, set())
    wide = {name: x.astype("float64") if x.dtype == np.float32 else x for name, x in feeds.items()}
    exact = [np.asarray(x) for x in run(graph, feeds=wide).outputs.values()]
    ours, _ = distance(corpus, stem, computed(corpus, stem, tmp_path), exact)
    others, _ = distance(corpus, stem, recorded_outputs(corpus, stem), exact)
    assert ours < others
