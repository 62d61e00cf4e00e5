"""GS606: missing or contradictory types of values."""

from __future__ import annotations

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, relu, value
from graphshare.errors import RefusedError
from graphshare.formats.facets import StaticType


@check_rule(
    level="error",
    summary="An input or output has no type, or a stated type contradicts another one, or what ONNX infers",
    why=(
        "Every input and output needs a dtype and a rank. Of two types runtimes refuse the model "
        "or ignore one; tools that "
        "plan memory believe the wrong one. What ONNX infers is known where the onnx package is installed."
    ),
    fails=relu(value(13, "y", 3)),
    passes=relu(value(13, "y", 2)),
)
def find(context: CheckContext) -> Violations:
    """Yield inputs and outputs without a type, and values whose stated and inferred types exclude
    each other.
    """
    # Start-up
    from graphshare.checks.onnx_facts import infer_independently, list_incomplete, list_stated_types

    for end, node, missing in list_incomplete(context.graph):
        hint = "state it; where only the size is unknown, give that a name"
        yield Violation(f"{end} has no {missing}", node=node, hint=hint)
    for steps, graph in context.graphs:
        try:
            inferred = {} if steps else infer_independently(graph)
        except RefusedError as error:  # a limit, or a crash of native code
            yield Violation(error.faults[0].message, ("graph",), hint=error.faults[0].hint)
            inferred = {}
        for i, node in enumerate(graph.nodes):
            known: dict[str, tuple[str, StaticType]] = {}
            for where, name, stated in list_stated_types(node, inferred):
                first, other = known.setdefault(name, (where, stated))
                if stated.contradicts(other):
                    message = f"value {name!r} is {other} in {first} and {stated} in {where}"
                    yield Violation(
                        message,
                        (*steps, "nodes", i),
                        node,
                        hint="run onnx.shape_inference, or correct one of them",
                    )
