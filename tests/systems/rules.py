"""The rules of other systems, applied to a process on Linux: what graphshare would meet on Windows and on macOS.

``GRAPHSHARE_TEST_SYSTEM`` names the system for every process that starts with
``tests/systems/site`` on its path, the children of a command among them. The package alone sees
another ``os``, ``sys`` and ``signal``; the rules for files hold for all modules of the process,
because the standard library opens and removes files for it.

Windows: a file that is open or mapped, here or in a child, cannot be replaced, renamed or removed;
folders cannot be opened; names differ by more than case and have no ``<>:"|?*``; ``fcntl``,
``resource``, timers, ``fork`` and ``pread`` do not exist; paths have drives and ``\\``; text is
cp1252 with CRLF unless a call says otherwise. macOS: names without case, no ``/proc``. What is
simulated is not run there: docs/support.md says so.
"""

from __future__ import annotations

import builtins
import errno
import importlib.util
import io
import multiprocessing.connection
import ntpath
import os
import posixpath
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

VARIABLE = "GRAPHSHARE_TEST_SYSTEM"
HOLDER = "GRAPHSHARE_TEST_HOLDER"
"""Names one more process whose open files count, as if it were another program."""
SYSTEMS = ("windows", "macos")

_NO_MODULES = ("fcntl", "resource", "pty", "termios", "tty", "pwd", "grp", "posix")
_NO_OS_NAMES = """fork forkpty geteuid getuid getegid getgid fchown fchmod chown pread preadv pwrite
    sysconf sched_getaffinity copy_file_range sendfile memfd_create posix_fadvise posix_fallocate
    killpg setsid getpgid mkfifo O_NONBLOCK O_CLOEXEC O_NOFOLLOW O_DIRECTORY""".split()
_NO_SIGNALS = "SIGALRM SIGHUP SIGKILL SIGPIPE SIGUSR1 SIGUSR2 SIGCHLD setitimer alarm pthread_sigmask ITIMER_REAL".split()
_NO_MACOS_NAMES = ["sched_getaffinity", "copy_file_range", "posix_fadvise", "posix_fallocate"]
_BINARY = 1 << 28  # a flag that Linux does not have
_LOADS = "spec = util.spec_from_file_location("
"""The line of ``graphshare.python_process`` before which the rules are applied in the process that it starts."""
_INVALID = re.compile(r'[<>:"|?*\x00-\x1f]')

_real = {
    name: getattr(os, name) for name in ("open", "stat", "lstat", "listdir", "getcwd", "readlink")
}
_real_open = builtins.open
_system = ""


def apply(system: str) -> None:
    """Apply the rules of ``system`` to this process. Raises ValueError for one that is not simulated."""
    if system not in SYSTEMS:
        raise ValueError(f"{VARIABLE} is {system!r}; it should be one of {', '.join(SYSTEMS)}")
    global _system
    _system = system
    is_windows = system == "windows"
    _patch_files(is_windows)
    if is_windows:
        _patch_text()
    _show_other_modules(
        _make_windows_modules() if is_windows else _make_macos_modules(),
        _NO_MODULES if is_windows else (),
    )


# Names


def find_path(path: Any) -> Any:
    """Return the path on this machine: without drive and ``\\``, each part in the case in which it exists."""
    if isinstance(path, int) or path is None:
        return path
    text = os.fsdecode(path)
    if _system == "windows":
        text = re.sub(r"^[A-Za-z]:(?=[\\/])", "", text).replace("\\", "/")
        text = "/dev/null" if text.lower() == "nul" else text
    found = text if _exists(text) else _find_case(text)
    return os.fsencode(found) if isinstance(path, bytes) else found


def _find_case(text: str) -> str:
    found = "/" if text.startswith("/") else ""
    parts = [part for part in text.split("/") if part]
    for i, part in enumerate(parts):
        path = posixpath.join(found, part)
        if not _exists(path):
            try:
                names = _real["listdir"](found or ".")
            except OSError:
                return posixpath.join(path, *parts[i + 1 :])
            path = posixpath.join(
                found, next((name for name in names if name.casefold() == part.casefold()), part)
            )
        found = path
    return found + "/" * (text.endswith("/") and len(text) > 1)


def _exists(path: str) -> bool:
    try:
        _real["lstat"](path)
    except (OSError, ValueError):
        return False
    return True


# Files


def find_holder(path: Any) -> str:
    """Return how this process, a child or :data:`HOLDER` holds a file: a descriptor's link or a
    mapping; empty for none.
    """
    try:
        status = _real["lstat"](path)
    except OSError:
        return ""
    for link in _list_descriptors():
        try:
            held = _real["stat"](link)
        except OSError:
            continue
        if (held.st_dev, held.st_ino) == (status.st_dev, status.st_ino):
            return link
    with _real_open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        name = posixpath.realpath(path)
        return "a mapping" if any(line.rstrip("\n").endswith(f" {name}") for line in file) else ""


def _list_descriptors() -> Iterator[str]:
    processes = [os.getpid(), int(os.environ.get(HOLDER, os.getpid()))]
    for thread in _real["listdir"]("/proc/self/task"):
        try:
            with _real_open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
                processes += map(int, file.read().split())
        except OSError:
            continue
    for process in processes:
        try:
            yield from (
                f"/proc/{process}/fd/{number}" for number in _real["listdir"](f"/proc/{process}/fd")
            )
        except OSError:
            continue


def _refuse_held(*paths: Any) -> None:
    for path in paths:
        holder = find_holder(path)
        if holder:
            raise PermissionError(errno.EACCES, f"the file is open ({holder})", os.fsdecode(path))


def _patch_files(is_windows: bool) -> None:
    one = (
        "stat",
        "lstat",
        "mkdir",
        "rmdir",
        "listdir",
        "scandir",
        "access",
        "chmod",
        "readlink",
        "utime",
        "truncate",
    )
    for name in one:
        _patch(
            os,
            name,
            lambda call: lambda path=".", *more, **named: call(find_path(path), *more, **named),
        )
    for name in ("unlink", "remove"):
        _patch(
            os,
            name,
            lambda call: lambda path, **named: _remove(call, find_path(path), is_windows, named),
        )
    for name in ("rename", "replace", "link", "symlink"):
        _patch(
            os,
            name,
            lambda call, name=name: (
                lambda a, b, **named: _move(call, name, a, b, is_windows, named)
            ),
        )
    _patch(
        os,
        "open",
        lambda call: (
            lambda path, flags, mode=0o777, **named: _open(
                call, path, flags, mode, is_windows, named
            )
        ),
    )
    for module in (builtins, io):
        _patch(
            module,
            "open",
            lambda call: (
                lambda file, *more, **named: call(_check_name(file, is_windows), *more, **named)
            ),
        )


def _patch(module: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    setattr(module, name, wrap(getattr(module, name)))


def _remove(call: Any, path: Any, is_windows: bool, named: dict[str, Any]) -> None:
    # What tempfile removes while it is open is opened there so that it disappears by itself.
    if is_windows and not named and sys._getframe(2).f_globals.get("__name__") != "tempfile":
        _refuse_held(path)
    call(path, **named)


def _move(call: Any, name: str, a: Any, b: Any, is_windows: bool, named: dict[str, Any]) -> None:
    source, target = a if name == "symlink" else find_path(a), find_path(b)
    if is_windows and name in ("rename", "replace"):
        _refuse_held(source, target)
        if name == "rename" and source != target and _exists(os.fsdecode(target)):
            raise FileExistsError(errno.EEXIST, "the target exists", os.fsdecode(target))
    call(source, target, **named)


def _open(
    call: Any, path: Any, flags: int, mode: int, is_windows: bool, named: dict[str, Any]
) -> int:
    path = _check_name(path, is_windows)
    if is_windows and not isinstance(path, int) and os.path.isdir(path) and not named:
        raise PermissionError(errno.EACCES, "folders cannot be opened", os.fsdecode(path))
    return int(call(path, flags & ~_BINARY, mode, **named))


def _check_name(file: Any, is_windows: bool) -> Any:
    if isinstance(file, int):
        return file
    found = find_path(file)
    if os.fsdecode(found).startswith("/proc/"):
        raise FileNotFoundError(errno.ENOENT, "there is no /proc", os.fsdecode(file))
    name = posixpath.basename(os.fsdecode(found))
    if (
        is_windows
        and (_INVALID.search(name) or name.endswith((" ", ".")))
        and not _exists(os.fsdecode(found))
    ):
        raise OSError(errno.EINVAL, "Windows does not allow this name", os.fsdecode(file))
    return found


# Text


def _patch_text() -> None:
    for module in (builtins, io):
        _patch(
            module,
            "open",
            lambda call: (
                lambda file, mode="r", *more, **named: _open_text(call, file, mode, more, named)
            ),
        )
    for name, errors in (("stdin", "strict"), ("stdout", "strict"), ("stderr", "backslashreplace")):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                encoding="cp1252", errors=errors, newline=None if name == "stdin" else "\r\n"
            )


def _open_text(
    call: Any, file: Any, mode: str, more: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    if "b" not in mode and len(more) < 2 and not str(file).startswith(("/proc/", "/usr/", "/etc/")):
        named["encoding"] = named.get("encoding") or "cp1252"
        if named.get("newline") is None and set(mode) & set("wax+"):
            named["newline"] = "\r\n"
    return call(file, mode, *more, **named)


# Modules


class _Module(ModuleType):
    """A module that shows another one, some names aside."""

    def __init__(self, module: ModuleType, missing: list[str] = [], **others: Any) -> None:  # noqa: B006  (it is only read)
        super().__init__(module.__name__)
        object.__setattr__(self, "_shown", (module, frozenset(missing)))
        for name, value in others.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        module, missing = self._shown
        if name in missing:
            raise AttributeError(
                f"module {module.__name__!r} has no attribute {name!r} on this system"
            )
        return getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._shown[0], name, value)


def _make_windows_modules() -> dict[str, ModuleType]:
    path = _load_again("ntpath")
    walks = {**vars(os), "path": path}
    for name in ("_walk", "walk"):
        walk = getattr(os, name, os.walk)
        walks[name] = FunctionType(walk.__code__, walks, name, walk.__defaults__)
    names = {
        "name": "nt",
        "sep": "\\",
        "altsep": "/",
        "linesep": "\r\n",
        "devnull": "nul",
        "O_BINARY": _BINARY,
    }
    others = {
        **names,
        "path": path,
        "walk": walks["walk"],
        "set_handle_inheritable": lambda handle, inheritable: None,
    }
    system = _Module(os, _NO_OS_NAMES, getcwd=lambda: show_path(_real["getcwd"]()), **others)
    vars(path)["os"] = system
    vars(path)["abspath"] = lambda name: ntpath.normpath(
        ntpath.join(system.getcwd(), os.fsdecode(name))
    )
    vars(path)["realpath"] = lambda name, strict=False: show_path(
        posixpath.realpath(find_path(name), strict=strict)
    )
    for name in ("isdir", "isfile", "exists", "lexists", "islink"):  # in C where this is Windows
        _patch(
            path,
            name,
            lambda call, name=name: lambda path: getattr(posixpath, name)(find_path(path)),
        )
    matches, glob, tempfile = map(_load_again, ("fnmatch", "glob", "tempfile"))
    vars(tempfile).update(_os=system)
    vars(matches).update(os=system, posixpath=None)
    vars(glob).update(os=system, fnmatch=matches)
    _patch(subprocess.Popen, "__init__", _start)
    multiprocessing.connection.PipeConnection = multiprocessing.connection.Connection  # type: ignore[attr-defined]
    return {
        "os": system,
        "os.path": path,
        "glob": glob,
        "tempfile": tempfile,
        "sys": _Module(sys, platform="win32"),
        "signal": _Module(signal, _NO_SIGNALS),
        "subprocess": _Module(subprocess, STARTUPINFO=SimpleNamespace),
    }


def _load_again(name: str) -> ModuleType:
    """Return a module of the standard library once more: the package has one of its own, with the ``os`` of Windows."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _start(call: Any) -> Any:
    """Return the start of a process with paths and descriptors of this machine; an isolated Python
    of ours gets the rules.
    """

    def start(self: Any, words: Any, *more: Any, startupinfo: Any = None, **named: Any) -> None:
        if startupinfo is not None:
            named["pass_fds"] = startupinfo.lpAttributeList["handle_list"]
        words = [
            find_path(word) if re.match(r"[A-Z]:\\", os.fsdecode(word)) else word for word in words
        ]
        words = [
            word.replace(_LOADS, f"import sitecustomize\n{_LOADS}")
            if isinstance(word, str)
            else word
            for word in words
        ]
        call(self, words, *more, **named)

    return start


def _make_macos_modules() -> dict[str, ModuleType]:
    return {"os": _Module(os, _NO_MACOS_NAMES), "sys": _Module(sys, platform="darwin")}


def show_path(path: str) -> str:
    """Return an absolute path of this machine as Windows shows it."""
    return "C:" + ntpath.normpath(path)


def _check_there(call: Any) -> Any:
    """Return ONNX's checker with paths of this machine: it reads files by itself."""
    return lambda model, *more, **named: call(
        find_path(model) if isinstance(model, str) else model, *more, **named
    )


def _show_other_modules(modules: dict[str, ModuleType], missing: tuple[str, ...]) -> None:
    """Let ``import`` in modules of the package find these modules, and not find the ``missing``."""
    real = builtins.__import__

    def import_(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        if level == 0 and str((globals or {}).get("__name__")).partition(".")[0] == "graphshare":
            if name in missing:
                raise ModuleNotFoundError(f"No module named {name!r} on this system", name=name)
            if name in modules and (fromlist or "." not in name):
                return modules[name]
        module = real(name, globals, locals, fromlist, level)
        # Another thread may be importing it
        check = getattr(sys.modules.get("onnx.checker"), "check_model", None)
        if name == "onnx" and check is not None and check.__module__ != __name__:
            _patch(sys.modules["onnx.checker"], "check_model", _check_there)
        return module

    builtins.__import__ = import_
