"""The table of models by commands, on models that tests make and on small packages; its cells see what is wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.onnx_files import table
from tests.onnx_files.bench import Bench, Wrong, demand
from tests.onnx_files.cells import CELLS, change
from tests.onnx_files.made import MADE
from tests.onnx_files.odd import ODD
from tests.onnx_files.sources import SMALL, Source, fetch, read_packages
from tests.onnx_files.table import Result, format_table, judge, run_apart, try_cell
from tests.surroundings import mark_everyday, missing


def make_source(name: str) -> Source:
    """Return a model that the tests make."""
    return Source(name, {**MADE, **ODD}[name]().SerializeToString(), None, {"w.bin": bytes(48)})


def list_wrong(results: dict[str, Result]) -> list[str]:
    """Return what is wrong in a model's results."""
    return [
        f"{cell}: {result.reason}" for cell, result in results.items() if result.kind == "wrong"
    ]


@pytest.mark.parametrize("name", mark_everyday([*MADE, *ODD], 8))
def test_every_command_on_models_of_the_tests(name: str) -> None:
    results = run_apart(make_source(name), list(CELLS))
    assert not list_wrong(results)
    assert results["duplicate, tie"].kind == results["rename and back"].kind == "right"


@pytest.mark.large
def test_every_command_on_small_packages(tmp_path: Path) -> None:
    cache = Path(os.environ.get("GRAPHSHARE_ONNX_PACKAGES", tmp_path))
    if not fetch(SMALL, cache):
        missing("network", f"packages cannot be fetched here: {', '.join(SMALL)}")
    wrong = {
        source.name: list_wrong(run_apart(source, list(CELLS)))
        for source in read_packages(SMALL, cache)
    }
    assert not any(wrong.values()), wrong


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A model with a weight, in a folder."""
    return Bench(make_source("dense"), tmp_path)


def test_a_file_that_computes_something_else_is_wrong(bench: Bench) -> None:
    assert try_cell("duplicate, tie", bench).kind == "right"
    assert (bench.reason, bench.fault) == ("", "")
    bench.compare(bench.path, "")
    with pytest.raises(Wrong, match="computes another out"):
        bench.compare(change(bench), "")
    with pytest.raises(Wrong, match="has no output b_out"):
        bench.compare(bench.path, "b_")


def test_a_file_that_the_checker_refuses_is_wrong(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(*words: object, no: str = "") -> str:
        model = onnx.load(bench.path)
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
        onnx.save(model, str(words[-1]))
        return ""

    monkeypatch.setattr(bench, "command", spoil)
    result = try_cell("duplicate, copy", bench)
    assert result.kind == "wrong"
    assert result.reason.startswith("the checker refuses copy.onnx")


def test_a_tie_that_stores_weights_twice_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = numpy_helper.from_array(
        np.random.default_rng(0).standard_normal((50, 50)).astype(np.float32), "w"
    )
    ends = [helper.make_tensor_value_info(name, 1, [1, 50]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    bench = Bench(Source("wide", model.SerializeToString()), tmp_path)
    assert (
        try_cell("duplicate, tie", bench).kind == try_cell("duplicate, copy", bench).kind == "right"
    )
    monkeypatch.setattr(
        bench, "command", lambda *words, no="": shutil.copy(tmp_path / "copy.onnx", words[-1])
    )
    result = try_cell("duplicate, tie", bench)
    assert result.kind == "wrong"
    assert "the file grew by" in result.reason


def test_a_refusal_is_right_where_its_reason_is_true(bench: Bench) -> None:
    message = "onnxruntime 1.32.0 refuses the model: because"
    assert judge("verify, itself", message, bench) == "wrong"
    bench.reason = "onnxruntime refuses the model"
    assert judge("verify, itself", message, bench) == "refused"
    assert judge("verify, itself", "no reason that is listed", bench) == "wrong"


def test_what_hangs_and_what_breaks_is_wrong(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(bench: Bench) -> None:
        while True:
            pass

    monkeypatch.setitem(CELLS, "hang", hang)
    monkeypatch.setitem(CELLS, "break", lambda bench: demand(1 / 0 > 0, ""))
    monkeypatch.setattr(table, "LIMIT", 1)
    assert try_cell("hang", bench).reason == "takes more than 1 s"
    assert try_cell("break", bench).reason.startswith("ZeroDivisionError")


def test_the_table_counts_and_gives_reasons() -> None:
    right = Result("right", "", 1)
    results = dict.fromkeys(("checker", "onnxruntime", *CELLS), right)
    text = format_table(
        {"a": results, "b": {**results, "run": Result("wrong", "value 'x' is 5", 2)}}
    )
    assert "| run | 1 | 0 | 0 | 1 |" in text
    assert "| run | 1 | b | value * is * |" in text
    assert f"| b | {len(CELLS) - 1} | 0 | 0 | 1 | {len(CELLS) + 3} |" in text
