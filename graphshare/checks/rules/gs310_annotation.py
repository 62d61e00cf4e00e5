"""GS310: an annotation that MXNet or its Python side cannot read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.signatures import HIDDEN
from graphshare.checks.subject import Subject
from graphshare.ops.attributes import read_value
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each annotation whose value is not of its kind."""
    for steps, graph in subject.graphs:
        for i, node in enumerate(graph.nodes):
            for key, value in node.attrs.items():
                # The plain spellings of some are annotations too, of files before 1.0.
                wanted, reads = _READERS.get(f"__{key}__" if key in HIDDEN else key, ("", None))
                if reads is not None and not reads(value):
                    message = f"the annotation {key} is {value!r}, not {wanted}"
                    yield Found(message, (*steps, "nodes", i), node, hint="correct it or remove it")


def _reads(kind: str) -> Callable[[str], bool]:
    def reads(text: str) -> bool:
        try:
            read_value(kind, text)
        except ValueError:
            return False
        return True

    return reads


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_initialiser(text: str) -> bool:
    """A name, or the JSON of a name with its arguments."""
    if re.fullmatch(r"\w+", text):
        return True
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, list) and len(found) == 2 and isinstance(found[0], str) and isinstance(found[1], dict)


_READERS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "__lr_mult__": ("a number", _is_number),
    "__wd_mult__": ("a number", _is_number),
    "__shape__": ("a shape", _reads("shape")),
    "__dtype__": ("the number of a type", lambda text: re.fullmatch(r"-1|\d{1,2}", text) is not None),
    "__storage_type__": ("the number of a storage type", lambda text: re.fullmatch(r"-1|[0-2]", text) is not None),
    "__init__": ("an initialiser", _is_initialiser),
    "__force_mirroring__": ("a boolean", _reads("bool")),
}

RULE = Rule(
    code="GS310",
    name="annotation",
    level=Level.WARNING,
    summary="An annotation (__lr_mult__, __shape__, __init__ ...) cannot be read",
    why="MXNet keeps any text there; whoever uses it fails later, the optimizer when training starts.",
    find=find,
    fails=Example(dense().replace('"num_hidden": "2"', '"__lr_mult__": "fast", "num_hidden": "2"')),
    passes=Example(dense().replace('"num_hidden": "2"', '"__lr_mult__": "0.1", "num_hidden": "2"')),
)
