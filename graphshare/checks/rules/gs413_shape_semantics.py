"""GS413: a graph and a parameter file with different shape semantics."""

from graphshare.checks.rule import (
    DENSE_RECORDS,
    CheckContext,
    Example,
    ExampleRecord,
    Violation,
    Violations,
    check_rule,
    dense,
)
from graphshare.ops.attributes import has_np_shape


@check_rule(
    level="warning",
    summary="Graph and parameter file were saved under different shape semantics",
    why="MXNet refuses V3 records with np-shape off, and V2 records with np-shape on.",
    fails=Example(
        dense().replace('{"mxnet_version"', '{"is_np_shape": ["int", 1], "mxnet_version"'),
        DENSE_RECORDS,
    ),
    passes=Example(dense(), (DENSE_RECORDS[0], ExampleRecord("arg:fc_bias", (2,)))),
)
def find(context: CheckContext) -> Violations:
    """Yield the first record that MXNet cannot load together with the graph."""
    if not context.has_graph or context.params is None or context.params.format != "params":
        return
    np_shape = has_np_shape(context.graph.attrs)
    wrong = [record for record in context.records if (record.record.layout == "V3") != np_shape]
    if not wrong:
        return
    first = wrong[0]
    if np_shape:
        problem = f"a {first.record.layout} record, not V3, and the graph has np-shape on"
    else:
        problem = (
            "a V3 record, which MXNet loads only with np-shape on, and the graph has np-shape off"
        )
    count = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    hint = "`graphshare params convert`, with or without --np-shape"
    yield Violation(f"is {problem}{count}", record=first.place, hint=hint)
