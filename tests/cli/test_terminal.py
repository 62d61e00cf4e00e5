"""At a terminal, a real one as far as the command can tell: colour, progress, completion, help."""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import shutil
import subprocess
import termios
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from benchmarks.sources import chain
from graphshare.cli.command import list_command_examples
from graphshare.cli.console import Bar, _clock, align
from graphshare.cli.main import COMMANDS, cli
from tests.processes import COMMAND, ROOT, done, environment, graphshare, refused
from tests.shard_folders import make_values, write_shards
from tests.surroundings import mark_everyday


def at_terminal(*arguments: str, cwd: Path | None = None, **more: str) -> tuple[str, int]:
    """What a command shows that has a terminal for all three streams, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover (the child)
        try:
            os.chdir(cwd or ".")
            os.execvpe(COMMAND[0], [*COMMAND, *arguments], environment(**more))
        finally:
            os._exit(127)
    termios.tcsetwinsize(terminal, (40, 100)) if hasattr(termios, "tcsetwinsize") else None
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # the other end is gone
            break
        if not piece:
            break
        shown += piece
    os.close(terminal)
    return shown.decode("utf-8", "replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    return tmp_path


def test_differences_have_colours_unless_told_otherwise(folder: Path) -> None:
    done(graphshare("rename", "lenet", "--prefix", "x_", "-o", "x", cwd=folder))
    shown, code = at_terminal("diff", "lenet", "x", cwd=folder)
    assert code == 1
    assert "\x1b[33mrenamed" in shown
    for arguments, more in (
        (["--color", "never", "diff"], {}),
        (["diff"], {"NO_COLOR": "1"}),
        (["diff"], {"TERM": "dumb"}),
    ):
        shown, _ = at_terminal(*arguments, "lenet", "x", cwd=folder, **more)
        assert "\x1b" not in shown, arguments
    assert b"\x1b" not in graphshare("diff", "lenet", "x", cwd=folder).stdout
    assert b"\x1b[33m" in graphshare("--color", "always", "diff", "lenet", "x", cwd=folder).stdout


def test_a_graph_is_not_typed_in(folder: Path) -> None:
    shown, code = at_terminal("inspect", "-", cwd=folder)
    assert code == 2
    assert "is a terminal" in shown
    assert "pipe a symbol file" in shown


def test_misspelt_words_are_guessed(folder: Path) -> None:
    refused(graphshare("inspekt", "lenet", cwd=folder), "did you mean 'inspect'")
    refused(graphshare("inspect", "lenet", "--shap", "data=1", cwd=folder), "--shape")
    refused(
        graphshare("extract", "lenet", "--target", "fc3_output", cwd=folder), "did you mean 'fc"
    )
    refused(graphshare("help", "inspect"), "did you mean `graphshare inspect --help`")
    refused(graphshare("version"), "did you mean `graphshare --version`")


def test_misspelt_files_are_guessed(folder: Path) -> None:
    refused(
        graphshare("inspect", "lenat", cwd=folder), "lenat: does not exist", "did you mean 'lenet'?"
    )
    refused(
        graphshare("check", "lenet-symbol.jsn", cwd=folder), "did you mean 'lenet-symbol.json'?"
    )
    refused(
        graphshare("params", "list", "lenet-0000.parms", cwd=folder),
        "did you mean 'lenet-0000.params'?",
    )
    refused(
        graphshare("inspect", "lenet", "--params", "lenet-0001.params", cwd=folder),
        "did you mean 'lenet-0000.params'?",
    )
    refused(
        graphshare("run", "lenet", "--feed", "data=lenet.npz", cwd=folder),
        "lenet.npz: does not exist",
    )
    refused(
        graphshare("inspect", "nowhere/lenet", cwd=folder), "the directory 'nowhere' does not exist"
    )
    refused(
        graphshare("inspect", "something", cwd=folder), "no something-symbol.json, something.onnx"
    )


def test_another_sort_of_file_is_told(folder: Path) -> None:
    refused(
        graphshare("inspect", "lenet-0000.params", cwd=folder),
        "is a parameter file (.params), not a symbol file",
    )
    refused(
        graphshare("params", "list", "lenet-symbol.json", cwd=folder),
        "is a symbol file (a graph), not a parameter file",
    )
    np.save(folder / "x.npy", np.zeros(3))
    refused(
        graphshare("inspect", "x.npy", cwd=folder), "is a NumPy array (.npy), not a symbol file"
    )
    refused(graphshare("inspect", "-", data=b"hello"), "is not a symbol file")


def test_what_is_missing_is_shown_by_an_example() -> None:
    refused(
        graphshare("duplicate", "lenet"),
        "Missing option '-p' / '--prefix'",
        "as in `graphshare duplicate lenet --prefix sha-",
    )
    refused(graphshare("rules", "explain"), "as in `graphshare rules explain")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """An archive whose arrays take more than a second to measure."""
    arrays = {f"arg:w{i}": np.random.default_rng(i).random(1 << 21, "float32") for i in range(8)}
    np.savez_compressed(tmp_path / "large.npz", **arrays)
    return tmp_path


@pytest.mark.large
def test_long_work_shows_a_bar_that_goes_again(large: Path) -> None:
    for _ in range(3):  # a fast machine needs more work to take a second
        shown, code = at_terminal(
            "params", "stats", "large.npz", cwd=large, OPENBLAS_NUM_THREADS="1"
        )
        assert code == 0
        if "measuring" in shown:
            break
        arrays = dict(np.load(large / "large.npz"))
        np.savez_compressed(
            large / "large.npz",
            **arrays,
            **{f"{key}_{len(arrays)}": a for key, a in arrays.items()},
        )
    bars = re.findall(r"measuring  (?:█|░)+ +(\d+)%  [\d.]+ MB/s  \d+:\d\d left", shown)
    assert bars
    assert [int(share) for share in bars] == sorted(int(share) for share in bars)
    # The line is clear before the table comes
    assert shown.index("arg:w0") > shown.rindex("\r\x1b[K")


@pytest.mark.large
def test_no_bar_in_pipes_nor_on_dumb_terminals(large: Path) -> None:
    run = done(graphshare("params", "stats", "large.npz", cwd=large))
    assert run.stderr == b""
    assert b"measuring" not in run.stdout
    assert "measuring" not in at_terminal("params", "stats", "large.npz", cwd=large, TERM="dumb")[0]


@pytest.mark.large
def test_a_large_graph_shows_how_far_it_is(tmp_path: Path) -> None:
    """Reading, duplicating, writing and reading back; whichever of them a second has passed in."""
    size = 300_000
    for _ in range(3):  # a fast machine needs more work to take a second
        chain(size, tmp_path / "chain.json")
        shown, code = at_terminal(
            "duplicate", "chain.json", "--prefix", "b-", "-o", "out.json", cwd=tmp_path
        )
        assert code == 0
        bar = r"\r(reading|duplicating|writing|reading back)  [█░]+ +\d+%  [\d.,]+ (?:MB|nodes)/s  \d+:\d\d left"
        titles = re.findall(bar, shown)
        if "writing" in titles:
            break
        size *= 3
    order = ["reading", "duplicating", "writing", "reading back"]
    assert titles
    assert [order.index(title) for title in titles] == sorted(
        order.index(title) for title in titles
    )
    assert shown.index("branch (original)") > shown.rindex("\r\x1b[K")
    quiet = done(graphshare("inspect", "chain.json", cwd=tmp_path))
    assert quiet.stderr == b""


@pytest.mark.large
def test_many_files_show_how_many_are_checked(folder: Path) -> None:
    for files in (400, 1600, 6400):  # a fast machine needs more work to take a second
        for number in range(files):
            if not (link := folder / f"n{number}-symbol.json").exists():
                link.symlink_to("lenet-symbol.json")
        shown, code = at_terminal("check", ".", cwd=folder)
        assert code == 0
        assert f"{files + 1:,} files: no findings" in shown
        if "checking" in shown:
            break
    assert re.search(r"\rchecking  [█░]+ +\d+%  [\d,]+ files/s  \d+:\d\d left", shown)


def test_a_bar_is_for_terminals_that_move_their_cursor(folder: Path) -> None:
    """The clock of the command goes on by two seconds at each look, so that small work takes long."""
    clock = "import itertools, time\nseconds = itertools.count(0.0, 2.0)\ntime.monotonic = lambda: next(seconds)\n"
    (folder / "sitecustomize.py").write_text(clock)
    path = os.pathsep.join((str(folder), os.environ["PYTHONPATH"]))
    command = ("duplicate", "lenet", "--prefix", "b-", "-o", "out")
    shown, code = at_terminal(*command, cwd=folder, PYTHONPATH=path)
    assert code == 0
    drawn = re.findall(
        r"\r([a-z ]+)  [█░]{24} +\d+%  [\d.]+ (?:nodes|kB)/s  \d:\d\d left\x1b\[K", shown
    )
    assert list(dict.fromkeys(drawn)) == ["duplicating", "writing", "copying parameters"]
    assert shown.index("branch (original)") > shown.rindex("\r\x1b[K")
    dumb, code = at_terminal(*command, cwd=folder, PYTHONPATH=path, TERM="dumb")
    piped = done(graphshare(*command, cwd=folder, PYTHONPATH=path)).stderr.decode()
    assert (code, dumb.replace("\r\n", "\n")) == (0, piped)
    assert piped.startswith("branch (original): 31 nodes, inputs data, softmax_label\nbranch b-: ")


def test_the_bar_waits_for_a_second_and_shows_no_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 0.5, 0.95, 0.96, 1.2])
    monkeypatch.setattr("graphshare.cli.console.monotonic", lambda: next(clock))
    out = io.StringIO()
    bar = Bar(out)
    bar.begin("reading", 10, "B")
    bar.advance(5)  # after half a second
    bar.end()
    bar.begin("writing", 10, "nodes")
    bar.advance(1)
    assert out.getvalue() == ""
    bar.advance(1)
    bar.end()
    assert out.getvalue().startswith("\rwriting  ")
    assert out.getvalue().endswith("\r\x1b[K")


def test_the_line_of_a_bar() -> None:
    bar = Bar()
    bar.begin("copying", 4_000_000_000, "B")
    bar._done = 1_000_000_000
    assert bar.line(10.0) == "copying  ██████░░░░░░░░░░░░░░░░░░  25%  100.0 MB/s  0:30 left"
    bar.begin("computing", 400, "nodes")
    bar._done = 1
    assert bar.line(40.0).endswith(" 0%  0 nodes/s  4:26:00 left")
    bar._done = 400
    assert bar.line(40.0).endswith("100%  10 nodes/s  0:00 left")
    bar.begin("reading", 0, "B")
    assert bar.line(1.0) == "reading  0 B  0 B/s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (0.4, "0:00"), (0.5, "0:01"), (59.4, "0:59"), (59.5, "1:00"), (61, "1:01"), (3599.4, "59:59"),
     (3599.5, "1:00:00"), (3661, "1:01:01"), (90_000, "25:00:00")],
)  # fmt: skip
def test_the_time_left(seconds: float, text: str) -> None:
    assert _clock(seconds) == text


def test_columns_are_aligned_two_blanks_apart() -> None:
    rows = [["name", "count"], ["a", "1"], ["long\n", "1,000"]]
    assert list(align(rows)) == ["name    count", "a       1", "long\\n  1,000"]
    assert list(align(rows, right=[False, True])) == [
        "name    count",
        "a           1",
        "long\\n  1,000",
    ]
    assert list(align(rows, right=[True])) == ["  name  count", "     a  1", "long\\n  1,000"]


def completed(folder: Path, line: str, shell: str = "bash") -> list[str]:
    """What the shell offers for the last word of ``line``."""
    words = line.split(" ")
    variables = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1) if shell != "fish" else words[-1],
    }
    run = done(graphshare(cwd=folder, _GRAPHSHARE_COMPLETE=f"{shell}_complete", **variables))
    assert run.stderr == b""
    lines = run.stdout.decode().splitlines()
    if shell == "zsh":  # sort, value and help on a line each
        return [
            value for sort, value in zip(lines[::3], lines[1::3], strict=True) if sort == "plain"
        ]
    return [value for sort, _, value in (text.partition(",") for text in lines) if sort == "plain"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_names_of_the_given_graph_are_completed(shell: str, folder: Path) -> None:
    assert completed(folder, "graphshare extract lenet --target fc", shell) == [
        "fc1_output",
        "fc2_output",
        "fc1",
        "fc2",
    ]
    assert completed(folder, "graphshare duplicate lenet --mode tie --copy fc2", shell) == [
        "fc2_weight",
        "fc2_bias",
    ]
    assert completed(folder, "graphshare run lenet-symbol.json --shape ", shell) == [
        "data=",
        "softmax_label=",
    ]
    assert completed(folder, "graphshare params show lenet-0000.params --select conv1", shell) == [
        "conv1_weight",
        "conv1_bias",
    ]


def test_commands_stems_and_choices_are_completed(folder: Path) -> None:
    assert completed(folder, "graphshare ins") == ["inspect"]
    assert completed(folder, "graphshare params st") == ["stats"]
    assert completed(folder, "graphshare inspect le") == ["lenet"]
    assert completed(folder, "graphshare draw lenet --to ") == [
        "html",
        "svg",
        "dot",
        "mermaid",
        "png",
        "pdf",
    ]
    assert "--mode" in completed(folder, "graphshare duplicate lenet --mo")


def test_what_cannot_be_read_completes_to_nothing(folder: Path) -> None:
    (folder / "broken.json").write_text("{")
    for line in ("graphshare extract broken.json --target ", "graphshare extract nothing --target ",
                 "graphshare extract - --target ", "graphshare extract --target ",
                 "graphshare params show broken.json --select ", "graphshare nonsense le"):  # fmt: skip
        assert completed(folder, line) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    script = done(graphshare("completion", shell)).stdout.decode()
    assert f"_GRAPHSHARE_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        assert (
            subprocess.run(
                [shell, "-n"], input=script.encode(), capture_output=True, timeout=60
            ).stderr
            == b""
        )


def paths() -> list[str]:
    """Every command, those inside groups too."""
    import click

    found = []
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        inner = command.commands if isinstance(command, click.Group) else {}
        found += [f"{name} {each}" for each in inner] or [name]
    return found


def test_every_command_has_examples_in_its_help() -> None:
    for path in paths():
        assert list_command_examples(path), f"{path} has no example"
        text = done(graphshare(*path.split(), "--help")).stdout.decode()
        assert "Examples:" in text
        for _, line in list_command_examples(path):
            assert line in text


def test_examples_are_of_commands() -> None:
    for name in COMMANDS:
        assert import_module(f"graphshare.cli.commands.{name}").EXAMPLES.keys() <= set(paths())


@pytest.mark.parametrize("path", mark_everyday(paths(), 3))
def test_examples_run(path: str, folder: Path) -> None:
    done(
        graphshare(
            "duplicate", "lenet", "--prefix", "sha-", "--mode", "tie", "-o", "siam", cwd=folder
        )
    )
    done(
        graphshare(
            "run",
            "lenet",
            "--seed",
            "0",
            "--shape",
            "data=1,1,28,28",
            "--all",
            "-o",
            "dump.npz",
            cwd=folder,
        )
    )
    (folder / "rules.json").write_text('{"version": 1, "rules": [{"scope": "b", "to": "a"}]}')
    if any(
        "both.onnx" in line or "folded.onnx" in line or "lenet.onnx" in line
        for _, line in list_command_examples(path)
    ):
        done(
            graphshare(
                "export", "lenet", "--shape", "data=1,1,28,28", "-o", "lenet.onnx", cwd=folder
            )
        )
        done(graphshare("fold", "lenet.onnx", "-o", "folded.onnx", cwd=folder))
        done(
            graphshare(
                "group",
                "lenet.onnx",
                "folded.onnx",
                "--switch",
                "exact",
                "-o",
                "both.onnx",
                cwd=folder,
            )
        )
    if any(" gpt" in line.replace("'", "") for _, line in list_command_examples(path)):
        write_shards(
            folder / "gpt",
            {"model.safetensors": ["transformer.wte.weight"]},
            tied=True,
            model_type="gpt2",
        )
        embedding = make_values("transformer.wte.weight")
        both = {"transformer.wte.weight": embedding, "lm_head.weight": embedding}
        write_shards(
            folder / "gpt-twice", {"model.safetensors": both}, tied=True, model_type="gpt2"
        )
    if path in ("compare", "rename"):
        done(
            graphshare(
                "export", "lenet", "--shape", "data=1,1,28,28", "-o", "model.onnx", cwd=folder
            )
        )
        done(graphshare("fold", "model.onnx", "-o", "optimized.onnx", cwd=folder))
    for _, line in list_command_examples(path):
        if ".svg" in line and not shutil.which("dot"):
            continue
        words = shlex.split(line)
        if words[0] == "eval":
            words = shlex.split(re.sub(r"^\$\((.*)\)$", r"\1", words[1]))
        if words[-2:] == ["|", "source"]:
            words = words[:-2]
        assert words[0] == "graphshare"
        run = graphshare(*words[1:], cwd=folder)
        assert run.returncode == 0, (line, run.stderr)


def test_verdicts_have_colours(folder: Path) -> None:
    """``ok`` and EQUAL are green, FAIL and NOT EQUAL red, wherever ``--color`` stands."""
    done(graphshare("duplicate", "lenet", "--prefix", "b-", "-o", "two", cwd=folder))
    done(graphshare("rename", "lenet", "--prefix", "b-", "-o", "b", cwd=folder))
    line = ["verify", "two", "--prefix", "b-", "--shape", "data=1,1,28,28"]
    for words in (["--color", "always", *line], [*line, "--color", "always"]):
        said = done(graphshare(*words, cwd=folder)).stdout.decode()
        assert "  \x1b[32mok\x1b[0m   values" in said
        assert "\x1b[32mEQUAL\x1b[0m: b- and the original, bit for bit" in said
    plain = done(graphshare(*line, cwd=folder)).stdout.decode()
    assert re.sub("\x1b\\[\\d+m", "", said) == plain
    values = gs.load(folder / "lenet").params
    changed = {
        f"{'aux' if 'moving' in name else 'arg'}:{name}": value for name, value in values.items()
    }
    changed["arg:fc2_bias"] = changed["arg:fc2_bias"] + np.arange(10, dtype="float32")
    np.savez(folder / "changed.npz", **changed)
    compare = [
        "compare",
        "lenet",
        "lenet-symbol.json",
        "--against-params",
        "changed.npz",
        "--shape",
        "data=1,1,28,28",
    ]
    answer = graphshare(*compare, "--color", "always", cwd=folder)
    assert answer.returncode == 1
    assert b"\x1b[31mFAIL\x1b[0m" in answer.stdout
    assert b"\x1b[31mNOT EQUAL\x1b[0m" in answer.stdout
    shown, code = at_terminal(*line, cwd=folder, NO_COLOR="1")
    assert code == 0
    assert "\x1b[32m" not in shown


def test_a_terminal_gets_no_dot(folder: Path) -> None:
    shown, code = at_terminal("draw", "lenet", cwd=folder)
    assert code == 2
    assert "digraph" not in shown
    assert "`graphshare draw lenet -o lenet.html`" in shown
    shown, code = at_terminal("draw", "lenet", "--to", "dot", cwd=folder)
    assert code == 0
    assert "digraph" in shown
    assert b"digraph" in done(graphshare("draw", "lenet", cwd=folder)).stdout
