"""GS007: graph attributes other than a pair of type and value."""

from collections.abc import Callable

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


def _is_int(value: object) -> bool:
    return type(value) is int and -(1 << 31) <= value < 1 << 31


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_TAGS: dict[str, Callable[[object], bool]] = {
    "int": _is_int,
    "size_t": lambda value: type(value) is int and 0 <= value < 1 << 64,
    "str": _is_text,
    "list_int": lambda value: isinstance(value, list) and all(map(_is_int, value)),
    "list_str": lambda value: isinstance(value, list) and all(map(_is_text, value)),
}


@check_rule(
    level="error",
    summary="An attribute of the graph is not a pair of a known type and a value",
    why='MXNet refuses the file; mxnet_version in particular is ["int", 10901].',
    fails=dense().replace('["int", 10901]', "10901"),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield every such attribute."""
    for steps, graph in context.documents:
        for key, value in graph.get("attrs", {}).items():
            message = _fault(key, value)
            if message:
                yield Violation(
                    message,
                    (*steps, "attrs", key),
                    hint='graph attributes look like {"mxnet_version": ["int", 10901]}',
                )


def _fault(key: str, value: object) -> str:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        return f"the graph attribute {key!r} is not a pair of a type and a value"
    tag, content = value
    if tag not in _TAGS:
        return f"the graph attribute {key!r} has the type {tag!r}; MXNet reads {', '.join(_TAGS)}"
    if not _TAGS[tag](content):
        return f"the graph attribute {key!r} is not of its type {tag}"
    if tag != "int" and key in ("mxnet_version", "is_np_shape"):
        return f"{key} has the type {tag!r}, not int"
    return ""
