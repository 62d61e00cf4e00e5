"""Every graph of the corpus that MXNet loads, duplicated: MXNet loads it again, and its lists are
the single graph's twice.

What is expected comes from MXNet's lists of the single graph, never from graphshare.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from graphshare.analysis.name_lists import NameLists, list_implied_variables
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.convert import stage_params
from graphshare.formats.params.format import read_index
from graphshare.ir.graph import Graph
from tests.oracle.commands import in_process
from tests.oracle.conversation import Oracle
from tests.surroundings import NONE, corpus_directory, corpus_names, corpus_stems, recorded

pytestmark = [pytest.mark.oracle, pytest.mark.corpus]

PREFIX = "sha-"
# A parameter whose name and uses do not tell so; the file it is in would.
UNTOLD = frozenset({"M"})
LOADED = corpus_stems(lambda meta: meta["loads"])


def prefixed(names: list[str]) -> list[str]:
    return [PREFIX + name for name in names]


def second_outputs(graph: Graph, names: list[str], tied: Collection[str] = ()) -> list[str]:
    """The outputs of the other branch: a node without a name gets none, so its outputs keep theirs;
    so do tied variables.
    """
    heads = zip(graph.heads, names, strict=True)
    return [
        PREFIX + name if head.node.name and not (head.node.is_variable and name in tied) else name
        for head, name in heads
    ]


def our_lists(path: Path) -> dict[str, list[str]]:
    lists = NameLists(read_symbol(path.read_bytes()))
    return {
        "arguments": lists.arguments,
        "auxiliary_states": lists.auxiliary_states,
        "outputs": lists.outputs,
        "inputs": [variable.name for variable in lists.variables],
    }


@pytest.mark.parametrize("stem", LOADED)
def test_a_copied_graph(corpus: Path, oracle: Oracle, tmp_path: Path, stem: str) -> None:
    source, out = corpus / "graphs" / f"{stem}.json", tmp_path / "twin.json"
    in_process("duplicate", source, "--prefix", PREFIX, "-o", out)
    np_shape = bool(recorded(corpus, stem)["is_np_shape"])
    single = oracle.known("lists", path=str(source), np_shape=np_shape)
    twin = oracle.known("lists", path=str(out), np_shape=np_shape)
    for kind in ("arguments", "auxiliary_states", "inputs"):
        # The same names in both branches: variables without one.
        assert twin[kind] == single[kind] + [
            PREFIX + name if name else name for name in single[kind]
        ]
    assert twin["outputs"] == single["outputs"] + second_outputs(
        read_symbol(source.read_bytes()), single["outputs"]
    )
    assert our_lists(out) == twin
    assert our_lists(source) == single


@pytest.mark.parametrize("stem", LOADED)
def test_a_tied_graph(corpus: Path, oracle: Oracle, tmp_path: Path, stem: str) -> None:
    source, out = corpus / "graphs" / f"{stem}.json", tmp_path / "twin.json"
    meta = recorded(corpus, stem)
    command = ["duplicate", source, "--prefix", PREFIX, "--mode", "tie", "-o", out]
    graph = read_symbol(source.read_bytes())
    if any(implied.auxiliary for implied in list_implied_variables(graph)):
        with pytest.raises(AssertionError, match="is implied by the file and has no node"):
            in_process(*command)
        assert not out.exists()
        command.append("--upgrade")
    for name in UNTOLD.intersection(node.name for node in graph.variables()):
        command += ["--as-parameter", name]
    in_process(*command)
    np_shape = bool(meta["is_np_shape"])
    single = oracle.known("lists", path=str(source), np_shape=np_shape)
    twin = oracle.known("lists", path=str(out), np_shape=np_shape)
    assert twin["auxiliary_states"] == single["auxiliary_states"]
    own = twin["arguments"][len(single["arguments"]) :]
    assert twin["arguments"][: len(single["arguments"])] == single["arguments"]
    if meta.get("input_names"):
        attributes = oracle.known("attributes", path=str(source), np_shape=np_shape)
        # Constants of Gluon (anchors, offsets) and what else has an initialiser are parameters,
        # though nobody trains them.
        constants = {name for name, attrs in attributes.items() if "__init__" in attrs}
        assert own == prefixed(
            [n for n in single["arguments"] if n in meta["input_names"] and n not in constants]
        )
    tied = {*single["auxiliary_states"], *single["arguments"]} - {
        name.removeprefix(PREFIX) for name in own
    }
    assert twin["outputs"] == single["outputs"] + second_outputs(graph, single["outputs"], tied)
    assert our_lists(out) == twin


def values_of(path: Path) -> dict[str, Any]:
    """Name to storage, shape, dtype and digest, as the oracle says it."""
    file = read_index(path)
    with ArrayReader(file) as reader:
        return {
            record.key: [
                record.storage,
                list(record.shape or ()),
                record.dtype,
                digest(reader.read(record).tobytes()),
            ]
            for record in file.records
        }


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_named(name: str) -> bool:
    directory = corpus_directory()
    return directory is not None and bool(
        json.loads((directory / "params_oracle" / f"{name}.json").read_text())["named"]
    )


def graph_of(name: str) -> str | None:
    """The stem of the first graph that the file belongs to."""
    directory = corpus_directory()
    found = corpus_stems(lambda meta: meta.get("params_file") == f"params/{name}")
    return None if directory is None or found == [NONE] else found[0]


@pytest.mark.parametrize(
    "name", [n for n in corpus_names("params_oracle/*.json", ".json") if n == NONE or is_named(n)]
)
def test_a_parameter_file(corpus: Path, oracle: Oracle, tmp_path: Path, name: str) -> None:
    source, out, stem = corpus / "params" / name, tmp_path / "twin-0000.params", graph_of(name)
    np_shape = any(record.layout == "V3" for record in read_index(source).records)
    single = oracle.known("nd_load", path=str(source), np_shape=np_shape)
    if stem is None:
        file = read_index(source)
        with OutputTransaction() as stage:
            plan = [
                (record, prefix + record.key) for prefix in ("", PREFIX) for record in file.records
            ]
            stage_params([(file, plan)], stage, out, verify_bytes=True)
            stage.commit()
        expected = {**single, **{PREFIX + key: array for key, array in single.items()}}
    else:
        graph = corpus / "graphs" / f"{stem}.json"
        in_process(
            "duplicate",
            graph,
            "--params",
            source,
            "--prefix",
            PREFIX,
            "-o",
            tmp_path / "g.json",
            "--params-out",
            out,
        )
        lists = oracle.known("lists", path=str(tmp_path / "g.json"), np_shape=np_shape)
        mine = {key.split(":", 1)[-1]: key for key in single}
        expected = dict(single)
        for variable in lists["inputs"]:
            key = mine.get(variable.removeprefix(PREFIX))
            if key is not None and variable.startswith(PREFIX):
                new = key.replace(key.split(":", 1)[-1], variable) if ":" in key else variable
                expected[new] = single[key]
        assert len(expected) > len(single)
    assert oracle.known("nd_load", path=str(out), np_shape=np_shape) == expected
    assert values_of(out) == expected


def test_the_corpus_holds_what_these_tests_are_about(corpus: Path) -> None:
    assert len(LOADED) >= 170
