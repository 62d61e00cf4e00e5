"""``share`` against MXNet: tied parameters load, are listed once, and give the numbers of before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracle.commands import as_command, in_process
from tests.oracle.conversation import Oracle
from tests.oracle.models import Model, corpus_model, feed_file
from tests.oracle.test_models import TRAINED
from tests.processes import files_in

pytestmark = [pytest.mark.oracle, pytest.mark.corpus]

SHARED = [*TRAINED, "nlp_bert_small"]


def forward(
    oracle: Oracle,
    model: Model,
    graph: Path,
    params: Path,
    prefixes: tuple[str, ...],
    directory: Path,
) -> list[Any]:
    values = [str(params), feed_file(model, prefixes, directory)]
    outputs: list[Any] = oracle.known(
        "forward", path=str(graph), values=values, np_shape=model.np_shape
    )["outputs"]
    return outputs


def twins(model: Model, directory: Path, prefix: str) -> Path:
    """The stem of the model beside a copy of itself, each on parameters of its own."""
    in_process("duplicate", model.graph, "--params", model.params, "--prefix", prefix, "--upgrade",
               "-o", directory / "two", "--params-out", directory / "two-0000.params")  # fmt: skip
    return directory / "two"


@pytest.mark.parametrize("stem", SHARED)
def test_copies_tied_again_give_what_the_single_model_gives(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str
) -> None:
    model = corpus_model(corpus, stem, tmp_path)
    single = forward(oracle, model, model.graph, model.params, ("",), tmp_path)
    two = twins(model, tmp_path, "sha/")
    rules = tmp_path / "rules.json"
    rules.write_text(
        json.dumps({"version": 1, "reuse": "require", "rules": [{"alias": "sha/*", "to": "*"}]})
    )
    as_command("share", two, "--rules", rules, "-o", tmp_path / "one")
    graph, params = tmp_path / "one-symbol.json", tmp_path / "one-0000.params"
    assert forward(oracle, model, graph, params, ("", "sha/"), tmp_path) == single * 2

    before = oracle.known("lists", path=f"{two}-symbol.json", np_shape=model.np_shape)
    after = oracle.known("lists", path=str(graph), np_shape=model.np_shape)
    inputs = {prefix + name for prefix in ("", "sha/") for name in model.feed}
    for kind in ("arguments", "auxiliary_states"):
        assert after[kind] == [
            name for name in before[kind] if not name.startswith("sha/") or name in inputs
        ]
    assert after["outputs"] == before["outputs"]
    assert len(oracle.known("nd_load", path=str(params))) * 2 == len(
        oracle.known("nd_load", path=f"{two}-0000.params")
    )

    as_command("share", tmp_path / "one", "--untie", "*", "-o", tmp_path / "apart")
    apart = tmp_path / "apart-symbol.json"
    assert (
        forward(oracle, model, apart, tmp_path / "apart-0000.params", ("", "sha/"), tmp_path)
        == single * 2
    )


@pytest.mark.parametrize("stem", SHARED)
def test_a_scope_override_moves_parameters_and_nothing_else(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str
) -> None:
    model = corpus_model(corpus, stem, tmp_path)
    single = forward(oracle, model, model.graph, model.params, ("",), tmp_path)
    in_process("duplicate", model.graph, "--params", model.params, "--prefix", "left/", "--prefix", "right/", "--drop-original",
               "--upgrade", "-o", tmp_path / "two", "--params-out", tmp_path / "two-0000.params")  # fmt: skip
    as_command(
        "share",
        tmp_path / "two",
        "--override",
        "right=left",
        "--reuse",
        "require",
        "-o",
        tmp_path / "one",
    )
    graph, params = tmp_path / "one-symbol.json", tmp_path / "one-0000.params"
    before = oracle.known("lists", path=str(tmp_path / "two-symbol.json"), np_shape=model.np_shape)
    after = oracle.known("lists", path=str(graph), np_shape=model.np_shape)
    assert after["outputs"] == before["outputs"]
    kept = [
        name
        for name in before["arguments"]
        if name.startswith("left/") or name.removeprefix("right/") in model.feed
    ]
    assert after["arguments"] == kept
    assert forward(oracle, model, graph, params, ("left/", "right/"), tmp_path) == single * 2


def test_a_tied_auxiliary_state_is_counted_as_mxnet_counts(
    corpus: Path, oracle: Oracle, tmp_path: Path
) -> None:
    model = corpus_model(
        corpus, "deepinsight+insightface__gender-age__model__model-symbol", tmp_path
    )
    two = twins(model, tmp_path, "sha/")
    as_command("share", two, "--alias", "sha/*=*", "-o", tmp_path / "one")
    nodes = json.loads((tmp_path / "one-symbol.json").read_text())["nodes"]
    versions: dict[int, list[int]] = {}
    for node in nodes:
        if node["op"] == "BatchNorm":
            for entry in node["inputs"][3:]:
                versions.setdefault(entry[0], []).append(entry[2])
    assert {tuple(found) for found in versions.values()} == {(1, 2)}


def test_training_moves_one_set(oracle: Oracle, tmp_path: Path) -> None:
    rows = [[[[1.0, 2.0, 3.0]] * 3]]
    files = {
        "out": str(tmp_path / "two-symbol.json"),
        "params_out": str(tmp_path / "two-0000.params"),
    }
    weights = {"conv_weight": rows, "sha-conv_weight": rows}
    oracle.known("save", build={"prefixes": ["", "sha-"]}, values=weights, **files)
    as_command(
        "share", tmp_path / "two", "--alias", "sha-conv_weight=conv_weight", "-o", tmp_path / "one"
    )
    assert files_in(tmp_path) == [
        "one-0000.params",
        "one-symbol.json",
        "two-0000.params",
        "two-symbol.json",
    ]
    names = {"data_names": ["data", "sha-data"], "label_names": []}
    question = {
        "path": str(tmp_path / "one-symbol.json"),
        "params": str(tmp_path / "one-0000.params"),
    }
    answer = oracle.known(
        "module", feed=dict.fromkeys(names["data_names"], rows), **names, **question
    )
    assert answer["before"] == [[42.0], [42.0]]
    assert answer["after"] == [[41.15999984741211]] * 2
    assert list(answer["values"]) == ["conv_weight"]


@pytest.mark.parametrize("how", ["tie", "separate"])
def test_two_variables_of_one_name_are_repaired_either_way(
    corpus: Path, oracle: Oracle, tmp_path: Path, how: str
) -> None:
    source = corpus / "graphs" / "h2oai+deepwater__mxnet__test__symbol_unet-cpp.json"
    before = oracle.known("lists", path=str(source))["arguments"]
    assert len(set(before)) < len(before)
    as_command("share", source, "--doctor", how, "-o", tmp_path / "out.json")
    after = oracle.known("lists", path=str(tmp_path / "out.json"))["arguments"]
    assert len(set(after)) == len(after) == (len(set(before)) if how == "tie" else len(before))


@pytest.mark.parametrize("stem", ["hand_tied_fc", "hand_bn_shared_aux", "rnn_cells_unrolled"])
def test_untied_models_give_the_same_numbers(
    corpus: Path, oracle: Oracle, tmp_path: Path, stem: str
) -> None:
    model = corpus_model(corpus, stem, tmp_path)
    single = forward(oracle, model, model.graph, model.params, ("",), tmp_path)
    as_command("share", model.graph, "--params", model.params, "--untie", "*", "-o", tmp_path / "out",
               "--params-out", tmp_path / "out.params")  # fmt: skip
    apart = forward(
        oracle, model, tmp_path / "out-symbol.json", tmp_path / "out.params", ("",), tmp_path
    )
    assert apart == single
    counts = [len(np.unique(oracle.known("lists", path=str(path))["arguments"]))
              for path in (model.graph, tmp_path / "out-symbol.json")]  # fmt: skip
    assert counts[1] > counts[0]
