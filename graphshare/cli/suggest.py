"""Groups of commands that suggest a command for a misspelt one."""

from __future__ import annotations

import click

from graphshare.cli.command import Command
from graphshare.text.names import did_you_mean


class SuggestingGroup(click.Group):
    """A group that answers a misspelt command with the one that is nearest."""

    command_class = Command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not ctx.resilient_parsing:
            option = {"help": "--help", "version": "--version"}.get(args[0])
            asked = " ".join([ctx.command_path, *args[1:2], option]) if option == "--help" else f"{ctx.command_path} {option}"
            near = f"did you mean `{asked}`?" if option else did_you_mean(args[0], known)
            ctx.fail(f"no such command {args[0]!r}" + (f"; {near}" if near else ""))
        return super().resolve_command(ctx, args)
