"""Interrupted commands: their exit code, their last message, and what of their outputs is there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from graphshare.cli import main
from graphshare.cli.main import Terminated, _describe_written, _Interrupts, _say_interrupted
from graphshare.errors import DisprovedError, Fault, OutputError, UsageError
from tests.processes import (
    COMMAND,
    ROOT,
    done,
    environment,
    files_in,
    graphshare,
    refused,
    write_json,
)
from tests.symbols import siamese

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

_START = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it, and children inherit that
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # likewise one that outlives its terminal
sys.path.insert(0, {str(ROOT)!r})
"""


def run_changed(tmp_path: Path, change: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process in which ``change`` was executed first."""
    script = f"{_START}{change}\nfrom graphshare.__main__ import main\nsys.argv = ['graphshare', *sys.argv[1:]]\nmain()"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        env=environment(),
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(tmp_path / "a.json", siamese())
    (tmp_path / "out.json").write_text("old")
    (tmp_path / "map.json").write_text("old")
    return tmp_path


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ({}, ""),
        ({"a.json": True}, "a.json was written"),
        ({"a.json": True, "a.params": True}, "a.json, a.params were written"),
        ({"s3://b/a": False}, "a part of s3://b/a was written"),
        (
            {"s3://b/a": False, "a.json": True},
            "a.json was written, and a part of s3://b/a was written",
        ),
    ],
)
def test_complete_outputs_and_parts_are_told_apart(written: dict[str, bool], text: str) -> None:
    assert _describe_written(written) == text


def test_a_signal_within_a_second_is_the_same_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    handler, raised = _Interrupts(), []
    for now in (0.0, 0.5, 0.99, 1.5, 2.6, 9.0):
        monkeypatch.setattr("graphshare.cli.main.time.monotonic", lambda now=now: now)
        try:
            handler(signal.SIGINT if now < 9 else signal.SIGTERM, None)
        except (KeyboardInterrupt, Terminated) as error:
            raised.append((now, type(error)))
    assert raised == [
        (0.0, KeyboardInterrupt),
        (1.5, KeyboardInterrupt),
        (2.6, KeyboardInterrupt),
        (9.0, Terminated),
    ]


def test_an_error_of_the_clean_up_is_the_reason_of_the_last_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = KeyboardInterrupt()
    error.__context__ = ValueError()
    error.__context__.__cause__ = OutputError(Fault("the old file is in old.tmp", where="a.json"))
    _say_interrupted(error, {})
    assert (
        capsys.readouterr().err == "error: a.json: the old file is in old.tmp\nerror: interrupted\n"
    )
    _say_interrupted(KeyboardInterrupt(), {})
    assert capsys.readouterr().err == "error: interrupted; nothing was changed\n"


DUPLICATE = ("duplicate", "a.json", "--prefix", "b-", "-o", "out.json", "--map-out", "map.json")


@pytest.mark.parametrize("code", [130, 2])
def test_the_last_message_says_what_was_written(folder: Path, code: int) -> None:
    number = "SIGINT" if code == 130 else "SIGHUP"
    change = f"""
from graphshare.files import atomic
def interrupting(real):
    def call(*arguments):
        os.kill(os.getpid(), signal.{number})
        return real(*arguments)
    return call
os.replace = interrupting(os.replace)
"""
    run = run_changed(folder, change, *DUPLICATE)
    assert run.returncode == code
    assert (
        run.stderr.decode().splitlines()[-1]
        == "error: interrupted; out.json, map.json were written"
    )
    assert b"Traceback" not in run.stderr
    assert files_in(folder) == ["a.json", "map.json", "out.json"]
    assert "old" not in ((folder / "out.json").read_text(), (folder / "map.json").read_text())


def test_signals_in_quick_succession_leave_no_temporary_file(folder: Path) -> None:
    change = """
from graphshare.formats.mxnet import staging as save
def check_written(*arguments, **more):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
save.check_written = check_written
"""
    run = run_changed(folder, change, *DUPLICATE)
    assert run.returncode == 130
    assert run.stderr.decode().splitlines()[-1] == "error: interrupted; nothing was changed"
    assert files_in(folder) == ["a.json", "map.json", "out.json"]
    assert (folder / "out.json").read_text() == (folder / "map.json").read_text() == "old"


def test_an_interrupt_of_the_imports_has_no_traceback(folder: Path) -> None:
    change = """
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
    run = run_changed(folder, change, *DUPLICATE)
    assert (run.returncode, run.stderr) == (130, b"error: interrupted; nothing was changed\n")


def test_an_interrupt_of_the_first_import_has_no_traceback(folder: Path) -> None:
    script = f"""
import _signal, os, sys
_signal.signal(_signal.SIGINT, _signal.default_int_handler)
sys.path.insert(0, {str(ROOT)!r})
class Finder:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] not in ("graphshare", "__future__"):
            os.kill(os.getpid(), _signal.SIGINT)
sys.meta_path.insert(0, Finder())
from graphshare.__main__ import main
main()
"""
    run = subprocess.run(
        [sys.executable, "-S", "-c", script],
        capture_output=True,
        timeout=60,
        env=environment(),
        check=False,
    )
    assert (run.returncode, run.stderr) == (130, b"error: interrupted; nothing was changed\n")


def test_an_interrupt_of_a_message_has_no_traceback(folder: Path) -> None:
    change = """
from graphshare.cli import main as command
command.say_faults = lambda error: os.kill(os.getpid(), signal.SIGINT)
"""
    run = run_changed(folder, change, "check", "missing.json")
    assert run.returncode == 130
    assert b"Traceback" not in run.stderr


def test_a_hangup_that_is_ignored_stays_ignored(folder: Path) -> None:
    change = """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from graphshare.formats.mxnet import staging as save
real = save.check_written
def check_written(*arguments, **more):
    os.kill(os.getpid(), signal.SIGHUP)
    return real(*arguments, **more)
save.check_written = check_written
"""
    assert run_changed(folder, change, *DUPLICATE).returncode == 0


def test_a_failure_after_the_files_says_that_they_were_written(folder: Path) -> None:
    lenet = str(ROOT / "fixtures" / "lenet")
    words = [
        "run",
        lenet,
        "--seed",
        "0",
        "--shape",
        "data=1,1,28,28",
        "-o",
        "out.npz",
        "--format",
        "json",
    ]
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [*COMMAND, *words],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert run.returncode == 2
    assert b"the disk is full" in run.stderr
    assert run.stderr.decode().splitlines()[-1].strip() == "hint: before that, out.npz was written"


def test_only_descriptors_open_at_the_start_are_outputs(folder: Path) -> None:
    words = ["duplicate", "a.json", "--prefix", "b-", "-o", "out.json", "--map-out"]
    for number in range(3, 12):
        refused(
            graphshare(*words, f"/dev/fd/{number}", cwd=folder),
            f"/dev/fd/{number}: descriptor {number} is not open",
        )
    assert (folder / "out.json").read_text() == "old"
    assert files_in(folder) == ["a.json", "map.json", "out.json"]
    with open(folder / "map.json", "wb") as file:
        run = subprocess.run(
            [*COMMAND, *words, f"/dev/fd/{file.fileno()}"],
            cwd=folder, env=environment(), pass_fds=[file.fileno()], capture_output=True, check=False,
        )  # fmt: skip
    done(run)
    assert b'"version"' in (folder / "map.json").read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-o out.json --map-out /dev/stdout > out.json", "out.json: is also the target of stdout"),
        ("-o - --map-out /dev/stdout | cat", "/dev/stdout: is named for two outputs"),
        ("-o /dev/fd/3 --map-out /dev/fd/4 3> x 4>&3", "/dev/fd/4: is named for two outputs"),
        ("-o /dev/fd/3 --map-out x 3> x", "x: is named for two outputs"),
        ("-o - --map-out x > x", "x: is "),
    ],
)
def test_two_outputs_to_one_place_are_refused(folder: Path, options: str, words: str) -> None:
    line = f"set -o pipefail; {' '.join(COMMAND)} duplicate a.json --prefix b- {options}"
    run = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment(), capture_output=True, check=False
    )
    assert run.returncode == 2
    assert words in run.stderr.decode()
    assert run.stdout == b""


@pytest.mark.parametrize(("before", "code"), [("signal.SIG_IGN", 0), ("signal.SIG_DFL", 130)])
def test_a_signal_that_the_shell_has_the_command_ignore_is_ignored(
    before: str, code: int, folder: Path
) -> None:
    """A shell does so for what it runs in the background."""
    change = f"""
signal.signal(signal.SIGINT, {before})
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "graphshare.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
    run = run_changed(folder, change, *DUPLICATE)
    assert run.returncode == code
    assert (folder / "out.json").read_text().startswith("{" if code == 0 else "old")
    assert (b"error: interrupted; nothing was changed" in run.stderr) == bool(code)


BUG = """error: this is a bug in graphshare: ValueError: odd
  hint: please report it with the output of `graphshare --debug check ...`
"""


@pytest.mark.parametrize(
    ("outcome", "code", "text"),
    [
        (None, 0, ""),
        (1, 1, ""),
        ("text", 0, ""),
        (OSError(2, "No such file or directory", "a"), 2, "error: No such file or directory: a\n"),
        (OSError(28, "No space left on device"), 2, "error: No space left on device\n"),
        (OSError("odd"), 2, "error: odd\n"),
        (MemoryError(), 2, "error: the input is too large for this machine (MemoryError)\n"),
        (RecursionError(), 2, "error: the input is too large for this machine (RecursionError)\n"),
        (ValueError("odd"), 2, BUG),
        (KeyboardInterrupt(), 130, "error: interrupted; nothing was changed\n"),
        (Terminated(), 2, "error: interrupted; nothing was changed\n"),
        (SystemExit(0), 0, ""),
        (SystemExit(1), 2, ""),
        (BrokenPipeError(), 2, ""),
        (DisprovedError(Fault("differs", hint="look")), 1, "error: differs\n  hint: look\n"),
        (OutputError(Fault("is full", where="a")), 2, "error: a: is full\n"),
        (
            UsageError(
                [
                    Fault("one", hint="h"),
                    Fault("two", hint="h"),
                    Fault("three", hint="g"),
                    Fault("four"),
                ]
            ),
            2,
            "error: one\nerror: two\n  hint: h\nerror: three\n  hint: g\nerror: four\n",
        ),
    ],
)
def test_how_a_command_ends(
    outcome: object,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def end(arguments: list[str], **settings: object) -> object:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr("graphshare.cli.main.cli.main", end)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # some endings silence it
    assert (main.run(["check"]), capsys.readouterr().err) == (code, text)


def test_the_way_to_a_report_of_a_bug_is_a_command_that_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> object:
        raise ValueError("odd")

    with monkeypatch.context() as patch:
        patch.setattr("graphshare.cli.main._main", fail)
        main.run(["--color", "never", "compare", "a.onnx", "b.onnx"])
        words = capsys.readouterr().err.partition("`graphshare ")[2].partition(" ...`")[0].split()
        assert words == ["--debug", "compare"]
        main.run([*words, "a.onnx", "b.onnx"])
        shown = capsys.readouterr().err
        assert shown.startswith("Traceback")
        assert shown.endswith("hint: please report it with this output\n")
    assert main.run([*words, "--help"]) == 0


SWALLOWED = """
import os, signal, time, weakref
from graphshare.cli.main import Terminated, _Interrupts
class Ended: pass
def end(reference):
    os.kill(os.getpid(), signal.{name})
    time.sleep(0.1)
signal.signal(signal.{name}, signal.SIG_DFL)  # under nohup it is ignored, and stays so
_Interrupts().install()
ended = Ended()
reference = weakref.ref(ended, end)
try:
    del ended
    time.sleep(10)
    print("lost")
except (Terminated, KeyboardInterrupt) as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends a process there")
@pytest.mark.parametrize(
    ("name", "error"),
    [("SIGTERM", "Terminated"), ("SIGHUP", "Terminated"), ("SIGINT", "KeyboardInterrupt")],
)
def test_a_signal_in_a_callback_of_the_interpreter_is_not_lost(name: str, error: str) -> None:
    """The interpreter ignores errors in callbacks of weak references, such as those that end an import."""
    words = [sys.executable, "-c", SWALLOWED.replace("{name}", name)]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == (f"{error}\n", "")
