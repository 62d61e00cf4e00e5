"""Make the command of each model from a command with ``{}``, and check its words and outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Literal

import msgspec

from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.files.atomic import refuse_links
from graphshare.files.paths import base_name, ignores_case, join, real_path, split
from graphshare.fleet.listing import GRAPHS, Kind, iter_sources
from graphshare.fleet.records import FleetModel, Task, is_checkpoint
from graphshare.formats.model_names import (
    DATA_END,
    SHARD_END,
    find_stem,
    find_stem_name,
    leads_stem,
)
from graphshare.text.urls import is_url, leaves_folder

Content = Literal["graph", "params", "map"]
_MOST = 5  # collisions that are listed


class Template(msgspec.Struct, frozen=True):
    """The command of every model; ``name`` is the command's name.

    ``outputs`` pairs options with their contents: the graph, the parameters, the map, or a file
    with the model's name and this suffix; ``folder`` is a graph whose option names its folder.
    ``subject`` names the replacement of ``{}``. With ``takes_params``, ``--params`` gives the
    parameter file. ``extra`` are words to add, and with ``has_report`` stdout is then JSON. With
    ``has_exports`` some ONNX models have the stems of symbol files, so the names of their maps keep
    the suffix. ``kinds`` are the models that the command takes.
    """

    words: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...] = ()
    subject: Literal["graph", "params", "stem"] = "graph"
    takes_params: bool = False
    extra: tuple[str, ...] = ()
    has_report: bool = False
    has_exports: bool = False
    name: str = ""
    kinds: frozenset[Kind] = GRAPHS

    @property
    def holds_model(self) -> bool:
        """Whether some word stands for the model or a part of its name."""
        return any(mark in word for word in self.words for mark in ("{}", "{stem}", "{name}"))


def make_task(template: Template, model: FleetModel, out: str) -> Task:
    """Return the task of one model; ``out`` is the folder of the outputs."""
    stem = find_stem(model.graph)
    subjects = {"graph": model.graph, "params": model.params or model.graph, "stem": stem}
    subject = subjects[template.subject]
    if not leads_stem(model.graph):
        subject = model.graph  # the stem may mean a file beside it
    values = {"{}": subject, "{stem}": stem, "{name}": find_stem_name(model.relative)}
    outputs: dict[str, str] = {}
    options: dict[str, str] = {}
    if template.takes_params and model.params:
        options["--params"] = model.params
    for option, content in template.outputs:
        place = _place(template, content, model, out)
        if place:
            outputs[option] = place
            options[option] = (split(place)[0] or ".") if content == "folder" else place
    words = [_fill_word(word, values) for word in template.words]
    # After -- every word is an argument: options come before it.
    at = template.words.index("--") if "--" in template.words else len(words)
    words[at:at] = [*chain.from_iterable(options.items()), *template.extra]
    return Task(
        model, tuple(words), tuple(outputs.values()), template.words, out, template.has_report
    )


def _fill_word(word: str, values: dict[str, str]) -> str:
    """A path that begins with a dash does not become an option."""
    text = _fill(word, values)
    return f"./{text}" if text.startswith("-") and word.startswith(("{}", "{stem}")) else text


def _fill(word: str, values: dict[str, str]) -> str:
    """Replacements are not searched for further marks."""
    for mark, value in values.items():
        if mark in word:
            return value.join(_fill(part, values) for part in word.split(mark))
    return word


def _place(template: Template, content: str, model: FleetModel, out: str) -> str:
    """Return the path of an output; empty for the parameters of a model without any."""
    relative = model.relative.removesuffix(".gz")
    if content in ("graph", "folder"):
        return join(out, relative)
    if content == "params":
        if is_checkpoint(model.graph):
            return join(out, relative + SHARD_END)
        if not model.params:
            return ""
        folder = os.path.dirname(relative)
        return join(out, os.path.join(folder, base_name(model.params)))
    if content == "map":
        is_export = template.has_exports and not leads_stem(relative)
        stem = relative if is_export else find_stem(relative)
        return join(out, f"{stem}-map.json")
    return join(out, find_stem(relative) + content)


def note_exports(template: Template, models: Sequence[FleetModel]) -> Template:
    """Note whether ONNX models have the stems of symbol files."""
    has_exports = not all(leads_stem(model.graph) for model in models) and bool(
        _find_doubles(models)
    )
    return msgspec.structs.replace(template, has_exports=has_exports)


def leads_outside(relative: str, *, on_windows: bool) -> bool:
    """Whether a relative path may leave the folder to which it is joined, or means another on
    Windows.
    """
    if on_windows and ("\\" in relative or any(part[1:2] == ":" for part in relative.split("/"))):
        return True
    return relative.startswith("/") or ".." in relative.split("/")


def refuse_escapes(template: Template, models: Iterable[FleetModel], out: str) -> None:
    """Reject models whose outputs would leave ``out`` by names or links. Raises RefusedError."""
    if not template.outputs:
        return
    escaping = (model for model in models if _escapes(model, out))
    hint = "name its folder as it is, without wildcards in place of the two dots"
    faults = [
        Fault(f"its outputs would be outside of {out}", where=model.graph, hint=hint)
        for model in islice(escaping, _MOST)
    ]
    if faults:
        raise RefusedError(faults)
    if os.path.isdir(out):
        tasks = (make_task(template, model, out) for model in models)
        places = chain.from_iterable(task.outputs for task in tasks)
        refuse_links(out, chain.from_iterable((place, f"{place}{DATA_END}") for place in places))


def _escapes(model: FleetModel, out: str) -> bool:
    """Whether the outputs of a model would leave ``out`` by its name."""
    relative = model.relative
    if not is_url(model.graph):
        relative = relative.replace(os.sep, "/")
    if is_url(out):
        return leads_outside(relative, on_windows=False) or leaves_folder(relative)
    return leads_outside(relative, on_windows=os.name == "nt")


def refuse_collisions(template: Template, models: Sequence[FleetModel], out: str) -> None:
    """Reject outputs that two models would write, or that would replace another model's file.

    Raises:
        RefusedError: the first collisions are listed.
    """
    if not template.outputs:
        return
    fold = str.casefold if ignores_case(out) else str
    identify = _identifier(fold)
    sources: set[tuple[str, str]] = set()
    if _may_overlap(models, out):
        sources = set(map(identify, iter_sources(models)))
    else:
        # If no output can replace an input, only models with the same stem can collide.
        models = _find_doubles(models, fold)
    places: dict[tuple[str, str], str] = {}
    faults: list[Fault] = []
    for model in models:
        for place in make_task(template, model, out).outputs:
            key = identify(place)
            other = places.setdefault(key, model.graph)
            if other != model.graph:
                message = f"both {other} and {model.graph} would be written there"
                hint = "name a pattern whose fixed part keeps their folders apart, or run foreach for each of them"
                faults.append(Fault(message, where=place, hint=hint))
            elif key in sources:
                message = "is an input, which foreach does not replace"
                hint = "choose another folder (`out`)"
                faults.append(Fault(message, where=place, hint=hint))
            if len(faults) == _MOST:
                raise RefusedError(faults)
    if faults:
        raise RefusedError(faults)


def _find_doubles(
    models: Sequence[FleetModel], fold: Callable[[str], str] = str
) -> list[FleetModel]:
    """Return models that share a stem: outputs could collide. Uses little memory per model."""
    seen: set[int] = set()
    doubles: set[int] = set()
    for model in models:
        key = hash(fold(find_stem(model.relative)))
        (doubles if key in seen else seen).add(key)
    if not doubles:
        return []
    return [model for model in models if hash(fold(find_stem(model.relative))) in doubles]


def _may_overlap(models: Iterable[FleetModel], out: str) -> bool:
    """A source below ``out`` could be replaced by an output."""
    top = join(real_path(out), "")
    folders = {split(model.graph)[0] for model in models}
    return any(join(real_path(folder), "").startswith(top) for folder in folders)


def _identifier(fold: Callable[[str], str]) -> Callable[[str], tuple[str, str]]:
    """Return a function that maps every spelling of a path to one key.

    Links to folders are followed, each folder once. ``fold`` gives names of the same file the same
    spelling.
    """
    known: dict[str, str] = {}

    def identify(path: str) -> tuple[str, str]:
        folder, name = split(path)
        if folder not in known:
            known[folder] = fold(real_path(folder))
        return known[folder], fold(name)

    return identify


def refuse_template(template: Template, out: str) -> None:
    """Raise UsageError with all faults of a command that cannot be run for each model."""
    faults = []
    if not template.holds_model:
        hint = "write {} in place of the model, as in: foreach 'models/*' -o out -- duplicate {} --prefix sha-"
        faults.append(Fault("the command does not name the model", hint=hint))
    if template.outputs and not out:
        hint = "add `out=DEST` before --; the files of all models go there"
        faults.append(
            Fault(f"{template.name} writes files, and there is no folder for them", hint=hint)
        )
    if out and not template.outputs:
        hint = "leave out `out`; a report and `manifest` record its output"
        faults.append(
            Fault(f"{template.name} writes no files, so it needs no folder for them", hint=hint)
        )
    if faults:
        raise UsageError(faults)
