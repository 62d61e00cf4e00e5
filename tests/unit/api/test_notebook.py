"""What notebooks show: HTML of checkpoints, reports and differences, SVG of drawings; escaped, short, at once."""

from __future__ import annotations

import html.parser
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.text.summary import LONGEST_CELL, MOST_ROWS, Table, format_html
from tests.processes import environment
from tests.surroundings import ROOT
from tests.symbols import document, mxnet_text, operator, variable

LENET = ROOT / "fixtures" / "lenet"
FEEDS_SHAPES = {"data": (2, 1, 28, 28)}
FEEDS = {"data": np.ones((2, 1, 28, 28), np.float32)}
HOSTILE = '</td></table><script>alert(1)</script>"\x07'


class Parser(html.parser.HTMLParser):
    """The text and the tags of an element; every tag must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def show(thing: Any) -> list[str]:
    """The texts that a notebook shows of ``thing``."""
    parser = Parser(thing._repr_html_())
    assert set(parser.tags) <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    return parser.cells


def test_a_checkpoint_shows_its_inputs_sizes_and_operators() -> None:
    cells = show(gs.load(LENET))
    for text in (
        "inputs",
        "data, softmax_label",
        "parameters",
        "16",
        "outputs",
        "softmax_output",
        "Convolution",
        "2",
    ):
        assert text in cells
    assert any(cell.endswith("lenet-0000.params: 12,074 weights, 48.3 kB") for cell in cells)
    siamese = show(gs.duplicate(gs.load(LENET), "sha-"))
    assert "(original), sha-" in siamese


def test_a_checkpoint_without_a_parameter_file() -> None:
    assert "parameter file" not in show(gs.load(f"{LENET}-symbol.json"))
    graph = read_symbol(mxnet_text(document([variable("x")], [0])).encode())
    assert show(gs.Checkpoint(graph))[-2:] == ["outputs", "x"]


def test_reports_and_differences_show_tables() -> None:
    model = gs.load(LENET)
    siamese = gs.duplicate(model, "sha-", mode="copy")
    assert "duplicated-parameter" not in show(gs.check(model))
    assert "structure" in show(gs.verify(siamese))
    renamed = gs.rename(model, prefix="net_")
    cells = show(gs.diff(model, renamed))
    assert "renamed" in cells
    assert any("net_conv1" in cell for cell in cells)
    assert show(gs.diff(model, model)) == ["SAME: the graphs and their parameters"]
    assert any(cell.startswith("DIFFERENT") for cell in cells)
    show(gs.diff(model, renamed).graph)


def test_parameters_and_inspections_show_tables(tmp_path: Path) -> None:
    file = f"{LENET}-0000.params"
    for thing in (gs.list_params(file), gs.show_params(file), gs.measure_params(file)):
        cells = show(thing)
        assert "arg:conv1_weight" in cells
        assert "8x1x5x5" in cells
    model = gs.load(LENET)
    gs.save(model.with_params({"fc2_bias": np.zeros(10, "float32")}), tmp_path / "changed")
    found = show(gs.diff_params(file, next(tmp_path.glob("changed-*.params"))))
    assert "values" in found
    assert "Convolution" in show(gs.inspect(model))


def test_results_shapes_parameters_and_graphs_show_tables() -> None:
    model = gs.load(LENET)
    for cells in (
        show(gs.run(model, shapes={"data": (2, 1, 28, 28)}, seed=0)),
        show(gs.train(model, steps=2, feeds=FEEDS)),
    ):
        for text in (
            "softmax_output",
            "2x10",
            "float32",
            "0.1",
            "labels and states that are not fed are zeros: softmax_label (2,)",
        ):
            assert text in cells
    assert {"cross entropy", "before the last step"} < set(cells)
    assert "cross entropy" not in show(gs.train(model, steps=0, feeds=FEEDS))
    assert {"conv1_output", "Convolution", "2x8x24x24", "657,024"} < set(
        show(gs.infer_shapes(model, FEEDS_SHAPES))
    )
    assert {"16 arrays, 48.3 kB", "conv1_weight", "8x1x5x5", "800 B"} < set(show(model.params))
    assert {"31 nodes, 1 head", "softmax", "Pooling", "2"} < set(show(model.graph))


def test_a_fleet_shows_its_results_so_far(tmp_path: Path) -> None:
    for name in ("good-symbol.json", "worse-symbol.json"):
        shutil.copy(f"{LENET}-symbol.json", tmp_path / name)
    (tmp_path / "worse-symbol.json").write_text("{", encoding="utf-8")
    with gs.foreach(tmp_path, ["inspect", "{}"]) as fleet:
        assert show(fleet) == ["inspect {}: 0 of 2 models"]
        failed = next(result for result in fleet if not result)
        list(fleet)
    cells = show(fleet)
    assert cells[0] == "inspect {}: 2 of 2 models, 1 done, 1 failed"
    assert cells[5:7] == [str(tmp_path / "worse-symbol.json"), "failed"]
    assert failed.reason[:100] in cells[8]
    assert repr(fleet) == f"<FleetRun: {cells[0]}>"


def test_drawings_show_themselves() -> None:
    model = gs.load(LENET)
    svg = gs.draw(model, to="svg").text
    assert svg.startswith("<?xml")
    for to in ("svg", "dot", "mermaid"):
        drawn = gs.draw(model, to=to)  # type: ignore[arg-type]
        assert drawn._repr_svg_() is not None
        assert drawn._repr_html_() is None
    assert gs.draw(model, to="svg")._repr_svg_() == svg


def test_names_stay_text() -> None:
    graph = read_symbol(
        mxnet_text(
            document([variable(HOSTILE), operator("relu", HOSTILE + "r", [0])], [1])
        ).encode()
    )
    model = gs.Checkpoint(graph)
    renamed = gs.rename(model, prefix="a")
    run = gs.run(model, feeds={HOSTILE: np.ones(1)})
    shapes = gs.infer_shapes(model, {HOSTILE: (1,)})
    for thing in (
        model,
        graph,
        gs.diff(model, renamed),
        gs.check(model),
        gs.inspect(model),
        run,
        shapes,
    ):
        assert "script" not in Parser(thing._repr_html_()).tags
        assert "\x07" not in thing._repr_html_()


def test_long_tables_and_cells_are_cut() -> None:
    text = format_html("t" * 10_000, tables=[Table(("n",), [("x" * 10_000,)] * 10_000)])
    assert len(text) < (MOST_ROWS + 2) * (LONGEST_CELL + 100)
    assert f"and {10_000 - MOST_ROWS:,} more" in text
    assert "x" * (LONGEST_CELL + 1) not in text
    for count, more in ((MOST_ROWS, False), (MOST_ROWS + 1, True)):
        text = format_html("t", tables=[Table(("n",), [("x",)] * count)])
        assert ("and 1 more" in text, "more" in text) == (more, more)


_SHOW = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import graphshare as gs
model = gs.load(sys.argv[1])
formats, _ = shell.display_formatter.format(model)
print("numpy" in sys.modules, *sorted(formats))
"""


@pytest.mark.corpus
def test_resnet_50_in_ipython_answers_at_once(corpus: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("IPython") is None:
        pytest.skip("IPython is of the test extra")
    command = [sys.executable, "-c", _SHOW, os.fspath(corpus / "graphs" / "zoo_resnet50_v2.json")]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment(HOME=str(tmp_path)),
        check=True,
        timeout=60,
    )
    numpy_is_loaded, *formats = run.stdout.split()
    assert formats == ["text/html", "text/plain"]
    assert numpy_is_loaded == "False"  # so that the answer comes at once
