"""Shrink a graph that differs only as a whole, with MXNet as the judge: which nodes does the difference need?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.generate.grow import Model
from tests.generate.judge import ask_mxnet, judge
from tests.generate.shrink import cut_all
from tests.generate.verdict import Disagreement
from tests.oracle.known_in_graphs import list_patterns

ROUNDS = 6
"""How often nodes are cut away: each round asks for every node alone."""


def needed_operators(
    oracle_python: str, model: Model, found: Disagreement, folder: Path
) -> set[str]:
    """Return the nodes of a listed operator without which the difference of a graph is gone; none if there is none."""
    for pattern in list_patterns(found.what, found.how):
        names = {
            n: model.document["nodes"][n]["name"]
            for n, case in model.cases.items()
            if re.fullmatch(pattern, case["op"])
        }
        if names and not _show(oracle_python, [cut_all(model, names)], found.what, folder)[0]:
            return set(names.values())
    return set()


def isolate(oracle_python: str, model: Model, what: str, folder: Path) -> Model:
    """Return the smallest graph found that still shows a difference of this kind; the others become variables."""
    for _ in range(ROUNDS):
        single = [cut_all(model, [number]) for number in model.cases]
        shows = _show(oracle_python, single, what, folder)
        dispensable = [number for number, found in zip(model.cases, shows, strict=True) if found]
        if not dispensable:
            return model
        parts = _list_parts(dispensable)
        together = [cut_all(model, part) for part in parts]
        shows = _show(oracle_python, together, what, folder)
        model = next(
            (smaller for smaller, found in zip(together, shows, strict=True) if found), model
        )
    return model


def find_difference(
    oracle_python: str, model: Model, what: str, folder: Path
) -> Disagreement | None:
    """Return the first difference of this kind that a graph shows."""
    (answer,) = ask_mxnet(oracle_python, [model], folder)
    return next((found for found in judge(model, answer).disagreements if found.what == what), None)


def _list_parts(numbers: Sequence[int]) -> list[Sequence[int]]:
    """All of them, halves, quarters, and the first alone."""
    size, parts = len(numbers), []
    while size > 1:
        parts += [numbers[begin : begin + size] for begin in range(0, len(numbers), size)]
        size = (size + 1) // 2
    return [*parts, numbers[:1]]


def _show(oracle_python: str, models: list[Model], what: str, folder: Path) -> list[bool]:
    """Whether each graph shows a difference of this kind; without operators it shows none."""
    asked = [model for model in models if model.cases]
    answers = iter(ask_mxnet(oracle_python, asked, folder) if asked else ())
    return [
        bool(model.cases)
        and any(found.what == what for found in judge(model, next(answers)).disagreements)
        for model in models
    ]
