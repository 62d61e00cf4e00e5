"""GS612: weights stored twice, or in Constants."""

from collections.abc import Iterator

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    apply,
    check_rule,
    initializer,
    model,
    value,
)
from graphshare.formats.params.records import Record
from graphshare.text.format import format_bytes, format_count, format_names

_LEAST = 1024  # bytes; smaller arrays are biases and limits, often equal


def _add_two(size: int) -> bytes:
    tensors = initializer("a", size=size), initializer("b", size=size)
    return model(
        apply("Add", "x a", "h"),
        apply("Add", "h b", "y"),
        *tensors,
        value(11, "x", 1),
        value(12, "y", size),
    )


@check_rule(
    level="note",
    summary="Weights of an ONNX model are in it several times, or most of them in Constants",
    why=(
        "The file and what loads it are larger than they need be: arrays of 1,024 bytes and more "
        "count, those of one number "
        "only with related names. Tools that look for weights among the initializers "
        "(quantization, external data) miss Constants."
    ),
    fails=_add_two(256),
    passes=_add_two(255),
)
def find(context: CheckContext) -> Violations:
    """Yield the bytes that tying equal weights saves, and Constants with more than half of all
    weights.
    """
    if context.params is None:
        return
    # Start-up
    from graphshare.checks.onnx_facts import is_constant

    records = {record.name: record.record for record in context.records}
    total = sum(record.data_size for record in records.values())
    repeats = sorted(_find_repeats(context, records), reverse=True)
    if repeats:
        pairs = format_names([pair for _, pair in repeats], 4)
        saved = sum(size for size, _ in repeats)
        saving = f"a tie saves {format_bytes(saved)} of {format_bytes(total)}"
        message = f"{format_count(len(repeats), 'weight')} with the bytes of another one ({pairs}): {saving}"
        hint = "`graphshare share --detect` lists them, `graphshare share --alias` ties them"
        yield Violation(message, ("graph",), hint=hint)
    size = 0
    for node in context.graph.variables():
        if node.name in records and is_constant(node):
            size += records[node.name].data_size
    if size >= _LEAST and 2 * size > total:
        message = (
            f"Constants hold {format_bytes(size)} of the {format_bytes(total)} of weights; other "
            f"tools look at initializers"
        )
        yield Violation(
            message,
            ("graph",),
            hint="onnx_ir's LiftConstantsToInitializersPass makes them initializers",
        )


def _find_repeats(context: CheckContext, records: dict[str, Record]) -> Iterator[tuple[int, str]]:
    """Yield the size and name of each repeated weight, and the name of the first one."""
    # Start-up: it reads arrays and needs numpy
    from graphshare.rewrite.find_candidates import find_candidates

    for candidates in find_candidates(context.graph, params=context.params):
        if candidates.why != "values":
            continue
        # Initializers with the same place in an external file are tied already.
        places: dict[object, Record] = {}
        for name in candidates.names:
            record = records[name]
            file = record.origin and record.origin.file
            places[file and file.path, record.offset] = record
        for record in [*places.values()][1:]:
            if record.data_size >= _LEAST:
                yield record.data_size, f"{record.key} = {candidates.names[0]}"
