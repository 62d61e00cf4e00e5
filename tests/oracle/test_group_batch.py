"""``group`` and ``duplicate --mode batch``: in MXNet the results give the numbers of the models they were made from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.analysis.name_lists import internals
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.walk import reachable
from tests.oracle.commands import as_command, in_process
from tests.oracle.conversation import Oracle
from tests.oracle.models import Model, corpus_model
from tests.oracle.test_siamese import FEED, module_names
from tests.surroundings import ROOT

pytestmark = [pytest.mark.oracle, pytest.mark.corpus]

MTCNN = "YYuanAnyVision+mxnet_mtcnn_face_detection__model__det{}-symbol"
GENDER = "deepinsight+insightface__gender-age__model__model-symbol"
# A model, where to cut it into trunk and head, and whether its operators mix samples while training.
MODELS = [
    *((MTCNN.format(i), 0.5, False) for i in (1, 2, 3)),
    (GENDER, 0.5, True),
    ("nlp_bert_small", 0.0, False),
    ("rnn_cells_unrolled", 0.0, False),
]
CUT = [(stem, part) for stem, part, _ in MODELS if part]


def outputs(oracle: Oracle, directory: Path, **question: Any) -> dict[str, np.ndarray[Any, Any]]:
    kept = directory / "outputs.npz"
    names = oracle.known("forward", keep=str(kept), **question)["names"]
    with np.load(kept) as found:
        return {name: found[name] for name in names}


def near(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal but for the order of sums: a part runs in another memory layout, a batch in another blocking."""
    return a.shape == b.shape and bool(np.abs(a - b).max() <= 2e-6 * np.abs(b).max())


def saved(directory: Path, name: str, arrays: dict[str, Any]) -> str:
    np.savez(directory / name, **arrays)
    return str(directory / name)


def single(
    oracle: Oracle, model: Model, directory: Path, feed: dict[str, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    values = [str(model.params), saved(directory, "single.npz", feed)]
    return outputs(oracle, directory, path=str(model.graph), values=values)


@pytest.mark.parametrize(("stem", "part"), CUT)
def test_a_trunk_and_its_head_are_the_model_again(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str, part: float
) -> None:
    """The head twice: all outputs are what the whole model gives."""
    model = corpus_model(corpus, stem, tmp_path)
    graph = read_symbol(model.graph.read_bytes())
    names = [name for name, entry in internals(reachable(graph)) if not entry.node.is_variable]
    cut = _bottleneck(graph, names, part)
    targets = [
        word
        for name in dict.fromkeys(h.node.name for h in graph.heads)
        for word in ("--target", name)
    ]
    with_params = ["--params", model.params, "--params-out"]
    in_process(
        "extract",
        model.graph,
        "--target",
        cut,
        "-o",
        tmp_path / "trunk.json",
        *with_params,
        tmp_path / "trunk.params",
    )
    in_process(
        "extract",
        model.graph,
        *targets,
        "--cut",
        cut,
        "-o",
        tmp_path / "head.json",
        *with_params,
        tmp_path / "head.params",
    )
    files = [tmp_path / name for name in ("trunk.json", "head.json", "head.json")]
    params = [
        word
        for name in ("trunk", "head", "head")
        for word in ("--params", tmp_path / f"{name}.params")
    ]
    as_command(
        "group", *files, *params, "--connect", f"{cut}={cut}", "--on-collision", "prefix", "-o", tmp_path / "g.json",
        "--params-out", tmp_path / "g.params", "--verify-bytes",
    )  # fmt: skip
    whole = single(oracle, model, tmp_path, model.feed)
    feed = {**model.feed, **{f"head-{name}": array for name, array in model.feed.items()}}
    values = [str(tmp_path / "g.params"), saved(tmp_path, "feed.npz", feed)]
    found = outputs(oracle, tmp_path, path=str(tmp_path / "g.json"), values=values)
    assert list(found) == [*whole, *(f"head-{name}" for name in whole)]
    for name, array in whole.items():
        assert near(found[name], array)
        assert np.array_equal(found[f"head-{name}"], found[name])


def _bottleneck(graph: Any, names: list[str], part: float) -> str:
    """A unique output behind which nothing needs what is before it but through it, at about ``part`` of the graph."""
    from graphshare.rewrite.extract_graph import extract_graph

    targets = list(dict.fromkeys(head.node.name for head in graph.heads))
    after = [name for name in names[int(len(names) * part) :] if names.count(name) == 1]
    for name in after:
        rest = extract_graph(graph, targets, cuts=[name]).graph
        if not {n.name for n in rest.variables()} & {
            n.name for n in extract_graph(graph, [name]).graph.variables()
        }:
            return name
    raise AssertionError("no place to cut")


@pytest.mark.parametrize(("stem", "part", "mixes"), MODELS)
def test_a_batch_gives_each_branch_the_numbers_of_its_own_run(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str, part: float, mixes: bool
) -> None:
    model = corpus_model(corpus, stem, tmp_path)
    force = ["--force"] if mixes else []
    command = [
        "duplicate",
        model.graph,
        "--params",
        model.params,
        "--prefix",
        "sha-",
        "--mode",
        "batch",
    ]
    as_command(*command, *force, "-o", tmp_path / "b.json")
    other = {name: np.roll(array, 1) for name, array in model.feed.items()}
    feed = {**model.feed, **{f"sha-{name}": array for name, array in other.items()}}
    values = [str(model.params), saved(tmp_path, "feed.npz", feed)]
    found = outputs(oracle, tmp_path, path=str(tmp_path / "b.json"), values=values)
    wanted = [*single(oracle, model, tmp_path, model.feed).items()]
    wanted += [
        (f"sha-{name}", array) for name, array in single(oracle, model, tmp_path, other).items()
    ]
    assert len(found) == len(wanted)
    for (name, array), (label, got) in zip(wanted, found.items(), strict=True):
        assert label in (name, f"{name}_output")
        assert near(got, array)


@pytest.mark.parametrize("axis", [["--batch-axis", "data=1"], []])
def test_samples_on_another_axis(
    corpus: Path, oracle: Oracle, tmp_path: Path, axis: list[str]
) -> None:
    """The fused RNN takes (time, samples, features)."""
    model = corpus_model(corpus, "rnn_lstm", tmp_path)
    names = list(model.feed)
    command = [
        "duplicate",
        model.graph,
        "--params",
        model.params,
        "--prefix",
        "sha-",
        "--mode",
        "batch",
    ]
    if not axis:
        with pytest.raises(AssertionError, match="expects the samples on axis 1 of its data"):
            as_command(*command, "-o", tmp_path / "b.json")
        return
    states = [word for name in names[1:] for word in ("--batch-axis", f"{name}=1")]
    as_command(*command, "--batch-axis", f"{names[0]}=1", *states, "-o", tmp_path / "b.json")
    other = {name: array + 1 for name, array in model.feed.items()}
    feed = {**model.feed, **{f"sha-{name}": array for name, array in other.items()}}
    values = [str(model.params), saved(tmp_path, "feed.npz", feed)]
    found = list(outputs(oracle, tmp_path, path=str(tmp_path / "b.json"), values=values).values())
    wanted = [
        *single(oracle, model, tmp_path, model.feed).values(),
        *single(oracle, model, tmp_path, other).values(),
    ]
    assert all(near(got, array) for got, array in zip(found, wanted, strict=True))


def test_a_batch_trains_as_tied_branches_do(oracle: Oracle, tmp_path: Path) -> None:
    """One step of Module on the net of one filter: 42 before, and the sum of both gradients afterwards."""
    as_command(
        "duplicate",
        ROOT / "fixtures" / "blog",
        "--prefix",
        "sha-",
        "--mode",
        "batch",
        "-o",
        tmp_path / "siam",
    )
    names = module_names(tmp_path / "siam")
    assert names == {"data_names": ["data", "sha-data"], "label_names": []}
    files = {"path": f"{tmp_path}/siam-symbol.json", "params": f"{tmp_path}/siam-0000.params"}
    answer = oracle.known("module", feed=dict.fromkeys(names["data_names"], FEED), **names, **files)
    assert answer["before"] == [[42.0], [42.0]]
    assert answer["after"] == [[41.15999984741211], [41.15999984741211]]
    assert answer["outputs"] == ["makeloss0_output", "sha-makeloss0_output"]


@pytest.mark.parametrize("stem", [MTCNN.format(1), "nlp_bert_small"])
def test_mxnet_writes_a_result_as_it_stands(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str
) -> None:
    """After ``upgrade`` the batch is, byte for byte, what MXNet makes of it: nothing of it is lost there."""
    model = corpus_model(corpus, stem, tmp_path)
    in_process(
        "duplicate", model.graph, "--prefix", "sha-", "--mode", "batch", "-o", tmp_path / "b.json"
    )
    in_process("upgrade", tmp_path / "b.json", "-o", tmp_path / "u.json")
    assert (
        oracle.known("tojson", path=str(tmp_path / "b.json"))["text"]
        == (tmp_path / "u.json").read_text()
    )


@pytest.mark.parametrize(
    "stem", [MTCNN.format(1), MTCNN.format(2), MTCNN.format(3), GENDER, "nlp_bert_small"]
)
def test_one_part_for_each_head_on_the_same_parameters(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str
) -> None:
    """Each head is cut out with what it needs; grouped on one set of inputs and equal parameters they are the model."""
    model = corpus_model(corpus, stem, tmp_path)
    graph = read_symbol(model.graph.read_bytes())
    heads = list(dict.fromkeys(head.node.name for head in graph.heads))
    heads = heads if len(heads) > 1 else [heads[0], heads[0]]
    words: list[str | Path] = []
    for i, name in enumerate(heads):
        part = [tmp_path / f"p{i}.json", tmp_path / f"p{i}.params"]
        in_process(
            "extract", model.graph, "--params", model.params, "--target", name, "-o", part[0], "--params-out", part[1]
        )  # fmt: skip
        words += [part[0], "--params", part[1], "--prefix", f"p{i}-" if i else ""]
    common = ["--share-input", "*", "--on-collision", "tie-if-equal"]
    as_command(
        "group",
        *words,
        *common,
        "-o",
        tmp_path / "g.json",
        "--params-out",
        tmp_path / "g.params",
        "--verify-bytes",
    )
    lists = oracle.known("lists", path=str(tmp_path / "g.json"))
    whole_lists = oracle.known("lists", path=str(model.graph))
    # Each once; a prefix is left where one head alone has a parameter
    for kind in (
        "arguments",
        "auxiliary_states",
    ):
        assert sorted(re.sub(r"^p\d-", "", name) for name in lists[kind]) == sorted(
            whole_lists[kind]
        )
    whole = single(oracle, model, tmp_path, model.feed)
    feed = {
        prefix + name: array for prefix in ("", "p1-", "p2-") for name, array in model.feed.items()
    }
    values = [str(tmp_path / "g.params"), saved(tmp_path, "feed.npz", feed)]
    found = outputs(oracle, tmp_path, path=str(tmp_path / "g.json"), values=values)
    for i, name in enumerate(heads):
        label = next(output for output in whole if output.startswith(name))
        assert np.array_equal(found[f"p{i}-{label}" if i else label], whole[label])
