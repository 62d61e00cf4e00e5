"""``inspect DIR``: a line for each model of a folder, printed when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from graphshare.checkpoint.folder import find_models, is_folder_of_models
from graphshare.cli.console import put, put_json, say
from graphshare.cli.output import warn
from graphshare.errors import Fault, UsageError
from graphshare.formats.model_names import stem_of
from graphshare.inspection.folder import ModelFacts, inspect_models
from graphshare.text.format import format_count, format_names

_SHOWN = 4
_WIDEST = 60


def is_folder(graph: str) -> bool:
    """Return whether GRAPH means a folder of models, and not the stem of a model beside a folder of its name."""
    return is_folder_of_models(graph)


def refuse_options(given: Sequence[str], folder: str) -> None:
    """Refuse options that concern a single model. Raises UsageError with all of them."""
    hint = "inspect the models one at a time"
    if given:
        raise UsageError([Fault(f"{option} concerns one model, and {folder} is a folder", hint=hint) for option in given])


def put_folder(folder: str, format_: str) -> int:
    """Print the facts of the models below ``folder``; return 2 if one of them cannot be read, else 0.

    Raises:
        InputError: there is no model; a folder cannot be read.
    """
    models = find_models(folder)
    width = min(_WIDEST, max(len(_name(model.graph)) for model in models))
    if format_ == "text":
        put([f"{'model':{width}}  {'nodes':>7}  {'parameters':>13}  inputs -> outputs"])
    broken, collected = 0, []
    for facts in inspect_models(models):
        broken += bool(facts.faults)
        if format_ == "text":
            put([_format_model(facts, width)])
            warn(facts.remarks)
        elif format_ == "jsonl":
            put_json(facts, lines=True)
        else:
            collected.append(facts)
    if format_ == "json":
        put_json({"folder": folder, "models": collected})
    if format_ == "text" or broken:
        say(format_count(len(models), "model") + (f", {broken} cannot be read" if broken else ""))
    return 2 if broken else 0


def _name(graph: str) -> str:
    """Return the stem of a model, as every command takes it."""
    return stem_of(graph)


def _format_model(facts: ModelFacts, width: int) -> str:
    name = f"{_name(facts.graph):{width}}"
    if facts.faults:
        return f"{name}  error: {'; '.join(_describe(facts))}"
    numbers = format_count(facts.parameters or 0, "array") if facts.numbers is None else f"{facts.numbers:,}"
    ends = " -> ".join(format_names(names, _SHOWN) or "none" for names in (facts.inputs, facts.outputs))
    return f"{name}  {facts.nodes:7,}  {numbers:>13}  {ends}"


def _describe(facts: ModelFacts) -> Iterator[str]:
    """Yield the first faults; the file is named where it is another than the graph's."""
    for fault in facts.faults[:_SHOWN]:
        yield str(msgspec.structs.replace(fault, where="") if fault.where == facts.graph else fault)
    if len(facts.faults) > _SHOWN:
        yield f"and {len(facts.faults) - _SHOWN} more"
