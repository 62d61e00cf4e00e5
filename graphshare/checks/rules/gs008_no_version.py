"""GS008: a missing version."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="warning",
    summary="The graph does not say which MXNet wrote it",
    why=(
        "MXNet treats such a file as one of 0.8.0: it adds missing inputs, makes argmax along "
        "axis -1 flat and moves hidden "
        "keys. Files of 2015, whose nodes have param, never had a version and are not reported."
    ),
    fails=dense().replace(',\n "attrs": {"mxnet_version": ["int", 10901]}', ""),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield the file if its generation has versions."""
    if context.has_graph and context.graph.version is None and not _is_oldest(context):
        hint = 'add "attrs": {"mxnet_version": ["int", N]} with the version that wrote it, 10901 for 1.9.1'
        yield Violation(
            "has no mxnet_version, so MXNet treats it as a file of 0.8.0 and upgrades it", hint=hint
        )


def _is_oldest(context: CheckContext) -> bool:
    """Whether the file is of 2015: nodes have ``param``, and no version is needed."""
    forms = (node.form for node in context.graph.nodes)
    return any(form is not None and "param" in form.keys for form in forms)
