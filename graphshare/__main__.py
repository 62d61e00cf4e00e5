"""The start of the command, ``python -m graphshare`` too: Ctrl-C is handled before anything else is imported."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # a part of the interpreter; signal itself imports enum first
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def _end_early(number: int, frame: object) -> NoReturn:
    try:
        os.write(2, b"error: interrupted; nothing was changed\n")
    # stderr may be closed; the exit code must be right even then.
    finally:
        os._exit(128 + number)


def main() -> NoReturn:
    """Run the ``graphshare`` command and end the process."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # ignored by a shell that runs it in the background
        signal.signal(signal.SIGINT, _end_early)
    import gc  # after the handler: an interrupt of its search would have a traceback

    # Imports, and frozen graphs, leave no cycles to collect, and every collection would walk a million nodes.
    gc.disable()
    from graphshare.cli.main import main as run_command  # takes most of the start, in which a Ctrl-C has no traceback

    run_command()


if __name__ == "__main__":
    main()
