"""Absurd wishes and damaged marks: a clear end, soon, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphshare.cli import main
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.rewrite.grouping.join import Member, join
from tests.effort import ends
from tests.processes import done, files_in, graphshare, refused, write_json
from tests.surroundings import size_of_day
from tests.symbols import document, mxnet_text, operator, siamese, variable


def chain(length: int, name: str) -> Any:
    nodes = [variable(f"{name}in"), *(operator("relu", f"{name}{i}", [i]) for i in range(length))]
    return document(nodes, [length])


@ends()
def test_connections_by_the_thousand(tmp_path: Path) -> None:
    """Ten thousand variables in one row of connections: linear, in either direction, and a circle is found."""
    count = 10_000
    found = document(
        [*(variable(f"v{i}") for i in range(count)), operator("relu", "r", [count - 1])], [count]
    )
    one = read_symbol(mxnet_text(found).encode())
    other = read_symbol(mxnet_text(chain(1, "o")).encode())
    from graphshare.ir.graph import Entry

    connect = {(0, one.nodes[i]): (0, Entry(one.nodes[i - 1])) for i in range(1, count)}
    connect[0, one.nodes[0]] = (1, Entry(other.nodes[1]))
    rewrite = join([Member(one, "", "one"), Member(other, "", "other")], connect=connect)
    assert len(rewrite.graph.nodes) == 3
    assert rewrite.graph.heads[0].node.inputs[0].node.name == "o0"


def test_long_chains_across_graphs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    count = size_of_day(8_000, 30_000)
    write_json(tmp_path / "a.json", chain(count, "a"))
    write_json(tmp_path / "b.json", chain(count, "b"))
    paths = [str(tmp_path / name) for name in ("a.json", "b.json")]
    out = str(tmp_path / "out.json")
    assert main.run(["group", *paths, "--connect", f"b{count - 1}=ain", "-o", out]) == 0
    capfd.readouterr()
    (tmp_path / "out.json").unlink()
    assert (
        main.run(
            [
                "group",
                *paths,
                "--connect",
                f"b{count - 1}=ain",
                "--connect",
                f"a{count - 1}=bin",
                "-o",
                out,
            ]
        )
        == 2
    )
    assert "go round in a circle" in capfd.readouterr().err
    assert files_in(tmp_path) == ["a.json", "b.json"]


@ends()
def test_thousands_of_unknown_names_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "a.json", chain(5_000, "a"))
    write_json(tmp_path / "b.json", chain(2, "b"))
    words = [word for i in range(2_000) for word in ("--connect", f"nobody{i}=nothing{i}")]
    assert main.run(["group", str(tmp_path / "a.json"), str(tmp_path / "b.json"), *words]) == 2
    assert capfd.readouterr().err.count("error: ") == 4_000


@ends()
@pytest.mark.parametrize(
    "words", ["extract --target", "extract --target a1 --cut", "split --at", "run --target"]
)
def test_thousands_of_unknown_outputs_are_told(
    words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "a.json", chain(5_000, "a"))
    command, *first, option = words.split()
    names = [word for i in range(2_000) for word in (option, f"nobody{i}")]
    out = [] if command == "run" else ["-o", str(tmp_path / "out")]
    assert main.run([command, str(tmp_path / "a.json"), *first, *names, *out]) == 2
    assert capfd.readouterr().err.count("error: ") == 2_000


@pytest.mark.parametrize("name", ["=", "\\", "a=b=c", "x" * 30_000, "é\n", "*", "-"])
def test_odd_names_in_connections(tmp_path: Path, name: str) -> None:
    write_json(tmp_path / "a.json", siamese())
    write_json(tmp_path / "b.json", chain(1, "b"))
    refused(
        graphshare(
            "group", "a.json", "b.json", "--connect", f"{name}={name}", "-o", "x.json", cwd=tmp_path
        )
    )
    assert files_in(tmp_path) == ["a.json", "b.json"]


def test_names_with_an_equals_sign_can_be_connected(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", document([variable("a"), operator("relu", "x=y", [0])], [1]))
    write_json(tmp_path / "b.json", chain(1, "b"))
    done(
        graphshare(
            "group", "a.json", "b.json", "--connect", "x\\=y=bin", "-o", "x.json", cwd=tmp_path
        )
    )
    names = [node["name"] for node in json.loads((tmp_path / "x.json").read_text())["nodes"]]
    assert "x=y" in names
    assert "bin" not in names  # the output stands in its place


MARKS: dict[str, Any] = {
    "none": [],
    "twice": ["", ""],
    "numbers": [1, 2],
    "many": [str(i) for i in range(3000)],
    "text": "sha-",
    "half a pair": ["", "\ud800"],
}


@pytest.mark.parametrize(
    "mark", [*map(json.dumps, MARKS.values()), "", "[", "[" * 50_000, '["", "sha-"']
)
def test_damaged_marks_of_a_batch(tmp_path: Path, mark: str) -> None:
    write_json(tmp_path / "g.json", siamese())
    done(
        graphshare(
            "duplicate",
            "g.json",
            "--prefix",
            "sha-",
            "--mode",
            "batch",
            "-o",
            "siam.json",
            cwd=tmp_path,
        )
    )
    found = json.loads((tmp_path / "siam.json").read_text())
    for node in found["nodes"]:
        if "__branches__" in node.get("attrs", {}):
            node["attrs"]["__branches__"] = mark
    write_json(tmp_path / "siam.json", found)
    for more in ([], ["--prefix", "sha-"]):
        run = graphshare(
            "verify",
            "siam.json",
            "--random-params",
            "0",
            "--shape",
            "data=1,1,5,5",
            *more,
            cwd=tmp_path,
        )
        assert run.returncode in (1, 2), run.stdout
        assert b"bug in graphshare" not in run.stderr
        assert b"Traceback" not in run.stderr


@ends()
def test_a_batch_of_very_many_branches(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "g.json", siamese())
    prefixes = [word for i in range(2_000) for word in ("--prefix", f"p{i}-")]
    assert (
        main.run(
            [
                "duplicate",
                str(tmp_path / "g.json"),
                *prefixes,
                "--mode",
                "batch",
                "-o",
                str(tmp_path / "x.json"),
            ]
        )
        == 0
    )
    capfd.readouterr()


def test_a_batch_of_a_batch_is_proved_by_its_own_prefix(tmp_path: Path) -> None:
    write_json(tmp_path / "g.json", siamese())
    done(
        graphshare(
            "duplicate",
            "g.json",
            "--prefix",
            "a-",
            "--mode",
            "batch",
            "-o",
            "one.json",
            cwd=tmp_path,
        )
    )
    done(
        graphshare(
            "duplicate",
            "one.json",
            "--prefix",
            "x-",
            "--mode",
            "tie",
            "-o",
            "two.json",
            cwd=tmp_path,
        )
    )
    command = (
        "verify",
        "two.json",
        "--random-params",
        "0",
        "--shape",
        "data=1,1,5,5",
        "--shape",
        "a-data=1,1,5,5",
    )
    run = done(graphshare(*command, "--prefix", "x-", cwd=tmp_path))
    assert run.stdout.decode().splitlines()[-1].startswith("EQUAL: x- and the original")
