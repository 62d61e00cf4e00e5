"""A third format goes through every command: where its core is enough they work, the others name
the formats that have more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from graphshare.cli import main
from graphshare.cli.main import COMMANDS
from graphshare.formats.facets import Description, StaticType, TensorType, Types
from graphshare.formats.model_format import iter_formats
from graphshare.ir.graph import Graph, Node
from tests.contract.toy_format import ToyFormat
from tests.surroundings import ROOT

_MXNET, _ONNX, _BOTH = "MXNet graphs", "ONNX models", "MXNet graphs and ONNX models"
_ALL = "MXNet graphs, ONNX models and Paddle graphs"

WORKS = [
    ("inspect a", "act_output", []),
    ("inspect .", "5 models", []),
    ("draw a -o a.svg", "", ["a.svg"]),
    ("diff a same", "SAME", []),
    ("rename a w=v -o r", "renamed 1 of 4 nodes", ["r.npz", "r.toy"]),
    (
        "rename a.toy w=v --params a.npz -o r.toy --params-out v.npz",
        "renamed 1 of 4 nodes",
        ["r.toy", "v.npz"],
    ),
    ("duplicate a --prefix sha- -o pair", "sha-", ["pair.npz", "pair.toy"]),
    (
        "duplicate a.toy --params a.npz --mode tie --prefix sha- -o pair",
        "tied: 1 parameter",
        ["pair.npz", "pair.toy"],
    ),
    ("share twins --alias sha-w=w -o s", "tied: 1", ["s.npz", "s.toy"]),
    ("share twins --detect", "sha-w", []),
    ("extract a --target fc -o e", "kept 3 of 4 nodes", ["e.npz", "e.toy"]),
    ("extract a --target act --cut fc -o e", "fc", ["e.npz", "e.toy"]),
    ("group a second -o g", "second-x", ["g.npz", "g.toy"]),
    ("group a second --connect act=second-x -o g", "connected", ["g.npz", "g.toy"]),
    ("split a --at fc -o parts/", "fc_output", None),
    ("foreach *.toy -- inspect {}", "5 models: 5 done", []),
    ("foreach a.toy second.toy -o out -- duplicate {} --prefix b-", "2 models: 2 done", ["out"]),
    ("params list a", "w", []),
    ("params diff a same", "1 equal", []),
    ("params stats a", "0.5", []),
    ("verify twins --allow-unsupported", "STRUCTURE EQUAL", []),
    ("compare a same --allow-unsupported", "STRUCTURE EQUAL", []),
]
"""A command line, a part of what it says, and the files that it writes; None for those that are looked at elsewhere."""

REFUSED = [
    ("run a --shape x=2,2", "a run", _ALL),
    ("verify twins", "a run", _ALL),
    ("compare a same", "a run", _ALL),
    ("duplicate a --mode batch --prefix sha- -o b", "--mode batch", _MXNET),
    ("group a second --switch which -o s", "--switch", _ONNX),
    ("export a -o a.onnx", "an export", _MXNET),
    ("upgrade a -o u", "an upgrade", _MXNET),
    ("downgrade a --to 1.0 -o d", "a downgrade", _MXNET),
    ("format a.toy", "a choice of layout", _MXNET),
    ("reshape a --dynamic-batch -o s", "a choice of sizes that a file fixes", _ONNX),
    ("pool a same -o pooled", "a pool of weights", _ONNX),
    ("fold a -o f", "a fold", _BOTH),
    ("inspect a --shape x=1,2", "--shape", _BOTH),
    ("share a --transposed -o t", "--transposed", _ONNX),
    ("duplicate a --prefix sha- -o p --external-data copy", "--external-data", _ONNX),
    ("extract a --target fc --type fc=float32[n,3] -o e", "--type", _ONNX),
    ("inspect a --fingerprint", "a fingerprint", _BOTH),
    ("check a", "", ""),
    ("foreach twins.toy -- verify {}", "a run", _ALL),
]
"""A command line, what is refused, and the formats that it is for."""


def run(line: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main.run(line.split())
    out, said = capfd.readouterr()
    return code, out + said


@pytest.mark.parametrize(("line", "part", "files"), WORKS, ids=[line for line, *_ in WORKS])
def test_the_core_is_enough(
    line: str, part: str, files: list[str] | None, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = {path.name for path in folder.iterdir()}
    code, said = run(line, capfd)
    assert code == 0, said
    assert part in said
    if files is not None:
        assert sorted({path.name for path in folder.iterdir()} - before) == files


@pytest.mark.parametrize(("line", "what", "able"), REFUSED, ids=[line for line, *_ in REFUSED])
def test_a_facet_that_is_absent_is_refused_in_one_wording(
    line: str, what: str, able: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = {path.name for path in folder.iterdir()}
    code, said = run(line, capfd)
    assert code == 2, said
    assert (
        f"{what} is for {able}, and this is a toy graph" if what else "no rule looks at toy graphs"
    ) in said
    assert {path.name for path in folder.iterdir()} == before


def test_every_command_is_tried() -> None:
    tried = {line.split()[0] for line, *_ in (*WORKS, *REFUSED)}
    assert set(COMMANDS) - tried == {"completion", "rules"}  # which read no model


def test_a_difference_is_found(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("diff a other", capfd)[0] == 1
    code, said = run("compare a other --allow-unsupported", capfd)
    assert code != 0, said


def test_a_rename_and_back_has_the_bytes_of_the_format(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("rename a w=v -o there", capfd)[0] == run("rename there v=w -o back", capfd)[0] == 0
    assert json.loads((folder / "back.toy").read_text()) == json.loads(
        (folder / "a.toy").read_text()
    ) | {
        "nodes": [
            {"op": "", "inputs": [], "attrs": {}, **node}
            for node in json.loads((folder / "a.toy").read_text())["nodes"]
        ]
    }


def test_no_message_speaks_of_another_format(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.toy").write_text('{"toy": 1, "nodes": 3}')
    for line in (
        "inspect broken.toy",
        "duplicate a --prefix sha- -o x.onnx",
        "inspect a --epoch 3",
        "extract a --target no -o e",
        "group a same -o g",
    ):
        code, said = run(line, capfd)
        assert code == 2, said
        assert not re.search("MXNet|symbol|initializer|arg_nodes", said), said


def test_an_operator_of_this_format_is_none_of_mxnet(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Those of MXNet have auxiliary states and parameters by their names; here the parameter file
    alone says what is one.
    """
    names = ["x", "gamma", "beta", "mean", "variance"]
    nodes = [{"name": name} for name in names] + [
        {"name": "n", "op": "BatchNorm", "inputs": [[i, 0] for i in range(5)]}
    ]
    (folder / "norm.toy").write_text(json.dumps({"toy": 1, "nodes": nodes, "outputs": [[5, 0]]}))
    said = run("inspect norm.toy --names", capfd)[1]
    assert re.search(r"auxiliary states +none", said), said
    assert re.search(r"variance +unknown", said), said


COMPUTED = [
    ("run a --shape x=2,2", 0, "float64"),
    ("run twins --shape x=2,2 --all", 0, "sha-fc_output"),
    ("verify twins --shape x=2,2 --layers", 0, "EQUAL: sha- and the original, bit for bit"),
    ("compare a same --shape x=2,2", 0, "EQUAL"),
    ("compare a second --shape x=2,2", 0, "EQUAL"),
    ("compare a other --shape x=2,2", 1, "NOT EQUAL"),
    ("run a", 2, "has no shape"),
    ("run a --shape x=2,3", 2, "cannot be computed"),
    (
        "run a --shape x=2,2 --engine numpy",
        2,
        "--engine numpy is for MXNet graphs, and this is a toy graph",
    ),
    (
        "verify twins --shape x=2,2 --train-step",
        2,
        "--train-step is for MXNet graphs, and this is a toy graph",
    ),
]


@pytest.mark.parametrize(("line", "code", "part"), COMPUTED, ids=[line for line, *_ in COMPUTED])
def test_a_backend_is_all_that_runs_and_proofs_need(
    line: str,
    code: int,
    part: str,
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ToyFormat, "backends", ["tests.contract.toy_backend"])
    done, said = run(line, capfd)
    assert done == code, said
    assert part in said


class _StatedTypes(Types):
    """Every input and output is a float64 matrix."""

    are_stated = True

    def list_types(self, graph: Graph) -> Mapping[str, StaticType]:
        return {node.name: TensorType("float64", (None, None)) for node in graph.variables()}


class _Words(Description):
    """Attributes are told as they are."""

    def describe_operator(self, node: Node) -> list[str]:
        return [f"{key} {value}" for key, value in node.attrs.items()]


def test_a_facet_is_asked_where_it_is_there(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "float64" not in run("inspect a", capfd)[1]
    monkeypatch.setattr(ToyFormat, "types", _StatedTypes())
    assert "x float64 (?, ?)" in run("inspect a", capfd)[1]
    monkeypatch.setattr(ToyFormat, "description", _Words())
    assert run("draw a -o a.dot", capfd)[0] == 0
    assert "units 3" in (folder / "a.dot").read_text()


def test_exactly_one_format_fits_a_file(folder: Path) -> None:
    starts = {
        "toy": (folder / "a.toy").read_bytes(),
        "mxnet": (ROOT / "fixtures" / "lenet-symbol.json").read_bytes(),
        "onnx": (ROOT / "fixtures" / "small.onnx").read_bytes(),
    }
    for name, start in starts.items():
        assert [format_.name for format_ in iter_formats() if format_.fits(start[:4096])] == [name]
