"""The group of commands, and the entry point, the only place that turns errors into exit codes.

Commands are imported when called.

Exit codes: 0: it holds or is done. 1: the answer is no. 2: it could not be answered (usage, broken
input, a refused plan, I/O, a closed pipe, a bug). 130: interrupted by Ctrl-C.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

import graphshare
from graphshare.cli.command import (
    MissingCommand,
    SuggestingGroup,
    add_examples,
    list_command_examples,
    make_color,
    option,
)
from graphshare.cli.console import (
    NAME,
    Bar,
    choose_commands,
    choose_program,
    is_shown,
    say,
    say_fault,
)
from graphshare.errors import DisprovedError, Fault, GraphshareError, OutputError, UsageError
from graphshare.files.staged_file import note_inherited_descriptors, output_listener
from graphshare.progress import progress_listener
from graphshare.text.format import format_names

# Commands are modules of graphshare.cli.commands. The text is the first line of a command's help (a
# test checks this), so that ``--help`` need not import them.
COMMANDS = {
    "duplicate": "Add branches with copied or tied parameters (see also share).",
    "share": "Tie parameters inside one graph (see also duplicate).",
    "extract": "Cut out the minimal subgraph for some outputs.",
    "split": "Divide a model into parts that compute it one after the other.",
    "rename": "Rename nodes and their parameters.",
    "group": "Join several graphs and their parameters into one.",
    "pool": "Put the weights of many ONNX models into one file, each once.",
    "fold": "Fold BatchNorm into the weights before it, for inference.",
    "export": "Export to ONNX, keep tied weights tied, and prove the result.",
    "reshape": "Free or fix the sizes of an ONNX model's inputs.",
    "upgrade": "Write what MXNet 1.9.1 would write after loading the file.",
    "downgrade": "Write a symbol file for an older MXNet.",
    "format": "Reformat a symbol file, or check its format.",
    "inspect": "Summarize inputs, outputs, parameters, costs and layers.",
    "run": "Compute a graph's outputs.",
    "verify": "Prove that branches compute the same.",
    "compare": "Compare two models, or a model with recorded outputs.",
    "rules": "Explain and check sharing and naming rules.",
    "check": "Find faults in graphs and their parameter files.",
    "diff": "Show what differs between two graphs.",
    "draw": "Draw a graph as a page, SVG, Graphviz's language or Mermaid.",
    "foreach": "Run a command for every model that matches.",
    "completion": "Print the completion script of a shell.",
    "params": "List, compare, measure and convert parameter files.",
}
# In the order of the help and of the README; commands without a group come last.
GROUPS = {
    "Rewrite": (
        "duplicate",
        "share",
        "extract",
        "split",
        "rename",
        "group",
        "fold",
        "reshape",
        "export",
        "upgrade",
        "downgrade",
    ),
    "Prove": ("verify", "compare", "check", "diff"),
    "Look": ("inspect", "run", "draw", "params"),
    "Many models": ("pool", "foreach"),
}


def group_commands() -> dict[str, dict[str, str]]:
    """Return the commands of each group with their texts."""
    grouped = {name for names in GROUPS.values() for name in names}
    groups = {title: {name: COMMANDS[name] for name in names} for title, names in GROUPS.items()}
    return {
        **groups,
        "Rarely needed": {name: text for name, text in COMMANDS.items() if name not in grouped},
    }


_COMPUTING = ("run", "verify", "compare")
_REPLACED = {"unfix": "reshape"}
"""Commands of earlier versions, each with its replacement."""


def _start_sessions(arguments: Sequence[str]) -> None:
    """Start the process that computes ONNX models if an argument is one: it takes as long to start
    as this process.
    """
    # Start-up: other commands do not wait for these
    from graphshare.files.byte_source import SAMPLE
    from graphshare.formats.model_format import find_fitting

    for path in filter(os.path.isfile, arguments):
        with suppress(OSError), open(path, "rb") as file:
            start = file.read(SAMPLE)
            format_ = find_fitting(start)
            if format_ is not None and format_.backends and not format_.knows_operators:
                from graphshare.execute.backends.backend import warm_up  # start-up: as above

                warm_up(format_.backends)
                return


class LazyGroup(SuggestingGroup):
    """A group whose commands are modules that load on use."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in _REPLACED and not ctx.resilient_parsing:
            hint = f"it is `graphshare {_REPLACED[args[0]]}` now, in which --shape takes names: --shape data=n,3,h,w"
            raise UsageError(Fault(f"there is no command {args[0]!r} any more", hint=hint))
        if args[0] in _COMPUTING:
            # The process starts while the command is imported.
            _start_sessions(args[1:])
            # numpy's own imports need 10 KiB of the 16 KiB in which the interpreter maps its stack.
            # Below a chain of our own imports, each of their thousands of calls would map and unmap
            # 16 KiB.
            import_module("numpy")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"graphshare.cli.commands.{cmd_name}").command
        add_examples(command, cmd_name)
        if ctx.resilient_parsing:  # the shell asks for completions
            # Start-up: only a shell asks for them
            from graphshare.cli.commands.completion import complete_names

            complete_names(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in group_commands().items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(graphshare.__version__, "-V", "--version", message="graphshare %(version)s")
@option("--debug", is_flag=True, help="Show the traceback of a bug.")
def cli(debug: bool) -> None:
    """Rewrite trained MXNet, ONNX and Paddle models, and prove that the results compute the same.

    GRAPH is a symbol file of MXNet, an ONNX model, a program of Paddle 3, - for stdin, or the stem
    of a checkpoint (nin for nin-symbol.json and nin-0000.params, inference for inference.json and
    inference.pdiparams). `man graphshare` describes all commands and lists the tutorials.

    Exit codes: 0 if it is done or holds, 1 if the answer is no, 2 if there is no answer.
    """


cli.params.insert(1, make_color())
choose_commands(cli)

DISPROVED = 1
FAILED = 2
INTERRUPTED = 130  # 128 and the number of SIGINT, as in shells

# Seconds within which a second signal is the same interrupt, and must not disturb the clean-up
_SAME_INTERRUPT = 1.0
_PAUSE = 0.01  # seconds until an ignored signal is repeated


class Terminated(BaseException):
    """SIGTERM or SIGHUP as an exception, so that half-written files are cleaned up."""


class _Interrupts:
    """A signal that ends a command raises an exception, unless it follows another immediately."""

    def __init__(self) -> None:
        self._last = -_SAME_INTERRUPT
        self._number = 0
        self._main = _thread.get_ident()
        self.is_over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.is_over or now - self._last < _SAME_INTERRUPT:
            return
        self._last, self._number = now, number
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    def install(self) -> None:
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            # An ignored signal stays ignored, as under nohup.
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)
        sys.unraisablehook = self._repeat

    def _repeat(self, ignored: Any) -> None:
        """Repeat a signal whose exception the interpreter ignored because it came in a callback (at
        an import's end).
        """
        if not isinstance(ignored.exc_value, KeyboardInterrupt | Terminated):
            sys.__unraisablehook__(ignored)
            return
        self._last = -_SAME_INTERRUPT
        _thread.start_new_thread(self._send, (self._number,))  # here it would be ignored again

    def _send(self, number: int) -> None:
        time.sleep(_PAUSE)
        if hasattr(signal, "pthread_kill"):  # this also ends a waiting system call
            signal.pthread_kill(self._main, number)
        else:
            signal.raise_signal(number)


def main() -> NoReturn:
    """Run the ``graphshare`` command and end the process."""
    # Before any file is opened: /dev/fd/N means only the caller's descriptors.
    note_inherited_descriptors()
    choose_program(sys.orig_argv, sys.argv[1:])
    interrupts = _Interrupts()
    kept: list[object] = []
    try:
        interrupts.install()
        code = run(sys.argv[1:], kept)
        interrupts.is_over = True
    except KeyboardInterrupt:  # while a message was printed
        code = INTERRUPTED
    except Terminated:
        code = FAILED
    interrupts.is_over = True
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the shell closed it
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    # All outputs are flushed; a normal exit would only free a million nodes one by one.
    os._exit(code)


def run(arguments: list[str], kept: list[object] | None = None) -> int:
    """Run one command and return its exit code.

    ``kept`` receives finished models, for a process that ends next: freeing nodes takes time.
    """
    written: dict[str, bool] = {}  # outputs, and whether they are complete
    with output_listener(written.__setitem__):
        return _run(arguments, written, kept)


def _run(arguments: list[str], written: Mapping[str, bool], kept: list[object] | None) -> int:
    try:
        code = _main(arguments, kept)
        if sys.stdout is not None:  # None if the shell closed it
            sys.stdout.flush()
    except GraphshareError as error:
        # If stdout is the output that could not be written, the flush at the end would fail again.
        if isinstance(error, OutputError):
            _silence_stdout()
        say_faults(error)
        if isinstance(error, DisprovedError):
            return DISPROVED
    except click.ClickException as error:
        _say_usage(error)
    except (click.Abort, KeyboardInterrupt, Terminated) as error:
        _say_interrupted(error, written)
        return FAILED if isinstance(error, Terminated) else INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:  # click exits with 1 when a pipe is closed
        # After a completion for the shell click exits with 0.
        if isinstance(error, SystemExit) and not error.code:
            return 0
        _silence_stdout()
    except OSError as error:
        _silence_stdout()
        say_fault(_describe_os_error(error))
    except (MemoryError, RecursionError) as error:
        say_fault(Fault(f"the input is too large for this machine ({type(error).__name__})"))
    except ModuleNotFoundError as error:
        _say_missing(error, arguments)
    except Exception as error:
        _say_bug(error, arguments)
    else:
        return code
    if any(written.values()):
        say(f"before that, {_describe_written(written)}", style="hint")
    return FAILED


def _describe_os_error(error: OSError) -> Fault:
    reason = str(error.strerror or error)
    return Fault(f"{reason}: {error.filename}" if error.filename else reason)


def _say_missing(error: ModuleNotFoundError, arguments: list[str]) -> None:
    """Print which package is missing; of an optional one its user has said so already."""
    package = (error.name or "").partition(".")[0]
    if package in ("", NAME):
        _say_bug(error, arguments)
        return
    say_fault(Fault(f"the package {package!r} is missing"))
    say(f"pip install {package}", style="hint")


def _say_bug(error: Exception, arguments: list[str]) -> None:
    # Read from the words, because an error may occur before they are parsed.
    if "--debug" in arguments:
        import traceback  # start-up: only this path needs it

        sys.stderr.write(
            "Traceback (most recent call last):\n"
            + "".join(traceback.format_tb(error.__traceback__))
        )
    say_fault(Fault(f"this is a bug in graphshare: {type(error).__name__}: {error}"))
    say(f"please report it with {_describe_report(arguments)}", style="hint")


def _describe_report(arguments: list[str]) -> str:
    """Describe a bug report: --debug is an option of the program and comes before the command."""
    if "--debug" in arguments:
        return "this output"
    command = next((word for word in arguments if word in COMMANDS), "COMMAND")
    return f"the output of `graphshare --debug {command} ...`"


def _say_interrupted(error: BaseException, written: Mapping[str, bool]) -> None:
    """Print the outputs of an interrupted command, and an error of the clean-up: it names the place
    of an old file.
    """
    # An error of the clean-up is raised while the interrupt is handled, so it is in the chain of
    # contexts.
    lost, cause = False, error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, OutputError):
            say_faults(cause)
            lost = True
        cause = cause.__cause__ or cause.__context__
    rest = _describe_written(written) or ("" if lost else "nothing was changed")
    say_fault(Fault(f"interrupted; {rest}" if rest else "interrupted"))


def _describe_written(written: Mapping[str, bool]) -> str:
    complete = [path for path, is_complete in written.items() if is_complete]
    begun = [path for path, is_complete in written.items() if not is_complete]
    parts = (
        [f"{format_names(complete)} {'was' if len(complete) == 1 else 'were'} written"]
        if complete
        else []
    )
    parts += [f"a part of {format_names(begun)} was written"] if begun else []
    return ", and ".join(parts)


def _main(arguments: list[str], kept: list[object] | None) -> int:
    """A progress bar is cleared before anything else is printed."""
    with _show_progress() if is_shown() else nullcontext():
        # In its standalone mode click would print errors itself and exit with its own codes.
        code = cli.main(arguments, prog_name=NAME, standalone_mode=False, obj=kept)
    return code if isinstance(code, int) else 0


@contextlib.contextmanager
def _show_progress() -> Iterator[None]:
    bar = Bar()
    try:
        with progress_listener(bar):
            yield
    finally:
        bar.end()


def say_faults(error: GraphshareError) -> None:
    """Print every fault with its hint on stderr; a repeated hint is printed once."""
    for i, fault in enumerate(error.faults):
        say_fault(fault)
        following = error.faults[i + 1].hint if i + 1 < len(error.faults) else ""
        if fault.hint and fault.hint != following:
            say(fault.hint, style="hint")


def _say_usage(error: click.ClickException) -> None:
    if isinstance(error, MissingCommand):
        click.echo(error.format_message(), err=True)
        return
    # Click lists choices on lines of their own
    say_fault(Fault(" ".join(error.format_message().split())))
    context = getattr(error, "ctx", None)
    if context is not None:
        example = _example(context) if isinstance(error, click.MissingParameter) else ""
        say(f"{example}see `{context.command_path} --help`", style="hint")


def _example(context: click.Context) -> str:
    path = context.command_path.partition(" ")[2]
    if not path:
        return ""
    examples = list_command_examples(path)
    return f"as in `{examples[0][1]}`; " if examples else ""


def _silence_stdout() -> None:
    """Let the interpreter end without a second error from a closed stdout."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
