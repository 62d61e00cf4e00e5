"""GS802: a ``.pdiparams`` file of another program."""

from graphshare.checks.rule import (
    CheckContext,
    Example,
    ExampleRecord,
    Violation,
    Violations,
    check_rule,
    parameter,
    program,
    step,
)

_GRAPH = program(parameter("w", 1), step("1.relu", "1", 2))


@check_rule(
    level="error",
    summary="The records of the parameter file are not those of the program: count, shape or dtype",
    why="The file has no names: one record more or less gives every parameter behind it a wrong value, or none.",
    fails=Example(_GRAPH, (ExampleRecord("w", (3,)),), named=False),
    passes=Example(_GRAPH, (ExampleRecord("w"),), named=False),
)
def find(context: CheckContext) -> Violations:
    """Yield why the file cannot be read, or records that do not fit their parameters."""
    # Start-up
    from graphshare.formats.paddle.parameters import find_misfits, list_stored

    for fault in context.params_faults:
        yield Violation(fault.message, record=fault.path, hint=fault.hint)
    if not context.has_graph or context.params is None or context.params.named:
        return
    for fault in find_misfits(list_stored(context.graph), context.params):
        yield Violation(fault.message, record=fault.path, hint=fault.hint, name=fault.node)
