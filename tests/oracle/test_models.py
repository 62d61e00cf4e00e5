"""Models of the corpus, duplicated: in MXNet every branch gives, to the bit, what the single model gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.commands import as_command, in_process
from tests.oracle.conversation import Oracle
from tests.oracle.models import Model, corpus_model, feed_file

pytestmark = [pytest.mark.oracle, pytest.mark.corpus]

MTCNN = "YYuanAnyVision+mxnet_mtcnn_face_detection__model__det{}-symbol"
TRAINED = [
    *(MTCNN.format(i) for i in (1, 2, 3)),
    "deepinsight+insightface__gender-age__model__model-symbol",
    "cv_cifar_resnet20_v1",
    "zoo_mobilenet0_25",
]
# Control flow, int8, shared auxiliary states, Module's names, odd names, np-shape, recurrent cells.
SPECIAL = [
    "cf_foreach",
    "cf_while_loop",
    "hand_bn_shared_aux",
    "hand_bn_output_mean_var",
    "hand_duplicate_op_names",
    "hand_slicechannel_heads",
    "hand_tied_fc",
    "np_mlp",
    "nlp_bert_small",
    "rnn_lstm",
    "rnn_cells_unrolled",
    "small_densenet",
]
INT8 = ["quant_lenet_plain_uint8", "quant_lenet_mkldnn_uint8", "quant_lenet_mkldnn_auto"]


def check_branches(
    model: Model, oracle: Oracle, directory: Path, prefixes: tuple[str, ...]
) -> None:
    """Runs the single model and its duplicate, and compares every output of every branch."""
    shape = {"np_shape": model.np_shape}
    single = oracle.known(
        "forward",
        path=str(model.graph),
        values=[str(model.params), feed_file(model, ("",), directory)],
        **shape,
    )
    out = {
        "path": str(directory / "twin-symbol.json"),
        "values": [str(directory / "twin-0000.params")],
    }
    out["values"].append(feed_file(model, ("", *prefixes), directory))
    twin = oracle.known("forward", **out, **shape)
    assert twin["outputs"] == single["outputs"] * (len(prefixes) + 1)
    assert twin["outputs"]
    assert len(twin["names"]) == len(twin["outputs"])


@pytest.mark.parametrize("mode", ["copy", "tie"])
@pytest.mark.parametrize("stem", TRAINED)
def test_a_trained_pair(corpus: Path, oracle: Oracle, tmp_path: Path, stem: str, mode: str) -> None:
    model = corpus_model(corpus, stem, tmp_path)
    as_command(
        "duplicate", model.graph, "--params", model.params, "--prefix", "sha-", "--mode", mode, "-o", tmp_path / "twin",
        "--params-out", tmp_path / "twin-0000.params",
    )  # fmt: skip
    check_branches(model, oracle, tmp_path, ("sha-",))


@pytest.mark.parametrize("mode", ["copy", "tie"])
@pytest.mark.parametrize("stem", SPECIAL)
def test_a_special_model(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str, mode: str
) -> None:
    special(corpus, oracle, tmp_path, stem, mode)


@pytest.mark.parametrize("mode", ["copy", "tie"])
@pytest.mark.parametrize("stem", INT8)
def test_an_int8_model(
    corpus: Path, fresh_oracle: Oracle, tmp_path: Path, stem: str, mode: str
) -> None:
    special(corpus, fresh_oracle, tmp_path, stem, mode)


def special(corpus: Path, oracle: Oracle, directory: Path, stem: str, mode: str) -> None:
    model = corpus_model(corpus, stem, directory)
    if stem == "cf_while_loop":
        # Runs to its end: what is past the last step is uninitialised
        model.feed["lim"] = model.feed["lim"] + 100
    in_process(
        "duplicate", model.graph, "--params", model.params, "--prefix", "one/", "--prefix", "two.", "--mode", mode,
        "-o", directory / "twin", "--params-out", directory / "twin-0000.params",
    )  # fmt: skip
    check_branches(model, oracle, directory, ("one/", "two."))
