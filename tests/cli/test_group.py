"""``group`` as a user runs it: trunks with heads, ensembles, and everything that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.files.schema import find_violations
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from tests.processes import (
    ROOT,
    done,
    files_in,
    graphshare,
    keys_of,
    refused,
    write_json,
    write_params,
)
from tests.symbols import document, old_batch_norm, operator, siamese, two_layers, variable

LENET = ROOT / "fixtures" / "lenet"


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A folder with lenet in parts: ``trunk`` up to pool2, ``head`` from there on, and ``short``, a
    part of the head.
    """
    done(graphshare("extract", LENET, "--target", "pool2", "-o", "trunk", cwd=tmp_path))
    done(
        graphshare(
            "extract", LENET, "--target", "softmax", "--cut", "pool2", "-o", "head", cwd=tmp_path
        )
    )
    done(
        graphshare(
            "extract", LENET, "--target", "tanh3", "--cut", "pool2", "-o", "short", cwd=tmp_path
        )
    )
    return tmp_path


def arrays_of(path: Path) -> dict[str, Any]:
    file = read_index(path)
    with ArrayReader(file) as reader:
        return {str(record.key): np.array(reader.read(record)) for record in file.records}


def run_of(folder: Path, graph: str | Path, *arguments: str) -> dict[str, Any]:
    np.save(
        folder / "x.npy", np.random.default_rng(1).standard_normal((3, 1, 28, 28)).astype("float32")
    )
    done(graphshare("run", graph, "--feed", "data=x.npy", *arguments, "-o", "out.npz", cwd=folder))
    with np.load(folder / "out.npz") as found:
        return {name: found[name] for name in found}


def nodes_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["nodes"]
    return found


def test_a_trunk_and_a_head_are_the_model_again(parts: Path) -> None:
    run = done(
        graphshare(
            "group",
            "trunk",
            "head",
            "--connect",
            "pool2_output=pool2_output",
            "-o",
            "whole",
            cwd=parts,
        )
    )
    assert "connected: pool2_output feeds pool2_output of head-symbol.json" in run.stderr.decode()
    assert (
        arrays_of(parts / "whole-0000.params").keys()
        == arrays_of(ROOT / "fixtures" / "lenet-0000.params").keys()
    )
    same = done(
        graphshare("compare", LENET, "whole", "--against-params", "whole-0000.params", cwd=parts)
    )
    assert same.stdout.decode().splitlines()[-1].startswith("EQUAL")


def test_an_epoch_is_that_of_the_stems(parts: Path) -> None:
    (parts / "trunk-0000.params").rename(parts / "trunk-0007.params")
    command = ("group", "trunk", "head-symbol.json", "--epoch", "7")
    done(graphshare(*command, "--connect", "pool2_output=pool2_output", "-o", "whole", cwd=parts))
    (written,) = parts.glob("whole-*.params")
    assert arrays_of(written).keys() == arrays_of(parts / "trunk-0007.params").keys()


def test_one_trunk_feeds_private_heads(parts: Path) -> None:
    command = (
        "group",
        "trunk",
        "head",
        "short",
        "--connect",
        "pool2=pool2_output",
        "--on-collision",
        "prefix",
        "-o",
        "both",
    )
    done(graphshare(*command, cwd=parts))
    names = [node["name"] for node in nodes_of(parts / "both-symbol.json")]
    assert len(set(names)) == len(names)
    assert "short-fc1_weight" in names
    assert not any("pool2_output" in name for name in names)
    found = run_of(parts, "both")
    wanted = run_of(parts, LENET, "--target", "softmax", "--target", "tanh3")
    assert list(found) == ["softmax_output", "short-tanh3_output"]
    for got, array in zip(found.values(), wanted.values(), strict=True):
        assert np.array_equal(got, array)


def test_inputs_are_connected_by_their_own_names_under_any_prefix(parts: Path) -> None:
    prefixes = ("--prefix", "", "--prefix", "", "--prefix", "b-")
    command = (
        "group",
        "trunk",
        "head",
        "short",
        "--connect",
        "pool2_output=pool2_output",
        *prefixes,
        "-o",
        "both",
    )
    run = done(graphshare(*command, cwd=parts))
    assert b"pool2_output of head-symbol.json, pool2_output of short-symbol.json" in run.stderr
    assert not any("pool2_output" in node["name"] for node in nodes_of(parts / "both-symbol.json"))


def test_an_output_is_known_by_its_own_name_where_an_input_has_the_same(parts: Path) -> None:
    prefixes = ("--prefix", "t-", "--prefix", "")
    run = done(
        graphshare(
            "group",
            "trunk",
            "head",
            "--connect",
            "pool2_output=pool2_output",
            *prefixes,
            "-o",
            "x",
            cwd=parts,
        )
    )
    assert b"connected: t-pool2_output feeds pool2_output of head-symbol.json" in run.stderr


def test_an_input_that_is_named_with_its_prefix_is_that_one(parts: Path) -> None:
    """Two trunks and two heads: the own name of the second head's input is the whole name of the first one's."""
    graphs = ("trunk", "other", "head", "short")
    (parts / "other-symbol.json").write_bytes((parts / "trunk-symbol.json").read_bytes())
    (parts / "other-0000.params").write_bytes((parts / "trunk-0000.params").read_bytes())
    prefixes = ("--prefix", "", "--prefix", "o-", "--prefix", "", "--prefix", "b-")
    connect = (
        "--connect",
        "pool2_output=pool2_output",
        "--connect",
        "o-pool2_output=b-pool2_output",
    )
    run = done(graphshare("group", *graphs, *connect, *prefixes, "-o", "x", cwd=parts))
    assert b"connected: pool2_output feeds pool2_output of head-symbol.json\n" in run.stderr
    assert b"connected: o-pool2_output feeds pool2_output of short-symbol.json\n" in run.stderr
    assert b"is left" not in run.stderr


def test_an_input_that_was_forgotten_is_named(parts: Path) -> None:
    prefixes = ("--prefix", "", "--prefix", "a-", "--prefix", "b-")
    command = (
        "group",
        "trunk",
        "head",
        "short",
        "--connect",
        "pool2_output=a-pool2_output",
        *prefixes,
        "-o",
        "x",
    )
    run = done(graphshare(*command, cwd=parts))
    note = "short-symbol.json: input 'b-pool2_output' is not connected, but 'pool2_output' of head-symbol.json is"
    assert note in run.stderr.decode()
    refused(graphshare(*command, "--strict", cwd=parts), note)


def test_equal_parameters_are_tied_and_the_rest_is_prefixed(parts: Path) -> None:
    prefixes = ("--prefix", "", "--prefix", "a-", "--prefix", "b-")
    command = (
        "group",
        "trunk",
        "head",
        "short",
        "--connect",
        "pool2_output=pool2_output",
        *prefixes,
    )
    done(
        graphshare(
            *command,
            "--on-collision",
            "tie-if-equal",
            "-o",
            "both",
            "--map-out",
            "both.map",
            cwd=parts,
        )
    )
    keys = keys_of(parts / "both-0000.params")
    assert len(set(keys)) == len(keys) == 16
    assert [key for key in keys if "fc1" in key] == ["arg:a-fc1_weight", "arg:a-fc1_bias"]
    nodes = nodes_of(parts / "both-symbol.json")
    users = [n["name"] for n in nodes for e in n["inputs"] if nodes[e[0]]["name"] == "a-fc1_weight"]
    assert users == ["a-fc1", "b-fc1"]
    found = json.loads((parts / "both.map").read_text())
    assert find_violations(found, "map") == []
    how = {(e["graph"], e["from"]["name"]): e["how"] for e in found["entries"]}
    assert how[2, "fc1_weight"] == how[1, "fc1_weight"] == "tied"
    assert how[2, "pool2_output"] == "dropped"
    assert how[0, "conv1_weight"] == "kept"
    assert how[1, "fc2_weight"] == "renamed"
    assert len(found["sources"]) == 3


def test_different_values_are_not_tied(parts: Path) -> None:
    arrays = arrays_of(parts / "short-0000.params")
    arrays["arg:fc1_bias"][3] += 1e-7
    np.savez(parts / "short.npz", **arrays)
    command = (
        "group",
        "head",
        "short-symbol.json",
        "--params",
        "",
        "--params",
        "short.npz",
        "--share-input",
        "pool2_output",
    )
    said = refused(graphshare(*command, "--on-collision", "tie-if-equal", "-o", "both", cwd=parts))
    assert (
        "'fc1_bias' is in both head-symbol.json and short-symbol.json, with different values"
        in said
    )
    assert "'fc1' is in both" in said
    assert "'fc1_weight'" not in said
    assert not (parts / "both-symbol.json").exists()
    done(
        graphshare(
            *command,
            "--on-collision",
            "tie-if-equal",
            "--prefix",
            "",
            "--prefix",
            "b-",
            "-o",
            "both",
            cwd=parts,
        )
    )
    keys = keys_of(parts / "both-0000.params")
    assert [key for key in keys if "fc1" in key] == [
        "arg:fc1_weight",
        "arg:fc1_bias",
        "arg:b-fc1_bias",
    ]
    assert np.array_equal(
        arrays_of(parts / "both-0000.params")["arg:b-fc1_bias"], arrays["arg:fc1_bias"]
    )


def test_an_ensemble_on_one_input(tmp_path: Path) -> None:
    done(
        graphshare(
            "rename",
            LENET,
            "--prefix",
            "m-",
            "--only",
            "ops",
            "--only",
            "parameters",
            "-o",
            "m",
            cwd=tmp_path,
        )
    )
    done(
        graphshare(
            "group",
            LENET,
            "m",
            "--share-input",
            "data",
            "--share-input",
            "*label",
            "-o",
            "both",
            cwd=tmp_path,
        )
    )
    found = run_of(tmp_path, "both")
    assert list(found) == ["softmax_output", "m-softmax_output"]
    assert np.array_equal(found["softmax_output"], found["m-softmax_output"])


def test_the_same_file_twice(tmp_path: Path) -> None:
    command = (
        "group",
        LENET,
        LENET,
        "--prefix",
        "",
        "--prefix",
        "sha-",
        "--share-input",
        "nothing",
        "-o",
        "both",
    )
    refused(
        graphshare(*command, cwd=tmp_path),
        "--share-input 'nothing' matches no input that two graphs have",
    )
    done(
        graphshare(
            "group", LENET, LENET, "--prefix", "", "--prefix", "sha-", "-o", "both", cwd=tmp_path
        )
    )
    done(graphshare("duplicate", LENET, "--prefix", "sha-", "-o", "siam", cwd=tmp_path))
    for name in ("{}-symbol.json", "{}-0000.params"):
        assert (tmp_path / name.format("both")).read_bytes() == (
            tmp_path / name.format("siam")
        ).read_bytes()


def test_later_graphs_may_feed_earlier_ones(parts: Path) -> None:
    done(
        graphshare(
            "group",
            "head",
            "trunk",
            "--connect",
            "pool2_output=pool2_output",
            "-o",
            "whole",
            cwd=parts,
        )
    )
    nodes = nodes_of(parts / "whole-symbol.json")
    assert all(entry[0] < i for i, node in enumerate(nodes) for entry in node["inputs"])
    assert np.array_equal(
        run_of(parts, "whole")["softmax_output"], run_of(parts, LENET)["softmax_output"]
    )


def test_an_input_may_feed_another(parts: Path) -> None:
    done(graphshare("rename", LENET, "--prefix", "m-", "-o", "m", cwd=parts))
    done(graphshare("group", LENET, "m", "--connect", "data=m-data", "-o", "both", cwd=parts))
    found = run_of(parts, "both")
    assert np.array_equal(found["softmax_output"], found["m-softmax_output"])


def test_every_fault_of_the_connections_is_listed(parts: Path) -> None:
    pairs = ["nobody=pool2_output", "pool2_output=nothing", "bn1_output=pool2_output", "pool2_output=pool2_output",
             "pool2_output=fc1_weight", "conv1=bn1_moving_mean", "softmax_output=data"]  # fmt: skip
    words = [word for pair in pairs for word in ("--connect", pair)]
    said = refused(graphshare("group", "trunk", "head", *words, "-o", "x", cwd=parts))
    for fault in (
        "'nobody' names no output and no node",
        "'nothing' names no variable",
        "input 'pool2_output' of head-symbol.json is fed by 'nobody' already",
        "'fc1_weight' of head-symbol.json is a parameter",
        "'bn1_moving_mean' of trunk-symbol.json is an auxiliary state",
    ):
        assert fault in said
    assert files_in(parts) == sorted(
        f"{name}{end}"
        for name in ("trunk", "head", "short")
        for end in ("-symbol.json", "-0000.params")
    )


def test_a_circle_is_shown_as_a_path(parts: Path) -> None:
    words = ("--connect", "pool2_output=pool2_output", "--connect", "tanh3_output=data")
    said = refused(
        graphshare("group", "trunk", "short", *words, "-o", "x", cwd=parts), "go round in a circle"
    )
    assert "'conv1' -> 'bn1'" in said
    assert "'fc1' -> 'tanh3'" in said


def test_names_that_mean_several_outputs_are_refused(parts: Path) -> None:
    said = refused(
        graphshare(
            "group",
            "head",
            "short",
            "trunk",
            "--connect",
            "tanh3_output=data",
            "-o",
            "x",
            cwd=parts,
        )
    )
    assert "'tanh3_output' means 2 outputs (head-symbol.json, short-symbol.json)" in said
    assert "hint: give each file a --prefix, and name the output with it" in said
    words = ("--prefix", "a_", "--prefix", "b_", "--prefix", "", "--connect", "tanh3_output=data")
    said = refused(graphshare("group", "head", "short", "trunk", *words, "-o", "x", cwd=parts))
    assert "hint: name one of a_tanh3_output, b_tanh3_output" in said


def test_all_heads_connected_leaves_nothing(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", document([variable("a"), operator("relu", "r", [0])], [1]))
    write_json(tmp_path / "b.json", document([variable("b"), variable("c")], [0]))
    refused(
        graphshare(
            "group",
            "a.json",
            "b.json",
            "--connect",
            "r=b",
            "--connect",
            "b=a",
            "-o",
            "x",
            cwd=tmp_path,
        ),
        "circle",
    )
    nodes = [variable("b"), operator("relu", "s", [0]), variable("c"), operator("relu", "t", [2])]
    write_json(tmp_path / "b.json", document(nodes, [1]))
    words = ("--connect", "r=b", "--connect", "s=c")
    refused(
        graphshare("group", "a.json", "b.json", *words, "-o", "x.json", cwd=tmp_path),
        "no output is left",
    )
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trunk"], ["at least two graphs"]),
        (["trunk", "head", "--prefix", "a-"], ["--prefix has 1 value for 2 graphs"]),
        (["trunk", "head", "--params", "a"], ["--params has 1 value for 2 graphs"]),
        (["trunk", "head", "--prefix", "a-", "--prefix", "a-"], ["prefix 'a-' is given twice"]),
        (["-", "-"], ["stdin can be read only once"]),
        (["trunk", "head", "--connect", "pool2"], ["'pool2' is not a pair of names"]),
        (["trunk", "head", "-o", "x.json"], ["so they need an output"]),
        (["trunk", "nowhere"], ["does not exist"]),
        (
            [
                "trunk",
                "head",
                "-o",
                "x",
                "--strict",
                "--params",
                "",
                "--params",
                "trunk-0000.params",
            ],
            ["holds no parameter"],
        ),
    ],
)
def test_wrong_use(parts: Path, arguments: list[str], words: list[str]) -> None:
    before = files_in(parts)
    refused(graphshare("group", *arguments, cwd=parts), *words)
    assert files_in(parts) == before


def test_generations_versions_and_np_shape_do_not_mix(tmp_path: Path) -> None:
    write_json(tmp_path / "new.json", two_layers())
    write_json(tmp_path / "old.json", old_batch_norm())
    other = siamese()
    other["attrs"]["is_np_shape"] = ["int", 1]
    write_json(tmp_path / "np.json", other)
    said = refused(
        graphshare("group", "new.json", "old.json", "np.json", "-o", "x.json", cwd=tmp_path)
    )
    assert "mxnet_version is 10901 in new.json and not given in old.json" in said
    assert said.endswith(
        "is_np_shape is not given in new.json and 1 in np.json\n  hint: all graphs in a file share this value\n"
    )
    assert "new.json is of 1.0 (1.0 and later) and old.json of 2015" in said
    assert "is_np_shape is not given in new.json and 1 in np.json" in said
    assert "add --upgrade: it brings them to one version" in said


def test_group_upgrades_what_is_older(tmp_path: Path) -> None:
    write_json(tmp_path / "new.json", two_layers())
    write_json(tmp_path / "old.json", old_batch_norm())
    line = ["group", "new.json", "old.json", "--prefix", "n_", "--prefix", "o_", "-o"]
    refused(graphshare(*line, "x.json", cwd=tmp_path), "add --upgrade")
    done(graphshare(*line, "once.json", "--upgrade", cwd=tmp_path))
    for name in ("new", "old"):
        done(
            graphshare("upgrade", f"{name}.json", "-o", f"{name}.json", "--in-place", cwd=tmp_path)
        )
    done(graphshare(*line, "twice.json", cwd=tmp_path))
    assert (tmp_path / "once.json").read_bytes() == (tmp_path / "twice.json").read_bytes()


def test_v3_parameters_do_not_mix_with_v2(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", siamese())
    done(graphshare("rename", "a.json", "--prefix", "b-", "-o", "b.json", cwd=tmp_path))
    write_params(tmp_path / "a.params", ["arg:conv_weight"])
    write_params(tmp_path / "b.params", ["arg:b-conv_weight"])
    data = (tmp_path / "b.params").read_bytes()
    (tmp_path / "b.params").write_bytes(
        data.replace(0xF993FAC9.to_bytes(4, "little"), 0xF993FACA.to_bytes(4, "little"))
    )
    command = (
        "group",
        "a.json",
        "b.json",
        "--params",
        "a.params",
        "--params",
        "b.params",
        "-o",
        "x",
    )
    refused(
        graphshare(*command, cwd=tmp_path),
        "b.params holds V3 arrays (np-shape) and a.params does not",
    )
    np.savez(tmp_path / "b.npz", **{"arg:b-conv_weight": np.ones((2,), "float32")})
    command = ("group", "a.json", "b.json", "--params", "a.params", "--params", "b.npz", "-o", "x")
    done(graphshare(*command, cwd=tmp_path))
    assert arrays_of(tmp_path / "x-0000.params").keys() == {"arg:conv_weight", "arg:b-conv_weight"}


def test_old_files_keep_their_implied_states_apart(tmp_path: Path) -> None:
    write_json(tmp_path / "old.json", old_batch_norm())
    keys = [
        "arg:bn_gamma",
        "arg:bn_beta",
        "aux:bn_moving_mean",
        "aux:bn_moving_var",
        "arg:fc_weight",
        "arg:fc_bias",
    ]
    write_params(tmp_path / "old.params", keys)
    command = ("group", "old.json", "old.json", "--params", "old.params", "--params", "old.params")
    said = refused(
        graphshare(*command, "-o", "x", cwd=tmp_path),
        "'bn_moving_mean' is in both old.json and old.json",
    )
    assert "--prefix" in said
    done(graphshare(*command, "--on-collision", "prefix", "-o", "x", cwd=tmp_path))
    assert keys_of(tmp_path / "x-0000.params") == keys + [key.replace(":", ":old-") for key in keys]


def test_tied_states_count_their_mutations(tmp_path: Path) -> None:
    """Entries to a state that two parts write are numbered on, as MXNet numbers them."""
    write_json(tmp_path / "a.json", two_layers())
    keys = [f"arg:{n}" for n in ("fc1_weight", "fc1_bias", "bn_gamma", "bn_beta", "fc2_weight")]
    keys += ["aux:bn_moving_mean", "aux:bn_moving_var"]
    write_params(tmp_path / "a.params", keys)
    command = (
        "group",
        "a.json",
        "a.json",
        "--params",
        "a.params",
        "--params",
        "a.params",
        "--prefix",
        "",
        "--prefix",
        "b-",
    )
    done(graphshare(*command, "--on-collision", "tie-if-equal", "-o", "x", cwd=tmp_path))
    nodes = nodes_of(tmp_path / "x-symbol.json")
    versions = {n["name"]: [e[2] for e in n["inputs"]] for n in nodes if n["op"] == "BatchNorm"}
    assert versions == {"bn": [0, 0, 0, 1, 1], "b-bn": [0, 0, 0, 2, 2]}
    done(
        graphshare(
            "duplicate",
            "a.json",
            "--params",
            "a.params",
            "--prefix",
            "b-",
            "--mode",
            "tie",
            "-o",
            "y",
            cwd=tmp_path,
        )
    )
    assert (tmp_path / "x-symbol.json").read_bytes() == (tmp_path / "y-symbol.json").read_bytes()
    assert keys_of(tmp_path / "x-0000.params") == keys


def test_what_no_variable_claims_is_left_out_and_said(parts: Path) -> None:
    params = ("--params", "", "--params", ROOT / "fixtures" / "lenet-0000.params")
    command = (
        "group",
        "trunk",
        "head",
        *params,
        "--connect",
        "pool2_output=pool2_output",
        "-o",
        "whole",
    )
    said = done(graphshare(*command, cwd=parts)).stderr.decode()
    assert "warning: " in said
    assert "contains arrays that no variable uses" in said
    assert len(set(keys_of(parts / "whole-0000.params"))) == 16
    refused(graphshare(*command, "--strict", cwd=parts), "contains arrays that no variable uses")


def test_through_pipes_and_as_a_plan(parts: Path) -> None:
    head = (parts / "head-symbol.json").read_bytes()
    command = ("group", "trunk-symbol.json", "-", "--connect", "pool2_output=pool2_output")
    run = done(graphshare(*command, data=head, cwd=parts))
    assert json.loads(run.stdout)["heads"]
    plan = json.loads(
        done(graphshare(*command, "--dry-run", "--format", "json", data=head, cwd=parts)).stdout
    )
    assert find_violations(plan, "plan") == []
    assert {entry["graph"] for entry in plan["entries"]} == {0, 1}


def test_two_batches_wait_for_no_common_barrier(tmp_path: Path) -> None:
    def norm(prefix: str) -> dict[str, Any]:
        names = [f"{prefix}{n}" for n in ("data", "gamma", "beta", "mean", "var")]
        attrs = {"key": "bn", "ndev": "1"}
        return document(
            [
                *map(variable, names),
                operator("_contrib_SyncBatchNorm", f"{prefix}bn", range(5), attrs=attrs),
            ],
            [5],
        )

    write_json(tmp_path / "a.json", norm("a"))
    write_json(tmp_path / "b.json", norm("b"))
    refused(
        graphshare("group", "a.json", "b.json", "-o", "x.json", cwd=tmp_path),
        "the key of _contrib_SyncBatchNorm 'bn'",
    )
    done(
        graphshare(
            "group", "a.json", "b.json", "--on-collision", "prefix", "-o", "x.json", cwd=tmp_path
        )
    )
    assert [n["attrs"]["key"] for n in nodes_of(tmp_path / "x.json") if n["op"] != "null"] == [
        "bn",
        "b-bn",
    ]


def test_prefixes_after_the_name_of_the_file_are_numbered(tmp_path: Path) -> None:
    write_json(
        tmp_path / "head-symbol.json",
        document([variable("data"), operator("relu", "act", [0])], [1]),
    )
    command = ("group", *["head-symbol.json"] * 4, "--on-collision", "prefix", "-o", "all.json")
    said = done(graphshare(*command, cwd=tmp_path)).stderr.decode()
    assert "outputs: act_output, head-act_output, head-2-act_output, head-3-act_output\n" in said
    written = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    names = [node["name"] for node in written["nodes"]]
    assert names[::2] == ["data", "head-data", "head-2-data", "head-3-data"]


def _write_model(path: Path, text: str) -> None:
    onnx = pytest.importorskip("onnx")
    onnx.save(onnx.parser.parse_model(text), path)


def test_a_circle_is_answered_with_the_output_of_that_name_in_another_file(tmp_path: Path) -> None:
    for name, end in (("enc", "x"), ("dec", "hidden")):
        graph = f"g (float[2] {end}) => (float[2] hidden_out) {{ hidden_out = Relu({end}) }}"
        _write_model(tmp_path / f"{name}.onnx", f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    words = (
        "group",
        "enc.onnx",
        "dec.onnx",
        "--prefix",
        "enc_",
        "--prefix",
        "",
        "-o",
        "both.onnx",
        "--connect",
    )
    refused(
        graphshare(*words, "hidden_out=hidden", cwd=tmp_path),
        "circle",
        "did you mean 'enc_hidden_out'?",
    )
    done(graphshare(*words, "enc_hidden_out=hidden", cwd=tmp_path))


def test_operator_sets_are_compared_only_where_both_models_use_them(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    _write_model(
        tmp_path / "net.onnx",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] h) { h = Relu(x) }""",
    )
    text = """<ir_version: 8, opset_import: ["" : 9, "ai.onnx.ml" : 2]> g (float[2] h) => (float[2] y) {
        y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (h) }"""
    _write_model(tmp_path / "scaler.onnx", text)
    _write_model(
        tmp_path / "old.onnx", text.replace("y = ai", "z = Abs(h) y = ai").replace("(h) }", "(z) }")
    )
    for names in (("net", "scaler"), ("scaler", "net")):
        files = [f"{name}.onnx" for name in names]
        done(graphshare("group", *files, "--connect", "h=h", "-o", "both.onnx", cwd=tmp_path))
        model = onnx.load(tmp_path / "both.onnx")
        onnx.checker.check_model(model)
        assert sorted((each.domain, each.version) for each in model.opset_import) == [
            ("", 17),
            ("ai.onnx.ml", 2),
        ]
    said = refused(
        graphshare(
            "group", "net.onnx", "old.onnx", "--connect", "h=h", "-o", "x.onnx", cwd=tmp_path
        )
    )
    assert "operator set ai.onnx is 17 in one and 9 in the other" in said
    assert "hint: --align brings the older model up, with a proof" in said
    run = done(
        graphshare(
            "group",
            "net.onnx",
            "old.onnx",
            "--connect",
            "h=h",
            "-o",
            "x.onnx",
            "--align",
            cwd=tmp_path,
        )
    )
    assert (
        "old.onnx: operator set 9 became 17, and the results are equal, exact"
        in run.stderr.decode()
    )


def test_a_prefix_comes_from_the_stem_of_a_file(tmp_path: Path) -> None:
    _write_model(
        tmp_path / "net.onnx",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] h) { h = Relu(x) }""",
    )
    run = done(
        graphshare(
            "group",
            "net.onnx",
            "net.onnx",
            "--on-collision",
            "prefix",
            "-o",
            "two.onnx",
            cwd=tmp_path,
        )
    )
    assert "outputs: h, net-h" in run.stderr.decode()


def test_a_switch_takes_operator_sets_that_one_model_alone_uses(tmp_path: Path) -> None:
    _write_model(
        tmp_path / "net.onnx",
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }',
    )
    text = (
        '<ir_version: 8, opset_import: ["" : 9, "ai.onnx.ml" : 2]> g (float[2] x) => (float[2] y)'
    )
    _write_model(
        tmp_path / "ml.onnx",
        text + " { y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x) }",
    )
    done(
        graphshare(
            "group", "net.onnx", "ml.onnx", "--switch", "net", "-o", "both.onnx", cwd=tmp_path
        )
    )
    done(
        graphshare(
            "extract", "both.onnx", "--branch", "net=false", "-o", "again.onnx", cwd=tmp_path
        )
    )
    done(graphshare("run", "again.onnx", "--seed", "0", "-o", "again.npz", cwd=tmp_path))
    done(graphshare("run", "ml.onnx", "--seed", "0", "-o", "ml.npz", cwd=tmp_path))
    with np.load(tmp_path / "again.npz") as again, np.load(tmp_path / "ml.npz") as alone:
        assert [again[name].tobytes() for name in again] == [
            alone[name].tobytes() for name in alone
        ]
