"""Where an output goes, and the refusal of an output that is an input.

A path that ends in a separator, or that is a directory, is a directory: the output gets a name in it, as with cp and mv.
An output is an input if both are one regular file, whatever their paths: links lead to the same device and inode. URLs are the
same where their texts are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from graphshare.errors import Fault, RefusedError
from graphshare.files.paths import Identity, exists, find_identity, is_folder, join, split

STDIN = "<stdin>"
STDOUT = "<stdout>"
_SUFFIX = re.compile(r"\.[A-Za-z]\w*$")

Content = Literal["graph", "parameters", "map", "arrays", "feed", "rules", "baseline", "report", "picture"]


class UsedFile(msgspec.Struct, frozen=True):
    """A file that is read or written, and what is in it; ``-`` (an output) and ``<stdin>`` are the standard streams."""

    path: str
    content: Content


def is_directory(path: str) -> bool:
    """Return whether an output goes into ``path`` under a name of its own: it ends in a separator, or is a directory."""
    return path.endswith(("/", os.sep)) or is_folder(path)


def is_stem(path: str) -> bool:
    """Return whether an output names a checkpoint rather than a file: it has no suffix, and nothing has this path."""
    return path not in ("", "-") and _SUFFIX.search(split(path)[1]) is None and not exists(path)


def place_output(path: str, name: str) -> str:
    """Return ``path``, or the path of ``name`` in it if it is a directory."""
    return join(path, name) if is_directory(path) else path


def refuse_inputs_as_outputs(outputs: Iterable[UsedFile], inputs: Iterable[UsedFile], *, in_place: bool = False) -> None:
    """Refuse outputs that would replace an input; with ``in_place`` only those that hold something else than the input.

    Raises:
        RefusedError: an output is an input; all are listed.
    """
    known: dict[Identity, UsedFile] = {}
    for file in inputs:
        identity = _find_identity(file, descriptor=0)
        if identity is not None:
            known.setdefault(identity, file)
    faults = []
    for file in outputs:
        identity = _find_identity(file, descriptor=1)
        source = known.get(identity) if identity is not None else None
        if source is not None and not (in_place and file.content == source.content and file.path != "-"):
            faults.append(_explain(file, source))
    if faults:
        raise RefusedError(faults)


def _find_identity(file: UsedFile, *, descriptor: int) -> Identity | None:
    """Return what the paths of one regular file have in common; None for any other and for one that is not there."""
    return find_identity(descriptor if file.path in ("-", STDIN) else file.path)


def _explain(output: UsedFile, source: UsedFile) -> Fault:
    where = STDOUT if output.path == "-" else output.path
    if output.content == source.content and output.path != "-":
        hint = "choose another output; to replace the input, add --in-place (in Python: in_place=True)"
        message = "is also the input" if source.path == where else f"is the same file as the input {source.path}"
        return Fault(message, where=where, hint=hint)
    name = "" if source.path == where else f" ({source.path})"
    message = f"is also an input{name}: the {output.content} would replace the {source.content}"
    return Fault(message, where=where, hint="choose another output")
