"""GS601: an ONNX model that is unreadable or not in topological order."""

import msgspec

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, relu


@check_rule(
    level="error",
    summary="The file is not a sound ONNX model: cut short, or a value is defined twice, by nothing, or too late",
    why="A name stands for one value, and a value is defined before it is read; runtimes refuse such a model.",
    fails=relu()[:-3],
    passes=relu(),
)
def find(context: CheckContext) -> Violations:
    """Yield the reader's reasons, or the first value that is read before it is defined."""
    faults = list(context.reading.model_faults)
    if context.has_graph:
        # Start-up
        from graphshare.formats.onnx.stored import get_source

        source = get_source(context.graph)
        if source.file.disorder is not None and context.graph.nodes == source.nodes:  # as read
            message = f"{source.file.disorder.message}: the nodes are not in topological order"
            hint = (
                "`graphshare pool --embed MODEL -o DIR` writes them sorted, as every rewrite does"
            )
            faults.append(msgspec.structs.replace(source.file.disorder, message=message, hint=hint))
    for fault in faults:
        place = f"{fault.path}: " if fault.path else ""
        yield Violation(f"{place}{fault.message}", ("graph",), hint=fault.hint, name=fault.node)
