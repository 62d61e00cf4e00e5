"""``--max-memory`` and ``--time-limit``: limits that hold until the command ends, reading included."""

from __future__ import annotations

import os
from contextlib import ExitStack

import click

from graphshare.cli.command import LIMITS
from graphshare.cli.console import say
from graphshare.resources import memory_limit, parse_size, time_error, time_limit

_FAILED = 2  # the exit code of a question that was not answered


def limit_memory(context: click.Context, text: str) -> None:
    """Bound the memory of what the command does. Raises UsageError for a text that is not a size."""
    _limits_of(context).enter_context(memory_limit(parse_size(text)))


def limit_time(context: click.Context, seconds: float) -> None:
    """End the command after ``seconds``, also where native code does not return: files are not written at that time."""

    def overrun() -> None:
        error = time_error(seconds)
        say(str(error), style="error")
        say(error.faults[0].hint, style="hint")
        os._exit(_FAILED)

    _limits_of(context).enter_context(time_limit(seconds, overrun=overrun))


def _limits_of(context: click.Context) -> ExitStack:
    """Return the stack of limits, which the command's own invocation closes (:class:`graphshare.cli.command.Command`)."""
    stack: ExitStack = context.meta.setdefault(LIMITS, ExitStack())
    return stack
