"""Standard input and output, terminals, full disks, signals: what a shell does to a command."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.processes import (
    COMMAND,
    ROOT,
    done,
    environment,
    files_in,
    graphshare,
    keys_of,
    on_terminal,
    refused,
    write_json,
    write_params,
)
from tests.surroundings import mark_everyday
from tests.symbols import document, mxnet_text, operator, siamese, two_layers, variable


def shell(line: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[bytes]:
    """A pipeline in which ``graphshare`` is the command under test; its exit code is the last failure's (pipefail)."""
    script = f'set -o pipefail; graphshare() {{ {" ".join(COMMAND)} "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", script],
        cwd=cwd,
        capture_output=True,
        timeout=120,
        env=environment(**more),
        check=False,
    )


def test_commands_pipe_into_each_other(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", two_layers())
    run = done(shell("cat a.json | graphshare duplicate - --prefix b- | graphshare rename - --prefix c- |"
                     " graphshare extract - --target c-b-softmax | graphshare inspect - --format json", tmp_path))  # fmt: skip
    found = json.loads(run.stdout)
    assert found["outputs"] == ["c-b-softmax_output"]
    assert found["auxiliary_states"] == ["c-b-bn_moving_mean", "c-b-bn_moving_var"]


def test_what_goes_through_a_pipe_is_what_goes_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(mxnet_text(two_layers()))
    done(shell("graphshare duplicate a.json --prefix b- > pipe.json; graphshare duplicate a.json --prefix b- -o file.json;"
               " graphshare duplicate a.json --prefix b- -o /dev/stdout | cat > dev.json", tmp_path))  # fmt: skip
    texts = {(tmp_path / name).read_bytes() for name in ("pipe.json", "file.json", "dev.json")}
    assert len(texts) == 1
    assert not texts.pop().endswith(b"\n")


# Without a buffer a write may be partial and raise nothing.
UNBUFFERED = pytest.mark.parametrize("unbuffered", mark_everyday(["", "1"], 2))


@UNBUFFERED
def test_a_reader_that_leaves_early_gets_no_traceback(unbuffered: str, tmp_path: Path) -> None:
    nodes = [variable("x"), *(operator("relu", f"r{i}", [i]) for i in range(5_000))]
    nodes += [variable(f"v{i}") for i in range(5_000)]
    write_json(tmp_path / "a.json", document(nodes, [5_000]))
    for command in ("duplicate a.json --prefix b-", "inspect a.json --format json", "duplicate a.json --prefix b- --dry-run",
                    "format a.json --layout indent:2"):  # fmt: skip
        run = shell(f"graphshare {command} | head -c 10", tmp_path, PYTHONUNBUFFERED=unbuffered)
        assert len(run.stdout) == 10
        assert run.returncode == 2, run.stderr
        assert run.stderr == b""


def test_a_closed_standard_input_and_output(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", siamese())
    run = shell("graphshare inspect - <&-", tmp_path)
    assert run.returncode == 2
    assert b"<stdin>" in run.stderr
    assert b"bug" not in run.stderr
    for command in (
        "inspect a.json",
        "duplicate a.json --prefix b-",
        "--help",
        "params list a.json",
    ):
        run = shell(f"graphshare {command} >&-", tmp_path)
        assert run.returncode in (0, 2)
        assert b"Traceback" not in run.stderr
        assert b"bug" not in run.stderr


def test_a_graph_does_not_go_to_a_terminal(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", siamese())
    commands = (["duplicate", "a.json", "--prefix", "b-"], ["format", "a.json"], ["upgrade", "a.json"],
                ["extract", "a.json", "--target", "conv"], ["rename", "a.json", "--prefix", "b-", "-o", "-"])  # fmt: skip
    for command in commands:
        code, out, err = on_terminal(*command, cwd=tmp_path)
        assert (code, out) == (2, "")
        assert "terminal" in err
        assert "-o FILE" in err


def test_colour_is_for_terminals_that_want_it(tmp_path: Path) -> None:
    assert "\x1b[" in on_terminal("inspect", "none.json", cwd=tmp_path)[2]
    assert "\x1b[" not in on_terminal("inspect", "none.json", cwd=tmp_path, NO_COLOR="1")[2]
    assert "\x1b[" not in on_terminal("inspect", "none.json", cwd=tmp_path, TERM="dumb")[2]
    assert b"\x1b[" not in graphshare("inspect", "none.json", cwd=tmp_path).stderr


def test_names_send_nothing_to_the_terminal(tmp_path: Path) -> None:
    found = siamese()
    found["nodes"][0]["name"] = "da\x1b[31mta\nx"
    write_json(tmp_path / "a.json", found)
    for command in (["inspect", "a.json"], ["duplicate", "a.json", "--prefix", "b-", "--dry-run"],
                    ["duplicate", "a.json", "--prefix", "b-", "-o", "b.json"], ["inspect", "a.json", "--module"]):  # fmt: skip
        run = done(graphshare(*command, cwd=tmp_path))
        assert b"\x1b" not in run.stdout + run.stderr
        assert b"da\\x1b[31mta\\nx" in run.stdout + run.stderr
    found = json.loads(
        done(graphshare("inspect", "a.json", "--format", "json", cwd=tmp_path)).stdout
    )
    assert found["arguments"][0] == "da\x1b[31mta\nx"


@pytest.mark.parametrize("encoding", mark_everyday(["ascii", "latin-1", "utf-8"], 3))
def test_any_locale(encoding: str, tmp_path: Path) -> None:
    found = siamese()
    found["nodes"][0]["name"] = "dáta日"
    write_json(tmp_path / "a.json", found)
    run = done(
        graphshare("inspect", "a.json", "--format", "json", cwd=tmp_path, PYTHONIOENCODING=encoding)
    )
    assert json.loads(run.stdout.decode("utf-8"))["arguments"][0] == "dáta日"
    done(graphshare("inspect", "a.json", cwd=tmp_path, PYTHONIOENCODING=encoding))
    run = done(
        graphshare(
            "duplicate",
            "a.json",
            "--prefix",
            "é",
            "-o",
            "b.json",
            cwd=tmp_path,
            PYTHONIOENCODING=encoding,
        )
    )
    assert "édáta日" in (tmp_path / "b.json").read_text(encoding="utf-8")


def test_output_may_equal_input_in_place(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", siamese())
    write_params(tmp_path / "a.params", ["arg:conv_weight"])
    (tmp_path / "a.json").chmod(0o640)
    done(graphshare("duplicate", "a.json", "--params", "a.params", "--prefix", "b-", "-o", "a.json", "--params-out", "a.params",
                    "--in-place", cwd=tmp_path))  # fmt: skip
    assert len(json.loads((tmp_path / "a.json").read_text())["nodes"]) == 8
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640
    assert keys_of(tmp_path / "a.params") == ["arg:conv_weight", "arg:b-conv_weight"]
    assert files_in(tmp_path) == ["a.json", "a.params"]


def test_two_outputs_need_two_places(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", siamese())
    write_params(tmp_path / "a.params", ["arg:conv_weight"])
    (tmp_path / "link.json").symlink_to("new.json")
    before = files_in(tmp_path)
    arguments = ["duplicate", "a.json", "--params", "a.params", "--prefix", "b-"]
    for more in (["-o", "new.json", "--params-out", "new.json"], ["-o", "new.json", "--params-out", "./new.json"],
                 ["-o", "new.json", "--params-out", "p", "--map-out", "link.json"]):  # fmt: skip
        refused(graphshare(*arguments, *more, cwd=tmp_path), "named for two outputs")
        assert files_in(tmp_path) == before
    refused(graphshare(*arguments, "--params-out", "-", cwd=tmp_path), "stdout")
    refused(graphshare(*arguments, "--params-out", "p", "--map-out", "-", cwd=tmp_path), "stdout")


@UNBUFFERED
def test_a_full_disk_says_so(unbuffered: str, tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", siamese())
    for command in ("duplicate a.json --prefix b-", "inspect a.json", "inspect a.json --format json", "format a.json",
                    "duplicate a.json --prefix b- --dry-run", "duplicate a.json --prefix b- -o /dev/full"):  # fmt: skip
        run = shell(f"graphshare {command} > /dev/full", tmp_path, PYTHONUNBUFFERED=unbuffered)
        assert run.returncode == 2, command
        assert b"disk is full" in run.stderr or b"No space left" in run.stderr, (
            command,
            run.stderr,
        )
        assert b"Traceback" not in run.stderr
        assert b"bug" not in run.stderr
    assert files_in(tmp_path) == ["a.json"]


def test_a_file_that_may_not_grow_leaves_the_old_ones(tmp_path: Path) -> None:
    nodes = [variable("x"), *(operator("relu", f"r{i}", [i]) for i in range(3000))]
    write_json(tmp_path / "a.json", document(nodes, [3000]))
    write_params(tmp_path / "a.params", ["arg:x"], (50_000,))
    for name in ("out.json", "out.params", "out.map"):
        (tmp_path / name).write_text("old")
    before = {name: (tmp_path / name).read_bytes() for name in files_in(tmp_path)}
    for limit in (1000, 150_000, 300_000):
        run = subprocess.run(
            [*COMMAND, "duplicate", "a.json", "--params", "a.params", "--as-parameter", "x", "--prefix", "b-", "-o", "out.json",
             "--params-out", "out.params", "--map-out", "out.map"],
            cwd=tmp_path, capture_output=True, timeout=60, env=environment(), check=False,
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )  # fmt: skip
        refused(run, "the size limit")
        assert {name: (tmp_path / name).read_bytes() for name in files_in(tmp_path)} == before


@UNBUFFERED
def test_standard_output_that_may_not_grow_is_an_error(unbuffered: str, tmp_path: Path) -> None:
    nodes = [variable("x"), *(operator("relu", f"r{i}", [i]) for i in range(3000))]
    write_json(tmp_path / "a.json", document(nodes, [3000]))
    for command in (
        "duplicate a.json --prefix b-",
        "format a.json",
        "duplicate a.json --prefix b- --dry-run --format json",
    ):
        run = shell(
            f"ulimit -f 100; graphshare {command} > out", tmp_path, PYTHONUNBUFFERED=unbuffered
        )
        assert run.returncode == 2
        assert b"the size limit" in run.stderr


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", siamese())
    for out, words in (
        ("none/", "does not exist"),
        ("none/out.json", "does not exist"),
        ("a.json/out.json", "a.json"),
    ):
        refused(graphshare("duplicate", "a.json", "--prefix", "b-", "-o", out, cwd=tmp_path), words)
    assert files_in(tmp_path) == ["a.json"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 2), (signal.SIGHUP, 2), (signal.SIGINT, 130)]
)
def test_a_signal_in_the_middle_leaves_nothing(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    write_json(tmp_path / "a.json", siamese())
    (tmp_path / "out.json").write_text("old")
    # The command waits where it would read its output back: the graph is already written beside its target.
    script = f"""
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores both, and children inherit that
signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.path.insert(0, {str(ROOT)!r})
from graphshare.cli import main
from graphshare.files import atomic
from graphshare.formats.mxnet import staging as results
def slow(*arguments, **more):
    print("here", flush=True)
    time.sleep(60)
results.check_written = slow
sys.argv = ["graphshare", "duplicate", "a.json", "--prefix", "b-", "-o", "out.json"]
main.main()
"""
    run = subprocess.Popen(
        [COMMAND[0], "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert run.stdout is not None
    assert run.stdout.readline() == b"here\n"
    time.sleep(0.05)
    assert len(files_in(tmp_path)) == 3
    run.send_signal(number)
    _, said = run.communicate(timeout=30)
    assert run.returncode == code
    assert b"interrupted; nothing was changed" in said
    assert b"Traceback" not in said
    assert files_in(tmp_path) == ["a.json", "out.json"]
    assert (tmp_path / "out.json").read_text() == "old"


def test_training_shows_the_loss_of_each_step_on_a_terminal(tmp_path: Path) -> None:
    line = [
        "run",
        str(ROOT / "fixtures" / "lenet"),
        "--seed",
        "0",
        "--shape",
        "data=4,1,28,28",
        "--params-out",
        "new.params",
    ]
    _, out, err = on_terminal(*line, "--sgd-steps", "3", cwd=tmp_path)
    steps = [text.split() for text in err.splitlines() if text.startswith("step ")]
    assert [words[1] for words in steps] == ["1:", "2:", "3:"]
    assert [words[2:5] for words in steps] == [["softmax_output", "cross", "entropy"]] * 3
    losses = [float(words[5]) for words in steps]
    assert losses == sorted(losses, reverse=True)
    assert "softmax_output" in out
    err = on_terminal(*line, "--sgd-steps", "120", cwd=tmp_path)[2]
    numbers = [text.split()[1] for text in err.splitlines() if text.startswith("step ")]
    assert numbers == ["1:", *(f"{n}0:" for n in range(1, 13))]
    assert "step " not in on_terminal(*line, "--sgd-steps", "3", "-q", cwd=tmp_path)[2]
    assert b"step 1:" not in done(graphshare(*line, "--sgd-steps", "3", cwd=tmp_path)).stderr
    report = json.loads(
        done(graphshare(*line, "--sgd-steps", "3", "--format", "json", cwd=tmp_path)).stdout
    )
    assert report["training"]["losses"][0]["values"] == pytest.approx(losses, rel=1e-5)
