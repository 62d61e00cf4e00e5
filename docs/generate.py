"""Generate the parts of the documentation that follow from the program, and run the examples of the rest.

    python docs/generate.py

writes ``docs/commands/``, ``docs/operators.md``, ``man/graphshare.1``, the tables of commands,
functions and layers, the commands in ``mkdocs.yml``, the formats in the schemas of parameter
reports, the figures of several pages (``facts.py``), and the output of every console block
(``--no-run`` leaves that unchanged). A translation shows what its original shows. A test compares
the files with the generated texts, so none is out of date. ``python docs/generate.py cookbook``
runs only the pages whose path contains this word.

The blocks of a page run in one folder that contains the checkpoints ``lenet`` and ``nin``, for a
page of the cookbook those of ``fixtures/make_cookbook.py`` too; a block with ``title="name"`` is
written to a file there, and a Python block is run.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import click
import facts
import security_table
from api_reference import list_functions, render_reference
from help_markup import list_commands, to_markdown
from operator_page import render_operators

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CHECKPOINT_FOLDERS = ("gpt", "gpt-twice")
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
GROUPS_BY_LANGUAGE = {
    "README.zh-CN.md": {
        "Rewrite": "改写",
        "Prove": "证明与检查",
        "Look": "查看与计算",
        "Many models": "大量模型",
        "Rarely needed": "不常用",
    }
}
"""Titles of the groups of commands in the table of a README in another language."""
# What onnxruntime leaves
_ROUNDING = re.compile(r"(?<=max abs )\d(\.\d+)?e-\d+|\d(\.\d+)?e-\d+(?= of the largest)")
# Sums that another processor rounds otherwise
_NEAR = re.compile(r"(?<= equal), \d+ of them near\b")
_SECONDS = re.compile(r"\bin \d+\.\d+ s\b")
_NUMBER = re.compile(r"-?\b\d+(?:\.\d+)?\b")
_LONG = re.compile(r"\.\d{6}")
OPERATORS = DOCS / "operators.md"
_BLOCK = re.compile(r"^```(?P<language>\w+)(?P<head>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)
REFERENCE = "<!-- reference: generated -->"


def list_examples() -> dict[str, list[tuple[str, str]]]:
    """Return the examples of each command: what one does, and its line."""
    from graphshare.cli.command import list_command_examples

    return {path: list_command_examples(path) for path, _ in list_commands()}


def format_usage(path: str, command: click.Command) -> str:
    """Return ``graphshare params show [OPTIONS] FILE``."""
    context = click.Context(command, info_name=f"graphshare {path}", help_option_names=[])
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def list_options(command: click.Command) -> dict[str, list[tuple[str, str]]]:
    """Return the options with their help texts by section, without --help."""
    from graphshare.cli.command import describe_option, list_sections

    context = click.Context(command, help_option_names=[])
    sections = list_sections(command, context)
    return {
        title: [describe_option(option, context) for option in options]
        for title, options in sections.items()
    }


def split_help(command: click.Command) -> list[str]:
    """Return the paragraphs of the help text, without line breaks."""
    return [" ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n")]


def render_command_pages() -> dict[Path, str]:
    """Return the page of each top-level command."""
    examples = list_examples()
    pages: dict[Path, list[str]] = {}
    for path, command in list_commands():
        first, *rest = split_help(command)
        lines = [f"{'##' if ' ' in path else '#'} {path}", "", to_markdown(first), ""]
        lines += [
            "```text",
            format_usage(path, command),
            "```",
            "",
            *(line for part in rest for line in (to_markdown(part), "")),
        ]
        for title, options in list_options(command).items():
            rows = [
                f"| `{names.replace('|', ' or ')}` | {to_markdown(text)} |"
                for names, text in options
            ]
            lines += [f"| {title.lower()} | |", "| --- | --- |", *rows, ""]
        if examples.get(path):
            lines += ["Examples:", "", "```sh"]
            lines += [
                line for comment, example in examples[path] for line in (f"# {comment}", example)
            ]
            lines.append("```")
        pages.setdefault(DOCS / "commands" / f"{path.split()[0]}.md", []).append(
            "\n".join(lines).rstrip() + "\n"
        )
    return {path: "\n".join(parts) for path, parts in pages.items()}


def render_tables() -> dict[Path, str]:
    """Return the pages with their tables, each from a comment with its name (``<!-- commands -->``)
    to the next empty line.

    A page in another language keeps its own text of a command that it describes already.
    """
    from graphshare.cli.main import COMMANDS, group_commands

    tables: dict[Path, str] = {}
    for path in READMES:
        text = path.read_text(encoding="utf-8")
        own = (
            {}
            if path.name == "README.md"
            else dict(re.findall(r"^\| \[`([\w-]+)`\]\(.*?\) \| (.*) \|$", text, re.M))
        )
        titles = GROUPS_BY_LANGUAGE.get(path.name, {})
        rows = []
        for title, commands in group_commands().items():
            rows.append(f"| **{titles.get(title, title)}** | |")
            rows += [
                f"| [`{name}`](docs/commands/{name}.md) | {own.get(name, line)} |"
                for name, line in commands.items()
            ]
        tables[path] = _replace_table(text, "commands", rows)
    for path in (ROOT / "CONTRIBUTING.md", DOCS / "how-it-works.md"):
        tables[path] = _replace_table(path.read_text(encoding="utf-8"), "layers", _layer_rows())
    path = DOCS / "api.md"
    head = _replace_table(
        path.read_text(encoding="utf-8"), "functions", _function_rows()
    ).partition(REFERENCE)[0]
    tables[path] = f"{head}{REFERENCE}\n\n{render_reference()}"
    path = ROOT / "SECURITY.md"
    tables[path] = _replace_table(
        path.read_text(encoding="utf-8"), "doings", security_table.format_rows(list_commands())
    )
    path = DOCS / "images.md"
    tables[path] = _replace_table(path.read_text(encoding="utf-8"), "presets", _preset_rows())
    path = DOCS / "index.md"
    links = ", ".join(f"[{name}](commands/{name}.md)" for name in COMMANDS)
    tables[path] = re.sub(
        r"(<!-- command-links -->).*", rf"\g<1> {links}", path.read_text(encoding="utf-8")
    )
    path = ROOT / "mkdocs.yml"
    nav = "".join(f"      - {name}: commands/{name}.md\n" for name in COMMANDS)
    tables[path] = re.sub(
        r"(  - Commands:\n)(?:      - .*\n)*", rf"\g<1>{nav}", path.read_text(encoding="utf-8")
    )
    return tables


def _replace_table(text: str, name: str, rows: list[str]) -> str:
    return re.sub(
        rf"(<!-- {name} -->\n.*\n\|(?: --- \|)+\n)(?:\|.*\n)*",
        lambda match: match[1] + "".join(f"{row}\n" for row in rows),
        text,
    )


def _layer_rows() -> list[str]:
    """Return a row for each layer of the import contract, with the comment above it."""
    layers = (
        (ROOT / "pyproject.toml")
        .read_text(encoding="utf-8")
        .partition("\nlayers = [\n")[2]
        .partition("\n]")[0]
    )
    rows = []
    for text, names in re.findall(r'^ *# (.+)\n *"(.+)",$', layers, re.MULTILINE):
        marks = (
            re.sub(r"graphshare\.(\w+)", r"`\1`", names).replace(" | ", ", ").replace(" : ", ": ")
        )
        rows.append(f"| {marks} | {text} |")
    return rows


def _function_rows() -> list[str]:
    import graphshare

    rows = []
    for name in list_functions():
        first = (inspect.getdoc(getattr(graphshare, name)) or "").partition("\n\n")[0]
        rows.append(
            f"| `{name}` | {' '.join(first.split()).replace('``', '`').replace('|', ' or ')} |"
        )
    return rows


def _preset_rows() -> list[str]:
    from graphshare.cli.image_options import format_options
    from graphshare.formats.images.settings import PRESETS

    return [
        f"| `{name}` | {p.models} | `{format_options(p.settings)}` | {p.source} |"
        for name, p in PRESETS.items()
    ]


def _escape_roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(
        f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.split("\n")
    )


def render_manual() -> str:
    """Return the manual page, for ``man graphshare``."""
    import graphshare
    from graphshare.cli.main import cli

    examples = list_examples()
    lines = [
        f'.TH GRAPHSHARE 1 "" "graphshare {graphshare.__version__}" "User Commands"',
        ".SH NAME",
    ]
    summary = split_help(cli)[0].rstrip(".")
    lines += [_escape_roff(f"graphshare - {summary[0].lower()}{summary[1:]}"), ".SH SYNOPSIS"]
    lines += [".B graphshare", _escape_roff("[OPTIONS] COMMAND [ARGS]..."), ".SH DESCRIPTION"]
    lines += [line for part in split_help(cli) for line in (_escape_roff(part), ".PP")][:-1]
    lines += [".SH OPTIONS", *_roff_options(cli), ".SH COMMANDS"]
    for path, command in list_commands():
        lines += [
            f".SS {_escape_roff(path)}",
            f".B {_escape_roff(format_usage(path, command))}",
            ".PP",
        ]
        lines += [line for part in split_help(command) for line in (_escape_roff(part), ".PP")]
        lines += _roff_options(command)
        for comment, example in examples.get(path, ()):
            lines += [
                ".PP",
                _escape_roff(f"Example: {comment}"),
                ".RS 4",
                ".EX",
                _escape_roff(example),
                ".EE",
                ".RE",
            ]
    lines += [".SH EXIT STATUS", ".TP", "0", "The command succeeded, or the answer is yes."]
    lines += [".TP", "1", "The answer is no.", ".TP", "2"]
    lines += [
        "There is no answer: wrong usage, broken input, a refused request, or a system error."
    ]
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        "NO_COLOR",
        "If it is set, output is not coloured unless",
        _escape_roff("--color always"),
    ]
    lines += ["is given.", ".SH SEE ALSO", "The tutorials, pages of the documentation:"]
    for page in sorted(
        path for path in (DOCS / "tutorials").glob("*.md") if not is_translation(path)
    ):
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines += [".TP", _escape_roff(f"docs/tutorials/{page.name}"), _escape_roff(title)]
    return "\n".join(lines) + "\n"


def _roff_options(command: click.Command) -> list[str]:
    from graphshare.cli.command import Command

    lines = []
    for title, options in list_options(command).items():
        lines += [".PP", f"{title}:"] if isinstance(command, Command) else []
        lines += [
            line
            for names, text in options
            for line in (".TP", f".B {_escape_roff(names)}", _escape_roff(text))
        ]
    return lines


def render_generated() -> dict[Path, str]:
    """Return every generated file, and the pages with generated tables."""
    pages = {
        **render_command_pages(),
        **render_tables(),
        ROOT / "man" / "graphshare.1": render_manual(),
    }
    pages |= {OPERATORS: render_operators(), **render_format_schemas()}
    stating = {
        path: pages.get(path) or path.read_text(encoding="utf-8") for path in list_stating_pages()
    }
    figures = {**facts.count_facts(), **facts.read_measured(stating.values())}
    return {**pages, **{path: facts.fill_facts(text, figures) for path, text in stating.items()}}


def list_stating_pages() -> list[Path]:
    """Return the pages that may state a figure of several pages."""
    return [*written_pages(), OPERATORS, ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"]


def render_format_schemas() -> dict[Path, str]:
    """Return the schemas of reports on a parameter file, with the formats that there are."""
    from graphshare.formats.model_names import PARAMETER_FORMATS

    schemas = [
        ROOT / "schemas" / f"params-{report}.schema.json" for report in ("list", "show", "stats")
    ]
    names = f'"format": {{"enum": {json.dumps(list(PARAMETER_FORMATS))}}}'
    return {
        path: re.sub(r'"format": \{"enum": \[.*?\]\}', names, path.read_text(encoding="utf-8"))
        for path in schemas
    }


def is_translation(page: Path) -> bool:
    """Whether a page is the Chinese one of an English page."""
    return page.stem.endswith(("-zh", ".zh-CN"))


def find_original(page: Path) -> Path:
    """Return the English page of a translation."""
    return page.with_name(page.name.replace("-zh.md", ".md").replace(".zh-CN.md", ".md"))


def copy_transcripts(text: str, original: str) -> str:
    """Return a translation with the outputs that its original shows, so that both have the same numbers.

    Raises:
        ValueError: the original has no such command, Python block or file.
    """
    shown = dict(re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", original, re.M))

    def copy(match: re.Match[str]) -> str:
        if match["language"] != "console":
            if match[0] not in original:
                raise ValueError(f"the original has no such block: {match[0]}")
            return match[0]
        lines = re.findall(r"^\$ (.*)$", match["body"], re.M)
        missing = [line for line in lines if line not in shown]
        if missing:
            raise ValueError(f"the original does not run {', '.join(missing)}")
        body = "\n".join(f"$ {line}\n{shown[line]}".rstrip() + "\n" for line in lines)
        return f"```{match['language']}{match['head']}\n{body}```"

    return _BLOCK.sub(copy, text)


def written_pages() -> list[Path]:
    """Return the pages that people write; translations come last, after their originals."""
    return sorted(_list_pages(), key=is_translation)


def _list_pages() -> list[Path]:
    return [
        *READMES,
        *sorted(
            path
            for path in DOCS.rglob("*.md")
            if path != OPERATORS and path.parent != DOCS / "commands"
        ),
    ]


class Installation(NamedTuple):
    """A graphshare to run: the words of the command, a Python that imports it, and variables of the environment."""

    command: tuple[str, ...]
    python: str
    variables: dict[str, str]


def find_checkout() -> Installation:
    """Return the graphshare of this checkout."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return Installation(
        (sys.executable, str(ROOT / "tests" / "command.py")), sys.executable, {"PYTHONPATH": path}
    )


def run_blocks(text: str, folder: Path, installation: Installation | None = None) -> str:
    """Run the blocks of a page in ``folder`` and return the page with the current output of its console blocks.

    An output that differs only in run times and in the last digits of long numbers stays as it is.
    """
    used = installation or find_checkout()

    def run(match: re.Match[str]) -> str:
        body, head = match["body"], match["head"]
        title = re.search(r'title="([^"]+)"', head)
        if title:
            (folder / title[1]).write_text(body, encoding="utf-8")
        elif match["language"] == "python":
            _run_python(body, folder, used)
        elif match["language"] == "console":
            lines = re.findall(r"^\$ (.*)$", body, re.M)
            current = "\n".join(
                f"$ {line}\n{_run_command(line, folder, used)}".rstrip() + "\n" for line in lines
            )
            body = body if is_same_output(body, current) else current
        return f"```{match['language']}{head}\n{body}```"

    return _BLOCK.sub(run, text)


def is_same_output(old: str, new: str) -> bool:
    """Return whether ``old`` shows ``new``, except for run times, near values and the rounding of long numbers.

    The last digits depend on the processor, which may also turn 0.0999999977 into 0.1. A page never shows fewer digits.
    """
    old, new = (
        _NEAR.sub("", _ROUNDING.sub("0", _SECONDS.sub("in 0.0 s", text))) for text in (old, new)
    )
    if _NUMBER.sub("", old) != _NUMBER.sub("", new):
        return False
    numbers = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(
        a == b or (_LONG.search(a) and math.isclose(float(a), float(b), rel_tol=1e-5))
        for a, b in numbers
    )


def prepare_folder(folder: Path, page: Path | None = None) -> Path:
    """Copy the checkpoints of the examples of ``page`` into ``folder`` and return it."""
    for name in ("lenet-symbol.json", "lenet-0000.params", "nin-symbol.json"):
        shutil.copy(ROOT / "fixtures" / name, folder)
    for name in CHECKPOINT_FOLDERS:  # elsewhere they would be among the models of the folder
        if page is not None and page.stem == "tied-weights":
            shutil.copytree(ROOT / "fixtures" / name, folder / name)
    if page is not None and page.parent == DOCS / "cookbook":
        make = [sys.executable, str(ROOT / "fixtures" / "make_cookbook.py"), str(folder)]
        subprocess.run(make, env=_environment(find_checkout()), check=True, timeout=300)
    return folder


def _environment(installation: Installation) -> dict[str, str]:
    unwanted = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONPATH")
    kept = {key: value for key, value in os.environ.items() if key not in unwanted}
    return {**kept, "PYTHONUNBUFFERED": "1", **installation.variables}


def _run_command(line: str, folder: Path, installation: Installation) -> str:
    """Return the output of a command, both streams in the order of a terminal, and its exit code unless that is 0."""
    if line == "echo $?":
        raise ValueError("the exit code of a command that fails is shown automatically")
    if not line.startswith("graphshare "):
        raise ValueError(f"{line!r} is not a graphshare command")
    command = [*installation.command, *shlex.split(line)[1:]]
    if "|" in line:
        words = shlex.join(installation.command)
        command = ["sh", "-ec", re.sub(r"(^|\| *)graphshare", lambda match: match[1] + words, line)]
    run = subprocess.run(
        command,
        cwd=folder,
        env=_environment(installation),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
    output = run.stdout.decode()
    if "Traceback" in output or "bug in graphshare" in output:
        raise ValueError(f"{line}: {output}")
    return output + (f"(exit code {run.returncode})\n" if run.returncode else "")


def _run_python(body: str, folder: Path, installation: Installation) -> None:
    command = [installation.python, "-c", body]
    run = subprocess.run(
        command, cwd=folder, env=_environment(installation), capture_output=True, timeout=300
    )
    if run.returncode:
        raise ValueError(f"{body}\n{run.stderr.decode()}")


def main() -> None:
    """Write everything, or of the pages with blocks only those whose path contains an argument."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    for path, text in render_generated().items():
        path.write_text(text, encoding="utf-8")
    for path in written_pages() if "--no-run" not in sys.argv else ():
        if words and not any(word in str(path.relative_to(ROOT)) for word in words):
            continue
        if is_translation(path):
            original = find_original(path).read_text(encoding="utf-8")
            path.write_text(
                copy_transcripts(path.read_text(encoding="utf-8"), original), encoding="utf-8"
            )
            continue
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(
                run_blocks(path.read_text(encoding="utf-8"), prepare_folder(Path(folder), path)),
                encoding="utf-8",
            )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
