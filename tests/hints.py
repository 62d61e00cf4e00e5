"""What hints say, followed: the options that they name exist, and a line that they give does not
meet the same refusal.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

import click

from graphshare.cli.main import CONTEXT, cli
from graphshare.ir.graph import EMPTY

_OPTION = re.compile(r"(?<![-\w])--[a-z][-a-z]*")
_VALUE = re.compile(r"(?:=| )('[^']*'|[^\s;]*[^\s;,:])")
_PLACEHOLDER = re.compile(r"[A-Z]{2,}|\.\.\.|\?|^[A-Z]$")
_NO_VALUES = frozenset({"out", "once", "for", "and", "or", "to", "names", "makes", "says"})
_REMOVED = re.compile(r"leave ((?:-[-\w]+(?: and |, )?)+) out")


def find_command(words: Sequence[str]) -> tuple[click.Command, list[str]]:
    """Return the command that a line calls and its words before the options; the program itself
    where no word names one.
    """
    command: click.Command = cli
    path: list[str] = []
    context = click.Context(cli, info_name="graphshare", **CONTEXT)
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(context, word)
        if found is None:
            break
        command, path = found, [*path, word]
    return command, path


def list_options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their flags."""
    context = click.Context(command, info_name="graphshare", **CONTEXT)
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    return {flag: option for option in options for flag in (*option.opts, *option.secondary_opts)}


def list_hints(said: str) -> list[str]:
    """Return the hints of messages."""
    return re.findall(r"^  hint: (.*)$", said, re.M)


def list_answered(said: str) -> list[tuple[list[str], str]]:
    """Return each hint with the errors that it answers: those since the hint before it."""
    answered: list[tuple[list[str], str]] = []
    errors: list[str] = []
    for line in said.splitlines():
        if line.startswith("  hint: "):
            answered.append((errors, line.removeprefix("  hint: ")))
            errors = []
        elif line.startswith("error: "):
            errors.append(line)
    return answered


def find_faults(words: Sequence[str], hint: str) -> list[str]:
    """Return what is wrong with a hint as it stands: options that no command in question has, lines that call none."""
    faults = []
    rest = hint.replace("the commands that compute", "run")
    named = []
    for phrase in re.findall(r"`graphshare ([^`]*)`", hint):
        rest = rest.replace(f"`graphshare {phrase}`", "")
        outer, _, inner = phrase.partition(" -- ")  # the command of a foreach has its own options
        for line in filter(None, (outer, inner)):
            called, path = find_command(shlex.split(line))
            named.append(called)
            if not path and not line.startswith("--"):
                faults.append(f"there is no command `graphshare {line}`")
            faults += [
                f"{flag} is no option of {path}"
                for flag in _OPTION.findall(line)
                if flag not in list_options(called)
            ]
    if (
        any(not find_command(phrase.split())[1] for phrase in re.findall("`([^`]+)`", rest))
        or "paddle2onnx" in rest
    ):
        return faults  # programs of others have options of their own
    # Other commands are named in front of their options.
    rest = re.sub(r"`[^`]*`(?= takes? | and `)", lambda match: match[0].strip("`"), rest)
    named += [
        find_command([word])[0]
        for word in re.findall(r"\b[a-z]+\b", rest)
        if find_command([word])[1]
    ]
    known = set().union(*(list_options(each) for each in (cli, find_command(words)[0], *named)))
    # An inner command behind -- has its own options.
    if "--" in words:
        known |= set(list_options(find_command(words[list(words).index("--") + 1 :])[0]))
    rest = re.sub(r"`[^`]*`", "", rest)
    return faults + [
        f"{flag} is no option of {words[:2]}" for flag in _OPTION.findall(rest) if flag not in known
    ]


def follow(
    words: Sequence[str], hint: str, values: Mapping[str, str] = EMPTY
) -> Iterator[list[str]]:
    """Yield the lines that a hint leads to from the line ``words``, as far as it spells them out.

    ``values`` stand for words of hints such as FILE, which a user replaces.
    """
    for wanted, value in values.items():
        hint = re.sub(rf"\b{re.escape(wanted)}(?![\w=])", value, hint)
    for near in re.findall("(?:did you mean|or) '([^']*)'", hint):
        wrong = difflib.get_close_matches(near, words, 1, 0.3)
        yield [near if word in wrong else word for word in words]
    for phrase in re.findall(r"(?:write|as in|see|with|models) `graphshare ([^`]*)`", hint):
        if not _PLACEHOLDER.search(phrase):
            yield shlex.split(phrase)
    for names in _REMOVED.findall(hint):
        yield _remove(words, _OPTION.findall(names))
    options = list_options(find_command(words)[0])
    plain = _REMOVED.sub("", re.sub(r"`[^`]*`", "", hint))
    added: list[tuple[int, list[str]]] = []
    for match in _OPTION.finditer(plain):
        option = options.get(match[0])
        if option is None:
            continue
        value = _VALUE.match(plain, match.end())
        end = match.end()
        if option.is_flag:
            line = [match[0]]
        elif value is None or value[1] in _NO_VALUES or _PLACEHOLDER.search(value[1]):
            continue
        else:
            line, end = [match[0], *shlex.split(value[1])], value.end()
        if added and added[-1][0] == match.start() - 1:  # several in a row belong together
            line = added.pop()[1] + line
        added.append((end, line))
    for _, line in added:
        yield [*_leave_single(words, line), *line]


def _leave_single(words: Sequence[str], line: Sequence[str]) -> list[str]:
    """Return ``words`` without what ``line`` replaces: an option that is given once, or a value of the same name."""
    options = list_options(find_command(words)[0])
    kept = _remove(words, [flag for flag in line if flag in options and not options[flag].multiple])
    names = [word.partition("=")[0] for word in line if "=" in word]
    # A value without a name, where one is wanted, is what was wrong.
    plain = [
        i for i, word in enumerate(kept[1:], 1) if names and kept[i - 1] in line and "=" not in word
    ]
    repeated = [*plain, *(i for i, word in enumerate(kept) if word.partition("=")[0] in names)]
    return [word for i, word in enumerate(kept) if i not in repeated and i + 1 not in repeated]


def _remove(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    options = list_options(find_command(words)[0])
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.partition("=")[0] not in flags:
            kept.append(word)
        elif "=" not in word and not options[word].is_flag:
            next(rest, None)
    return kept
