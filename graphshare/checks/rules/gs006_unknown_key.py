"""GS006: keys that MXNet does not know."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense
from graphshare.formats.mxnet.document import GRAPH_KEYS, NODE_KEYS
from graphshare.text.names import did_you_mean


@check_rule(
    level="error",
    summary="A graph or a node has a key that MXNet does not know",
    why="MXNet refuses the file: JSONReader: Unknown field.",
    fails=dense().replace('"arg_nodes"', '"comment": "made by hand",\n "arg_nodes"'),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield unknown keys of graphs and nodes."""
    for steps, graph in context.documents:
        for key in graph.keys() - GRAPH_KEYS:
            message, hint = f"the graph has the unknown key {key!r}", _hint(key, GRAPH_KEYS)
            yield Violation(message, (*steps, key), hint=hint)
        for i, node in enumerate(graph["nodes"]):
            if NODE_KEYS.issuperset(node):
                continue
            for key in [key for key in node if key not in NODE_KEYS]:
                message, hint = f"the node has the unknown key {key!r}", _hint(key, NODE_KEYS)
                place = (*steps, "nodes", i, key)
                yield Violation(message, place, name=node["name"], hint=hint)


def _hint(key: str, known: frozenset[str]) -> str:
    return (
        did_you_mean(key, sorted(known))
        or "remarks belong in a node's attributes, under a key like __note__"
    )
