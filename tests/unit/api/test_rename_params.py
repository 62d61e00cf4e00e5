"""Keys without a graph: the patterns, rules and maps of graphs rename the arrays of a parameter file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import graphshare as gs
from graphshare.errors import InputError, RefusedError, UsageError
from graphshare.formats.params.format import read_index
from tests.processes import ROOT, graphshare

LENET = ROOT / "fixtures" / "lenet-0000.params"


def list_keys(path: Path) -> list[str | None]:
    return [record.key for record in read_index(path).records]


@pytest.mark.parametrize("suffix", [".params", ".npz", ".safetensors"])
def test_names_and_back_give_the_same_file(suffix: str, tmp_path: Path) -> None:
    source = tmp_path / f"a{suffix}"
    if suffix == ".params":
        shutil.copy(LENET, source)
    else:
        gs.convert(LENET, source)
    done = gs.rename_params(source, tmp_path / f"b{suffix}", prefix="net_", leave_out=["bn*"])
    assert done.arrays == 16
    assert done.renamed["arg:conv1_weight"] == "arg:net_conv1_weight"
    assert list_keys(tmp_path / f"b{suffix}")[2] == "arg:bn1_gamma"
    assert len(done.renamed) == 8
    assert done.notes == ()
    gs.rename_params(tmp_path / f"b{suffix}", tmp_path / f"c{suffix}", strip_prefix="net_")
    assert (tmp_path / f"c{suffix}").read_bytes() == source.read_bytes()


def test_each_way_of_giving_names(tmp_path: Path) -> None:
    out = tmp_path / "out.params"
    gs.rename_params(LENET, out, match={"bn*_moving_*": "norm*/*"}, select=["aux:*"])
    assert list_keys(out)[-4:] == [
        f"aux:norm{i}/{what}" for i in (1, 2) for what in ("mean", "var")
    ]
    assert list_keys(out)[:-4] == list_keys(LENET)[:-4]
    gs.rename_params(LENET, out, names={"fc1_weight": "fc2_weight", "fc2_weight": "fc1_weight"})
    assert list_keys(out)[8:11:2] == ["arg:fc2_weight", "arg:fc1_weight"]
    (tmp_path / "map.json").write_text('{"fc1_bias": "b"}')
    gs.rename_params(LENET, out, map=tmp_path / "map.json")
    assert list_keys(out)[9] == "arg:b"
    gs.rename_params(out, out, map=tmp_path / "map.json", inverse=True, in_place=True)
    assert out.read_bytes() == LENET.read_bytes()
    rules = {"version": 1, "rules": [{"match": "fc*", "to": "dense*"}]}
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    gs.rename_params(LENET, out, tmp_path / "rules.json")
    assert list_keys(out)[8] == "arg:dense1_weight"


def test_refusals(tmp_path: Path) -> None:
    out = tmp_path / "out.params"
    with pytest.raises(RefusedError, match="would become 'fc2_bias'"):
        gs.rename_params(LENET, out, names={"fc1_bias": "fc2_bias"})
    with pytest.raises(RefusedError, match="would both become"):
        gs.rename_params(LENET, out, names={"fc1_bias": "bn1_gamma"}, leave_out=["bn*"])
    with pytest.raises(RefusedError, match="no name would change"):
        gs.rename_params(LENET, out, strip_prefix="none_")
    with pytest.raises(RefusedError, match="`leave_out` 'x\\*' matches no parameter"):
        gs.rename_params(LENET, out, prefix="a", leave_out=["x*"])
    with pytest.raises(UsageError, match="no rule or option"):
        gs.rename_params(LENET, out)
    with pytest.raises(InputError, match="does not exist"):
        gs.rename_params(tmp_path / "none.params", out, prefix="a")
    shutil.copy(LENET, out)
    with pytest.raises(RefusedError, match="is also the input"):
        gs.rename_params(out, out, prefix="a")
    assert out.read_bytes() == LENET.read_bytes()


def test_the_command(tmp_path: Path) -> None:
    run = graphshare("params", "rename", LENET, "fc1_bias=b", "--dry-run")
    assert run.stdout == b"arg:fc1_bias -> arg:b\n"
    assert b"would rename 1 of 16 arrays" in run.stderr
    run = graphshare("params", "rename", LENET, "fc1_bias=b")
    assert run.returncode == 2
    assert b"there is no output" in run.stderr
    shutil.copy(LENET, tmp_path / "a.params")
    run = graphshare(
        "params",
        "rename",
        "a.params",
        "-p",
        "n_",
        "--except",
        "=conv1_bias",
        "--in-place",
        cwd=tmp_path,
    )
    assert run.stderr == b"renamed 15 of 16 arrays\nwrote a.params\n"
    run = graphshare(
        "params",
        "convert",
        "a.params",
        "b.npz",
        "--select",
        "n_fc*",
        "--except",
        "*bias",
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert list_keys(tmp_path / "b.npz") == ["arg:n_fc1_weight", "arg:n_fc2_weight"]
