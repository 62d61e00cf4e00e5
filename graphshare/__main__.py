"""The start of the command, ``python -m graphshare`` too: Ctrl-C is handled before anything else is
imported.
"""

import os
import sys


def _is_current_folder(path: str) -> bool:
    try:
        return not path or os.path.samefile(path, os.curdir)
    except OSError:
        return False


# -m has put the current folder on the path. It must go before the first import of anything that
# Python does not start with, even __future__: beside a model may lie a file with the name of any
# module.
if (
    __name__ == "__main__"
    and not getattr(sys.flags, "safe_path", False)
    and _is_current_folder(sys.path[0])
):
    del sys.path[0]

import _signal as signal  # type: ignore[import-not-found]  # noqa: E402  # a part of the interpreter; signal itself imports enum first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def _end_early(number: int, frame: object) -> "NoReturn":
    try:
        os.write(2, b"error: interrupted; nothing was changed\n")
    # stderr may be closed; the exit code must be right even then.
    finally:
        os._exit(128 + number)


def _explain_missing(package: str) -> str:
    python = os.path.basename(sys.executable) or "python3"
    return (
        f"error: the package {package!r} is missing; install it with `{python} -m pip install "
        f"{package}`, or name the folder of an installation in PYTHONPATH\n"
    )


def main() -> "NoReturn":
    """Run the ``graphshare`` command and end the process."""
    # Ignored by a shell that runs it in the background
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end_early)
    import gc  # after the handler: an interrupt of its search would have a traceback

    # Imports and frozen graphs leave no cycles, and every collection would walk a million nodes.
    gc.disable()
    # Takes most of the start; a Ctrl-C in it shows no traceback
    try:
        from graphshare.cli.main import main as run_command
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "graphshare"):
            raise  # a bug
        os.write(2, _explain_missing(package).encode())
        sys.exit(2)

    run_command()


if __name__ == "__main__":
    main()
