"""Makes what the documentation takes from the program itself: a page per command, the manual page, what commands print.

    python docs/generate.py

writes ``docs/commands/``, their place in ``mkdocs.yml``, ``man/graphshare.1``, and in every page the output of its console
blocks. A test compares the files with what this makes, so the documentation cannot lag. The blocks of a page run in one folder
that holds the checkpoint ``lenet``; a block with ``title="name"`` is a file there, a Python block is run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_SECONDS = re.compile(r"\bin \d+\.\d+ s\b")
_LONG = re.compile(r"-?\b\d+\.\d{6,}\b")
_BLOCK = re.compile(r"^```(?P<language>\w+)(?P<head>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its path (``params show``), those inside groups after their group."""
    from graphshare.cli.app import COMMANDS, cli

    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", found) for inner, found in command.commands.items())


def usage(path: str, command: click.Command) -> str:
    """``graphshare params show [OPTIONS] FILE``."""
    context = click.Context(command, info_name=f"graphshare {path}")
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def options(command: click.Command) -> list[tuple[str, str]]:
    """Each option with what its help says."""
    context = click.Context(command)
    records = (found.get_help_record(context) for found in command.params if isinstance(found, click.Option))
    return [record for record in records if record]


def paragraphs(command: click.Command) -> list[str]:
    """The help text without line breaks inside paragraphs."""
    return [" ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n")]


_CODE = re.compile(r"(`[^`]*`)|(?<![\w-])(--[a-z][a-z-]*|__\w+__)(?!\w)")


def marked(text: str) -> str:
    """Text of a help page for Markdown: options and hidden attributes are code, a star is a star."""

    def code(match: re.Match[str]) -> str:
        return match[1] or f"`{match[2]}`"

    parts = re.split("(`[^`]*`)", _CODE.sub(code, text))
    return "".join(part if i % 2 else part.replace("|", " or ").replace("*", r"\*") for i, part in enumerate(parts))


def pages() -> dict[Path, str]:
    """The page of each top-level command."""
    from graphshare.cli.examples import examples_of

    found: dict[Path, list[str]] = {}
    for path, command in commands():
        first, *rest = paragraphs(command)
        inner = " " in path
        lines = [f"{'##' if inner else '#'} {path}", "", marked(first), ""]
        lines += ["```text", usage(path, command), "```", "", *(line for part in rest for line in (marked(part), ""))]
        rows = [f"| `{names.replace('|', ' or ')}` | {marked(text)} |" for names, text in options(command)]
        if rows:
            lines += ["| option | |", "| --- | --- |", *rows, ""]
        if examples_of(path):
            lines += ["Examples:", "", "```sh"]
            lines += [line for what, example in examples_of(path) for line in (f"# {what}", example)]
            lines.append("```")
        found.setdefault(DOCS / "commands" / f"{path.split()[0]}.md", []).append("\n".join(lines).rstrip() + "\n")
    return {path: "\n".join(parts) for path, parts in found.items()}


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.split("\n"))


def manual() -> str:
    """The manual page, for ``man graphshare``."""
    import graphshare
    from graphshare.cli.app import cli
    from graphshare.cli.examples import examples_of

    lines = [f'.TH GRAPHSHARE 1 "" "graphshare {graphshare.__version__}" "User Commands"', ".SH NAME"]
    lines += [_roff(f"graphshare - {paragraphs(cli)[0].rstrip('.').lower()}"), ".SH SYNOPSIS"]
    lines += [".B graphshare", _roff("[OPTIONS] COMMAND [ARGS]..."), ".SH DESCRIPTION"]
    lines += [line for part in paragraphs(cli) for line in (_roff(part), ".PP")][:-1]
    lines += [".SH OPTIONS", *_roff_options(cli), ".SH COMMANDS"]
    for path, command in commands():
        lines += [f".SS {_roff(path)}", f".B {_roff(usage(path, command))}", ".PP"]
        lines += [line for part in paragraphs(command) for line in (_roff(part), ".PP")]
        lines += _roff_options(command)
        for what, example in examples_of(path):
            lines += [".PP", _roff(f"Example: {what}"), ".RS 4", ".EX", _roff(example), ".EE", ".RE"]
    lines += [".SH EXIT STATUS", ".TP", "0", "Done, or it holds.", ".TP", "1", "The answer is no.", ".TP", "2"]
    lines += ["It could not be answered: wrong usage, broken input, a refused plan, an error of the system."]
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        "NO_COLOR",
        "When set, nothing is coloured unless",
        _roff("--color always"),
        "is given.",
    ]
    return "\n".join(lines) + "\n"


def _roff_options(command: click.Command) -> list[str]:
    return [line for names, text in options(command) for line in (".TP", f".B {_roff(names)}", _roff(text))]


def written_pages() -> list[Path]:
    """The pages that people write."""
    return sorted(path for path in DOCS.rglob("*.md") if path.parent != DOCS / "commands")


def refreshed(text: str, folder: Path) -> str:
    """A page with its blocks run in ``folder``: console blocks show what their commands print now."""

    def run(match: re.Match[str]) -> str:
        body, head = match["body"], match["head"]
        title = re.search(r'title="([^"]+)"', head)
        if title:
            (folder / title[1]).write_text(body, encoding="utf-8")
        elif match["language"] == "python":
            _python(body, folder)
        elif match["language"] == "console":
            asked = re.findall(r"^\$ (.*)$", body, re.M)
            body = "\n".join(f"$ {line}\n{_said(line, folder)}".rstrip() + "\n" for line in asked)
        return f"```{match['language']}{head}\n{body}```"

    return _BLOCK.sub(run, text)


def fresh_folder(folder: Path) -> Path:
    """``folder`` with the checkpoint that all pages speak of."""
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, folder)
    return folder


def _environment() -> dict[str, str]:
    unwanted = ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
    kept = {key: value for key, value in os.environ.items() if key not in unwanted}
    return {**kept, "PYTHONPATH": os.pathsep.join([str(ROOT), kept.get("PYTHONPATH", "")])}


def _said(line: str, folder: Path) -> str:
    """What a command prints, errors first, as a terminal may show it; and its exit code where that is not 0.

    How long something took differs from run to run, and is shown as a millisecond. Long fractions differ in their last digits
    from processor to processor, and are shown with five digits.
    """
    if line == "echo $?":
        raise ValueError("the exit code of a command that fails is shown by itself")
    words = shlex.split(line)
    if words[0] != "graphshare":
        raise ValueError(f"{line!r} is no command of graphshare")
    run = subprocess.run([sys.executable, "-m", *words], cwd=folder, env=_environment(), capture_output=True, timeout=300)
    said = (run.stderr + run.stdout).decode()
    if "Traceback" in said or "bug of graphshare" in said:
        raise ValueError(f"{line}: {said}")
    said = _LONG.sub(lambda number: f"{float(number[0]):.5g}", _SECONDS.sub("in 0.001 s", said))
    return said + (f"(exit code {run.returncode})\n" if run.returncode else "")


def _python(body: str, folder: Path) -> None:
    run = subprocess.run([sys.executable, "-c", body], cwd=folder, env=_environment(), capture_output=True, timeout=300)
    if run.returncode:
        raise ValueError(f"{body}\n{run.stderr.decode()}")


def navigation() -> str:
    """``mkdocs.yml`` with a line for the page of every command."""
    from graphshare.cli.app import COMMANDS

    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    lines = "".join(f"      - {name}: commands/{name}.md\n" for name in COMMANDS)
    return re.sub(r"(?<=^  - Commands:\n)(?:      .*\n)*", lines, text, flags=re.M)


def main() -> None:
    """Writes all of it."""
    for path, text in {**pages(), ROOT / "man" / "graphshare.1": manual(), ROOT / "mkdocs.yml": navigation()}.items():
        path.write_text(text, encoding="utf-8")
    for path in written_pages():
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(refreshed(path.read_text(encoding="utf-8"), fresh_folder(Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
