"""GS407: a record's dtype does not fit the graph."""

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
from graphshare.checks.shapes import find_shapes
from graphshare.errors import Fault
from graphshare.formats.params.mxnet_params import UNLOADABLE_DTYPES
from graphshare.formats.params.records import DTYPES

_FLAGS = {
    str(codes.mxnet): dtype for dtype, codes in DTYPES.items() if dtype not in UNLOADABLE_DTYPES
}


@check_rule(
    level="error",
    summary="The dtypes of parameters do not match each other or the graph's declarations",
    why="MXNet's type inference refuses them.",
    fails=Example(dense(), (DENSE_RECORDS[0], ExampleRecord("arg:fc_bias", (2,), "float16"))),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield records that contradict ``__dtype__``, and the first operator whose inputs do not
    match.
    """
    if context.params is None:
        return
    inferred = context.once(find_shapes)
    if inferred is None:
        return
    for variable, record in inferred.records.items():
        declared = _FLAGS.get(variable.attrs.get("__dtype__", ""))
        if declared is not None and declared != record.dtype:
            message = f"is {record.dtype}, but its variable declares {declared} (__dtype__)"
            yield Violation(
                message,
                record=record.place,
                hint="convert the array or correct __dtype__",
                name=variable.name,
            )
    dtypes, shapes = inferred.with_dtypes, inferred.with_shapes
    if isinstance(dtypes, Fault) and not isinstance(shapes, Fault):
        node = inferred.find_operator(dtypes.node)
        yield Violation(
            dtypes.message, node=node, hint="convert the arrays to one dtype", name=dtypes.node
        )
