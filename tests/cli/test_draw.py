"""``draw`` on the command line."""

from __future__ import annotations

import os
from pathlib import Path

from tests.processes import ROOT, done, files_in, graphshare, refused, write_json
from tests.symbols import document, operator, variable

LENET = str(ROOT / "fixtures" / "lenet-symbol.json")


def test_the_suffix_names_the_language(tmp_path: Path) -> None:
    for name, start in (("a.dot", b"digraph"), ("a.gv", b"digraph"), ("a.mmd", b"flowchart TB")):
        run = done(graphshare("draw", LENET, "-o", name, cwd=tmp_path))
        assert (tmp_path / name).read_bytes().startswith(start)
        assert b"16 boxes for 31 nodes" in run.stderr
    refused(
        graphshare("draw", LENET, "-o", "a.gif", cwd=tmp_path), "a.gif: the suffix '.gif'", ".svg"
    )
    assert done(graphshare("draw", LENET)).stdout.startswith(b"digraph")
    assert done(
        graphshare("draw", LENET, "--to", "mermaid", "--direction", "LR")
    ).stdout.startswith(b"flowchart LR")


def test_svg(tmp_path: Path) -> None:
    done(graphshare("draw", LENET, "--shape", "data=1,1,28,28", "-o", "a.svg", cwd=tmp_path))
    assert "1×8×24×24" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_without_graphviz_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    run = graphshare("draw", LENET, "-o", "a.png", cwd=tmp_path, PATH=str(tmp_path / "bin"))
    refused(run, "Graphviz", "not on the path", "--to mermaid")
    assert files_in(tmp_path) == []


def test_the_map_of_a_rewrite_highlights(tmp_path: Path) -> None:
    done(
        graphshare(
            "rename", LENET, "--prefix", "n_", "-o", "n.json", "--map-out", "m", cwd=tmp_path
        )
    )
    text = done(graphshare("draw", "n.json", "--highlight", "m", cwd=tmp_path)).stdout.decode()
    assert text.count('class="operator highlight') == 13
    refused(graphshare("draw", LENET, "--highlight", "m", cwd=tmp_path), "m: names no node")
    refused(graphshare("draw", LENET, "--highlight", os.devnull), "is not a map")


def test_a_line_names_3_shapes_and_only_hints_at_more(tmp_path: Path) -> None:
    for indices, label in (
        ("(0, 1, 3)", r" 1 \n 2 \n 7 "),
        ("(0, 1, 3, 6)", r" 1 \n 2 \n 3 \n … "),
    ):
        count = indices.count(",") + 1
        nodes = [
            variable("x"),
            operator("_split_v2", "parts", [0], attrs={"indices": indices, "axis": "0"}),
        ]
        attrs = {"num_args": str(count), "dim": "0"}
        nodes.append(
            operator("Concat", "whole", [(1, part, 0) for part in range(count)], attrs=attrs)
        )
        write_json(tmp_path / "parts.json", document(nodes, [2]))
        drawn = done(
            graphshare("draw", "parts.json", "--shape", "x=10", cwd=tmp_path)
        ).stdout.decode()
        assert f'  n0 -> n1 [class="data", label="{label}"];' in drawn.splitlines()
