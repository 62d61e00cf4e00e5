"""GS610: a body's value with the name of an outer value."""

from graphshare.checks.rule import (
    CheckContext,
    Level,
    Violation,
    Violations,
    apply,
    branch,
    check_rule,
    model,
    value,
)


def _choose(name: str) -> bytes:
    body = apply("Relu", "x", name), apply("Relu", name, "z")
    branches = [
        branch(key, *body, apply("Relu", "z", key)) for key in ("then_branch", "else_branch")
    ]
    return model(apply("Relu", "x", "h"), apply("If", "c", "y", *branches), value(11, "x", 2), value(11, "c", dtype=9),
                 value(12, "y", 2))  # fmt: skip


@check_rule(
    level="error",
    summary="A body of an If, a Loop or a Scan has a name that is also around it",
    why="ONNX forbids that. Runtimes refuse the model where an operator of the body has such an output; inputs and "
    "initializers, and names that come later outside, they accept or not (a warning).",
    fails=_choose("h"),
    passes=_choose("own"),
)
def find(context: CheckContext) -> Violations:
    """Yield each such value."""
    # Start-up
    from graphshare.checks.onnx_facts import list_shadows

    hint = "give the value of the body a name of its own"
    for steps, node, name, is_refused in list_shadows(context.graph):
        message = f"value {name!r} of a body has the name of a value around it"
        yield Violation(
            message, steps, node, hint=hint, level=None if is_refused else Level.WARNING
        )
