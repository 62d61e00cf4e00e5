"""Find the nodes for which a graph is refused, ends MXNet, or has other gradients: each node alone, from our values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.generate.grow import Model
from tests.generate.verdict import Disagreement
from tests.oracle.known_differences import is_known, is_wider, lacks_elements, may_crash
from tests.oracle.probed import Refusal, asked, compared_backward, compared_forward, forward
from tests.oracle.wider_dtypes import has_wider_dtype


def blame(oracle_python: str, models: list[tuple[Model, bool]], folder: Path) -> list[Disagreement]:
    """Return the nodes of graphs that differ alone; where a graph has True beside it the backward
    pass is compared too.
    """
    places = [(model, number) for model, _ in models for number in model.cases]
    backward = {model.seed for model, gradients in models if gradients}
    probes = []
    for model, n in places:
        arrays = [model.values[i, k] for i, k, _ in model.document["nodes"][n]["inputs"]]
        probes.append(({**model.cases[n], "backward": model.seed in backward}, arrays))
    found = []
    answers = asked(oracle_python, probes, folder)
    for place, ((model, number), (case, arrays), answer) in enumerate(
        zip(places, probes, answers, strict=True)
    ):
        with np.errstate(all="ignore"):
            how = compared_alone(case, arrays, answer["forward"])
            if how is None and model.seed in backward:
                how = compared_backward(case, arrays, answer["backward"], place)
                how = None if how is not None and how.startswith("MXNet refuses") else how
        ends = isinstance(answer["forward"], dict) and "crash" in answer["forward"]
        if (
            how is None
            and ends
            and model.refused is not None
            and number == len(model.document["nodes"]) - 1
        ):
            name = model.document["nodes"][number]["name"]
            found.append(
                Disagreement(
                    model.seed,
                    name,
                    describe_case(case, arrays),
                    "MXNet ends, where it is refused",
                    True,
                )
            )
        elif how is not None:
            name, known = model.document["nodes"][number]["name"], is_listed(case, arrays, how)
            found.append(Disagreement(model.seed, name, describe_case(case, arrays), how, known))
    return found


def compared_alone(case: dict[str, Any], arrays: list[Any], answer: Any) -> str | None:
    """Return how the outputs of one operator differ, or that MXNet ended; None where they agree."""
    if isinstance(answer, dict) and "crash" in answer:
        try:
            forward(case, [x.copy() for x in arrays])
        except Refusal:
            return None
        return f"MXNet ends with status {answer['crash']}"
    return compared_forward(case, arrays, answer)


def is_listed(case: dict[str, Any], arrays: list[Any], how: str) -> bool:
    """Whether a difference of an operator alone is in one of the tables of known differences."""
    if lacks_elements(case, arrays, how):
        return True
    if how.startswith("MXNet ends"):
        return may_crash(case, arrays)
    return is_wider(case, how) or has_wider_dtype(case, arrays, how) or is_known(case, arrays, how)


def describe_case(case: dict[str, Any], arrays: list[Any]) -> str:
    """Return an operator with its attributes and inputs in one line."""
    inputs = ", ".join(f"{x.dtype}{x.shape}" for x in arrays)
    return f"{case['op']} {case['attrs']} [{inputs}]{' np_shape' if case['np_shape'] else ''}"
