"""``params show, stats, diff, convert``: what they say of files of every format."""

from __future__ import annotations

import json
import re
import resource
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.api.params import list_params, show_params
from graphshare.files.schema import find_violations
from tests import params_bytes
from tests.cli.test_terminal import at_terminal
from tests.processes import COMMAND, ROOT, done, environment, graphshare, refused

safetensors = pytest.importorskip("safetensors")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    done(graphshare("duplicate", "lenet", "--prefix", "b-", "-o", "two", cwd=tmp_path))
    return tmp_path


def report(folder: Path, *arguments: str, schema: str) -> Any:
    run = graphshare("params", *arguments, "--format", "json", cwd=folder)
    assert run.returncode in (0, 1), run.stderr
    found = json.loads(run.stdout)
    assert find_violations(found, schema) == []
    return found


@pytest.mark.parametrize("suffix", ["params", "npz", "safetensors"])
def test_show_tells_place_and_copies_in_every_format(suffix: str, folder: Path) -> None:
    if suffix != "params":
        done(graphshare("params", "convert", "two-0000.params", f"two-0000.{suffix}", cwd=folder))
    found = report(folder, "show", f"two-0000.{suffix}", schema="params-show")
    arrays = {array["key"]: array for array in found["arrays"]}
    assert len(arrays) == 32
    data = (folder / f"two-0000.{suffix}").read_bytes()
    for key, array in arrays.items():
        twin = key.replace(":b-", ":")
        assert array["equal_to"] == (twin if key != twin else None)
        assert array["tied_to"] is None
        if array["offset"] is not None:
            twin_at = arrays[twin]["offset"]
            assert data[array["offset"] :][: array["size"]] == data[twin_at:][: array["size"]]
    assert found["repeated"] * 2 == found["size"]


def test_ties_are_kept_made_and_undone(folder: Path) -> None:
    done(
        graphshare("params", "convert", "two-0000.params", "tied.safetensors", "--tie", cwd=folder)
    )
    with safetensors.safe_open(folder / "tied.safetensors", "np") as file:
        assert len(list(file.keys())) == 16
        ties = file.metadata()
    # as safetensors.torch.save_model writes them: the name that is left out, and the one that is kept
    assert ties == {
        key.replace(":", ":b-"): key for key in (key.replace(":b-", ":") for key in ties)
    }
    found = {
        array["key"]: array
        for array in report(folder, "show", "tied.safetensors", schema="params-show")["arrays"]
    }
    assert {key: array["tied_to"] for key, array in found.items() if array["tied_to"]} == ties
    done(graphshare("params", "convert", "tied.safetensors", "again.safetensors", cwd=folder))
    assert (folder / "again.safetensors").read_bytes() == (folder / "tied.safetensors").read_bytes()
    run = done(graphshare("params", "convert", "tied.safetensors", "apart.params", cwd=folder))
    assert run.stderr.count(b"was tied and has an array of its own now") == 16
    assert not report(folder, "diff", "two-0000.params", "apart.params", schema="params-diff")[
        "different"
    ]
    assert not report(folder, "diff", "two-0000.params", "tied.safetensors", schema="params-diff")[
        "different"
    ]


def test_a_graph_finds_tied_names_in_its_file(folder: Path) -> None:
    done(
        graphshare("params", "convert", "two-0000.params", "tied.safetensors", "--tie", cwd=folder)
    )
    done(
        graphshare(
            "verify", "two-symbol.json", "--params", "tied.safetensors", "--prefix=b-", cwd=folder
        )
    )
    done(graphshare("rename", "two-symbol.json", "--params", "tied.safetensors", "--prefix", "n_", "-o", "n.json",
                    "--params-out", "n.safetensors", cwd=folder))  # fmt: skip
    with safetensors.safe_open(folder / "n.safetensors", "np") as file:
        assert file.metadata()["arg:n_b-conv1_weight"] == "arg:n_conv1_weight"
    # copies of a copy are new arrays, tied among themselves as their sources are
    done(graphshare("duplicate", "two-symbol.json", "--params", "tied.safetensors", "--prefix", "c-", "-o", "c.json",
                    "--params-out", "c.safetensors", cwd=folder))  # fmt: skip
    with safetensors.safe_open(folder / "c.safetensors", "np") as file:
        assert file.metadata()["arg:c-b-conv1_weight"] == "arg:c-conv1_weight"
        assert "arg:c-conv1_weight" in file.keys()  # noqa: SIM118 (no mapping)


def test_metadata_that_are_no_ties_stay_what_they_are(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt", "b": "a", "c": "missing"},
              "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}  # fmt: skip
    text = json.dumps(header).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    done(graphshare("params", "convert", "a.safetensors", "b.safetensors", cwd=tmp_path))
    with safetensors.safe_open(tmp_path / "b.safetensors", "np") as file:
        assert file.metadata() == header["__metadata__"]


def test_ties_have_no_place_elsewhere(folder: Path) -> None:
    refused(
        graphshare("params", "convert", "two-0000.params", "t.npz", "--tie", cwd=folder),
        "npz has no ties",
    )


def test_select(folder: Path) -> None:
    found = report(
        folder,
        "stats",
        "two-0000.params",
        "--select",
        "conv1*",
        "--select",
        "=arg:fc2_bias",
        schema="params-stats",
    )
    assert [array["key"] for array in found["arrays"]] == [
        "arg:conv1_weight",
        "arg:conv1_bias",
        "arg:fc2_bias",
    ]
    done(
        graphshare(
            "params",
            "convert",
            "two-0000.params",
            "some.npz",
            "--select",
            "b-bn?_gamma",
            cwd=folder,
        )
    )
    assert sorted(np.load(folder / "some.npz").files) == ["arg:b-bn1_gamma", "arg:b-bn2_gamma"]
    run = graphshare("params", "show", "two-0000.params", "--select", "con1_weight", cwd=folder)
    refused(run, "matches no parameter", "did you mean 'conv1_weight'")
    found = report(
        folder,
        "diff",
        "lenet-0000.params",
        "two-0000.params",
        "--select",
        "b-conv1*",
        schema="params-diff",
    )
    assert [(c["how"], c["new"]) for c in found["changes"]] == [
        ("added", "arg:b-conv1_weight"),
        ("added", "arg:b-conv1_bias"),
    ]


def test_names_are_left_out(folder: Path) -> None:
    left_out = ("--except", "conv*", "--except", "*bn*", "--except", "b-*")
    rest = [f"arg:fc{number}_{what}" for number in (1, 2) for what in ("weight", "bias")]
    for view in ("show", "stats"):
        found = report(folder, view, "two-0000.params", *left_out, schema=f"params-{view}")
        assert [array["key"] for array in found["arrays"]] == rest
    some = ("--select", "*weight", "--except", "fc*", "--except", "b-*")
    found = report(folder, "show", "two-0000.params", *some, schema="params-show")
    assert [array["key"] for array in found["arrays"]] == ["arg:conv1_weight", "arg:conv2_weight"]
    found = report(
        folder,
        "diff",
        "lenet-0000.params",
        "two-0000.params",
        "--except",
        "b-*",
        schema="params-diff",
    )
    assert (found["equal"], found["changes"]) == (16, [])
    done(graphshare("rename", "lenet", "--prefix", "x_", "-o", "y", cwd=folder))
    prefixed = ("lenet-0000.params", "y-0000.params", "--extra-prefix", "x_", "--except", "conv*")
    assert report(folder, "diff", *prefixed, schema="params-diff")["equal"] == 12
    for view in (
        ("show", "two-0000.params"),
        ("stats", "two-0000.params"),
        ("diff", "two-0000.params", "lenet"),
    ):
        run = graphshare("params", *view, "--except", "con1_weight", cwd=folder)
        refused(run, "--except 'con1_weight' matches no parameter", "did you mean 'conv1_weight'")


def test_diff_under_a_prefix(folder: Path) -> None:
    done(graphshare("rename", "lenet", "--prefix", "x_", "-o", "x", cwd=folder))
    assert report(folder, "diff", "lenet-0000.params", "x-0000.params", schema="params-diff")[
        "different"
    ]
    assert not report(
        folder,
        "diff",
        "lenet-0000.params",
        "x-0000.params",
        "--extra-prefix",
        "x_",
        schema="params-diff",
    )["different"]
    run = graphshare(
        "params", "diff", "lenet-0000.params", "x-0000.params", "--extra-prefix", "x_", cwd=folder
    )
    assert (run.returncode, run.stdout) == (0, b"parameters: 16 equal, 0 different\n")


def test_misspelt_commands_are_guessed(folder: Path) -> None:
    refused(graphshare("params", "stast", "lenet-0000.params", cwd=folder), "did you mean 'stats'")


@pytest.mark.corpus
def test_sparse_stays_sparse_or_is_said_to_be_densified(corpus: Path, tmp_path: Path) -> None:
    sparse = str(corpus / "params" / "params_sparse.params")
    found = {
        array["key"]: array
        for array in report(tmp_path, "stats", sparse, schema="params-stats")["arrays"]
    }
    assert found["arg:rsp"]["statistics"]["stored"] == 6
    assert found["arg:rsp"]["statistics"]["count"] == 18
    assert not report(tmp_path, "diff", sparse, sparse, schema="params-diff")["different"]
    run = done(graphshare("params", "convert", sparse, "dense.params", "--densify", cwd=tmp_path))
    assert run.stderr.count(b"was sparse and is dense now") == 4
    changes = report(tmp_path, "diff", sparse, "dense.params", schema="params-diff")["changes"]
    assert {change["old"] for change in changes} == {
        "arg:rsp",
        "arg:csr",
        "arg:rsp_empty",
        "arg:csr_empty",
    }
    assert all(change["how"] == "form" and change["distance"]["densified"] for change in changes)
    for key in ("arg:rsp", "arg:csr"):
        arrays = report(
            tmp_path, "stats", "dense.params", "--select", f"={key}", schema="params-stats"
        )["arrays"]
        dense = arrays[0]["statistics"]
        assert {**dense, "stored": 0} == pytest.approx({**found[key]["statistics"], "stored": 0})


@pytest.mark.large
def test_no_more_than_pieces_are_in_memory(tmp_path: Path) -> None:
    """Two files of 240 MB under a limit of 700 MB of address space, most of which numpy's libraries take."""
    array = np.zeros(60_000_000, "float32")
    for name in ("a", "b"):
        array[-1] = len(name)
        np.savez(tmp_path / f"{name}.npz", **{"arg:w": array, "arg:v": array[:10]})
    del array
    limit = 700 << 20
    for command in (["show", "a.npz"], ["stats", "a.npz"], ["diff", "a.npz", "b.npz"]):
        run = subprocess.run(
            [*COMMAND, "params", *command], cwd=tmp_path, capture_output=True, timeout=300,
            env=environment(OPENBLAS_NUM_THREADS="1"), check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )  # fmt: skip
        assert run.returncode == 0, run.stderr


def test_list_separates_columns_by_tabs(folder: Path) -> None:
    first = done(graphshare("params", "list", "lenet-0000.params", cwd=folder)).stdout.splitlines()[
        0
    ]
    assert first == b"arg:conv1_weight\tfloat32\t8x1x5x5\tV2"


def test_list_is_a_table_on_a_terminal(folder: Path) -> None:
    shown, code = at_terminal("params", "list", "lenet", cwd=folder, NO_COLOR="1")
    assert code == 0
    lines = shown.splitlines()
    assert lines[:3] == ["name                 type     shape     layout", "arg:conv1_weight     float32  8x1x5x5   V2",
                         "arg:conv1_bias       float32  8         V2"]  # fmt: skip
    assert "\t" not in shown


@pytest.mark.parametrize("command", ["list", "show", "stats"])
def test_a_stem_and_stdin_mean_the_parameter_file(command: str, folder: Path) -> None:
    direct = done(graphshare("params", command, "lenet-0000.params", cwd=folder)).stdout
    assert done(graphshare("params", command, "lenet", cwd=folder)).stdout == direct
    data = (folder / "lenet-0000.params").read_bytes()
    assert done(graphshare("params", command, "-", data=data)).stdout == direct  # a pipe
    with (folder / "lenet-0000.params").open("rb") as file:
        run = subprocess.run(
            [*COMMAND, "params", command, "-"],
            stdin=file,
            capture_output=True,
            env=environment(),
            check=True,
        )
    assert run.stdout == direct
    shutil.copy(folder / "lenet-0000.params", folder / "lenet-0004.params")
    refused(
        graphshare("params", command, "lenet", cwd=folder), "2 parameter files", "0, 4", "--epoch"
    )
    assert done(graphshare("params", command, "lenet", "--epoch", "4", cwd=folder)).stdout == direct
    refused(
        graphshare("params", command, "lenet-0000.params", "--epoch", "4", cwd=folder),
        "needs a stem",
    )


def test_an_epoch_is_that_of_each_stem_that_is_compared(folder: Path) -> None:
    done(graphshare("params", "convert", "lenet", "other.npz", cwd=folder))
    arrays = dict(np.load(folder / "other.npz"))
    arrays["arg:conv1_bias"] = arrays["arg:conv1_bias"] + 1
    np.savez(folder / "changed.npz", **arrays)
    done(graphshare("params", "convert", "changed.npz", "lenet-0004.params", cwd=folder))
    compare = ("params", "diff", "lenet")
    refused(
        graphshare(*compare, "other.npz", cwd=folder), "2 parameter files", "choose with --epoch"
    )
    assert done(graphshare(*compare, "other.npz", "--epoch", "0", cwd=folder))
    found = graphshare(*compare, "other.npz", "--epoch", "4", cwd=folder)
    assert (found.returncode, b"conv1_bias" in found.stdout) == (1, True)
    assert done(graphshare(*compare, "lenet", "--epoch", "4", cwd=folder))
    refused(
        graphshare("params", "diff", "changed.npz", "other.npz", "--epoch", "4", cwd=folder),
        "needs a stem",
    )
    refused(
        graphshare(*compare, "other.npz", "--epoch", "7", cwd=folder),
        "lenet-0007.params",
        "does not exist",
    )


def test_a_stem_is_converted_and_compared(folder: Path) -> None:
    done(graphshare("params", "convert", "lenet", "x.npz", cwd=folder))
    assert (
        b"16 equal, 0 different"
        in done(graphshare("params", "diff", "lenet", "x.npz", cwd=folder)).stdout
    )
    assert (
        b"16 equal, 0 different"
        in done(graphshare("params", "diff", "x.npz", "lenet", cwd=folder)).stdout
    )
    refused(
        graphshare("params", "convert", "lenet", "lenet-0000.params", cwd=folder),
        "is also the input",
        "--in-place",
    )
    refused(
        graphshare("params", "convert", "x.npz", "y.params", "--epoch", "0", cwd=folder),
        "needs a stem",
    )
    shutil.copy(folder / "lenet-0000.params", folder / "lenet-0004.params")
    for words in (("convert", "lenet", "y.npz"), ("diff", "lenet", "lenet")):
        said = refused(
            graphshare("params", *words, cwd=folder), "error: lenet: has 2 parameter files"
        )
        assert (
            "there are epochs 0, 4: choose with --epoch, or name a file, such as lenet-0000.params"
            in said
        )
    done(graphshare("params", "convert", "lenet", "y.npz", "--epoch", "4", cwd=folder))
    refused(
        graphshare("params", "convert", "lenet", "y.npz", "--epoch", "5", cwd=folder),
        "lenet-0005.params: does not exist",
    )


def test_stdin_is_read_by_whatever_reads_parameters(folder: Path) -> None:
    data = (folder / "lenet-0000.params").read_bytes()
    done(graphshare("params", "convert", "-", "again.params", data=data, cwd=folder))
    assert (folder / "again.params").read_bytes() == data
    assert (
        b"0 different"
        in done(
            graphshare("params", "diff", "lenet-0000.params", "-", data=data, cwd=folder)
        ).stdout
    )
    run = done(graphshare("inspect", "lenet-symbol.json", "--params", "-", data=data, cwd=folder))
    assert b"lenet-symbol.json, <stdin> (49.3 kB)" in run.stdout
    both = graphshare("inspect", "-", "--params", "-", data=data, cwd=folder)
    refused(both, "cannot both come from stdin")


def test_a_pipe_that_never_ends_fills_no_disk(folder: Path) -> None:
    """It is refused by its start; ulimit bounds what may be written anyway."""
    run = subprocess.run(
        ["sh", "-c", f"ulimit -f 20000; cat /dev/zero | {' '.join(COMMAND)} params list -"],
        cwd=folder, capture_output=True, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    refused(run, "<stdin>", "not a parameter file")
    refused(graphshare("params", "list", "-", data=b"", cwd=folder), "<stdin>: is empty")


def test_names_in_a_model_have_no_prefix_and_are_paired_anyway(folder: Path) -> None:
    done(
        graphshare(
            "export",
            "lenet",
            "--shape",
            "data=1,1,28,28",
            "--no-verify",
            "-o",
            "lenet.onnx",
            cwd=folder,
        )
    )
    selected = ("--select", "*conv*", "--select", "*bn*")
    for pair in (("lenet.onnx", "lenet-0000.params"), ("lenet-0000.params", "lenet.onnx")):
        assert report(folder, "diff", *pair, *selected, schema="params-diff")["equal"] == 12
        assert done(graphshare("params", "diff", *pair, *selected, cwd=folder))
    done(graphshare("params", "convert", "lenet", "other.npz", cwd=folder))
    arrays = {key.partition(":")[2]: array for key, array in np.load(folder / "other.npz").items()}
    np.savez(folder / "bare.npz", **arrays)
    found = report(folder, "diff", "lenet-0000.params", "bare.npz", schema="params-diff")
    assert {change["how"] for change in found["changes"]} == {"renamed"}


def test_convert_says_what_stays_float32_of_which_format(folder: Path) -> None:
    done(
        graphshare(
            "export",
            "lenet",
            "--shape",
            "data=1,1,28,28",
            "--no-verify",
            "-o",
            "lenet.onnx",
            cwd=folder,
        )
    )
    for source, why in (
        ("lenet", "MXNet takes them in float32 only"),
        ("lenet.onnx", "they stay float32 beside float16 data"),
    ):
        run = done(
            graphshare("params", "convert", source, "half.npz", "--dtype", "float16", cwd=folder)
        )
        assert "8 arrays of BatchNorm" in run.stderr.decode()
        assert f"keep their type: {why}; --keep chooses different ones" in run.stderr.decode()
        run = done(
            graphshare(
                "params",
                "convert",
                source,
                "half.npz",
                "--dtype",
                "float16",
                "--keep",
                "",
                cwd=folder,
            )
        )
        assert b"keep" not in run.stderr
        run = done(
            graphshare(
                "params",
                "convert",
                source,
                "half.npz",
                "--dtype",
                "float16",
                "--keep",
                "*bn*",
                cwd=folder,
            )
        )
        assert b"keep" not in run.stderr
        run = done(
            graphshare("params", "convert", source, "double.npz", "--dtype", "float64", cwd=folder)
        )
        assert b"keep" not in run.stderr


def test_a_listing_remarks_on_names_and_arrays(tmp_path: Path) -> None:
    records = [
        params_bytes.dense((2,)),
        params_bytes.dense((2,)),
        params_bytes.never_filled(),
        params_bytes.dense((1,), "int16"),
    ]
    path = tmp_path / "a.params"
    path.write_bytes(params_bytes.container(records, ["arg:a", "arg:a", "arg:b", "arg:c"]) + b"\0")
    remarks = [(remark.path, remark.message) for remark in list_params(path).remarks]
    assert remarks == [
        ("", "has 1 byte after the last name; MXNet ignores them, a rewrite drops them"),
        ('record 1 "arg:a"', "has the name of an earlier record; MXNet keeps the last"),
        ('record 2 "arg:b"', "was never filled: it has no array"),
        ('record 3 "arg:c"', "is int16, which MXNet 1.9.1 does not load"),
    ]
    path.write_bytes(params_bytes.container(records[:2], []))
    assert list_params(path).remarks == ()


def test_arrays_that_are_stored_twice_are_counted_in_bytes(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        a=np.ones(3, "float32"),
        b=np.ones(3, "float32"),
        c=np.zeros(5, "float32"),
    )
    shown = show_params(tmp_path / "a.npz")
    assert ([array.equal_to for array in shown.arrays], shown.repeated, shown.size) == (
        [None, "a", None],
        12,
        44,
    )
    rows = [params_bytes.row_sparse((3, 2), [row], params_bytes.floats(1, 2)) for row in (1, 1, 2)]
    columns = [
        params_bytes.csr((2, 3), [0, 1, 2], [0, column], params_bytes.floats(1, 2))
        for column in (2, 2, 1)
    ]
    (tmp_path / "a.params").write_bytes(
        params_bytes.container([*rows, *columns], [f"arg:{name}" for name in "abcdef"])
    )
    equal = [array.equal_to for array in show_params(tmp_path / "a.params").arrays]
    assert equal == [None, "arg:a", None, None, "arg:d", None]


def test_the_size_of_a_sparse_array_is_that_of_all_its_parts(tmp_path: Path) -> None:
    rows = params_bytes.row_sparse((3, 2), [1], params_bytes.floats(1, 2))
    columns = params_bytes.csr((2, 3), [0, 1, 2], [0, 2], params_bytes.floats(1, 2))
    path = tmp_path / "a.params"
    path.write_bytes(
        params_bytes.container(
            [rows, columns, params_bytes.dense((2,))], ["arg:r", "arg:c", "arg:d"]
        )
    )
    listed = list_params(path)
    assert listed.data_size == 16 + 48 + 8
    assert re.findall(r"<td[^>]*>(.*?)</td>", listed._repr_html_())[:4] == [
        "arg:r",
        "3x2",
        "float32",
        "92 B",
    ]
    shown = show_params(path)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", shown._repr_html_())
    assert cells == [
        "arg:r",
        "3x2",
        "float32",
        "16 B",
        "",
        "arg:c",
        "2x3",
        "float32",
        "48 B",
        "",
        "arg:d",
        "2",
        "float32",
        "8 B",
        "",
    ]
    sizes = {array.key: (array.storage, array.size) for array in shown.arrays}
    assert sizes == {"arg:r": ("row_sparse", 16), "arg:c": ("csr", 48), "arg:d": ("default", 8)}


def test_numbers_that_are_not_finite_are_counted_together_and_told_apart(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        a=np.array([np.nan, np.inf, 0, 4], "float32"),
        b=np.ones((2, 2), "int64"),
    )
    run = done(graphshare("params", "stats", "a.npz", cwd=tmp_path))
    cells = [line.split() for line in run.stdout.decode().splitlines()]
    assert [row[0] for row in cells] == ["name", "a", "b"]
    assert (cells[1][-2:], cells[2][1:]) == (
        ["25%", "2"],
        ["2x2", "int64", "1", "1", "1", "0", "2", "0%", "0"],
    )
    assert run.stderr.decode() == "warning: a holds 1 NaN and 1 infinity\n"
