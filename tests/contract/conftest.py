"""The toy format in the registry, and models of it in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from graphshare.formats.model_names import FORMAT_NAMES
from tests.contract.registry import NAMES, prepare_worker


def write_model(stem: Path, *prefixes: str, weight: float = 0.5) -> None:
    """Write a graph with two operators a prefix, and the parameter of each."""
    nodes: list[Mapping[str, object]] = []
    for prefix in prefixes:
        x = len(nodes)
        nodes += [
            {"name": f"{prefix}x"},
            {"name": f"{prefix}w"},
            {
                "name": f"{prefix}fc",
                "op": "product",
                "inputs": [[x, 0], [x + 1, 0]],
                "attrs": {"units": "3"},
            },
            {"name": f"{prefix}act", "op": "positive", "inputs": [[x + 2, 0]]},
        ]
    outputs = [[place, 0] for place in range(3, len(nodes), 4)]
    stem.with_suffix(".toy").write_text(json.dumps({"toy": 1, "nodes": nodes, "outputs": outputs}))
    np.savez(
        stem.with_suffix(".npz"),
        **{f"{prefix}w": np.full((2, 3), weight, np.float32) for prefix in prefixes},
    )


@pytest.fixture(params=["last", "first"])
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """The current folder, with toy models; their format is the last in the registry, or the first."""
    others = dict(FORMAT_NAMES)
    ordered: Mapping[str, object] = (
        {**others, "toy": NAMES} if request.param == "last" else {"toy": NAMES, **others}
    )
    FORMAT_NAMES.clear()
    FORMAT_NAMES.update(ordered)  # type: ignore[arg-type]
    monkeypatch.setattr("graphshare.cli.fleet.prepare_worker", prepare_worker)
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "a", "")
    write_model(tmp_path / "same", "")
    write_model(tmp_path / "other", "", weight=0.75)
    write_model(tmp_path / "second", "second-")
    write_model(tmp_path / "twins", "", "sha-")
    yield tmp_path
    FORMAT_NAMES.clear()
    FORMAT_NAMES.update(others)
