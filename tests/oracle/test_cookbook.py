"""The results of the cookbook's recipes load in MXNet and compute there what graphshare computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from tests.corpus.test_forward import difference
from tests.meta.test_docs import DOCS, GENERATE
from tests.oracle.conversation import Oracle

pytestmark = pytest.mark.oracle

IMAGE = (1, 3, 32, 32)
# Of each page the checkpoint that its blocks make, and the shapes of its inputs; labels and states are zeros.
RESULTS = {
    "features": ("features", {"data": IMAGE}),
    "mtcnn": (
        "mtcnn",
        {"p_data": (1, 3, 40, 60), "r_data": (2, 3, 24, 24), "o_data": (2, 3, 48, 48)},
    ),
    "triplet": (
        "triplet",
        {"data": (1, 3, 64, 64), "pos_data": (1, 3, 64, 64), "neg_data": (1, 3, 96, 96)},
    ),
    "heads": ("both", {"data": (1, 3, 64, 64), "smile_prob_label": (1,)}),
    "embedding": (
        "tied",
        {
            "data": (2, 7),
            "lstm_state": (1, 2, 16),
            "lstm_state_cell": (1, 2, 16),
            "softmax_label": (14,),
        },
    ),
    "ssd": ("deploy", {"data": IMAGE}),
    "gluon": ("net", {"data": (1, 3, 8, 8)}),
    "average": ("average", {"data": IMAGE, "softmax_label": (1,)}),
}


def draw_feeds(page: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Return images, or numbers of words below 50, for data, and zeros for labels and states.

    The detector does not scale its images, and boxes grow with the exponent of its offsets: it gets pixels from 0 to 2.
    """
    rng = np.random.default_rng(0)
    end, scale = {"embedding": (50, 1), "ssd": (256, 1 / 128)}.get(page, (256, 1))
    drawn = {
        name: rng.integers(0, end, shape) * scale * name.endswith("data")
        for name, shape in shapes.items()
    }
    return {name: array.astype(np.float32) for name, array in drawn.items()}


@pytest.mark.parametrize("page", RESULTS)
def test_the_result_of_a_recipe_in_mxnet(page: str, oracle: Oracle, tmp_path: Path) -> None:
    path = DOCS / "cookbook" / f"{page}.md"
    GENERATE.run_blocks(path.read_text(encoding="utf-8"), GENERATE.prepare_folder(tmp_path, path))
    stem, shapes = RESULTS[page]
    feeds = draw_feeds(page, shapes)
    np.savez(tmp_path / "feed.npz", **feeds)
    symbol = "gluon" if page == "gluon" else stem  # only its parameters are new
    files = {"path": str(tmp_path / f"{symbol}-symbol.json"), "keep": str(tmp_path / "kept.npz")}
    values = [str(tmp_path / f"{stem}-0000.params"), str(tmp_path / "feed.npz")]
    names = oracle.known("forward", values=values, **files)["names"]
    ours = gs.run(
        gs.load(tmp_path / f"{symbol}-symbol.json", params=tmp_path / f"{stem}-0000.params"),
        feeds=feeds,
    ).outputs
    assert list(ours) == names
    with np.load(tmp_path / "kept.npz") as theirs:
        for name in names:
            assert difference(ours[name], theirs[name]) <= 1e-5, name
