"""The simulated systems refuse what the real ones refuse; without that, tests under them would show nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment
from tests.systems.plugin import variables
from tests.systems.rules import apply


def run_there(system: str, code: str, folder: Path) -> str:
    """Run lines of a module of the package under the rules; return what they print, or the last line of their error."""
    lines = f"exec(compile({code!r}, 'code', 'exec'), {{'__name__': 'graphshare.rules', 'folder': {str(folder)!r}}})"
    words = [sys.executable, "-c", lines]
    run = subprocess.run(
        words,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(**variables(system)),
        check=False,
    )
    return (run.stdout or run.stderr).strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (
            "import os; a = open('a', 'w'); os.replace('a', 'b')",
            "PermissionError: [Errno 13] the file is open",
        ),
        (
            "import os; a = open('a', 'w'); open('b', 'w').close(); os.replace('b', 'a')",
            "PermissionError",
        ),
        ("import os; a = open('a', 'w'); os.unlink('a')", "PermissionError"),
        (
            "import os; a = os.open('a', os.O_CREAT | os.O_RDWR); os.dup(a); os.close(a); os.rename('a', 'b')",
            "PermissionError",
        ),
        (
            (
                "import mmap, os; open('a', 'w').write('xy'); a = open('a', 'rb'); m = "
                "mmap.mmap(a.fileno(), 0, access=1)\n"
                "a.close(); os.unlink('a')"
            ),
            "PermissionError: [Errno 13] the file is open",
        ),
        (
            (
                "import os, subprocess; open('a', 'w').close(); a = open('a')\n"
                "child = subprocess.Popen(['sleep', '60'], stdin=a); a.close()\n"
                "try: os.unlink('a')\nfinally: child.kill()"
            ),
            "PermissionError: [Errno 13] the file is open",
        ),
        (
            "import os; open('a', 'w').close(); open('b', 'w').close(); os.rename('a', 'b')",
            "FileExistsError",
        ),
        ("import os; os.open('.', os.O_RDONLY)", "PermissionError"),
        ("import fcntl", "ModuleNotFoundError"),
        ("import resource", "ModuleNotFoundError"),
        ("import os; os.fork", "AttributeError"),
        ("import os; os.pread", "AttributeError"),
        ("import signal; signal.setitimer", "AttributeError"),
        ("import sys; print(sys.platform)", "win32"),
        ("open('a:b', 'w')", "OSError: [Errno 22] Windows does not allow this name"),
        ("print('\u4e2d')", "UnicodeEncodeError: 'charmap' codec can't encode"),
        ("open('a', 'w').write('x\\n'); print(open('a', 'rb').read())", r"b'x\r\n'"),
        ("open('a', 'w').write('\u4e2d')", "UnicodeEncodeError: 'charmap' codec can't encode"),
        (
            "import os; print(os.path.join('a', 'b'), os.path.isabs(os.getcwd()), os.getcwd()[:2])",
            r"a\b True C:",
        ),
        (
            "import os; os.mkdir('d'); open(os.path.abspath('d/x'), 'w').close(); print(os.listdir('D'))",
            "['x']",
        ),
        ("open('/proc/self/statm')", "FileNotFoundError"),
    ],
)
def test_windows(code: str, answer: str, tmp_path: Path) -> None:
    assert run_there("windows", code, tmp_path).startswith(answer)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (
            "import os; open('A', 'w').close(); print(os.path.exists('a'), os.stat('a') == os.stat('A'))",
            "True True",
        ),
        (
            "import os; open('A', 'w').close(); open('a', 'w').close(); print(os.listdir('.'))",
            "['A']",
        ),
        ("import os; a = open('a', 'w'); os.replace('a', 'b'); print(os.listdir('.'))", "['b']"),
        ("import sys; print(sys.platform)", "darwin"),
        ("import fcntl, resource; print('there')", "there"),
        ("open('/proc/self/statm')", "FileNotFoundError"),
        ("import os; os.sched_getaffinity", "AttributeError"),
    ],
)
def test_macos(code: str, answer: str, tmp_path: Path) -> None:
    assert run_there("macos", code, tmp_path).startswith(answer)


def test_a_system_that_is_not_simulated_is_refused() -> None:
    with pytest.raises(ValueError, match="GRAPHSHARE_TEST_SYSTEM is 'beos'"):
        apply("beos")
