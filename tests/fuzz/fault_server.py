"""A process with the preloaded library that has imported the command, and forks a run of it for each attack.

Reads lines of JSON, ``{"arguments", "folder", "faults", "stdout", "stderr"}``; the answer to each is a line
``[exit code, calls, faults injected]``.
"""

from __future__ import annotations

import ctypes
import json
import os
import pkgutil
import select
import signal
import sys
from importlib import import_module
from typing import Any

LIMIT = 60.0  # seconds of a run
HANGING = -99


def main() -> None:
    """Answer requests until there are no more."""
    import graphshare
    from graphshare.cli import main as command

    for module in pkgutil.walk_packages(graphshare.__path__, "graphshare."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.fault_state.restype = ctypes.POINTER(ctypes.c_long)
    library.fault_add.argtypes = [
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_int,
    ]
    state = library.fault_state()
    for line in sys.stdin:
        request = json.loads(line)
        state[0] = state[1] = 0
        pid = os.fork()
        if not pid:
            _become(command, library, request)
        print(json.dumps([_wait(pid), state[0], state[1]]), flush=True)


def _become(command: Any, library: Any, request: dict[str, Any]) -> None:
    """Turn this process into a run of the command."""
    # A test run in the background ignores it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number, path in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
        fd = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request["folder"])
    sys.argv = ["graphshare", *request["arguments"]]
    library.fault_arm(os.fsencode(request["folder"]))
    for fault in request["faults"]:
        library.fault_add(*fault)
    command.main()


def _wait(pid: int) -> int:
    """Return the exit code of a run, negative for a signal; end one that hangs."""
    run = os.pidfd_open(pid)
    try:
        if select.select([run], [], [], LIMIT)[0]:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(run)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return HANGING


if __name__ == "__main__":
    main()
