"""The files that the words of a ``check`` command line mean: paths, stems, folders and globs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

import msgspec

from graphshare.checkpoint.load import STDIN, graph_path, sibling_params
from graphshare.errors import Fault, GraphshareError, InputError, UsageError


class Target(msgspec.Struct, frozen=True):
    """A graph file and its parameter file, an empty text where there is none."""

    graph: str
    params: str = ""


def targets_of(words: Iterable[str], *, params: str | None = None, epoch: int | None = None) -> list[Target]:
    """The files to check, each once, in order.

    A stem brings its parameter file along; a folder stands for every ``*-symbol.json`` below it, a glob for what it matches.

    Raises:
        InputError: words that mean no file; all are listed.
        UsageError: ``params`` or ``epoch`` beside several graphs; a stem with several parameter files and no ``epoch``.
    """
    found: dict[str, Target] = {}
    faults: list[Fault] = []
    for word in words:
        try:
            for target in _targets(word, params, epoch):
                found.setdefault(os.path.normpath(target.graph), target)
        except UsageError:
            raise
        except GraphshareError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    if len(found) > 1 and (params is not None or epoch is not None):
        option = "--params" if params is not None else "--epoch"
        raise UsageError(Fault(f"{option} speaks of one graph, and there are {len(found)}", hint="check them one by one"))
    return list(found.values())


def _targets(word: str, params: str | None, epoch: int | None) -> list[Target]:
    if os.path.isdir(word) and not os.path.exists(f"{word}-symbol.json"):
        files = sorted(glob.glob(os.path.join(glob.escape(word), "**", "*-symbol.json"), recursive=True))
        return [Target(path) for path in _some(files, word, "holds no *-symbol.json")]
    if glob.has_magic(word) and not os.path.exists(word) and not os.path.exists(f"{word}-symbol.json"):
        files = sorted(path for path in glob.glob(word, recursive=True) if not os.path.isdir(path))
        return [Target(path) for path in _some(files, word, "matches no file")]
    path, stem = graph_path(word)
    if path == STDIN:
        return [Target("-", params or "")]
    beside = sibling_params(stem, epoch) if stem and params is None else params
    if not stem and epoch is not None and params is None:
        hint = "name the parameter file with --params"
        raise UsageError(Fault(f"--epoch {epoch} needs a stem, but {word!r} is a file", hint=hint))
    return [Target(path, beside or "")]


def _some(files: list[str], word: str, why: str) -> list[str]:
    if not files:
        raise InputError(Fault(why, where=word, hint="name symbol files, stems, folders or globs"))
    return files
