"""What is said of an output that cannot be written: the reason, and what to do."""

from __future__ import annotations

import errno

import pytest

from graphshare.files.staged_file import output_error

BESIDE = "the directory must be writable: the output is written beside its target first"


@pytest.mark.parametrize(
    ("number", "system", "message", "hint"),
    [
        (errno.ENOENT, "posix", "the directory does not exist", "create it: mkdir -p a"),
        (errno.EACCES, "posix", "cannot be written: permission denied", BESIDE),
        (
            errno.EACCES,
            "nt",
            "cannot be written: permission denied",
            "close it in the program that has it open",
        ),
        (errno.EROFS, "nt", "cannot be written: the file system is read-only", ""),
        (
            errno.ENOSPC,
            "posix",
            "cannot be written: the disk is full",
            "make room, or write to another disk",
        ),
        (errno.EIO, "posix", "cannot be written: odd", ""),
    ],
)
def test_the_reason_decides_the_hint(
    number: int, system: str, message: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(number, "odd")
    monkeypatch.setattr("graphshare.files.staged_file.os.name", system)
    (fault,) = output_error(error, "a/b.json").faults
    monkeypatch.undo()
    assert (fault.message, fault.hint, fault.where) == (message, hint, "a/b.json")


def test_a_target_without_a_directory_is_in_this_one() -> None:
    (fault,) = output_error(OSError(errno.ENOENT, "odd"), "b.json").faults
    assert fault.hint == "create it: mkdir -p ."
    (fault,) = output_error(OSError("only words"), "b.json").faults
    assert fault.message == "cannot be written: only words"
