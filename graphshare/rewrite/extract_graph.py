"""The minimal subgraph for some outputs, cut at others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from graphshare.analysis.name_lists import name_outputs, resolve_targets
from graphshare.errors import Fault, RefusedError
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.rebuild import StoredNames, rebuild, relink, rename_node
from graphshare.ir.walk import list_value_places, topological
from graphshare.text.names import TakenNames


def extract_graph(graph: Graph, targets: Sequence[str], *, cuts: Sequence[str] = ()) -> Rewrite:
    """Extract the minimal subgraph for ``targets``; outputs ``cuts`` become variables of those
    names.

    Raises:
        RefusedError: names that the graph lacks or that no target needs.
    """
    nodes = topological(graph)
    faults: list[Fault] = []
    entries: list[list[Entry]] = []
    for names, option in ((targets, "`targets`"), (cuts, "`cuts`")):
        try:
            entries.append(resolve_targets(names, nodes, option=option, heads=graph.heads))
        except RefusedError as error:
            faults.extend(error.faults)
    if not targets:
        hint = "name an output with `targets`; `gs.inspect` lists them"
        faults.append(Fault("no target is given", hint=hint))
    RefusedError.raise_any(faults)
    places = list_value_places(entries[1])
    named = dict(zip(places, name_outputs(graph, entries[1]), strict=True))
    reached = _find_reached(entries[0], named)
    # A node cut by its own name needs only one active output.
    active = {node for node, _ in reached}
    named = {
        key: name
        for key, name in named.items()
        if key in reached or key[0] not in active or name in cuts
    }
    return extract_entries(graph, entries[0], cuts=named)


def extract_entries(
    graph: Graph,
    targets: Sequence[Entry],
    *,
    cuts: Mapping[tuple[Node, int], str] | None = None,
    inputs: Mapping[tuple[Node, int], Node] | None = None,
) -> Rewrite:
    """Extract the nodes that ``targets`` need, in file order, with ``targets`` as the heads.

    ``cuts`` maps an output, as a node and an index, to the name of the variable that replaces it,
    and ``inputs`` to that variable if the caller knows its type. Other nodes keep their identity,
    unless a cut changes their inputs or takes a name that they store.

    Raises:
        RefusedError: a cut lies on no path to a target, its name belongs to a remaining node, or
            the format requires the unknown type of a cut output.
    """
    cuts = cuts or {}
    reached = _find_reached(targets, cuts) if cuts else {}
    if inputs is not None:
        # Callers may pass more variables than the targets need; users' cuts are refused for that.
        cuts, variables = reached, {key: inputs[key] for key in reached}
    else:
        variables = dict(find_format(graph).editing.make_inputs(graph, reached)) if reached else {}

    def redirect(entry: Entry, _: Node | None = None) -> Entry | None:
        variable = variables.get((entry.node, entry.index))
        return None if variable is None else Entry(variable, 0, entry.version)

    needed = _find_needed(targets, cuts)
    renames = _free_names(graph, needed, cuts)

    def rename(node: Node) -> Node:
        return rename_node(node, *renames[node]) if node in renames else node

    kept = [node for node in topological(graph) if node in needed]
    images = rebuild(kept, rename, redirect=redirect if cuts else None)
    heads = tuple(redirect(entry) or relink(entry, images) for entry in targets)
    _check_cuts(cuts, variables, images)
    nodes = _order_nodes(graph, images, variables)
    source = graph.source.after_rewrite(images)
    result = replace(graph, nodes=tuple(nodes), heads=heads, source=source)
    return Rewrite(result, (Branch("", graph, images),))


def _find_needed(targets: Sequence[Entry], cuts: Mapping[tuple[Node, int], str]) -> set[Node]:
    needed: set[Node] = set()
    stack = [entry.node for entry in targets if (entry.node, entry.index) not in cuts]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        stack.extend(entry.node for entry in node.inputs if (entry.node, entry.index) not in cuts)
        stack.extend(node.control_deps)
    return needed


def _find_reached(
    targets: Sequence[Entry], cuts: Mapping[tuple[Node, int], str]
) -> dict[tuple[Node, int], str]:
    entries = [*targets, *(entry for node in _find_needed(targets, cuts) for entry in node.inputs)]
    reached = set(list_value_places(entries))
    return {key: name for key, name in cuts.items() if key in reached}


def _free_names(
    graph: Graph, needed: Collection[Node], cuts: Mapping[tuple[Node, int], str]
) -> dict[Node, tuple[str, StoredNames]]:
    """Rename remaining nodes that store the name of a cut output."""
    concerned = dict.fromkeys(
        node for node, index in cuts if node in needed and index < len(node.details.outputs)
    )
    if not concerned:
        return {}
    taken = TakenNames(name for node in graph.nodes for name in (node.name, *node.details.outputs))
    renames: dict[Node, tuple[str, StoredNames]] = {}
    for node in concerned:
        old = node.details.outputs
        new = list(old)
        for index, output in enumerate(old):
            if cuts.get((node, index)) == output:
                new[index] = taken.take(output)
        name = node.name
        if name in old:
            name = new[old.index(name)]
        renames[node] = name, StoredNames(tuple(new), node.details.label)
    return renames


def _order_nodes(
    graph: Graph, images: Mapping[Node, Node], variables: Mapping[tuple[Node, int], Node]
) -> list[Node]:
    by_node: dict[Node, list[Node]] = {}
    for (node, _), variable in sorted(variables.items(), key=lambda item: item[0][1]):
        by_node.setdefault(node, []).append(variable)
    nodes: list[Node] = []
    for node in topological(graph):
        nodes.extend(by_node.get(node, ()))
        if node in images:
            nodes.append(images[node])
    return list(dict.fromkeys(nodes))  # one variable may take the place of several outputs


def _check_cuts(
    cuts: Mapping[tuple[Node, int], str],
    used: Collection[tuple[Node, int]],
    images: Mapping[Node, Node],
) -> None:
    faults = []
    names = {node.name for node in images.values()}
    for key, name in cuts.items():
        if key not in used:
            message = f"`cuts` {name!r} is not needed by any target"
            hint = (
                "a cut must lie between the targets and the inputs; another cut may stand before it"
            )
            faults.append(Fault(message, hint=hint))
        elif name in names:
            message = f"`cuts` {name!r}: a node of that name stays in the graph"
            faults.append(Fault(message, hint="rename that node first"))
    RefusedError.raise_any(faults)
