"""The classes of commands and of their groups, and the parts of a command's help.

Options are in sections by purpose; one that no section names belongs to the command's own work.
Each command also takes ``--quiet``. A test runs each example; they use ``lenet``, a checkpoint, and
``siam``, the result of the first example of ``duplicate``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from itertools import islice
from math import isfinite
from types import MappingProxyType
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from graphshare.cli.console import choose_color, choose_command, choose_quiet
from graphshare.errors import Fault, UsageError
from graphshare.files.staged_file import overwriting
from graphshare.text.markup import quote_shell
from graphshare.text.names import did_you_mean, find_similar
from graphshare.text.urls import localize

F = TypeVar("F", bound=Callable[..., Any])

READS, DOES, WRITES, RARE = "What it reads", "What it does", "What it writes", "Rarely needed"
IMAGES, TRAINING = "How it prepares images", "How it trains"
_TITLES = (READS, DOES, WRITES, IMAGES, TRAINING, RARE)
LIMITS = "graphshare.limits"  # the key of a context manager that ends the limits of memory and time with the command
_HELP_ALL = "graphshare.help_all"  # the key of whether rare options are shown, too
# Names of parameters for places of results
_OUTPUTS = frozenset({"out", "params_out", "map_out", "target"})
_RANGE = r"  \[(?:x|\d+)[<>]=?[^\]]*\]$"

_SECTIONS = {
    READS: """
        params epoch against-params graph blocks feed shape labels witness seed random-params rules
        map inverse highlight config baseline exclude
    """,
    WRITES: """
        out params-out map-out manifest report write-baseline reduce in-place overwrite dry-run
        format quiet
    """,
    IMAGES: """
        preset resize crop mean scale std rgb bgr gray layout interpolation batch
    """,
    TRAINING: """
        sgd-steps learning-rate momentum wd clip-gradient rescale-grad head-gradient
    """,
    RARE: """
        as-input as-parameter strict verify-bytes upgrade separator reuse force batch-axis expect
        allow-unsupported strict-engine no-renames ignore-names git isolated jobs densify np-shape
        keep-amp-cast max-memory time-limit direction theme keep color help-all help
    """,
}
#: The options of each section, in the order of the help.
SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {title: tuple([f"--{name}" for name in names.split()]) for title, names in _SECTIONS.items()}
)
# Options that do something different in these commands than elsewhere.
_EXCEPTIONS = {
    ("draw", "--to"): WRITES,
    ("convert", "--to"): WRITES,
    ("check", "--strict"): DOES,
    ("format", "--layout"): DOES,
    ("foreach", "--jobs"): DOES,
    ("foreach", "--force"): DOES,
    **{
        ("reshape", f"--{name}"): RARE
        for name in "inputs rounds seed external-data no-copy".split()
    },
}


class Option(click.Option):
    """An option that rejects a second, different value if it takes one; click would silently keep
    the last.
    """

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the value by the option's type.

        Raises click.BadParameter for NaN and infinity, which pass the bounds of click's numbers.
        """
        result = super().type_cast_value(ctx, value)
        for number in result if isinstance(result, tuple) else (result,):
            if isinstance(number, float) and not isfinite(number):
                raise click.BadParameter(f"{number} is not a finite number.", ctx, self)
        return result

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        # The parser keeps all values of a multiple option, so that handle_parse_result() sees
        # whether there are several.
        is_multiple, self.multiple = self.multiple, True
        super().add_to_parser(parser, ctx)
        self.multiple = is_multiple

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if not self.multiple and self.name in opts:
            if not ctx.resilient_parsing:
                refuse_other_values(ctx.command, opts)
            opts = {**opts, self.name: opts[self.name][-1]}
        return super().handle_parse_result(ctx, opts, args)


def option(*names: str, cls: type[Option] = Option, **settings: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option to a command."""
    return click.option(*names, cls=cls, **settings)


def refuse_other_values(command: click.Command, values: Mapping[str, Sequence[Any]]) -> None:
    """Reject different values of options that take one; ``values`` has all values by option.

    Raises:
        UsageError: all such options are listed.
    """
    singles: dict[str, list[Option]] = {}
    for each in command.params:
        if isinstance(each, Option) and not each.multiple:
            singles.setdefault(each.name or "", []).append(each)
    faults = []
    for name in filter(singles.__contains__, values):
        value, *others = dict.fromkeys(values[name])  # the same value twice does no harm
        if others:
            faults.append(_describe_values(singles[name], value, others[0]))
    if faults:
        raise UsageError(faults)


def _describe_values(options: Sequence[Option], value: Any, other: Any) -> Fault:
    flag, other_flag = _find_flag(options, value), _find_flag(options, other)
    if flag != other_flag:
        return Fault(f"{flag} and {other_flag} cannot be combined", hint="leave one of them out")
    return Fault(f"{flag} is given twice: as {value!r} and as {other!r}", hint=f"give {flag} once")


def _find_flag(options: Sequence[Option], value: Any) -> str:
    """Return the option that has given ``value`` to the parameter of all ``options``."""
    return _flag(next(each for each in options if not each.is_flag or each.flag_value == value))


class AnswerFile(Option):
    """Names the file of a command's answer, not a file that the command makes.

    Its suffix chooses the format of the answer, if the command has it and ``--format`` is not
    given.
    """


class Command(click.Command):
    """A command with its options in sections."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Return the names in a fixed order; click before 8.4 leaves it to chance."""
        names = super().get_help_option_names(ctx)
        return [name for name in ctx.help_option_names if name in names]

    def __init__(self, name: str | None, *, brief: int | None = None, **settings: Any) -> None:
        """``--help`` has ``brief`` paragraphs and the common options; ``--help-all`` has all."""
        super().__init__(name, **settings)
        self._brief = brief
        self.params.append(_make_help_all(hidden=brief is None))
        if any(parameter.name in _OUTPUTS for parameter in self.params):
            self.params.append(_make_overwrite())
        self.params += [_make_quiet(), make_color()]
        self._parser: Any = None

    def make_parser(self, ctx: click.Context) -> Any:
        if self._parser is None:  # made once: a worker of a fleet runs a command a thousand times
            self._parser = super().make_parser(ctx)
        self._parser.ctx = ctx
        return self._parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        choose_command(self)
        return super().parse_args(ctx, self.spell_out(args))

    def spell_out(self, words: Iterable[str]) -> list[str]:
        """Spell options out: click imports difflib to look for ``-o`` among long names."""
        options = {
            flag: each for each in self.params if isinstance(each, Option) for flag in each.opts
        }
        spelled, rest = list[str](), iter(words)
        for word in rest:
            if word == "--":
                spelled += [word, *rest]
            elif word not in options:
                spelled.append(word)
            elif options[word].is_flag:
                spelled.append(_flag(options[word]))
            else:
                values = list(islice(rest, 1))
                # Without a value click names the option as it was written.
                spelled += [_flag(options[word]), *values] if values else [word]
        return spelled

    def invoke(self, ctx: click.Context) -> Any:
        ctx.params = {name: localize(value) for name, value in ctx.params.items()}
        ctx.params |= _choose_format(self, ctx)
        with ctx.meta.get(LIMITS) or nullcontext():
            return super().invoke(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._brief is None or ctx.meta.get(_HELP_ALL):
            super().format_help_text(ctx, formatter)
            return
        text, self.help = self.help, "\n\n".join((self.help or "").split("\n\n")[: self._brief])
        try:
            super().format_help_text(ctx, formatter)
        finally:
            self.help = text

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        is_brief = self._brief is not None and not ctx.meta.get(_HELP_ALL)
        for title, options in list_sections(self, ctx).items():
            if is_brief and title in (IMAGES, RARE):
                continue
            with formatter.section(title):
                formatter.write_dl([describe_option(option, ctx) for option in options])
        if is_brief:
            with formatter.section("More"):
                formatter.write_dl([("--help-all", "Show all options, and how each works.")])


def _make_help_all(*, hidden: bool) -> click.Option:
    """Return the option ``--help-all``, ``hidden`` where ``--help`` shows everything."""

    def show(context: click.Context, option: click.Parameter, is_asked: bool) -> None:
        if is_asked and not context.resilient_parsing:
            context.meta[_HELP_ALL] = True
            click.echo(context.get_help(), color=context.color)
            context.exit()

    return Option(
        ["--help-all"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show,
        hidden=hidden,
        help="Show this, and all options.",
    )


_SUFFIXES = {"junit": "xml"}
"""Suffixes of formats that have another name."""
_READ = frozenset("gz jpg json npy npz onnx params png toml zip".split())
_WRITTEN = _READ | frozenset("csv dot gif html jsonl mmd pdf sarif svg xml yaml yml".split())
"""Suffixes that promise a format; an answer in others is text. Commands read some of them."""


def _choose_format(command: click.Command, ctx: click.Context) -> dict[str, str]:
    """Return ``format_`` by the suffix of the answer's file, unless an option chose one.

    Raises UsageError for the suffix of a format that the command does not write.
    """
    format_ = next((each.type for each in command.params if each.name == "format_"), None)
    has_file = any(isinstance(option, AnswerFile) for option in command.params)
    if not has_file or not isinstance(format_, click.Choice):
        return {}
    if ctx.get_parameter_source("format_") is not ParameterSource.DEFAULT:
        return {}
    out = ctx.params.get("out") or ""
    suffix = os.path.splitext(out)[1].removeprefix(".").lower()
    chosen = {_SUFFIXES.get(name, name): name for name in format_.choices}
    if suffix in chosen:
        return {"format_": chosen[suffix]}
    # An existing file may be an input of the command; that error comes first.
    may_be_input = suffix in _READ and os.path.exists(out)
    if suffix in _WRITTEN and not may_be_input:
        known = " or ".join(f".{each}" for each in chosen if each in _WRITTEN)
        hint = f"name a file that ends with {known}, or choose --format"
        message = f"-o {out!r} ends with .{suffix}, a format that this command does not write"
        raise UsageError(Fault(message, hint=hint))
    return {}


def list_sections(command: click.Command, ctx: click.Context) -> dict[str, list[click.Option]]:
    """Return the options of a command by section, in the order of the help."""
    options = [
        option
        for option in command.get_params(ctx)
        if isinstance(option, click.Option) and not option.hidden
    ]
    sections: dict[str, list[click.Option]] = {title: [] for title in _TITLES}
    for option in options:
        sections[_find_section(command.name or "", _flag(option))].append(option)
    for title, flags in SECTIONS.items():
        order = {flag: i for i, flag in enumerate(flags)}
        sections[title].sort(key=lambda option: order.get(_flag(option), -1))
    return {title: lines for title, lines in sections.items() if lines}


def describe_option(option: click.Option, ctx: click.Context) -> tuple[str, str]:
    """Return an option as its help names it, and its text without bounds of numbers: only errors
    need these.
    """
    names, text = option.get_help_record(ctx) or ("", "")
    sentence, extra, more = re.sub(_RANGE, "", text).partition("  [")
    return names, f"{sentence}{' Repeatable.' if option.multiple else ''}{extra}{more}"


def _find_section(command: str, flag: str) -> str:
    default = next((title for title, flags in SECTIONS.items() if flag in flags), DOES)
    return _EXCEPTIONS.get((command, flag), default)


def _flag(option: click.Option) -> str:
    return max(option.opts, key=len)


def _make_overwrite() -> click.Option:
    return Option(
        ["--overwrite"],
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, option, value: ctx.with_resource(overwriting(value)),
        help="Replace existing objects at URLs. Local files are replaced anyway, all or none.",
    )


def make_color() -> click.Option:
    """Return the option ``--color``; it may come before or after a command."""
    return Option(
        ["--color", "when_to_color"],
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        callback=lambda ctx, option, value: choose_color(value) if value else None,
        help="When to colour [auto].",
    )


def _make_quiet() -> click.Option:
    return Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, option, value: choose_quiet(value),
        help="Print no messages except warnings and errors.",
    )


class MissingCommand(click.UsageError):
    """No command is given; the message is the help. Versions of click end such a call with
    different codes.
    """


class SuggestingGroup(click.Group):
    """A group that answers a misspelt command with the nearest name."""

    command_class = Command

    def __init__(self, *words: Any, **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.params.append(_make_help_all(hidden=True))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            raise MissingCommand(ctx.get_help(), ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not ctx.resilient_parsing:
            raise UsageError(_describe_unknown(ctx.command_path, args, known))
        return super().resolve_command(ctx, args)


def _describe_unknown(program: str, words: Sequence[str], known: Sequence[str]) -> Fault:
    """Return the fault of a command line whose first word is not a known command."""
    word, *rest = words
    hint = f"see `{program} --help`"
    # Other programs accept `graphshare help run`.
    if word == "help":
        near = f"did you mean `{' '.join([program, *rest[:1], '--help'])}`?"
    elif word == "version":
        near = f"did you mean `{program} --version`?"
    else:
        near = did_you_mean(word, known)
        similar = find_similar(word, known)[:1]
        if similar:
            hint = f"write `{quote_shell(*program.split(), *similar, *rest)}`"
    message = f"no such command {word!r}"
    return Fault(f"{message}; {near}" if near else message, hint=hint)


def list_command_examples(path: str) -> list[tuple[str, str]]:
    """Return purpose and command line of each example of a command (``params list``)."""
    name = path.partition(" ")[0]
    examples: dict[str, list[tuple[str, str]]] = import_module(
        f"graphshare.cli.commands.{name}"
    ).EXAMPLES
    return examples.get(path, [])


def add_examples(command: click.Command, path: str) -> None:
    """Append the examples of a command, and of commands inside it, to its help."""
    examples = list_command_examples(path)
    if examples and not command.epilog:
        lines = [f"  # {what}\n  {line}" for what, line in examples]
        command.epilog = "\b\nExamples:\n" + "\n".join(lines)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            add_examples(inner, f"{path} {name}")
