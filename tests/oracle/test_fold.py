"""``fold`` against MXNet: the folded files load there, with the outputs of the original ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.corpus.test_forward import difference
from tests.oracle.commands import as_command
from tests.oracle.conversation import Oracle
from tests.oracle.models import corpus_model, feed_file

pytestmark = [pytest.mark.oracle, pytest.mark.corpus]

FOLDED = [
    "deepinsight+insightface__gender-age__model__model-symbol",
    "cv_cifar_resnet20_v1",
    "zoo_mobilenet0_25",
    "cv_simple_pose_resnet18_v1b",  # Deconvolution
    "KeyKy+mobilenet-mxnet__mobilenet_v2-symbol",
    "small_densenet",
]


@pytest.mark.parametrize("stem", FOLDED)
def test_mxnet_computes_the_same_from_folded_files(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str
) -> None:
    model = corpus_model(corpus, stem, tmp_path)
    as_command("fold", model.graph, "--params", model.params, "-o", tmp_path / "folded.json",
               "--params-out", tmp_path / "folded.params")  # fmt: skip
    feed = feed_file(model, ("",), tmp_path)
    results = []
    for graph, params in (
        (model.graph, model.params),
        (tmp_path / "folded.json", tmp_path / "folded.params"),
    ):
        kept = tmp_path / f"{len(results)}.npz"
        names = oracle.known(
            "forward",
            path=str(graph),
            values=[str(params), feed],
            np_shape=model.np_shape,
            keep=str(kept),
        )
        with np.load(kept) as arrays:
            results.append((names["names"], [arrays[name] for name in names["names"]]))
    assert results[0][0] == results[1][0]
    assert max(map(difference, results[1][1], results[0][1])) <= 1e-5


def test_a_folded_siamese_network(corpus: Path, oracle: Oracle, tmp_path: Path) -> None:
    """Two branches on one set of weights and statistics: each weight is folded once, and both
    branches stay what they were.
    """
    model = corpus_model(corpus, "cv_cifar_resnet20_v1", tmp_path)
    as_command("duplicate", model.graph, "--params", model.params, "--prefix", "sha-", "--mode", "tie",
               "-o", tmp_path / "two.json", "--params-out", tmp_path / "two.params")  # fmt: skip
    as_command("fold", tmp_path / "two.json", "--params", tmp_path / "two.params",
               "-o", tmp_path / "folded.json", "--params-out", tmp_path / "folded.params")  # fmt: skip
    feed = feed_file(model, ("", "sha-"), tmp_path)
    found = []
    for name in ("two", "folded"):
        kept = str(tmp_path / f"{name}.npz")
        oracle.known(
            "forward",
            path=str(tmp_path / f"{name}.json"),
            values=[str(tmp_path / f"{name}.params"), feed],
            keep=kept,
        )
        with np.load(kept) as arrays:
            found.append([arrays[key] for key in arrays.files])
    assert max(map(difference, found[1], found[0])) <= 1e-5
    assert not oracle.known("lists", path=str(tmp_path / "folded.json"))["auxiliary_states"]
