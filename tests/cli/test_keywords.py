"""Messages of the library name keywords, and the command line prints the options that these are."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import graphshare as gs
from graphshare.cli.console import choose_command, name_options
from graphshare.cli.main import COMMANDS, cli
from tests.processes import in_process, refused
from tests.surroundings import ROOT

PACKAGE = ROOT / "graphshare"


def list_flags(group: click.Group) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from list_flags(command)
        yield from (flag for parameter in command.params for flag in parameter.opts)


def list_keywords() -> set[str]:
    functions = [getattr(gs, name) for name in gs.__all__ if name[0].islower()]
    return {name for function in functions for name in inspect.signature(function).parameters}


def list_phrases() -> Iterator[str]:
    """Yield what stands between backticks in the texts of the library below the command line."""
    for path in PACKAGE.rglob("*.py"):
        if path.parent.parts[len(PACKAGE.parts) :][:1] != ("cli",):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and "\n" not in node.value
                ):
                    yield from re.findall("`([^`]+)`", re.sub("``.*?``", "", node.value))


def test_every_option_exists() -> None:
    assert len(COMMANDS) > 15
    flags = set(list_flags(cli))
    options = [
        name_options(f"`{phrase}`")
        for phrase in list_phrases()
        if "`" not in name_options(f"`{phrase}`")
    ]
    named = {flag for option in options for flag in option.split() if flag.startswith("-")}
    assert len(named) > 50
    assert named <= flags


def test_every_keyword_in_a_message_has_its_option() -> None:
    keywords, phrases = list_keywords(), set(list_phrases())
    named = {phrase for phrase in phrases if phrase.partition("=")[0] in keywords}
    assert len(named) > 50
    assert {phrase for phrase in named if name_options(f"`{phrase}`") == f"`{phrase}`"} <= {
        "verify",
        "models",
    }


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("`batch_axes` is for `mode='batch'`", "--batch-axis is for --mode batch"),
        ("`shapes={'data': (None, 1, 28, 28)}`", "--shape data=?,1,28,28"),
        ("`shapes={'data': (3,)}`", "--shape data=3"),
        ("`shapes={'data': None}`", "--shape data=?"),
        ("`shapes={'data': ('n', 3, 'h', 'w')}`", "--shape data=n,3,h,w"),
        ("`connect={'a': 'b'}`: no", "--connect a=b: no"),
        (r"`match={'re:\\d': 'a'}`: no", r"--match 're:\d' --to a: no"),
        ("`aliases={'$(a)': 'b c'}`", "--alias '$(a)'='b c'"),
        ("`as_input='a;b'` fits", "--as-input 'a;b' fits"),
        ("`strip_prefix='a_'`: never fires", "--strip-prefix a_: never fires"),
        ("`choices=('tie', 'conv*')` matches no variable", "--tie 'conv*' matches no variable"),
        ("`feeds={NAME: photo(1).png}`", "--feed NAME=photo(1).png"),
        (
            "run `graphshare upgrade` first, or add `gs.upgrade(model)`",
            "run `graphshare upgrade` first, or add --upgrade",
        ),
        ("`gs.extract` cuts", "`graphshare extract` cuts"),
        (
            "`gs.extract(GRAPH, cuts=['a', 'b c'], targets=['c'])`",
            "`graphshare extract GRAPH --cut a --cut 'b c' --target c`",
        ),
        ("`gs.pool(['a.onnx', 'b.onnx'], out=DIR)`", "`graphshare pool a.onnx b.onnx -o DIR`"),
        ("`gs.export(GRAPH, shapes={'x': ('n', 3)})`", "`graphshare export GRAPH --shape x=n,3`"),
        ("`gs.reshape(FILE, dynamic_batch=True)`", "`graphshare reshape FILE --dynamic-batch`"),
        (
            "`gs.rename(GRAPH, match={'x#1': 'NEW'})`",
            "`graphshare rename GRAPH --match 'x#1' --to NEW`",
        ),
        ("`gs.rename(GRAPH, match={'a`b': 'NEW'})`", "`gs.rename(GRAPH, match={'a`b': 'NEW'})`"),
        (
            "`gs.detect(GRAPH)` and `gs.convert`",
            "`graphshare share --detect GRAPH` and `graphshare params convert`",
        ),
        ("`in_place=True` or `gs.overwriting()`", "--in-place or --overwrite"),
        ("`run` and `verify` take it", "`run` and `verify` take it"),
        ("the node `nothing=1`", "the node `nothing=1`"),
    ],
)
def test_messages_in_options(message: str, printed: str) -> None:
    assert name_options(message) == printed


def test_an_error_has_its_hints_in_words_of_python() -> None:
    with pytest.raises(gs.UsageError) as raised:
        gs.duplicate(ROOT / "fixtures" / "lenet", "b-", mode="tied")
    assert (
        str(raised.value)
        == "`mode` cannot be 'tied'\n  hint: did you mean 'tie'? expected 'copy', 'tie' or 'batch'"
    )
    with pytest.raises(
        gs.UsageError, match=r"^a record has inputs of its own: leave `sets` and `rounds` out$"
    ):
        gs.compare(ROOT / "fixtures" / "lenet", {}, inputs=gs.Inputs(rounds=2))


def test_a_command_in_a_hint_is_not_taken_for_an_option(tmp_path: Path) -> None:
    message = refused(in_process("pool", "gpt", "-o", f"{tmp_path}/out", cwd=ROOT / "fixtures"))
    assert (
        "has no graph: `graphshare inspect`, `graphshare check` and `graphshare params` take it"
        in message
    )


def test_options_of_the_command_itself_come_first() -> None:
    own = click.Command("own", params=[click.Option(["--sizes", "shapes"], multiple=True)])
    choose_command(own)
    try:
        assert name_options("`shapes={'x': (2,)}`, `seed=1`") == "--sizes x=2, --seed 1"
    finally:
        choose_command(None)
