"""Every parameter of every function of the library, for ``docs/api.md``; a part of ``docs/generate.py``.

Signatures and docstrings are the source. A text stands once: parameters that one sentence explains
share a row, and those that many functions have are explained in one table.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping

COMMON = {
    "Models": {
        "model": "The model: a `Checkpoint`, a `Graph`, or a source for `load`.",
        "models": "The models: each a `Checkpoint`, a `Graph`, or a source for `load`.",
        "left": "The reference, with which the other one is compared.",
        "right": "The one that is compared.",
    },
    "Shapes and roles": {
        "shapes": "Shapes by variable name; `None` is a size to be inferred.",
        "as_input": "Names of variables that are inputs, where their role cannot be inferred.",
        "as_parameter": "Names of variables that are parameters, where their role cannot be inferred.",
    },
    "Numbers": {
        "atol": "Numbers that differ by at most `atol` plus `rtol` of their size count as equal.",
        "rtol": "Numbers that differ by at most `atol` plus `rtol` of their size count as equal.",
    },
    "Training": {
        "learning_rate": "The factor of gradients in a step.",
        "momentum": "The part of the last step that a step repeats.",
        "wd": "Weight decay: the part of a weight that is added to its gradient.",
    },
    "Parameter files": {
        "select": "Patterns of the names of arrays to read; without any, all are read.",
    },
}
"""The meaning of parameters that many functions have, by group, where a function's own text does not state it."""
SHARED = {name: text for group in COMMON.values() for name, text in group.items()}
ELSEWHERE = "As for [several functions](#parameters-of-several-functions)."
CONSTRUCTED = ("Sgd",)
"""Classes whose objects a caller makes; the others are results."""


def render_reference() -> str:
    """Return the table of shared parameters, and a section for each function with all of its parameters.

    Raises:
        ValueError: neither the docstring nor that of ``run`` nor ``COMMON`` explains a parameter.
    """
    import graphshare

    functions = {name: getattr(graphshare, name) for name in (*list_functions(), *CONSTRUCTED)}
    lines = [
        *_describe_shared(),
        *(
            line
            for name, function in functions.items()
            for line in describe_function(name, function)
        ),
    ]
    return "\n".join(lines)


def list_functions() -> list[str]:
    """Return the names of the functions of the library."""
    import graphshare

    return sorted(
        name for name in graphshare.__all__ if name[0].islower() and not name.startswith("_")
    )


def _describe_shared() -> Iterator[str]:
    yield from ("### Parameters of several functions", "", "| parameters | |", "| --- | --- |")
    for group, texts in COMMON.items():
        yield f"| **{group}** | |"
        for text in dict.fromkeys(texts.values()):
            yield f"| {'<br>'.join(f'`{name}`' for name, own in texts.items() if own == text)} | {text} |"
    yield ""


def describe_function(name: str, function: Callable[..., object]) -> Iterator[str]:
    """Yield the lines of a function's section.

    Raises:
        ValueError: no text explains a parameter.
    """
    signature = inspect.signature(function)
    text, _, raises = (inspect.getdoc(function) or "").partition("Raises:")
    sentences = _list_sentences(text)
    yield from (f"### {name}", "", sentences[0], "", "| parameters | |", "| --- | --- |")
    for names, meaning in _list_rows(name, list(signature.parameters), sentences):
        cells = "<br>".join(_format_parameter(signature.parameters[key]) for key in names)
        yield f"| {cells} | {meaning.replace('|', 'or')} |"
    rest = [s for s in sentences[1:] if not any(f"`{key}`" in s for key in signature.parameters)]
    result = "" if inspect.isclass(function) else f"Returns `{signature.return_annotation}`."
    ending = " ".join(part for part in (result, *rest) if part)
    yield from ("", ending, "") if ending else ("",)
    faults = [
        to_code(" ".join(part.split()))
        for part in re.split(r"\n    (?=\S)", raises)
        if part.strip()
    ]
    if faults:
        yield from ("Raises:", "", *(f"- {part}" for part in faults), "")


def _list_rows(
    function: str, names: list[str], sentences: list[str]
) -> list[tuple[list[str], str]]:
    """Return rows of parameters with their meaning: each parameter is in one row, and each sentence too."""
    own: list[tuple[list[str], list[str]]] = []
    row_of: dict[str, int] = {}
    for sentence in sentences[1:]:
        mentioned = [name for name in names if f"`{name}`" in sentence]
        new = [name for name in mentioned if name not in row_of]
        if new:
            row_of.update(dict.fromkeys(new, len(own)))
            own.append((new, [sentence]))
        elif mentioned:
            own[row_of[mentioned[0]]][1].append(sentence)
    others: dict[str, list[str]] = {}
    for name in names:
        if name not in row_of:
            others.setdefault(_find_meaning(function, name, sentences[0]), []).append(name)
    rows = [(new, " ".join(texts)) for new, texts in own] + [
        (group, meaning) for meaning, group in others.items()
    ]
    return sorted(rows, key=lambda row: names.index(row[0][0]))


def _find_meaning(function: str, name: str, first: str) -> str:
    """Return where the meaning of a parameter stands that no sentence after the first one of the docstring explains."""
    import graphshare

    if f"`{name}`" in first:
        return "As above."
    if name in SHARED:
        return ELSEWHERE
    if f"`{name}`" in to_code(inspect.getdoc(graphshare.run) or ""):
        return "As for [`run`](#run)."
    raise ValueError(f"no text explains the parameter {name} of {function}")


def _format_parameter(parameter: inspect.Parameter) -> str:
    """Return ``` `seed: Natural = 0` ```."""
    annotation = parameter.annotation
    type_ = annotation.__name__ if inspect.isclass(annotation) else annotation
    default = (
        "" if parameter.default is parameter.empty else f" = {_format_default(parameter.default)}"
    )
    return f"`{parameter.name}: {str(type_).replace('|', 'or')}{default}`"


def _format_default(value: object) -> str:
    return "{}" if isinstance(value, Mapping) and not value else repr(value)


def _list_sentences(text: str) -> list[str]:
    return [
        s
        for part in text.split("\n\n")
        for s in re.split(r"(?<=\.) (?=[A-Z`])", to_code(" ".join(part.split())))
        if s
    ]


def to_code(text: str) -> str:
    """Return text of a docstring as Markdown."""
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text).replace("``", "`")
