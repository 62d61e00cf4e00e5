"""GS506: a prefix before a beginning that MXNet recognizes."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)

_STARTS = ("upsampling", "stn_loc")
_ATTRS = {"kernel": "(4, 4)", "num_filter": "2", "stride": "(2, 2)"}


def _upsampling(name: str) -> str:
    return symbol(
        variable("data"),
        variable(f"{name}_weight"),
        operator("Deconvolution", name, 0, 1, **_ATTRS),
    )


@check_rule(
    level="note",
    summary="A prefix hides upsampling or stn_loc, which MXNet looks for at the start of a name",
    why=(
        "Parameters called upsampling... are initialized bilinearly, stn_loc... specially; this "
        "matters only for training."
    ),
    fails=_upsampling("sha-upsampling0"),
    passes=_upsampling("upsampling0"),
)
def find(context: CheckContext) -> Violations:
    """Yield parameters with such names."""
    for node, _ in context.parameters:
        if "__init__" in node.attrs:
            continue
        start = next((s for s in _STARTS if s in node.name and not node.name.startswith(s)), None)
        if start is not None:
            message = f"{node.name!r} no longer starts with {start!r}, so it is initialized like any other"
            hint = "give the variable an __init__ attribute"
            yield Violation(message, node=node, hint=hint)
