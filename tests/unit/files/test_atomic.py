"""Outputs appear whole or not at all, several as one act, and leave nothing behind."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from graphshare.errors import OutputError, RefusedError
from graphshare.files import atomic, leftovers
from graphshare.files.atomic import OutputTransaction

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def write(paths, commit: bool = True) -> None:
    with OutputTransaction() as stage:
        for path in paths:
            stage.open(path).write(b"new " + os.path.basename(path).encode())
        if commit:
            stage.commit()


@contextmanager
def locked(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file as another live run has its temporary files open."""
    fcntl = pytest.importorskip("fcntl")
    with open(path, "xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def test_files_appear_on_commit_and_not_before(tmp_path: Path) -> None:
    with OutputTransaction() as stage:
        out = stage.open(tmp_path / "a")
        out.write(b"content")
        out.flush()
        assert "a" not in names(tmp_path)
        assert Path(out.name).read_bytes() == b"content"
        assert out.target == str(tmp_path / "a")
        stage.commit()
        assert (tmp_path / "a").read_bytes() == b"content"
    assert names(tmp_path) == ["a"]


def test_without_commit_everything_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    write([tmp_path / "a", tmp_path / "b"], commit=False)
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_everything_as_it_was(
    tmp_path: Path, error: type[BaseException]
) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def interrupted() -> None:
        with OutputTransaction() as stage:
            stage.open(tmp_path / "a").write(b"new")
            stage.open(tmp_path / "b").write(b"new")
            raise error

    with pytest.raises(error):
        interrupted()
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_an_output_may_be_the_input(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789" * 1000)
    with open(path, "rb") as source, OutputTransaction() as stage:
        stage.open(path).write(source.read(5))
        stage.commit()
        assert source.read() == b"56789" + b"0123456789" * 999
    assert path.read_bytes() == b"01234"


@pytest.mark.parametrize("existing", [(), ("a",), ("b",), ("a", "b", "c")])
@pytest.mark.parametrize("fails_at", [0, 1, 2])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "bad"), KeyboardInterrupt()])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_when_one_cannot_be_put_in_place_all_are_put_back(
    tmp_path: Path, monkeypatch, existing, fails_at: int, error: BaseException, after: bool
) -> None:
    for name in existing:
        (tmp_path / name).write_bytes(b"old " + name.encode())
    real, calls = os.replace, []

    def failing(source: str, target: str) -> None:
        if ".tmp" in os.path.basename(target):
            return real(source, target)
        calls.append(target)
        if len(calls) - 1 == fails_at:
            if after:
                real(source, target)
            raise error
        return real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else OutputError
    with pytest.raises(expected):
        write([tmp_path / name for name in "abc"])
    assert names(tmp_path) == sorted(existing)
    assert all((tmp_path / name).read_bytes() == b"old " + name.encode() for name in existing)


@posix
@pytest.mark.parametrize("fails_at", [0, 1])
def test_without_hard_links_all_are_put_back_too(
    tmp_path: Path, monkeypatch, fails_at: int
) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"old")
    real, calls = os.replace, []

    def no_link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    def failing(source: str, target: str) -> None:
        if not target.endswith(".tmp") and source.endswith(".tmp"):
            calls.append(target)
            if len(calls) == fails_at + 1:
                raise OSError(errno.EIO, "bad")
        return real(source, target)

    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OutputError):
        write([tmp_path / "a", tmp_path / "b"])
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"old"
    monkeypatch.setattr(os, "replace", real)
    write([tmp_path / "a", tmp_path / "b"])
    assert (tmp_path / "b").read_bytes() == b"new b"
    assert names(tmp_path) == ["a", "b"]


def test_what_cannot_be_put_back_is_kept_and_said_where(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a").write_bytes(b"old")
    real, calls = os.replace, []

    def failing(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) > 1:
            raise OSError(errno.EIO, "the disk is gone")
        real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OutputError, match="could neither be written nor put back") as caught:
        write([tmp_path / "a", tmp_path / "b"])
    (fault,) = caught.value.faults
    (kept,) = [name for name in names(tmp_path) if name != "a"]
    assert fault.where == str(tmp_path / "a")
    assert fault.hint.endswith(kept)
    assert (tmp_path / kept).read_bytes() == b"old"


def test_nothing_is_put_in_place_before_all_are_on_the_disk(tmp_path: Path, monkeypatch) -> None:
    real, calls = os.fsync, []

    def failing(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "full")
        real(fd)

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OutputError, match=r"b: cannot be written: the disk is full"):
        write([tmp_path / "a", tmp_path / "b"])
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@posix
def test_the_mode_of_a_replaced_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write([path])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_gets_the_mode_that_open_would_give(
    tmp_path: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        write([tmp_path / "a"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


@posix
def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("there/file")
    (tmp_path / "dangling").symlink_to("there/new")
    write([tmp_path / "link", tmp_path / "dangling"])
    assert names(tmp_path) == ["dangling", "link", "there"]
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"new link"
    assert (tmp_path / "there" / "new").read_bytes() == b"new dangling"
    assert names(tmp_path / "there") == ["file", "new"]


@posix
def test_a_loop_of_links_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match="loop"):
        write([tmp_path / "loop"])


def test_names_of_255_bytes(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write([path])
    write([path])
    assert names(tmp_path) == ["n" * 255]


def test_a_relative_path(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(["a"])
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "is a directory"),
        ("missing/a", "the directory does not exist"),
        ("file/a", "not a directory"),
        ("n" * 256, "too long"),
        ("a.json.gz", "outputs are written without compression"),
    ],
)
def test_paths_that_cannot_be_written(tmp_path: Path, target: str, message: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=message) as caught:
        write([tmp_path / "fine", tmp_path / target])
    assert caught.value.faults[0].where == str(tmp_path / target)
    assert names(tmp_path) == ["file"]


def test_a_nul_in_a_path_is_an_output_error() -> None:
    with pytest.raises(OutputError, match="null"):
        write(["a\0b"])


def test_a_missing_directory_comes_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        write([tmp_path / "x" / "a"])
    assert caught.value.faults[0].hint == f"create it: mkdir -p {tmp_path / 'x'}"


def test_a_write_protected_file_is_not_replaced(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o444)
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # the superuser may write anywhere
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(OutputError, match="write-protected"):
        write([tmp_path / "a"])


def test_one_path_for_two_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="two outputs"):
        write([tmp_path / "a", tmp_path / "." / "a"])
    assert names(tmp_path) == []


@posix
def test_dev_null_stays_a_device() -> None:
    write(["/dev/null"])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@posix
def test_dev_full_is_an_output_error(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(OutputError, match="/dev/full: cannot be written: the disk is full"):
        write([tmp_path / "a", "/dev/full"])
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@posix
def test_a_fifo_is_written_directly(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    write([fifo])
    reader.join(10)
    assert got == [b"new fifo"]
    assert names(tmp_path) == ["fifo"]


@posix
@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_redirected_into_a_file_keeps_what_was_there(
    tmp_path: Path, target: str
) -> None:
    if not os.path.exists(target):
        pytest.skip(f"no {target} here")
    code = (
        "import sys; from graphshare.files.atomic import OutputTransaction\n"
        "with OutputTransaction() as s: s.open(sys.argv[1]).write(b'middle '); s.commit()"
    )
    log = tmp_path / "log"
    with open(log, "ab") as file:
        file.write(b"before ")
        file.flush()
        subprocess.run([sys.executable, "-c", code, target], stdout=file, check=True)
        file.write(b"after")
    assert log.read_bytes() == b"before middle after"
    assert names(tmp_path) == ["log"]


@posix
def test_a_closed_pipe_is_an_output_error_and_no_file_is_put_in_place(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with pytest.raises(OutputError, match="closed the pipe"):
            write([tmp_path / "a", f"/dev/fd/{writer}"])
    finally:
        os.close(writer)
    assert names(tmp_path) == []


@posix
def test_a_file_size_limit_is_an_output_error_that_names_the_target(tmp_path: Path) -> None:
    code = (
        "import resource, sys\n"
        "from graphshare.errors import OutputError\n"
        "from graphshare.files.atomic import OutputTransaction\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    with OutputTransaction() as s:\n"
        "        s.open(sys.argv[1]).write(bytes(100)); s.open(sys.argv[2]).write(bytes(100_000)); s.commit()\n"
        "except OutputError as error: print(error)"
    )
    (tmp_path / "a").write_bytes(b"old")
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(
        f"{paths[1]}: cannot be written: the file would exceed the size limit"
    )
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_temporary_name_that_is_taken_is_left_alone(tmp_path: Path, monkeypatch) -> None:
    tokens = iter([b"taken", b"taken", b"free"])
    monkeypatch.setattr(os, "urandom", lambda _: next(tokens))
    taken = f".graphshare-{zlib.crc32(b'a'):08x}-{b'taken'.hex()}.tmp"
    with locked(tmp_path / taken) as file:
        file.write(b"someone's")
        file.flush()
        write([tmp_path / "a"], commit=False)
    assert names(tmp_path) == [taken]
    assert (tmp_path / taken).read_bytes() == b"someone's"
    assert next(tokens, None) is None


def leftover(target: str, ending: str, token: str = "0123456789abcdef") -> str:
    return f".graphshare-{zlib.crc32(target.encode()):08x}-{token}{ending}"


@posix
def test_what_a_killed_run_has_left_is_removed_by_the_next_on_that_target(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from graphshare.files.atomic import OutputTransaction\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with OutputTransaction() as s:\n"
        "    for path in sys.argv[1:]: s.open(path).write(b'killed')\n"
        "    s.commit()"
    )
    (tmp_path / "a").write_bytes(b"old")
    run = subprocess.run([sys.executable, "-c", code, tmp_path / "a", tmp_path / "b"], check=False)
    assert run.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 4  # a, its new and its old content, the new content of b
    write([tmp_path / "c"])
    assert len(names(tmp_path)) == 5
    write([tmp_path / "a"])
    assert len(names(tmp_path)) == 3
    write([tmp_path / "b"], commit=False)
    assert names(tmp_path) == ["a", "c"]
    assert (tmp_path / "a").read_bytes() == b"new a"


@posix
def test_the_temporaries_of_a_live_run_stay(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with OutputTransaction() as stage:
        stage.open(tmp_path / "a").write(b"first")
        write([tmp_path / "a"])
        assert len(names(tmp_path)) == 2
        stage.place()
        assert [name.endswith(".old") for name in names(tmp_path)] == [True, False]
        write([tmp_path / "a"], commit=False)  # the lock is on the target now
        assert [name.endswith(".old") for name in names(tmp_path)] == [True, False]
        stage.commit()
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"first"


@posix
def test_the_only_copy_of_a_killed_run_without_hard_links_is_put_back(tmp_path: Path) -> None:
    (tmp_path / leftover("a", ".old")).write_bytes(b"old")
    write([tmp_path / "a"], commit=False)
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@posix
def test_files_that_are_not_ours_are_never_removed(tmp_path: Path) -> None:
    others = [leftover("b", ".tmp"), ".graphshare-x.tmp", ".graphshare-session"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    write([tmp_path / "a"])
    assert names(tmp_path) == sorted(["a", *others])


def test_what_is_in_place_without_a_commit_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with OutputTransaction() as stage:
        stage.open(tmp_path / "a").write(b"new")
        stage.open(tmp_path / "b").write(b"new")
        stage.place()
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_what_another_program_wrote_meanwhile_stays(tmp_path: Path) -> None:
    with OutputTransaction() as stage:
        stage.open(tmp_path / "a").write(b"new")
        (tmp_path / "a").write_bytes(b"theirs")
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"theirs"


@posix
def test_more_outputs_than_files_may_be_open(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from graphshare.files.atomic import OutputTransaction\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "with OutputTransaction() as s:\n"
        "    for i in range(100): s.open(f'{sys.argv[1]}/{i}').write(b'new')\n"
        "    s.commit()"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    assert len(names(tmp_path)) == 100


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("at", range(6))
def test_signals_wait_until_all_is_in_place(
    tmp_path: Path, monkeypatch, number: signal.Signals, at: int
) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"old")
    calls = []

    def interrupting(function):
        def call(*arguments):
            calls.append(function)
            if len(calls) == at + 1:
                os.kill(os.getpid(), number)
            return function(*arguments)

        return call

    for name in ("link", "replace", "unlink"):
        monkeypatch.setattr(os, name, interrupting(getattr(os, name)))
    received = []
    before = signal.signal(number, lambda number, _: received.append((number, names(tmp_path))))
    try:
        write([tmp_path / "a", tmp_path / "b"])
    finally:
        signal.signal(number, before)
    assert received == [(number, ["a", "b"])]
    assert len(calls) == 6  # a backup, a rename and a removal for each
    assert (tmp_path / "a").read_bytes() == b"new a"
    assert (tmp_path / "b").read_bytes() == b"new b"


@posix
def test_a_second_interrupt_leaves_no_mixed_pair(tmp_path: Path, monkeypatch) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"old")
    real = os.replace

    def failing(source: str, target: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        if target.endswith("b") and source.endswith(".tmp"):
            raise OSError(errno.EIO, "bad")
        real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(KeyboardInterrupt):
        write([tmp_path / "a", tmp_path / "b"])
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"old"


@posix
def test_two_outputs_to_one_stream_are_refused(tmp_path: Path) -> None:
    with open(tmp_path / "a", "wb") as file:
        number = file.fileno()
        for paths in (
            [f"/dev/fd/{number}", tmp_path / "a"],
            [tmp_path / "a", f"/dev/fd/{number}"],
            [f"/dev/fd/{number}", f"/dev/fd/{number}"],
        ):
            with pytest.raises(RefusedError, match="two outputs"):
                write(paths)
    assert names(tmp_path) == ["a"]
    write(["/dev/null", "/dev/null"])


@posix
def test_a_descriptor_of_our_own_is_not_an_output(tmp_path: Path) -> None:
    with OutputTransaction() as stage:
        number = stage.open(tmp_path / "a").fileno()
        with pytest.raises(RefusedError, match="two outputs"):
            stage.open(f"/dev/fd/{number}")
    with pytest.raises(OutputError, match="descriptor 12345 is not open"):
        write(["/dev/fd/12345"])


@posix
def test_other_hard_links_keep_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    os.link(tmp_path / "a", tmp_path / "b")
    write([tmp_path / "a"])
    assert (tmp_path / "b").read_bytes() == b"old"
    assert (tmp_path / "a").read_bytes() == b"new a"


def test_the_folder_of_the_outputs_is_listed_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(leftovers, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    left = tmp_path / leftovers.temporary_path("a", ".tmp")
    left.touch()
    memory = leftovers.FolderMemory()
    with leftovers.remember_folders(memory):
        assert leftovers.list_temporaries(str(tmp_path)) == [left.name]
        left.unlink()
        assert leftovers.list_temporaries(str(tmp_path)) == [left.name]
        clock[0] += 61
        assert leftovers.list_temporaries(str(tmp_path)) == []
    left.touch()
    assert leftovers.list_temporaries(str(tmp_path)) == [left.name]


@pytest.mark.parametrize(
    ("place", "number", "is_an_error"),
    [
        ("", errno.EINVAL, False),
        ("", errno.EBADF, False),
        ("", errno.EIO, True),
        ("a", errno.EINVAL, True),
        ("a", errno.EIO, True),
    ],
)
def test_only_a_stream_need_not_reach_the_disk(
    place: str, number: int, is_an_error: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(fd: int) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", fsync)
    with open(tmp_path / "x", "wb") as file:
        output: Any = SimpleNamespace(place=place, file=file)
        if is_an_error:
            with pytest.raises(OSError, match="no"):
                atomic._complete(output)
        else:
            atomic._complete(output)
            assert file.closed
            atomic._complete(output)  # a second time there is nothing to do


@pytest.mark.parametrize("failures", [0, 2, 3])
def test_an_error_that_passes_is_tried_again(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def fail(*paths: str) -> None:
        calls.append(paths[-1])
        if len(calls) <= failures:
            raise OSError(errno.EINTR, "busy")

    monkeypatch.setattr(os, "replace", fail)
    monkeypatch.setattr(os, "unlink", fail)
    output: Any = SimpleNamespace(backup="a.old", place="a")
    assert atomic._put_back(output) is (failures < 3)
    assert calls == ["a"] * min(failures + 1, 3)
    calls.clear()
    leftovers.remove("b")
    assert calls == ["b"] * min(failures + 1, 3)


def test_every_descriptor_but_minus_one_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    monkeypatch.setattr(os, "close", closed.append)
    for number in (-1, 0, 7):
        leftovers.close(number)
    assert closed == [0, 7]
