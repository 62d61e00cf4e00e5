"""Every command as a user runs it: options, checkpoints, parameters, plans, maps, refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from graphshare.cli.main import COMMANDS, cli
from tests import params_bytes
from tests.processes import (
    COMMAND,
    ROOT,
    done,
    environment,
    files_in,
    graphshare,
    in_process,
    keys_of,
    refused,
    write_json,
    write_params,
)
from tests.symbols import document, old_batch_norm, operator, siamese, two_layers, variable

LAYER_KEYS = [
    "arg:fc1_weight",
    "arg:fc1_bias",
    "arg:bn_gamma",
    "arg:bn_beta",
    "arg:fc2_weight",
    "aux:bn_moving_mean",
    "aux:bn_moving_var",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(tmp_path / "siamese.json", siamese())
    write_json(tmp_path / "net-symbol.json", two_layers())
    write_params(tmp_path / "net-0007.params", LAYER_KEYS)
    write_json(tmp_path / "old.json", old_batch_norm())
    return tmp_path


def nodes_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["nodes"]
    return found


def names_of(path: Path) -> list[str]:
    return [node["name"] for node in nodes_of(path)]


def test_help_of_every_command() -> None:
    top = done(graphshare("--help")).stdout.decode()
    context = click.Context(cli)
    for name, text in COMMANDS.items():
        assert text in top
        command = cli.get_command(context, name)
        assert command is not None
        assert (command.help or "").split("\n")[0] == text
        assert text in done(graphshare(name, "--help")).stdout.decode()
        assert text in done(graphshare(name, "-h")).stdout.decode()
    assert done(graphshare("--version")).stdout.startswith(b"graphshare ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["--nonsense"],
        ["inspect"],
        ["inspect", "a", "b"],
        ["duplicate", "siamese.json"],
        ["extract", "siamese.json"],
        ["rename", "siamese.json"],
        ["rename", "siamese.json", "data"],
        ["rename", "siamese.json", "=x"],
        ["rename", "siamese.json", "data="],
        ["rename", "siamese.json", "data=x", "data=y"],
        ["rename", "siamese.json", "--map", "m", "--prefix", "x"],
        ["inspect", "siamese.json", "--format", "xml"],
        ["duplicate", "siamese.json", "--prefix"],
        ["duplicate", "siamese.json", "--prefix", "x-", "--mode", "share"],
        ["duplicate", "siamese.json", "--prefix", ""],
        ["duplicate", "siamese.json", "--prefix", "x-", "--prefix", "x-"],
        ["format", "siamese.json", "--layout", "pretty"],
        ["format", "siamese.json", "--layout", "indent:"],
        ["params"],
        ["params", "convert", "x"],
        ["inspect", "siamese.json", "--epoch", "3"],
        ["inspect", "siamese.json", "--epoch", "-1"],
        ["duplicate", "siamese.json", "--prefix", "x-", "--params-out", "p"],
        ["rename", "siamese.json", "--strip-prefix", "zz"],
    ],
)
def test_wrong_options_end_with_2(arguments: list[str], folder: Path) -> None:
    before = files_in(folder)
    run = graphshare(*arguments, cwd=folder)
    assert run.returncode == 2
    assert b"Traceback" not in run.stderr
    assert b"this is a bug" not in run.stderr
    assert run.stderr
    assert files_in(folder) == before


def test_a_misspelt_command_gets_a_suggestion() -> None:
    refused(graphshare("duplcate"), "did you mean 'duplicate'?")


@pytest.mark.parametrize(
    "words", [["-o", "two.json"], ["-otwo.json"], ["-qo", "two.json"], ["-qotwo.json"]]
)
def test_a_short_option_takes_its_value_in_every_way(folder: Path, words: list[str]) -> None:
    done(graphshare("duplicate", "siamese.json", "-p", "x-", *words, cwd=folder))
    assert (folder / "two.json").exists()


@pytest.mark.parametrize("command", ["run", "verify"])
def test_commands_that_compute_import_numpy_before_their_own_modules(command: str) -> None:
    """Below a chain of imports each call in those of numpy may map a piece of the interpreter's stack and unmap it."""
    script = f"""if True:
        import sys
        from graphshare.cli import main
        assert main.run([{command!r}, "--help"]) == 0
        names = list(sys.modules)
        assert names.index("numpy") < names.index("graphshare.cli.commands.{command}")
        """
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_model_that_was_written_is_kept_only_for_a_process_that_ends_next(
    folder: Path, keeps: bool
) -> None:
    script = f"""if True:
        import gc
        from graphshare.checkpoint.model import Checkpoint
        from graphshare.cli import main
        kept = []
        assert main.run(["duplicate", "siamese.json", "-p", "x-", "-o", "two.json"], kept if {keeps} else None) == 0
        gc.collect()
        models = [model for model in gc.get_objects() if isinstance(model, Checkpoint)]
        assert bool(models) == bool(kept) == {keeps}, models
        """
    subprocess.run([sys.executable, "-c", script], check=True, cwd=folder, env=environment())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="one process is forked for each command")
def test_commands_on_json_import_nothing_heavy(folder: Path) -> None:
    """numpy, jsonschema and rich cost more than the work itself, and difflib suggests only what was misspelt."""
    script = """if True:
        import json, os, sys
        from graphshare.cli import main
        for words in json.loads(sys.argv[1]):  # each in a process of its own, which has imported the command alone
            if not os.fork():
                sys.stdout = open(os.devnull, "w")
                code = main.run(words)
                heavy = [m for m in ("numpy", "jsonschema", "rich", "difflib") if m in sys.modules]
                print(words, code, heavy, file=sys.stderr, flush=True)
                os._exit(0)
            os.wait()
        """
    commands = (
        ["--help"],
        ["--version"],
        ["inspect", "siamese.json"],
        ["inspect", "siamese.json", "--format", "json"],
        ["duplicate", "siamese.json", "--prefix", "x-"],
        ["duplicate", "siamese.json", "--prefix", "x-", "--mode", "tie"],
        ["duplicate", "siamese.json", "--prefix", "x-", "--mode", "batch"],
        [
            "group",
            "siamese.json",
            "siamese.json",
            "--on-collision",
            "prefix",
            "--share-input",
            "data",
        ],
        ["rename", "siamese.json", "--prefix", "x-"],
        ["extract", "siamese.json", "--target", "conv"],
        ["upgrade", "old.json"],
        ["format", "siamese.json", "--layout", "mxnet"],
        ["duplicate", "--help"],
        ["duplicate", "net", "--prefix", "x-", "-o", "siam"],
        ["params", "list", "net-0007.params"],
        ["params", "show", "net-0007.params"],
        ["diff", "siamese.json", "siamese.json"],
        ["draw", "siamese.json"],
    )
    run = subprocess.run(
        [sys.executable, "-c", script, json.dumps(commands)],
        cwd=folder,
        capture_output=True,
        env=environment(),
        check=False,
    )
    lines = run.stderr.decode().splitlines()
    assert [line for line in lines if line.startswith("[")] == [
        f"{words} 0 []" for words in commands
    ], run.stderr


@pytest.mark.parametrize("package", ["click", "msgspec", "numpy"])
def test_a_missing_requirement_is_named(package: str, folder: Path) -> None:
    code = (
        f"import runpy, sys; sys.modules[{package!r}] = None; "
        "sys.argv[1:] = ['params', 'stats', 'lenet']; "
        "runpy.run_module('graphshare', run_name='__main__', alter_sys=True)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(),
        capture_output=True,
        check=False,
    )
    said = run.stderr.decode()
    assert run.returncode == 2, said
    assert said.startswith(f"error: the package {package!r} is missing")
    assert f"pip install {package}" in said
    assert "Traceback" not in said


def test_a_layout_needs_no_choice_among_parameter_files(tmp_path: Path) -> None:
    shutil.copy(ROOT / "fixtures" / "lenet-symbol.json", tmp_path)
    for number in (0, 1):
        write_params(tmp_path / f"lenet-000{number}.params", ["arg:a"])
    done(graphshare("format", "lenet", "--layout", "indent:2", "-o", "x.json", cwd=tmp_path))
    assert (tmp_path / "x.json").read_bytes().startswith(b'{\n  "')


def test_stem_in_stem_out(folder: Path) -> None:
    run = done(graphshare("duplicate", "net", "--prefix", "b-", "-o", "siam", cwd=folder))
    assert run.stdout == b""
    assert b"wrote siam-symbol.json, siam-0007.params" in run.stderr
    prefixed = [f"{key[:4]}b-{key[4:]}" for key in LAYER_KEYS]
    assert keys_of(folder / "siam-0007.params") == LAYER_KEYS + prefixed
    done(
        graphshare(
            "duplicate",
            "net",
            "--epoch",
            "7",
            "--mode",
            "tie",
            "--prefix",
            "b-",
            "-o",
            "tied",
            cwd=folder,
        )
    )
    assert (folder / "tied-0007.params").read_bytes() == (folder / "net-0007.params").read_bytes()
    done(graphshare("extract", "net", "--target", "fc1", "-o", "cut", cwd=folder))
    assert keys_of(folder / "cut-0007.params") == ["arg:fc1_weight", "arg:fc1_bias"]
    done(graphshare("rename", "net", "--prefix", "n/", "-o", "renamed", cwd=folder))
    assert keys_of(folder / "renamed-0007.params") == [
        f"{key[:4]}n/{key[4:]}" for key in LAYER_KEYS
    ]


def test_epochs(folder: Path) -> None:
    write_params(folder / "net-0012.params", LAYER_KEYS)
    refused(graphshare("inspect", "net", cwd=folder), "2 parameter files", "7, 12", "--epoch")
    refused(
        graphshare("inspect", "net", "--epoch", "3", cwd=folder),
        "net-0003.params",
        "does not exist",
    )
    done(
        graphshare("duplicate", "net", "--epoch", "12", "--prefix", "b-", "-o", "siam", cwd=folder)
    )
    assert (folder / "siam-0012.params").exists()


def test_parameters_along_or_an_error(folder: Path) -> None:
    before = files_in(folder)
    arguments = ["duplicate", "net-symbol.json", "--params", "net-0007.params", "--prefix", "b-"]
    refused(graphshare(*arguments, "-o", "x.json", cwd=folder), "--params-out")
    assert files_in(folder) == before
    done(graphshare(*arguments, "-o", "x.json", "--mode", "tie", cwd=folder))
    done(
        graphshare(
            *arguments, "-o", "x.json", "--params-out", "x.npz", "--verify-bytes", cwd=folder
        )
    )
    assert (folder / "x.npz").read_bytes().startswith(b"PK")
    assert len(keys_of(folder / "x.npz")) == 14
    refused(
        graphshare(
            "rename", "net-symbol.json", "--params", "net-0007.params", "--prefix", "x", cwd=folder
        ),
        "--params-out",
    )
    done(
        graphshare(
            "rename",
            "net-symbol.json",
            "--params",
            "net-0007.params",
            "--prefix",
            "x",
            "--only",
            "ops",
            cwd=folder,
        )
    )


def test_what_the_parameter_file_lacks_or_has_too_much_is_said(folder: Path) -> None:
    keys = [
        "arg:fc1_weight",
        "arg:fc1_bias",
        "arg:bn_gamma",
        "arg:data",
        "arg:other",
        "arg:bn_moving_mean",
        "aux:bn_moving_var",
    ]
    write_params(folder / "odd.params", keys)
    arguments = ["duplicate", "net-symbol.json", "--params", "odd.params", "--prefix", "b-"]
    run = done(graphshare(*arguments, "-o", "x.json", "--params-out", "x.params", cwd=folder))
    said = run.stderr.decode()
    assert "warning: odd.params: lacks parameters of the graph: bn_beta, fc2_weight" in said
    assert "contains values for a graph input; treated as a parameter: data" in said
    assert "has the wrong prefix (arg: or aux:): arg:bn_moving_mean" in said
    assert "contains arrays that no variable uses: arg:other" in said
    assert keys_of(folder / "x.params").count("arg:other") == 1
    assert "arg:b-data" in keys_of(folder / "x.params")
    said = refused(
        graphshare(*arguments, "--strict", "-o", "y.json", "--params-out", "y.params", cwd=folder)
    )
    assert said.count("error: ") == 4
    assert not (folder / "y.json").exists()
    write_params(folder / "foreign.params", ["arg:a", "arg:b"])
    for command in (
        ["duplicate", "--prefix", "b-"],
        ["rename", "--prefix", "b-"],
        ["extract", "--target", "fc1"],
        ["upgrade"],
    ):
        run = graphshare(
            command[0],
            "net-symbol.json",
            *command[1:],
            "--params",
            "foreign.params",
            "-o",
            "y.json",
            "--params-out",
            "y.params",
            cwd=folder,
        )
        refused(run, "foreign.params: holds no parameter of this graph", "it holds a, b")
    refused(
        graphshare("inspect", "siamese.json", "--params", "none.params", cwd=folder), "none.params"
    )


def test_old_files_and_what_they_imply(folder: Path) -> None:
    keys = [
        "arg:bn_gamma",
        "arg:bn_beta",
        "arg:fc_weight",
        "arg:fc_bias",
        "aux:bn_moving_mean",
        "aux:bn_moving_var",
    ]
    write_params(folder / "old.params", keys)
    arguments = ["duplicate", "old.json", "--params", "old.params", "--prefix", "b-"]
    done(graphshare(*arguments, "-o", "x.json", "--params-out", "x.params", cwd=folder))
    assert keys_of(folder / "x.params")[6:] == [f"{key[:4]}b-{key[4:]}" for key in keys]
    assert nodes_of(folder / "x.json")[10]["param"] == {"eps": "0.001", "fix_gamma": "True"}
    for more in (["--mode", "tie"], ["--tie", "bn_*"], ["--tie", "=bn_moving_mean"]):
        refused(graphshare(*arguments, *more, cwd=folder), "bn_moving_mean", "add --upgrade")
    done(graphshare(*arguments, "--mode", "tie", "--upgrade", "-o", "t.json", cwd=folder))
    assert names_of(folder / "t.json").count("bn_moving_mean") == 1
    done(
        graphshare(
            *arguments,
            "--mode",
            "tie",
            "--copy",
            "bn_moving_*",
            "-o",
            "t.json",
            "--params-out",
            "t.params",
            cwd=folder,
        )
    )
    assert keys_of(folder / "t.params") == [*keys, "aux:b-bn_moving_mean", "aux:b-bn_moving_var"]
    write_params(folder / "short.params", keys[:-1])
    run = done(graphshare("inspect", "old.json", "--params", "short.params", cwd=folder))
    assert b"lacks parameters of the graph: bn_moving_var" in run.stderr


def test_an_implied_label_is_an_input(tmp_path: Path) -> None:
    nodes = [variable("data"), operator("SoftmaxOutput", "softmax", [0])]
    write_json(tmp_path / "a.json", document(nodes, [1], version=None))
    found = json.loads(
        done(graphshare("inspect", "a.json", "--format", "json", cwd=tmp_path)).stdout
    )
    assert (found["inputs"], found["parameters"]) == (["data", "softmax_label"], [])
    found = json.loads(
        done(graphshare("inspect", "a.json", "--module", "--format", "json", cwd=tmp_path)).stdout
    )
    assert found == {"data_names": ["data"], "label_names": ["softmax_label"], "state_names": []}
    done(graphshare("duplicate", "a.json", "--mode", "tie", "--prefix", "b-", cwd=tmp_path))


@pytest.mark.parametrize(
    ("choices", "tied"),
    [
        (
            ["--tie", "[fb]*"],
            {
                "fc1_weight",
                "fc1_bias",
                "bn_gamma",
                "bn_beta",
                "bn_moving_mean",
                "bn_moving_var",
                "fc2_weight",
            },
        ),
        (
            ["--tie", "[fb]*", "--copy", "fc1_*"],
            {"bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var", "fc2_weight"},
        ),
        (
            ["--tie", "fc*", "--copy", "*_bias", "--tie", "=fc1_bias"],
            {"fc1_weight", "fc1_bias", "fc2_weight"},
        ),
        (["--tie", "=fc1_bias", "--tie", "fc*", "--copy", "*_bias"], {"fc1_weight", "fc2_weight"}),
        (["--copy", "[!ds]*", "--tie", "fc2_weight"], {"fc2_weight"}),
        (
            ["--mode", "tie", "--copy", "[!bds]*"],
            {"bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"},
        ),
        (["--copy=fc*", "--tie=fc2_weight"], {"fc2_weight"}),
    ],
)
def test_tie_and_copy_are_one_list_in_their_order(
    choices: list[str], tied: set[str], folder: Path
) -> None:
    done(
        graphshare(
            "duplicate", "net-symbol.json", "--prefix", "b-", *choices, "-o", "x.json", cwd=folder
        )
    )
    names = names_of(folder / "x.json")
    parameters = {key[4:] for key in LAYER_KEYS}
    assert {name for name in parameters if f"b-{name}" not in names} == tied
    assert all(names.count(name) == 1 for name in parameters)


def test_patterns_that_meet_nothing_or_the_wrong_thing(folder: Path) -> None:
    arguments = ["duplicate", "net-symbol.json", "--prefix", "b-"]
    said = refused(
        graphshare(
            *arguments, "--tie", "data", "--tie", "fc9_*", "--copy", "fc1_wieght", cwd=folder
        ),
        "'data', which is not a parameter",
        "'fc9_*' matches no variable",
        "did you mean 'fc1_weight'",
    )
    assert said.count("error: net-symbol.json: ") == 3
    refused(
        graphshare(*arguments, "--share-input", "fc1_*", cwd=folder), "matches no input", "--tie"
    )
    refused(graphshare(*arguments, "--share-input", "dat", cwd=folder), "did you mean 'data'")
    refused(
        graphshare(*arguments, "--as-input", "nope", "--as-parameter", "fc1_weigh", cwd=folder),
        "'nope'",
        "fc1_weight",
    )
    refused(
        graphshare(*arguments, "--upto", "fc3", "--upto", "fc1_outptu", cwd=folder),
        "'fc3'",
        "'fc1_output'",
    )
    refused(graphshare(*arguments, "--tie", "", cwd=folder), "empty pattern")
    refused(
        graphshare(*arguments, "--tie", "*", cwd=folder),
        "'data', which is not a parameter",
        "'softmax_label'",
    )


def test_shared_inputs_and_labels(folder: Path) -> None:
    done(
        graphshare(
            "duplicate",
            "net-symbol.json",
            "--prefix",
            "b-",
            "--share-input",
            "*",
            "-o",
            "x.json",
            cwd=folder,
        )
    )
    assert [
        name
        for name in names_of(folder / "x.json")
        if name in ("data", "b-data", "softmax_label", "b-softmax_label")
    ] == ["data", "softmax_label"]


def test_heads_and_branches(folder: Path) -> None:
    def outputs(*more: str) -> list[str]:
        done(graphshare("duplicate", "net-symbol.json", *more, "-o", "x.json", cwd=folder))
        found = json.loads(
            done(graphshare("inspect", "x.json", "--format", "json", cwd=folder)).stdout
        )
        listed: list[str] = found["outputs"]
        return listed

    assert outputs("--prefix", "a-", "--prefix", "b-") == [
        "softmax_output",
        "a-softmax_output",
        "b-softmax_output",
    ]
    assert outputs("--prefix", "a-", "--prefix", "b-", "--drop-original") == [
        "a-softmax_output",
        "b-softmax_output",
    ]
    assert outputs("--prefix", "a-", "--upto", "fc1") == ["softmax_output", "a-fc1_output"]
    assert "a-bn" not in names_of(folder / "x.json")
    outputs("--prefix", "a-", "--prefix", "b-", "--drop-original", "--mode", "tie")
    assert names_of(folder / "x.json").count("fc1_weight") == 1


def test_versions_of_tied_states_go_on_counting(folder: Path) -> None:
    done(
        graphshare(
            "duplicate",
            "net-symbol.json",
            "--mode",
            "tie",
            "--prefix",
            "a-",
            "--prefix",
            "b-",
            "-o",
            "x.json",
            cwd=folder,
        )
    )
    norms = [
        node["inputs"][3:] for node in nodes_of(folder / "x.json") if node["op"] == "BatchNorm"
    ]
    assert norms == [[[6, 0, 1], [7, 0, 1]], [[6, 0, 2], [7, 0, 2]], [[6, 0, 3], [7, 0, 3]]]


def test_barriers_get_names_of_their_own(tmp_path: Path) -> None:
    states = [variable(name) for name in ("data", "g", "b", "m", "v")]
    norm = operator("_contrib_SyncBatchNorm", "sync", range(5), attrs={"key": "sync", "ndev": "2"})
    write_json(tmp_path / "a.json", document([*states, norm], [5]))
    for mode in ("copy", "tie"):
        done(
            graphshare(
                "duplicate",
                "a.json",
                "--mode",
                mode,
                "--prefix",
                "b-",
                "-o",
                "x.json",
                cwd=tmp_path,
            )
        )
        keys = [node["attrs"] for node in nodes_of(tmp_path / "x.json") if node["op"] != "null"]
        assert keys == [{"key": "sync", "ndev": "2"}, {"key": "b-sync", "ndev": "2"}]


def test_unknown_operators(tmp_path: Path) -> None:
    write_json(
        tmp_path / "a.json",
        document([variable("data"), variable("w"), operator("MyOp", "my", [0, 1])], [2]),
    )
    run = done(graphshare("duplicate", "a.json", "--prefix", "b-", "-o", "x.json", cwd=tmp_path))
    assert run.stderr.count(b"warning: ") == 2
    arguments = ["duplicate", "a.json", "--prefix", "b-", "--mode", "tie"]
    said = refused(graphshare(*arguments, cwd=tmp_path), "'data'", "'w'", "--as-parameter")
    assert said.count("error: a.json: ") == 2
    done(
        graphshare(
            *arguments, "--as-input", "data", "--as-parameter", "w", "-o", "x.json", cwd=tmp_path
        )
    )
    assert names_of(tmp_path / "x.json") == ["data", "w", "my", "b-data", "b-my"]
    write_params(tmp_path / "a.params", ["aux:w"])
    run = done(graphshare(*arguments, "--params", "a.params", "-o", "x.json", cwd=tmp_path))
    assert b"warning" not in run.stderr
    assert names_of(tmp_path / "x.json") == ["data", "w", "my", "b-data", "b-my"]


def test_all_collisions_are_listed_and_nothing_is_written(tmp_path: Path) -> None:
    nodes = [
        variable("a"),
        variable("x-a"),
        operator("relu", "r", [0]),
        operator("relu", "x-r", [1]),
    ]
    write_json(tmp_path / "a.json", document(nodes, [2, 3]))
    said = refused(
        graphshare("duplicate", "a.json", "--prefix", "x-", "-o", "b.json", cwd=tmp_path),
        "'x-a'",
        "'x-r'",
    )
    assert said.count("error: a.json: ") == 2
    write_json(tmp_path / "m.json", {"a": "n", "x-a": "n", "r": "x-r"})
    said = refused(
        graphshare("rename", "a.json", "--map", "m.json", "-o", "b.json", cwd=tmp_path),
        "'n'",
        "'x-r'",
    )
    assert said.count("error: a.json: ") == 2
    write_params(tmp_path / "a.params", ["arg:a", "arg:y-a"])
    run = graphshare(
        "duplicate",
        "a.json",
        "--params",
        "a.params",
        "--as-parameter",
        "a",
        "--prefix",
        "y-",
        "-o",
        "b.json",
        "--params-out",
        "b.params",
        cwd=tmp_path,
    )
    refused(run, "'y-a'")
    assert files_in(tmp_path) == ["a.json", "a.params", "m.json"]


def test_a_map_leads_back(folder: Path) -> None:
    arguments = ["duplicate", "siamese.json", "--prefix", "b-", "--map-out", "m.json"]
    done(graphshare(*arguments, "--drop-original", "-o", "copy.json", cwd=folder))
    done(graphshare("rename", "siamese.json", "--map", "m.json", "-o", "renamed.json", cwd=folder))
    assert (folder / "renamed.json").read_bytes() == (folder / "copy.json").read_bytes()
    done(graphshare(*arguments, "-o", "copy.json", cwd=folder))
    refused(
        graphshare("rename", "siamese.json", "--map", "m.json", cwd=folder),
        "m.json: is the map of 2 branches ('', 'b-')",
    )
    swap = {"data": "conv_weight", "conv_weight": "data"}
    write_json(folder / "swap.json", swap)
    done(graphshare("rename", "siamese.json", "--map", "swap.json", "-o", "x.json", cwd=folder))
    assert names_of(folder / "x.json") == ["conv_weight", "data", "conv", "loss"]
    done(
        graphshare(
            "rename",
            "siamese.json",
            "data=conv_weight",
            "conv_weight=data",
            "-o",
            "y.json",
            cwd=folder,
        )
    )
    assert (folder / "y.json").read_bytes() == (folder / "x.json").read_bytes()


def test_a_name_is_taken_as_it_is_and_may_contain_the_sign_between_two(folder: Path) -> None:
    done(
        graphshare(
            "rename",
            "siamese.json",
            "data=a=*?",
            "--match",
            "conv*",
            "--to",
            "c*",
            "-o",
            "odd.json",
            cwd=folder,
        )
    )
    assert names_of(folder / "odd.json") == ["a=*?", "c_weight", "c", "loss"]
    done(graphshare("rename", "odd.json", "a\\=*?=data", "-o", "back.json", cwd=folder))
    assert names_of(folder / "back.json") == ["data", "c_weight", "c", "loss"]
    said = refused(
        graphshare("rename", "siamese.json", "lsos=l", "los*=l", "-o", "x.json", cwd=folder),
        "lsos=l: matches no",
    )
    assert "los*=l: matches no name" in said
    assert "did you mean 'loss'?" in said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"a": 1}',
        '{"version": 1, "entries": [{}]}',
        '{"data": "x", "data": "y"}',
        '{"dta": "x"}',
        '{"data": ""}',
        '{"version": 1, "entries": 3}',
        "\ufeff{}",
        '{"data": "data"}',
        '{"data": "a\\u0000b"}',
        '{"version":1,"sources":[],"entries":[{"from":{"id":99,"name":"x"},"to":{"id":0,"name":"y"}}]}',
    ],
)
def test_maps_that_are_none(text: str, folder: Path) -> None:
    (folder / "m.json").write_text(text, encoding="utf-8")
    refused(
        graphshare("rename", "siamese.json", "--map", "m.json", "-o", "x.json", cwd=folder), ".json"
    )
    assert not (folder / "x.json").exists()


def test_a_dry_run_writes_nothing(folder: Path) -> None:
    before = {name: (folder / name).read_bytes() for name in files_in(folder)}
    for command in (
        ["duplicate", "net", "--prefix", "b-"],
        ["rename", "net", "--prefix", "b-"],
        ["extract", "net", "--target", "fc1"],
        ["upgrade", "net"],
    ):
        for form in ("text", "json"):
            run = done(
                graphshare(
                    *command,
                    "--dry-run",
                    "--format",
                    form,
                    "-o",
                    "siam",
                    "--map-out",
                    "m.json",
                    cwd=folder,
                )
            )
            assert run.stdout
            assert b"wrote" not in run.stderr
            assert {name: (folder / name).read_bytes() for name in files_in(folder)} == before
    text = done(
        graphshare("duplicate", "net", "--prefix", "b-", "--tie", "fc2*", "--dry-run", cwd=folder)
    ).stdout.decode()
    assert "copied   variable fc1_weight -> b-fc1_weight" in text
    assert "tied     variable fc2_weight -> fc2_weight" in text
    assert "record            arg:fc1_weight -> arg:b-fc1_weight" in text


def test_the_plan_is_printed_as_json_when_it_was_carried_out(folder: Path) -> None:
    words = ["duplicate", "net", "--prefix", "b-", "--format", "json", "-o"]
    planned = done(graphshare(*words, "siam", "--dry-run", cwd=folder)).stdout
    assert json.loads(done(graphshare(*words, "siam", cwd=folder)).stdout) == json.loads(planned)
    assert (folder / "siam-symbol.json").exists()
    refused(
        graphshare("duplicate", "siamese.json", *words[2:], "-", cwd=folder),
        "where the graph goes, too",
    )


@pytest.mark.parametrize(
    "name",
    [
        "a b.json",
        "-a.json",
        "--prefix",
        "'q\".json",
        "é日.json",
        "a\nb.json",
        "%s{}.json",
        "~.json",
    ],
)
def test_odd_paths(name: str, tmp_path: Path) -> None:
    write_json(tmp_path / name, siamese())
    done(
        graphshare(
            "duplicate",
            "--prefix",
            "b-",
            f"--out=./{name}.out.json",
            "--map-out",
            f"./{name}.map",
            "--",
            name,
            cwd=tmp_path,
        )
    )
    assert files_in(tmp_path) == sorted([name, f"{name}.out.json", f"{name}.map"])


def test_a_path_that_is_no_text(tmp_path: Path) -> None:
    path = bytes(tmp_path) + b"/\xff.json"
    Path(path.decode("utf-8", "surrogateescape")).write_text(json.dumps(siamese()))
    run = subprocess.run(
        [
            *COMMAND,
            "duplicate",
            path,
            "--prefix",
            "b-",
            "--in-place",
            "--map-out",
            bytes(tmp_path) + b"/\xfe.map",
        ],
        capture_output=True,
        env=environment(),
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_pickles_are_never_opened(folder: Path) -> None:
    # numpy's header for an array of objects, and a pickle that would make a file.
    pickle = b"cos\nsystem\n(S'touch pwned'\ntR."
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + pickle
    (folder / "evil.npz").write_bytes(params_bytes.archive([("arg:conv_weight.npy", npy)]))
    (folder / "evil.params").write_bytes((folder / "evil.npz").read_bytes())
    for path in ("evil.npz", "evil.params"):
        refused(graphshare("params", "list", path, cwd=folder), path)
        refused(graphshare("params", "convert", path, "x.params", cwd=folder), path)
        refused(
            graphshare(
                "duplicate",
                "siamese.json",
                "--params",
                path,
                "--prefix",
                "b-",
                "-o",
                "x.json",
                "--params-out",
                "x.params",
                cwd=folder,
            ),
            path,
        )
    assert "pwned" not in files_in(folder)


def test_an_npz_under_the_name_params(folder: Path) -> None:
    data = params_bytes.pattern(8)
    member = params_bytes.npy("<f4", (2,), data)
    (folder / "net.params").write_bytes(params_bytes.archive([("arg:conv_weight.npy", member)]))
    done(
        graphshare(
            "duplicate",
            "siamese.json",
            "--params",
            "net.params",
            "--prefix",
            "b-",
            "-o",
            "x.json",
            "--params-out",
            "x.params",
            cwd=folder,
        )
    )
    assert keys_of(folder / "x.params") == ["arg:conv_weight", "arg:b-conv_weight"]
    done(graphshare("params", "convert", "x.params", "x.npz", cwd=folder))
    assert keys_of(folder / "x.npz") == ["arg:conv_weight", "arg:b-conv_weight"]


def test_format_and_its_check(folder: Path) -> None:
    run = graphshare("format", "siamese.json", "--layout", "mxnet", "--check", cwd=folder)
    assert (run.returncode, run.stdout) == (1, b"")
    done(graphshare("format", "siamese.json", "--layout", "mxnet", "--in-place", cwd=folder))
    done(graphshare("format", "siamese.json", "--layout", "mxnet", "--check", cwd=folder))
    done(graphshare("format", "siamese.json", "--check", cwd=folder))
    text = (folder / "siamese.json").read_bytes()
    for layout in ("compact", "indent:0", "indent:3", "mxnet"):
        done(graphshare("format", "siamese.json", "--layout", layout, "--in-place", cwd=folder))
        done(graphshare("format", "siamese.json", "--check", cwd=folder))
    assert (folder / "siamese.json").read_bytes() == text


@pytest.mark.parametrize(
    ("pattern", "outputs"),
    [
        ("pool*", ["pool1_output", "pool2_output"]),
        ("*2_output", ["conv2_output", "bn2_output", "tanh2_output", "pool2_output", "fc2_output"]),
        ("=pool1", ["pool1_output"]),
        ("re:fc[12]", ["fc1_output", "fc2_output"]),
    ],
)
def test_a_target_may_be_a_pattern(pattern: str, outputs: list[str], tmp_path: Path) -> None:
    done(
        graphshare(
            "extract", ROOT / "fixtures" / "lenet", "--target", pattern, "-o", "part", cwd=tmp_path
        )
    )
    found = json.loads(done(graphshare("inspect", "part", "--format", "json", cwd=tmp_path)).stdout)
    assert found["outputs"] == outputs
    run = done(graphshare("run", ROOT / "fixtures" / "lenet", "--seed", "0", "--shape", "data=1,1,28,28", "--target", pattern,
                          "--format", "json"))  # fmt: skip
    assert [output["name"] for output in json.loads(run.stdout)["outputs"]] == outputs


def test_a_pattern_adds_to_the_targets_before_it_and_a_name_comes_first(tmp_path: Path) -> None:
    lenet = ROOT / "fixtures" / "lenet"
    done(
        graphshare(
            "extract", lenet, "--target", "pool2", "--target", "pool*", "-o", "part", cwd=tmp_path
        )
    )
    found = json.loads(done(graphshare("inspect", "part", "--format", "json", cwd=tmp_path)).stdout)
    assert found["outputs"] == ["pool2_output", "pool1_output"]
    write_json(
        tmp_path / "a.json",
        document([variable("x"), operator("relu", "r*", [0]), operator("relu", "r2", [1])], [2]),
    )
    done(graphshare("extract", "a.json", "--target", "r*", "-o", "b.json", cwd=tmp_path))
    found = json.loads(
        done(graphshare("inspect", "b.json", "--format", "json", cwd=tmp_path)).stdout
    )
    assert found["outputs"] == ["r*_output"]


def test_an_unknown_target_is_answered_with_one_name_of_each_operator() -> None:
    for text, hint in {
        "pool": "'pool1' or 'pool2'?",
        "cnv*": "'conv2' or 'conv1'?",
        "tata": "'data'?",
    }.items():
        refused(
            graphshare("extract", ROOT / "fixtures" / "lenet", "--target", text),
            f"did you mean {hint}",
        )


def test_targets_and_cuts(folder: Path) -> None:
    said = refused(
        graphshare(
            "extract",
            "net-symbol.json",
            "--target",
            "fc3",
            "--target",
            "bn_outptu",
            "--cut",
            "nope",
            cwd=folder,
        ),
        "--target 'fc3'",
        "'bn_output'",
        "--cut 'nope'",
    )
    assert said.count("error: net-symbol.json: ") == 3
    refused(
        graphshare("extract", "net-symbol.json", "--target", "fc1", "--cut", "softmax", cwd=folder),
        "not needed by any target",
    )
    done(
        graphshare(
            "extract",
            "net-symbol.json",
            "--target",
            "softmax",
            "--cut",
            "bn",
            "-o",
            "x.json",
            cwd=folder,
        )
    )
    assert names_of(folder / "x.json") == [
        "bn_output",
        "fc2_weight",
        "fc2",
        "softmax_label",
        "softmax",
    ]
    done(
        graphshare(
            "extract",
            "net-symbol.json",
            "--target",
            "fc1",
            "--cut",
            "fc1",
            "-o",
            "x.json",
            cwd=folder,
        )
    )
    assert nodes_of(folder / "x.json") == [{"op": "null", "name": "fc1_output", "inputs": []}]
    done(
        graphshare(
            "extract",
            "net-symbol.json",
            "--target",
            "bn",
            "--target",
            "fc1",
            "--target",
            "data",
            "-o",
            "x.json",
            cwd=folder,
        )
    )
    found = json.loads((folder / "x.json").read_text())
    assert [found["nodes"][head[0]]["name"] for head in found["heads"]] == ["bn", "fc1", "data"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("run", "lenet", "--seed", "1", "--seed", "2"),
            "--seed is given twice: as '1' and as '2'",
        ),
        (
            ("--color", "auto", "--color", "never", "check", "lenet"),
            "--color is given twice: as 'auto' and as 'never'",
        ),
        (
            ("rename", "lenet", "--prefix", "a-", "--prefix", "b-"),
            "--prefix is given twice: as 'a-' and as 'b-'",
        ),
        (
            ("duplicate", "lenet", "-p", "a", "-o", "a", "--out", "b"),
            "--out is given twice: as 'a' and as 'b'",
        ),
        (
            ("params", "list", "lenet", "--format", "text", "--format", "json"),
            "--format is given twice",
        ),
        (("run", "lenet", "--seed", "1", "--rgb", "--bgr"), "--rgb and --bgr cannot be combined"),
        (
            ("foreach", "lenet", "--jobs", "1", "--jobs", "2", "--", "check", "{}"),
            "--jobs is given twice",
        ),
        (
            ("foreach", "lenet", "--", "run", "{}", "--seed", "1", "--seed", "2"),
            "--seed is given twice",
        ),
    ],
)
def test_an_option_of_one_value_has_no_second_one(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    assert message in refused(in_process(*words, cwd=ROOT / "fixtures"))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("duplicat", "my net", "--prefix", "b-"), "graphshare duplicate 'my net' --prefix b-"),
        (("params", "lits", "lenet"), "graphshare params list lenet"),
    ],
)
def test_a_misspelt_command_is_answered_with_the_line_to_type(
    words: tuple[str, ...], line: str
) -> None:
    assert f"hint: write `{line}`\n" in refused(in_process(*words), "no such command")


def test_an_option_may_repeat_its_value_and_lists_take_several() -> None:
    done(
        in_process(
            "run",
            "lenet",
            "--seed",
            "1",
            "--seed",
            "1",
            "--shape",
            "data=1,1,28,28",
            cwd=ROOT / "fixtures",
        )
    )
    plan = ("duplicate", "lenet", "-p", "a-", "-p", "b-", "--strict", "--strict", "--dry-run")
    assert b"a-conv1" in done(in_process(*plan, cwd=ROOT / "fixtures")).stdout


def test_an_extract_needs_a_target_or_a_branch_with_a_value(folder: Path) -> None:
    refused(
        graphshare("extract", "siamese.json", "-o", "out.json", cwd=folder),
        "nothing to extract: --target is missing",
    )
    for text in ("=true", "flag", "flag=maybe", "="):
        run = graphshare("extract", "siamese.json", "--branch", text, "-o", "out.json", cwd=folder)
        refused(
            run,
            f"--branch '{text}' is not an input with a value",
            "write --branch NAME=true or NAME=false",
        )
    run = graphshare(
        "extract", "siamese.json", "--branch", "flag=true", "-o", "out.json", cwd=folder
    )
    assert "nothing to extract" not in refused(run)


def test_branches_of_a_graph_without_parameters_are_verified_on_drawn_ones(folder: Path) -> None:
    run = done(
        graphshare(
            "duplicate", "siamese.json", "--prefix", "b-", "--verify", "-o", "out.json", cwd=folder
        )
    )
    assert b"EQUAL: b- and the original, bit for bit" in run.stderr


def test_a_proof_that_needs_shapes_is_one_of_verify(folder: Path) -> None:
    """``duplicate`` has no option for them."""
    write_json(folder / "free.json", document([variable("x"), operator("sigmoid", "y", [0])], [1]))
    run = graphshare(
        "duplicate", "free.json", "--prefix", "b-", "--verify", "-o", "out.json", cwd=folder
    )
    refused(
        run,
        "the shape of 'x' cannot be inferred",
        "without --verify the result is written, and `graphshare verify`",
    )
    assert not (folder / "out.json").exists()
