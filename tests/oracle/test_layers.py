"""``compare --layers`` with a record of MXNet's ``get_internals()``: real models agree, and a fault is located."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from tests.oracle.conversation import Oracle
from tests.oracle.models import corpus_model
from tests.processes import done, graphshare

pytestmark = [pytest.mark.oracle, pytest.mark.corpus]

# A model, and the tolerance by which inner outputs agree with those of MXNet.
MODELS = {
    "YYuanAnyVision+mxnet_mtcnn_face_detection__model__det1-symbol": "1e-5",
    "YYuanAnyVision+mxnet_mtcnn_face_detection__model__det3-symbol": "1e-5",
    "deepinsight+insightface__gender-age__model__model-symbol": "1e-5",
    "nlp_bert_small": "1e-5",
}


@pytest.mark.parametrize("stem", MODELS)
def test_every_inner_output_is_that_of_mxnet(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str
) -> None:
    model = corpus_model(corpus, stem, tmp_path)
    np.savez(tmp_path / "feed.npz", **model.feed)
    values = [str(model.params), str(tmp_path / "feed.npz")]
    record = str(tmp_path / "mxnet.npz")
    names = oracle.known(
        "forward", path=str(model.graph), values=values, keep=record, internals=True
    )["names"]
    arguments = ["compare", str(model.graph), record, "--params", str(model.params), "--layers"]
    with np.load(record) as found:
        np.savez(record, **model.feed, **found)
    run = done(graphshare(*arguments, "--rtol", MODELS[stem], "--format", "json"))
    layers = json.loads(run.stdout)["branches"][0]["rounds"][0]["layers"]
    assert {layer["reference"] for layer in layers} == set(names)

    checkpoint = gs.load(model.graph, params=model.params)
    weight = next(name for name in checkpoint.params if name.endswith("weight"))
    changed = checkpoint.with_params({weight: np.asarray(checkpoint.params[weight]) * 1.5})
    report = gs.compare(changed, record, layers=True, tolerance=gs.Tolerance(atol=1e-8, rtol=1e-3))
    first = report.branches[0].rounds[0].first
    assert first is not None
    node = next(node for node in checkpoint.graph.nodes if node.name == first.node)
    assert any(entry.node.name == weight for entry in node.inputs)
    layers = report.branches[0].rounds[0].layers
    assert next(layer for layer in layers if not layer.comparison) == first
