"""What MXNet 1.9.1 holds after loading a file, and writes back.

The steps are those of MXNet's own loader, in its order; a step runs for files older than the version beside it, and a file
without a version counts as 0.8.0. They work on drafts, because two of them change variables while looking at operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from graphshare.analysis.implied import IMPLIED_BEFORE, implied_inputs
from graphshare.analysis.name_lists import total_outputs
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import EMPTY, VARIABLE, Branch, Dialect, Entry, Graph, Node, Rewrite
from graphshare.ir.walk import post_order
from graphshare.operators.properties import OPERATOR_PROPERTIES
from graphshare.operators.registry import canonical, lookup
from graphshare.rewrite.draft import Draft, drafts_of

WRITES_VERSION = 10901
ASSUMED_VERSION = 800
_HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
_CASTS = ("amp_cast", "amp_multicast")


def upgrade(graph: Graph, *, keep_amp_cast: bool = False) -> Rewrite:
    """``graph`` as MXNet 1.9.1 writes it after loading: canonical names, one attribute map, implied inputs as nodes, its order.

    Unreachable nodes are dropped, graph attributes other than MXNet's own too. ``keep_amp_cast`` keeps the casts that
    ``Symbol.save`` removes by default.

    Raises:
        RefusedError: MXNet would not load the file, or this package does not know an operator well enough to tell; every such
            node is listed.
    """
    order, drafts = drafts_of(graph)
    faults = [fault for draft in order for fault in _unknown(draft)]
    if faults:
        raise RefusedError(faults)
    version = graph.version if graph.version is not None else ASSUMED_VERSION
    for draft in order:
        draft.op = canonical(draft.op) if draft.op != VARIABLE else draft.op
        _rename_attributes(draft)
    hidden = _take_hidden(order) if version < WRITES_VERSION else {}
    faults = [fault for draft in order for fault in _unparsable(draft)]
    if hidden:
        faults += _give_hidden(order, hidden)
    if faults:
        raise RefusedError(faults)
    for before, step in _STEPS:
        if version < before:
            for draft in order:
                step(draft)
    heads = [(drafts[entry.node], entry.index, entry.version or 0) for entry in graph.heads]
    if not keep_amp_cast:
        _remove_casts(order)
    return _frozen(graph, drafts, heads)


def _unknown(draft: Draft) -> Iterable[Fault]:
    signature = lookup(draft.op) if draft.op != VARIABLE else None
    if draft.op == VARIABLE or (signature is not None and signature.registered and signature.outputs(draft.attrs) is not None):
        return
    if draft.op == "Custom":
        hint = "its inputs and outputs are declared in the Python code that defines it"
        yield Fault(f"Custom operator {draft.attrs.get('op_type', '')!r} cannot be vouched for", node=draft.name, hint=hint)
    else:
        hint = "MXNet 1.9.1 does not register it and refuses the file; every other command works on it"
        yield Fault(f"operator {draft.op} is unknown", node=draft.name, hint=hint)


def refused_hidden_keys(graph: Graph) -> dict[Node, list[str]]:
    """The hidden keys of a file older than MXNet that it refuses: step A finds no variable for them. By operator."""
    order, drafts = drafts_of(graph)
    for draft in order:
        draft.op = canonical(draft.op) if draft.op != VARIABLE else draft.op
    hidden = _take_hidden(order)
    _give_hidden(order, hidden)
    nodes = {draft: node for node, draft in drafts.items()}
    return {
        nodes[draft]: keys
        for draft, pairs in hidden.items()
        if draft.op != VARIABLE and _is_parsed_again(draft) and (keys := [key for key, _ in pairs if key in draft.attrs])
    }


def _rename_attributes(draft: Draft) -> None:
    """MXNet 1.5's spelling of three int8 attributes, replaced at every load; the old key wins if both are there."""
    signature = lookup(draft.op) if draft.op != VARIABLE else None
    for old, new in (signature.renamed_attributes if signature else EMPTY).items():
        if old in draft.attrs:
            draft.attrs[new] = draft.attrs.pop(old)


def _take_hidden(order: list[Draft]) -> dict[Draft, list[tuple[str, str]]]:
    """Sets aside, before parsing, keys that begin or end with the plain spelling of a hidden attribute."""
    taken: dict[Draft, list[tuple[str, str]]] = {}
    for draft in order:
        for key in [key for key in draft.attrs if any(key.startswith(h) or key.endswith(h) for h in _HIDDEN)]:
            taken.setdefault(draft, []).append((key, draft.attrs.pop(key)))
    return taken


def _give_hidden(order: list[Draft], hidden: dict[Draft, list[tuple[str, str]]]) -> list[Fault]:
    """Step A: ``lr_mult`` becomes ``__lr_mult__``; ``weight_lr_mult`` on an operator moves to its variable ``weight``.

    A key that fits neither goes back where it was, which an operator with typed attributes does not accept.
    """
    faults = []
    for draft in order:
        for key, value in hidden.get(draft, ()):
            name = next((h for h in _HIDDEN if key.endswith(h)), None)
            variable = _owner(draft, key.removesuffix(f"_{name}")) if name and key != name else None
            if key == name:
                draft.attrs[f"__{name}__"] = value
            elif variable is not None:
                variable.attrs[f"__{name}__"] = value
            else:
                draft.attrs[key] = value
                if draft.op != VARIABLE and _is_parsed_again(draft):
                    hint = "MXNet refuses the file for it"
                    faults.append(Fault(f"attribute {key!r} is none of {draft.op}'s", node=draft.name, hint=hint))
    return faults


def _is_parsed_again(draft: Draft) -> bool:
    """Whether MXNet objects to a key that step A put back: it reads the attributes again, but not those of its oldest kind."""
    signature = lookup(draft.op)
    return signature is not None and signature.parameters is not None and draft.op not in OPERATOR_PROPERTIES


def _owner(draft: Draft, formal: str) -> Draft | None:
    """The variable at input ``formal`` of an operator that names its inputs."""
    signature = lookup(draft.op) if draft.op != VARIABLE else None
    names = signature.input_names(draft.attrs, len(draft.inputs), subgraphs=draft.subgraphs) if signature else None
    if names is None or formal not in names or names.index(formal) >= len(draft.inputs):
        return None
    owner = draft.inputs[names.index(formal)][0]
    return owner if owner.op == VARIABLE else None


def _unparsable(draft: Draft) -> Iterable[Fault]:
    signature = lookup(draft.op) if draft.op != VARIABLE else None
    if signature is not None:
        for fault in signature.parse(draft.attrs)[1]:
            yield Fault(fault.message, node=draft.name, hint="MXNet refuses the file for it")


def _add_implied(draft: Draft) -> None:
    """Step C: missing inputs become variables named after the operator, each with a copy of its attributes."""
    if draft.op != VARIABLE:
        for implied in implied_inputs(
            Node(draft.op, draft.name, draft.attrs, draft.placeholder_inputs(), subgraphs=draft.subgraphs)
        ):
            draft.inputs.append((Draft(VARIABLE, implied.name, dict(draft.attrs)), 0, 0))


def _add_initializers(draft: Draft) -> None:
    """Step D: operators with a default initialiser write it on the variables that feed them."""
    signature = lookup(draft.op) if draft.op != VARIABLE else None
    initializers: Mapping[int, str] = signature.initializers if signature else {}
    for slot, text in initializers.items():
        if slot < len(draft.inputs) and draft.inputs[slot][0].op == VARIABLE:
            draft.inputs[slot][0].attrs.setdefault("__init__", text)


def _flatten_argmax(draft: Draft) -> None:
    """Step E: ``axis=-1`` meant all axes; now its absence does."""
    if draft.op in ("argmax", "argmin") and draft.attrs.get("axis") == "-1":
        del draft.attrs["axis"]


_STEPS: tuple[tuple[int, Callable[[Draft], None]], ...] = (
    (IMPLIED_BEFORE, _add_implied),
    (904, _add_initializers),
    (905, _flatten_argmax),
)


def _remove_casts(order: list[Draft]) -> None:
    """Consumers of a cast take over its own input, version included. One that a head or a control dependency names stays.

    Raises:
        RefusedError: a consumer of a cast finds no input behind it; MXNet crashes on that.
    """
    faults = [
        Fault(f"{source.op} has no input {index} for its consumer {draft.name!r}", node=source.name)
        for draft in order
        for source, index, _ in draft.inputs
        if source.op in _CASTS and index >= len(source.inputs)
    ]
    if faults:
        raise RefusedError(faults)
    for draft in order:
        draft.inputs = [_behind_casts(edge) for edge in draft.inputs]


def _behind_casts(edge: tuple[Draft, int, int]) -> tuple[Draft, int, int]:
    while edge[0].op in _CASTS:
        edge = edge[0].inputs[edge[1]]
    return edge


def _frozen(graph: Graph, drafts: dict[Node, Draft], heads: list[tuple[Draft, int, int]]) -> Rewrite:
    made: dict[Draft, Node] = {}
    for draft in _walk(head for head, _, _ in heads):
        made[draft] = draft.freeze(made, tuple(map(_upgraded_subgraph, draft.subgraphs)))
    entries = tuple(Entry(made[draft], index, version) for draft, index, version in heads)
    attrs: dict[str, list[object]] = {"mxnet_version": ["int", WRITES_VERSION]}
    np_shape = graph.attrs.get("is_np_shape")
    if isinstance(np_shape, (list, tuple)) and len(np_shape) == 2 and np_shape[1]:
        attrs = {"is_np_shape": ["int", 1], **attrs}
    nodes = tuple(node for node in made.values())
    images = {node: made[draft] for node, draft in drafts.items() if draft in made}
    return Rewrite(Graph(nodes, entries, attrs, Dialect()), (Branch("", graph, images),))


def _walk(roots: Iterable[Draft]) -> Iterable[Draft]:
    """Drafts in MXNet's order."""
    order: list[Draft] = []
    seen: set[Draft] = set()
    stack: list[tuple[Draft, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        draft, entered = stack.pop()
        if entered:
            order.append(draft)
        elif draft not in seen:
            seen.add(draft)
            stack.append((draft, True))
            stack.extend((dep, False) for dep in reversed(draft.control_deps))
            stack.extend((source, False) for source, _, _ in reversed(draft.inputs))
    return order


def _upgraded_subgraph(graph: Graph) -> Graph:
    """A sub-graph: canonical names and counts, but no step of the table; MXNet drops its attributes."""
    made: dict[Node, Node] = {}
    for node in post_order(entry.node for entry in graph.heads):
        draft = Draft(canonical(node.op) if node.op != VARIABLE else node.op, node.name, dict(node.attrs))
        _rename_attributes(draft)
        inputs = tuple(Entry(made[e.node], e.index, e.version or 0) for e in node.inputs)
        deps = tuple(made[dep] for dep in node.control_deps)
        subgraphs = tuple(map(_upgraded_subgraph, node.subgraphs))
        attrs = dict(sorted(draft.attrs.items(), key=lambda item: item[0].encode()))
        shell = Node(draft.op, node.name, attrs, inputs, None, deps, subgraphs)
        made[node] = Node(draft.op, node.name, attrs, inputs, total_outputs(shell), deps, subgraphs)
    heads = tuple(Entry(made[e.node], e.index, e.version or 0) for e in graph.heads)
    return Graph(tuple(made.values()), heads, EMPTY, Dialect(keys=("nodes", "arg_nodes", "node_row_ptr", "heads")))
