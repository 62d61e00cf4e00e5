"""``extract`` against MXNet's ``get_internals()``, ``rename`` there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.analysis.name_lists import internals
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.walk import reachable
from tests.oracle.commands import in_process
from tests.oracle.conversation import Oracle
from tests.oracle.models import corpus_model, feed_file
from tests.surroundings import corpus_stems, recorded

pytestmark = [pytest.mark.oracle, pytest.mark.corpus]

MTCNN = "YYuanAnyVision+mxnet_mtcnn_face_detection__model__det{}-symbol"
INTERNALS = [
    "cv_cifar_resnet20_v1",
    "zoo_mobilenet0_25",
    "cf_foreach",
    "hand_slicechannel_heads",
    "small_densenet",
    "rnn_lstm",
    MTCNN.format(2),
    MTCNN.format(3),
]
SAMPLED = 12


def sampled(names: list[str]) -> list[str]:
    """Some of the names that are unique, spread evenly; the last among them."""
    unique = [name for name in names if names.count(name) == 1]
    return unique[:: max(1, len(unique) // SAMPLED)] + unique[-1:]


@pytest.mark.parametrize("stem", INTERNALS)
def test_extract_is_what_get_internals_gives(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str
) -> None:
    source = corpus / "graphs" / f"{stem}.json"
    graph = read_symbol(source.read_bytes())
    names = [name for name, entry in internals(reachable(graph)) if not entry.node.is_variable]
    for name in sampled(names):
        out = tmp_path / "out.json"
        in_process("extract", source, "--target", name, "-o", out)
        assert oracle.known("lists", path=str(out)) == oracle.known(
            "lists", path=str(source), internal=name
        )


def outputs(oracle: Oracle, directory: Path, **question: Any) -> list[np.ndarray[Any, Any]]:
    """The outputs of a run, as numbers."""
    kept = directory / "outputs.npz"
    names = oracle.known("forward", keep=str(kept), **question)["names"]
    with np.load(kept) as found:
        return [found[name] for name in names]


# A model, where to cut it, and what is wanted.
CUTS = [
    ("cv_cifar_resnet20_v1", 0.5),
    ("zoo_mobilenet0_25", 0.3),
    (MTCNN.format(3), 0.4),
    ("small_densenet", 0.2),
    ("rnn_cells_unrolled", 0.3),
    ("nlp_textcnn", 0.3),
]


@pytest.mark.parametrize(("stem", "part"), CUTS)
def test_a_cut_graph_fed_with_the_cut_value_gives_the_same_number(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str, part: float
) -> None:
    model = corpus_model(corpus, stem, tmp_path)
    graph = read_symbol(model.graph.read_bytes())
    target = next(
        name for name, entry in internals(reachable(graph)) if entry.node is graph.heads[0].node
    )
    names = [name for name, entry in internals(reachable(graph)) if not entry.node.is_variable]
    cut = names[int(len(names) * part)]
    upper, lower = tmp_path / "upper.json", tmp_path / "lower.json"
    with_params = ["--params", model.params, "--params-out"]
    in_process("extract", model.graph, "--target", cut, "-o", upper)
    in_process(
        "extract", model.graph, "--target", target, "--cut", cut, "-o", lower, *with_params, tmp_path / "lower.params"
    )  # fmt: skip

    values = [str(model.params), feed_file(model, ("",), tmp_path)]
    kept = str(tmp_path / "cut.npz")
    oracle.known("forward", path=str(upper), values=values, keep=kept)
    with np.load(kept) as found:
        assert found.files == [cut]
    lower_values = [str(tmp_path / "lower.params"), values[1], kept]
    whole = outputs(oracle, tmp_path, path=str(model.graph), values=values)
    rest = outputs(oracle, tmp_path, path=str(lower), values=lower_values)
    # Behind a cut, a convolution gets its input in another memory layout than from its neighbour
    # and may sum in another order.
    assert np.abs(rest[0] - whole[0]).max() <= 1e-6 * np.abs(whole[0]).max()
    assert cut in oracle.known("lists", path=str(lower))["arguments"]


ROUND_TRIP = corpus_stems(lambda meta: meta["loads"])[::6]


@pytest.mark.parametrize("stem", ROUND_TRIP)
def test_a_rename_there_and_back(corpus: Path, oracle: Oracle, tmp_path: Path, stem: str) -> None:
    source, there, back = (
        corpus / "graphs" / f"{stem}.json",
        tmp_path / "there.json",
        tmp_path / "back.json",
    )
    in_process("rename", source, "--prefix", "sha/", "-o", there)
    in_process("rename", there, "--strip-prefix", "sha/", "-o", back)
    assert back.read_bytes() == source.read_bytes()
    np_shape = bool(recorded(corpus, stem)["is_np_shape"])
    single = oracle.known("lists", path=str(source), np_shape=np_shape)
    renamed = oracle.known("lists", path=str(there), np_shape=np_shape)
    for kind in ("arguments", "auxiliary_states"):
        assert renamed[kind] == ["sha/" + name if name else name for name in single[kind]]
