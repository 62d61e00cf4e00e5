"""The siamese experiment, made with the command line alone, trained by MXNet's Module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.commands import as_command
from tests.oracle.conversation import Oracle

pytestmark = pytest.mark.oracle

ROWS = [[1.0, 2.0, 3.0]] * 3
FEED = [[ROWS]]  # (N, C, H, W)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle) -> Path:
    """The single net, ``one-symbol.json`` and ``one-0000.params``, written by MXNet."""
    directory = tmp_path_factory.mktemp("siamese")
    files = {
        "out": str(directory / "one-symbol.json"),
        "params_out": str(directory / "one-0000.params"),
    }
    oracle.known("save", build={"prefixes": [""]}, values={"conv_weight": FEED}, **files)
    return directory / "one"


def module_names(stem: Path) -> dict[str, Any]:
    """What ``inspect --module`` tells Module."""
    names = json.loads(as_command("inspect", stem, "--module", "--format", "json"))
    return {"data_names": names["data_names"], "label_names": names["label_names"]}


def trained(oracle: Oracle, stem: Path, values: Any = FEED) -> dict[str, Any]:
    names = module_names(stem)
    feed = dict.fromkeys(names["data_names"], values)
    files = {"path": f"{stem}-symbol.json", "params": f"{stem}-0000.params"}
    return oracle.known("module", feed=feed, **names, **files)


def test_the_single_net(source: Path, oracle: Oracle) -> None:
    answer = trained(oracle, source)
    assert (answer["before"], answer["after"]) == ([[42.0]], [[41.57999801635742]])


@pytest.mark.parametrize(
    ("mode", "after"), [("copy", 41.57999801635742), ("tie", 41.15999984741211)]
)
def test_two_branches(
    source: Path, oracle: Oracle, tmp_path: Path, mode: str, after: float
) -> None:
    stem = tmp_path / "siam"
    as_command("duplicate", source, "--prefix", "sha-", "--mode", mode, "-o", stem)
    assert module_names(stem) == {"data_names": ["data", "sha-data"], "label_names": []}
    answer = trained(oracle, stem)
    assert answer["before"] == [[42.0], [42.0]]
    assert answer["after"] == [[after], [after]]
    assert answer["outputs"] == ["loss_output", "sha-loss_output"]
    assert list(answer["values"]) == (
        ["conv_weight"] if mode == "tie" else ["conv_weight", "sha-conv_weight"]
    )


def test_both_inputs_in_one_batch(source: Path, oracle: Oracle, tmp_path: Path) -> None:
    stem = tmp_path / "siam"
    as_command("duplicate", source, "--prefix", "sha-", "--mode", "batch", "-o", stem)
    answer = trained(oracle, stem)
    assert answer["before"] == [[42.0], [42.0]]
    assert answer["after"] == [[41.15999984741211]] * 2
    assert list(answer["values"]) == ["conv_weight"]


def test_one_branch_fed_a_batch_of_two(source: Path, oracle: Oracle) -> None:
    answer = trained(oracle, source, FEED * 2)
    assert (answer["before"], answer["after"]) == ([[42.0, 42.0]], [[41.57999801635742] * 2])


# Options of duplicate, and what MXNet's own API builds for the same wish.
PLANS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "three branches, tied": (
        ["--mode", "tie"],
        {"prefixes": ["", "a-", "b-"], "tied": "conv_weight"},
    ),
    "three branches, copied": ([], {"prefixes": ["", "a-", "b-"]}),
    "two, tied, original dropped": (
        ["--mode", "tie", "--drop-original"],
        {"prefixes": ["a-", "b-"], "tied": "conv_weight"},
    ),
    "two, copied, original dropped": (["--drop-original"], {"prefixes": ["a-", "b-"]}),
    "three branches, tied, one input": (
        ["--mode", "tie", "--share-input", "data"],
        {"prefixes": ["", "a-", "b-"], "tied": "conv_weight", "shared": "data"},
    ),
    "three branches, copied, one input": (
        ["--share-input", "data"],
        {"prefixes": ["", "a-", "b-"], "shared": "data"},
    ),
    "two, tied by pattern, one input": (
        ["--tie", "conv_*", "--share-input", "data", "--drop-original"],
        {"prefixes": ["a-", "b-"], "tied": "conv_weight", "shared": "data"},
    ),
}


@pytest.mark.parametrize("plan", PLANS)
def test_other_branches_train_as_the_net_built_by_hand(
    source: Path, oracle: Oracle, tmp_path: Path, plan: str
) -> None:
    options, build = PLANS[plan]
    stem = tmp_path / "siam"
    as_command("duplicate", source, "--prefix", "a-", "--prefix", "b-", *options, "-o", stem)
    ours = trained(oracle, stem)

    lists = oracle.known("lists", build=build)
    assert oracle.known("lists", path=f"{stem}-symbol.json") == lists
    names = [name for name in lists["arguments"] if name.endswith("data")]
    values = {name: FEED for name in lists["arguments"] if name not in names}
    theirs = oracle.known(
        "module",
        build=build,
        feed=dict.fromkeys(names, FEED),
        data_names=names,
        label_names=[],
        values=values,
    )
    assert module_names(stem)["data_names"] == names
    assert ours == theirs
