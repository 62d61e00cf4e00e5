"""Start the same Python again, with this package and this process's module paths, but not the
current folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from graphshare.errors import Fault, RefusedError

# It runs with -I to ignore the environment and the current folder, and loads this very package.
_START = """
import sys
from importlib import import_module, util
init, module, function, count, *rest = sys.argv[1:]
sys.path[:] = rest[: int(count)]
spec = util.spec_from_file_location("graphshare", init)
sys.modules["graphshare"] = util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["graphshare"])
getattr(import_module(module), function)(*rest[int(count) :])
"""


def start_python(
    module: str, function: str, *arguments: str, inherited: Sequence[int] = (), **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process that calls a function of a module with texts; ``options`` are as in
    ``subprocess.Popen``.

    ``inherited`` are descriptors that it has as well, on Windows handles. Beside a model may lie
    any file: nothing is imported from the current folder, also where this process does so.

    Raises:
        RefusedError: it cannot be started: a program with Python inside may not know where Python
            is.
    """
    flags = ["-I", f"-Xutf8={sys.flags.utf8_mode}", *(["-B"] if sys.dont_write_bytecode else [])]
    package, places = (
        os.path.abspath(os.path.join(os.path.dirname(__file__), "__init__.py")),
        _list_module_places(),
    )
    command = [
        sys.executable,
        *flags,
        "-c",
        _START,
        package,
        module,
        function,
        str(len(places)),
        *places,
        *arguments,
    ]
    if sys.platform != "win32":
        options["pass_fds"] = inherited
    elif inherited:
        for handle in inherited:
            os.set_handle_inheritable(handle, True)
        options["startupinfo"] = subprocess.STARTUPINFO(
            lpAttributeList={"handle_list": list(inherited)}
        )
    try:
        return subprocess.Popen(command, **options)
    except (OSError, TypeError) as error:
        hint = "set sys.executable to the path of Python"
        raise RefusedError(Fault(f"no process can be started: {error}", hint=hint)) from error


def _list_module_places() -> list[str]:
    here = os.path.realpath(os.curdir)
    return [
        os.path.abspath(entry) for entry in sys.path if entry and os.path.realpath(entry) != here
    ]
