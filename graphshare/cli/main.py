"""The entry point of the command: it alone turns errors into exit codes.

0: it holds or is done. 1: the answer is no. 2: it could not be answered (usage, broken input, a refused plan,
I/O, a closed pipe, a bug).
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

import click

from graphshare.cli.app import cli
from graphshare.cli.console import say
from graphshare.cli.progress import Bar, is_shown
from graphshare.errors import DisprovedError, GraphshareError, OutputError
from graphshare.progress import progress_listener

DISPROVED = 1
FAILED = 2


class Terminated(BaseException):
    """SIGTERM as an exception, so that half-written files are cleaned up."""


def main() -> NoReturn:
    """Run the ``graphshare`` command and end the process."""
    # A frozen graph has no cycles to collect, and every collection would walk a million nodes.
    gc.disable()
    signal.signal(signal.SIGTERM, _terminate)
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None where the shell closed it
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    # All outputs are flushed and closed; a normal exit would only free a million nodes one by one.
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    debug = "--debug" in arguments
    try:
        result = _main(arguments)
        if sys.stdout is not None:  # None where the shell closed it
            sys.stdout.flush()
    except GraphshareError as error:
        if isinstance(error, OutputError):
            _silence_stdout()
        say_faults(error)
        if isinstance(error, DisprovedError):
            return DISPROVED
    except click.ClickException as error:
        _say_usage(error)
    except (click.Abort, KeyboardInterrupt, Terminated):
        say("interrupted; nothing was changed", style="error")
    except (BrokenPipeError, SystemExit) as error:  # click exits with 1 when a pipe is closed
        if isinstance(error, SystemExit) and not error.code:  # and with 0 after a completion for the shell
            return 0
        _silence_stdout()
    except OSError as error:
        _silence_stdout()
        say(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""), style="error")
    except (MemoryError, RecursionError) as error:
        say(f"the input is too large for this machine ({type(error).__name__})", style="error")
    except Exception as error:  # a bug: reported as one, with the way to its traceback
        if debug:
            traceback.print_exc()
        say(f"this is a bug of graphshare: {type(error).__name__}: {error}", style="error")
        say("please report it with the output of the same command and --debug", style="hint")
    else:
        return result if isinstance(result, int) else 0
    return FAILED


def _main(arguments: list[str]) -> object:
    """Run the command, on a terminal with a progress bar, which is cleared before anything else is printed."""
    if not is_shown():
        return cli.main(arguments, prog_name="graphshare", standalone_mode=False)
    bar = Bar()
    try:
        with progress_listener(bar):
            return cli.main(arguments, prog_name="graphshare", standalone_mode=False)
    finally:
        bar.end()


def say_faults(error: GraphshareError) -> None:
    """Print every fault with its hint on stderr; a hint that repeats is printed once."""
    for i, fault in enumerate(error.faults):
        say(str(fault), style="error")
        following = error.faults[i + 1].hint if i + 1 < len(error.faults) else ""
        if fault.hint and fault.hint != following:
            say(fault.hint, style="hint")


def _say_usage(error: click.ClickException) -> None:
    if isinstance(error, click.UsageError) and type(error).__name__ == "NoArgsIsHelpError":  # no command at all
        click.echo(error.format_message(), err=True)
        return
    say(error.format_message(), style="error")
    context = getattr(error, "ctx", None)
    if context is not None:
        example = _example(context) if isinstance(error, click.MissingParameter) else ""
        say(f"{example}see `{context.command_path} --help`", style="hint")


def _example(context: click.Context) -> str:
    """Return the first example of a command of which an argument is missing."""
    path = context.command_path.partition(" ")[2]
    if not path:
        return ""
    from graphshare.cli.examples import examples_of  # start-up: only this path needs it

    examples = examples_of(path)
    return f"as in `{examples[0][1]}`; " if examples else ""


def _silence_stdout() -> None:
    """Let the interpreter end without a second error from a stdout that is closed."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
