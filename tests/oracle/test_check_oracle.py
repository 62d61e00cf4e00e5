"""What MXNet refuses to load gets an error: corrupted graphs, MXNet's answer beside check's."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from graphshare.checks.context import CheckContext
from graphshare.checks.engine import RULES, run_rules
from graphshare.reports.model import Level
from tests.oracle.conversation import CrashError, Oracle
from tests.surroundings import NONE, corpus_stems, recorded
from tests.unit.checks.examples import graph_bytes
from tests.unit.checks.mutations import GRAPH_KINDS

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

COUNT = 400
SMALL = corpus_stems(lambda meta: bool(meta["loads"]) and 4 <= meta["nodes"] <= 150)
# What these rules find, MXNet does not look at while loading; or it reads what no JSON reader does.
LATER = {"GS001", "GS005", "GS102", "GS105", "GS201", "GS202", "GS306", "GS307", "GS308", "GS309"}


def errors_of(data: bytes) -> set[str]:
    found, _ = run_rules(CheckContext("a.json", data))
    return {finding.code for finding in found if finding.level is Level.ERROR}


def loads(oracle: Oracle, path: Path, *, np_shape: bool = False) -> bool | None:
    """Whether MXNet loads a file; None where it dies of it."""
    try:
        return "error" not in oracle.ask("lists", path=str(path), np_shape=np_shape)
    except CrashError:
        return None


@pytest.mark.corpus
def test_what_mxnet_refuses_has_an_error(corpus: Path, oracle: Oracle, tmp_path: Path) -> None:
    assert SMALL != [NONE]
    path = tmp_path / "a.json"
    seen: Counter[bool | None] = Counter()
    for seed in range(COUNT):
        rng = Random(seed)
        stem, kind = rng.choice(SMALL), rng.choice(list(GRAPH_KINDS))
        document = json.loads((corpus / "graphs" / f"{stem}.json").read_bytes(), strict=False)
        try:
            what = GRAPH_KINDS[kind](rng, document)
        except IndexError:
            continue  # a graph without operators
        path.write_bytes(json.dumps(document, ensure_ascii=False).encode())
        answer = loads(oracle, path, np_shape=bool(recorded(corpus, stem)["is_np_shape"]))
        seen[answer] += 1
        errors = errors_of(path.read_bytes())
        if answer is not True:
            assert errors, (seed, stem, kind, what)
        else:
            assert errors <= LATER, (seed, stem, kind, what, errors)
    assert seen[True] > COUNT * 0.2
    assert seen[False] > COUNT * 0.2


@pytest.mark.parametrize(
    "code", [code for code, rule in RULES.items() if rule.level is Level.ERROR and code < "GS4"]
)
def test_examples_are_what_mxnet_says(code: str, oracle: Oracle, tmp_path: Path) -> None:
    """MXNet loads every passing example, and refuses the failing one unless it looks only later."""
    path = tmp_path / "a.json"
    path.write_bytes(graph_bytes(RULES[code].passes))
    assert loads(oracle, path) is True
    if code not in LATER:
        path.write_bytes(graph_bytes(RULES[code].fails))
        assert loads(oracle, path) is False
