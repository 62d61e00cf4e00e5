"""ONNX files of others through every rewrite; ``python -m tests.onnx_files`` does it with all of them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.onnx_files.__main__ import check_all, format_counts
from tests.onnx_files.invariants import CHECKS, Subject
from tests.onnx_files.made import MADE
from tests.onnx_files.sources import SMALL, Source, as_external, fetch, list_cases, list_wheel, read_packages, read_wheel
from tests.surroundings import missing

CASES = ("abs", "adam", "clip", "constant", "gru", "if_", "layernormalization", "loop", "lstm", "optionalhaselement",
         "optionalgetelement", "qlinearmatmul", "scan", "sequence_map", "sequenceinsert", "softmax", "split", "string_concat",
         "topk", "unique")  # fmt: skip
"""Modules of ``onnx.backend.test.case.node`` with control flow, sequences, optional values, texts, states and expansions."""


def _check(sources: list[Source]) -> None:
    counts, failures = check_all(sources)
    print(format_counts(counts))
    assert not failures, "\n".join(failures)
    assert counts["identity", "holds"] == len(sources)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("check", CHECKS)
def test_made_models(name: str, check: str, tmp_path: Path) -> None:
    source = Source(name, MADE[name]().SerializeToString(), None, {"w.bin": bytes(48)})
    subject = Subject(source, tmp_path)
    assert subject.is_accepted
    for each in ("identity", check) if check == "rename" else (check,):
        CHECKS[each](subject, random.Random(0))


def test_a_few_models_of_the_wheel() -> None:
    _check([read_wheel(path) for path in list_wheel() if path.parent.name in ("test_Embedding", "test_expand_shape_model1")])


@pytest.mark.large
def test_models_of_the_wheel() -> None:
    assert len(list_wheel()) == 149
    _check([read_wheel(path) for path in list_wheel() if path.parent.name != "light"][::6])  # weights of 500 MB take seconds


@pytest.mark.large
def test_models_of_the_tests_of_operators() -> None:
    cases = list_cases(CASES)
    _check(cases[:: len(cases) // 40])


@pytest.mark.large
def test_models_that_packages_ship(tmp_path: Path) -> None:
    cache = Path(os.environ.get("GRAPHSHARE_ONNX_PACKAGES", tmp_path))
    if not fetch(SMALL, cache):
        missing("network", f"packages cannot be fetched here: {', '.join(SMALL)}")
    sources = list(read_packages(SMALL, cache))
    assert len(sources) == 8
    _check([*sources, as_external(sources[0])])
