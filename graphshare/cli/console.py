"""Messages on stderr, data on stdout; tables of text with aligned columns.

A progress bar appears on stderr, if it is a terminal, once a command has run for more than a
second.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from time import monotonic
from typing import Any, TextIO

import click
import msgspec

from graphshare.errors import Fault
from graphshare.text.format import encode_json, escape_control, escape_json, format_bytes
from graphshare.text.markup import quote_shell
from graphshare.text.urls import redact

_COLORS = {"error": "red", "warning": "yellow", "hint": "cyan", "note": None}
_PREFIXES = {"error": "error: ", "warning": "warning: ", "hint": "  hint: ", "note": ""}


_QUOTES = "'\""
_PHRASES = {
    "choices": "--tie and --copy",
    "choices=[('tie', PATTERN)]": "--tie",
    "expect_tied": "--expect tied",
    "feeds={NAME: array}": "--feed NAME=FILE",
    "gs.overwriting()": "--overwrite",
    "gs.upgrade(model)": "--upgrade",
    "match={PATTERN:NAME}": "--match and --to",
    "save(map=...)": "--map-out",
    "save(params=...)": "--params-out",
    "save(params=FILE)": "--params-out FILE",
}
"""What Python says otherwise than by the keyword of one option."""
_COMMANDS = {
    "gs.convert": "params convert", "gs.detect": "share --detect", "gs.train": "run --sgd-steps",
    "model.graph.nodes": "inspect GRAPH --names", "report.rules": "check --list",
}  # fmt: skip
"""The commands that are called otherwise than the functions that messages name."""
PATIENCE = 1.0  # seconds before a bar appears
PAUSE = 0.1  # seconds between two drawings
WIDTH = 24  # characters of the bar itself


NAME = "graphshare"
_program = NAME


def choose_program(words: Sequence[str], arguments: Sequence[str]) -> None:
    """Set how messages name the program, by all words of its process and the last ones, its
    arguments.

    A call by ``python3 -m graphshare`` keeps this form, because there may be no script
    ``graphshare``.
    """
    global _program
    called = words[: len(words) - len(arguments)]
    _program = quote_shell(*called) if called[-2:] == ["-m", NAME] else NAME


def name_program() -> str:
    """Return the words that call the program, quoted for a shell."""
    return _program


_all_commands: click.Command = click.Group()
_command: click.Command | None = None


def choose_commands(commands: click.Command) -> None:
    """Set the group of all commands, whose options messages name."""
    global _all_commands
    _all_commands = commands


def choose_command(command: click.Command | None) -> None:
    """Set the command whose options messages name first."""
    global _command
    _command = command


def name_options(text: str) -> str:
    """Translate a message of the library to the command line: ```mode='tie'``` becomes ``--mode
    tie``.

    A keyword of Python is the name of the option's parameter. The program is named as it was
    called.
    """
    return (
        re.sub("`([^`]+)`", lambda match: _name_phrase(match[1]) or match[0], text)
        if "`" in text
        else text
    )


def _name_phrase(phrase: str) -> str:
    if phrase.startswith(f"{NAME} "):
        return f"`{_program}{phrase.removeprefix(NAME)}`"
    if phrase in _PHRASES:
        return _PHRASES[phrase]
    call = phrase.partition("(")[0]
    if call in _COMMANDS or call.startswith("gs."):
        with contextlib.suppress(SyntaxError, ValueError):  # a name in it may have a backtick
            words = _COMMANDS.get(call, call.removeprefix("gs."))
            return f"`{' '.join((_program, words, *_list_words(phrase, _find_command(words.split()))))}`"
    return _name_option(phrase, _command)


def _list_words(call: str, command: click.Command) -> Iterator[str]:
    """Yield shell words for the arguments of a call; words in capitals stay."""
    if "(" not in call:
        return
    tree: Any = ast.parse(call, mode="eval").body
    for each in tree.args:
        yield (
            quote_shell(*ast.literal_eval(each))
            if isinstance(each, ast.List)
            else ast.unparse(each)
        )
    for keyword in tree.keywords:
        values = keyword.value.elts if isinstance(keyword.value, ast.List) else [keyword.value]
        yield from (
            _name_option(f"{keyword.arg}={ast.unparse(value)}", command) for value in values
        )


def _name_option(phrase: str, command: click.Command | None) -> str:
    """Return the option of ``keyword=value`` in ``command``, else in another, or an empty text."""
    if choice := re.fullmatch(r"choices=\('(\w+)', (.*)\)", phrase):
        return f"--{choice[1]} {_quote_value(choice[2])}"
    keyword, _, value = phrase.partition("=")
    options = _find_options(keyword, command) if keyword.isidentifier() else []
    if flags := [option for option in options if option.is_flag]:
        return next(
            (_spell(flag) for flag in flags if repr(_find_flag_value(flag)) == (value or "True")),
            "",
        )
    if not options or not value:
        return "".join(map(_spell, options))
    if pair := re.fullmatch(r"\{(.*?): (.*)\}", value):
        sizes = re.fullmatch(r"\((.*?),?\)", pair[2])
        # Sizes may have names
        listed = sizes[1].replace(", ", ",").replace("'", "") if sizes else pair[2]
        between = " --to " if keyword == "match" else "="
        value = f"{_quote_value(pair[1])}{between}{_quote_value(listed.replace('None', '?'))}"
        return f"{_spell(options[0])} {value}"
    return f"{_spell(options[0])} {_quote_value(value)}"


def _spell(option: click.Option) -> str:
    """Return an option's long name for messages, but ``-o`` itself."""
    return "-o" if "-o" in option.opts else max(option.opts, key=len)


def _find_flag_value(flag: click.Option) -> object:
    """Return the value that a flag gives; newer versions of click have a mark for True."""
    return flag.flag_value if isinstance(flag.flag_value, bool | str) else True


def _find_options(keyword: str, command: click.Command | None) -> Sequence[click.Option]:
    """Return the options for a keyword in ``command``, or else in the first command that has any."""
    for each in chain([command or _all_commands], _walk(_all_commands)):
        options = [
            option
            for option in each.params
            if isinstance(option, click.Option) and option.name == keyword
        ]
        if options:
            return options
    return []


def _find_command(names: Iterable[str]) -> click.Command:
    """Return the innermost command with these names; options may follow."""
    command = _all_commands
    for name in names:
        inner = (
            command.get_command(click.Context(command), name)
            if isinstance(command, click.Group)
            else None
        )
        command = inner or command
    return command


def _walk(command: click.Command) -> Iterator[click.Command]:
    if not isinstance(command, click.Group):
        yield command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if inner is not None:
            yield from _walk(inner)


def _quote_value(value: str) -> str:
    """Return a name in Python's quotation marks as a shell word; others stay unchanged."""
    return (
        quote_shell(value.strip(_QUOTES).replace(r"\\", "\\"))
        if value.startswith(tuple(_QUOTES))
        else value
    )


def say(message: str, *, style: str = "note") -> None:
    """Print a message on stderr as ``error``, ``warning``, ``hint`` or ``note``, in colour only on
    a terminal.

    With ``--quiet`` notes are left out.
    """
    if _quiet and style == "note":
        return
    prefix = _PREFIXES[style]
    color = _COLORS[style]
    if prefix and color and is_colored(sys.stderr):
        prefix = click.style(prefix, fg=color, bold=style == "error")
    with contextlib.suppress(OSError):  # stderr is closed; the exit code still counts
        click.echo(prefix + escape_message(redact(name_options(message))), err=True, color=True)


_faults: list[Fault] | None = None


def say_fault(fault: Fault) -> None:
    """Print a fault as an error, without its hint, for :func:`collect_faults` too."""
    if _faults is not None:
        _faults.append(msgspec.structs.replace(fault, message=name_options(fault.message)))
    say(str(fault), style="error")


@contextlib.contextmanager
def collect_faults() -> Iterator[list[Fault]]:
    """Collect the faults printed inside the block; their messages name options of the command line."""
    global _faults
    outer, faults = _faults, list[Fault]()
    _faults = faults
    try:
        yield faults
    finally:
        _faults = outer


def put(lines: Iterable[str], *, keep: str = "") -> None:
    """Print lines on stdout with control characters except ``keep`` escaped, because a name may
    contain a line break.
    """
    # A locale that lacks a character of a name would end the command with an error.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    put_bytes(
        "".join(f"{escape_control(line, keep=keep)}\n" for line in lines).encode(
            encoding, "backslashreplace"
        )
    )


def put_text(text: str) -> None:
    """Print a report; on a terminal escape control characters, because they could move the cursor."""
    if is_terminal():
        text = escape_control(text, keep="\n")
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    put_bytes(text.encode(encoding, "backslashreplace"))


Line = tuple[str, str]
"""A style (``added``, ``removed``, ``changed``, ``title`` or empty) and a text; a line may consist
of several.
"""
_STYLES: dict[str, dict[str, Any]] = {
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "changed": {"fg": "yellow"},
    "title": {"bold": True},
}


def put_colored(lines: Iterable[Line]) -> None:
    """Print lines like :func:`put`, but in colour on a terminal."""
    put_parts([line] for line in lines)


def put_parts(lines: Iterable[Sequence[Line]]) -> None:
    """Print lines of several parts, each in its colour, like :func:`put_colored`."""
    if sys.stdout is None or not is_colored(sys.stdout):
        put("".join(text for _, text in line) for line in lines)
        return
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    styled = ("".join(_style(*part) for part in line) for line in lines)
    put_bytes("".join(f"{line}\n" for line in styled).encode(encoding, "backslashreplace"))


def _style(style: str, text: str) -> str:
    return click.style(escape_control(text), **_STYLES[style]) if style else escape_control(text)


def put_json(value: object, *, lines: bool = False) -> None:
    """Print ``value`` as JSON, always in UTF-8; with ``lines`` on one line."""
    data = encode_json(value)
    put_json_text((data if lines else msgspec.json.format(data, indent=2)).decode() + "\n")


def put_json_text(text: str) -> None:
    """Print JSON in UTF-8; on a terminal unprintable characters are escaped."""
    put_bytes((escape_json(text) if is_terminal() else text).encode("utf-8", "backslashreplace"))


def put_bytes(data: bytes) -> None:
    """Print bytes on stdout, such as a page."""
    if _answer is not None:
        _answer.append(data)
        return
    from graphshare.checkpoint.save import write_stdout  # not needed for --help

    write_stdout([data])


_answer: list[bytes] | None = None


@contextlib.contextmanager
def collect_answer() -> Iterator[list[bytes]]:
    """Collect the output on stdout inside the block, without colours."""
    global _answer
    answer: list[bytes] = []
    _answer = answer
    try:
        yield answer
    finally:
        _answer = None


_quiet = False


def choose_quiet(quiet: bool) -> None:
    """Set whether to leave out notes and progress."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Whether notes and progress are left out."""
    return _quiet


_choice = "auto"


def choose_color(choice: str) -> None:
    """Set when to colour: ``always``, ``never``, or ``auto``."""
    global _choice
    _choice = choice


def is_colored(stream: object) -> bool:
    """Whether to colour: by ``--color``, else on a terminal unless NO_COLOR is set
    (https://no-color.org).
    """
    if _answer is not None and stream is sys.stdout:
        return False
    if _choice != "auto":
        return _choice == "always"
    return (
        not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
        and bool(getattr(stream, "isatty", bool)())
    )


def is_terminal() -> bool:
    """Whether stdout is a terminal, so that people read it."""
    return _answer is None and sys.stdout is not None and sys.stdout.isatty()


def escape_message(text: str) -> str:
    """Return ``text`` on one line; control characters, and those that stderr cannot encode, are
    escaped.
    """
    escaped = escape_control(text)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return escaped.encode(encoding, "backslashreplace").decode(encoding)


def put_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Print ``rows`` under ``titles``; the columns named in ``right`` are aligned right."""
    lines = align([titles, *rows], right=[title in right for title in titles])
    put_colored(_add_styles(lines))


def _add_styles(lines: Iterator[str]) -> Iterator[Line]:
    yield "title", next(lines)
    yield from (("", line) for line in lines)


def align(rows: Sequence[Sequence[str]], *, right: Sequence[bool] = ()) -> Iterator[str]:
    """Yield rows as lines of text with columns two blanks apart."""
    escaped = [[escape_control(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*escaped, strict=True)]
    flush = [*right, *[False] * (len(widths) - len(right))]
    for row in escaped:
        cells = (
            c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, flush, strict=True)
        )
        yield "  ".join(cells).rstrip()


def is_shown() -> bool:
    """Whether to draw a bar: only if stderr is a terminal that can move its cursor."""
    return (
        sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    )


class Bar:
    """Draws progress on one line: title, bar, percentage, rate and time left."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._title, self._total, self._unit = "", 0, ""
        self._done, self._started, self._drawn_at, self._visible = 0, 0.0, 0.0, False
        self._made = monotonic()

    def begin(self, title: str, total: int, unit: str) -> None:
        """Begin a task; nothing is drawn yet."""
        self._title, self._total, self._unit = title, total, unit
        self._started = self._drawn_at = monotonic()  # a short task draws nothing
        self._done, self._visible = 0, False

    def advance(self, count: int) -> None:
        self._done += count
        now = monotonic()
        if not is_quiet() and now - self._made >= PATIENCE and now - self._drawn_at >= PAUSE:
            self._drawn_at = now
            self._draw(now - self._started)

    def end(self) -> None:
        if self._visible:
            self._write("\r\x1b[K")
            self._visible = False

    def _draw(self, elapsed: float) -> None:
        self._visible = True
        import shutil  # start-up: few commands take so long

        # Python 3.10 returns 0 if a terminal states no width
        columns = shutil.get_terminal_size().columns or 80
        # One column stays free: some terminals break the line after the last one.
        self._write("\r" + self.line(elapsed)[: max(columns - 1, 1)] + "\x1b[K")

    def line(self, elapsed: float) -> str:
        rate = self._done / elapsed if elapsed else 0.0
        if not self._total:
            return f"{self._title}  {self._amount(self._done)}  {self._amount(rate)}/s"
        share = min(self._done / self._total, 1.0)
        full = int(share * WIDTH)
        bar = "█" * full + "░" * (WIDTH - full)
        return f"{self._title}  {bar} {share:4.0%}  {self.rate_and_time_left(elapsed, '  ')}"

    def rate_and_time_left(self, elapsed: float, separator: str = ", ") -> str:
        """Return ``20 nodes/s, 0:05 left`` after ``elapsed`` seconds."""
        rate = self._done / elapsed if elapsed else 0.0
        left = (
            _clock((self._total - self._done) / rate)
            if rate and self._done < self._total
            else "0:00"
        )
        return f"{self._amount(rate)}/s{separator}{left} left"

    def _amount(self, count: float) -> str:
        if self._unit != "B":
            return f"{count:,.0f} {self._unit}"
        return format_bytes(int(count))

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a bar that cannot be drawn is not an error
            encoding = getattr(self._stream, "encoding", None) or "utf-8"
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
