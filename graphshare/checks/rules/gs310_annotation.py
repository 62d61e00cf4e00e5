"""GS310: an annotation that MXNet or its Python interface cannot read."""

import json
import re
from collections.abc import Callable

from graphshare.checks.graph_facts import HIDDEN
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense
from graphshare.ops.attributes import read_value


@check_rule(
    level="warning",
    summary="An annotation (__lr_mult__, __shape__, __init__ ...) cannot be read",
    why="MXNet accepts any text there and fails when it is used: the optimizer, for one, when training starts.",
    fails=dense().replace('"num_hidden": "2"', '"__lr_mult__": "fast", "num_hidden": "2"'),
    passes=dense().replace('"num_hidden": "2"', '"__lr_mult__": "0.1", "num_hidden": "2"'),
)
def find(context: CheckContext) -> Violations:
    """Yield unreadable annotations."""
    for steps, node in context.nodes():
        for key, value in node.attrs.items():
            # Files before 1.0 have some annotations without underscores.
            expected, is_readable = _READERS.get(f"__{key}__" if key in HIDDEN else key, ("", None))
            if is_readable is not None and not is_readable(value):
                message = f"the annotation {key} is {value!r}, not {expected}"
                yield Violation(message, steps, node, hint="correct it or remove it")


def _make_reader(kind: str) -> Callable[[str], bool]:
    def is_readable(text: str) -> bool:
        try:
            read_value(kind, text)
        except ValueError:
            return False
        return True

    return is_readable


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_initializer(text: str) -> bool:
    """Whether ``text`` is a name, or the JSON of a name with its arguments."""
    if re.fullmatch(r"\w+", text):
        return True
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], dict)
    )


_READERS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "__lr_mult__": ("a number", _is_number),
    "__wd_mult__": ("a number", _is_number),
    "__shape__": ("a shape", _make_reader("shape")),
    "__dtype__": (
        "the number of a dtype",
        lambda text: re.fullmatch(r"-1|\d{1,2}", text) is not None,
    ),
    "__storage_type__": (
        "the number of a storage type",
        lambda text: re.fullmatch(r"-1|[0-2]", text) is not None,
    ),
    "__init__": ("an initializer", _is_initializer),
    "__force_mirroring__": ("a boolean", _make_reader("bool")),
}
