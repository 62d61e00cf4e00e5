"""A graph as MXNet 1.9.1 holds it after loading a file, and writes it back.

These are the steps of MXNet's own loader, in its order. A step runs for files older than the
version beside it; a file without a version counts as 0.8.0. They work on drafts: two of them change
variables while looking at operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from graphshare.analysis.name_lists import IMPLIED_BEFORE, list_implied_inputs
from graphshare.errors import Fault, RefusedError
from graphshare.formats.mxnet.source import VERSION, MxnetSource
from graphshare.ir.graph import EMPTY, Branch, Entry, Graph, Node, Rewrite, freeze
from graphshare.ir.rebuild import rebuild
from graphshare.ir.walk import post_order, reachable
from graphshare.ops.registry import canonical, lookup, total_outputs

WRITES_VERSION = 10901
ASSUMED_VERSION = 800
_HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
_CASTS = ("amp_cast", "amp_multicast")


class Draft:
    """A node while it is upgraded, compared by identity. Edges are ``(draft, index, version)``."""

    __slots__ = ("attrs", "control_deps", "inputs", "name", "node", "op", "subgraphs")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.op = node.op
        self.name = node.name
        self.attrs = dict(node.attrs)
        self.subgraphs = node.subgraphs
        self.inputs: list[tuple[Draft, int, int]] = []
        self.control_deps: list[Draft] = []

    @property
    def is_variable(self) -> bool:
        return not self.op

    def to_node(self) -> Node:
        """Return the upgraded node, its inputs still the nodes that were read.

        Attributes are sorted by the bytes of their keys, as in MXNet.
        """
        attrs = freeze(dict(sorted(self.attrs.items(), key=lambda item: item[0].encode())))
        inputs = tuple(
            [Entry(source.node, index, version) for source, index, version in self.inputs]
        )
        deps = tuple([dep.node for dep in self.control_deps])
        return Node(self.op, self.name, attrs, inputs, control_deps=deps, subgraphs=self.subgraphs)


def _make_drafts(graph: Graph) -> dict[Node, Draft]:
    drafts: dict[Node, Draft] = {}
    for node in reachable(graph):
        draft = drafts[node] = Draft(node)
        draft.inputs = [
            (drafts[entry.node], entry.index, entry.version or 0) for entry in node.inputs
        ]
        draft.control_deps = [drafts[dep] for dep in node.control_deps]
    return drafts


def upgrade_graph(graph: Graph, *, keep_amp_cast: bool = False) -> Rewrite:
    """Return a graph as MXNet 1.9.1 writes it: canonical names, one attribute map, implied inputs
    as nodes, its order.

    Unreachable nodes and graph attributes other than MXNet's own are dropped. ``keep_amp_cast``
    keeps the casts that ``Symbol.save`` removes by default.

    Raises RefusedError as :func:`graphshare.upgrade`.
    """
    drafts = _make_drafts(graph)
    order = list(drafts.values())
    faults = [fault for draft in order for fault in _unknown(draft)]
    RefusedError.raise_any(faults)
    version = graph.version if graph.version is not None else ASSUMED_VERSION
    for draft in order:
        draft.op = canonical(draft.op)
        _rename_attributes(draft)
    # Files of this version write hidden keys with underscores; a plain one is an unknown attribute.
    hidden = _take_hidden(order) if version < WRITES_VERSION else {}
    faults = [fault for draft in order for fault in _unparsable(draft)]
    if hidden:
        faults += _give_hidden(order, hidden)
    RefusedError.raise_any(faults)
    for before, step in _STEPS:
        if version < before:
            for draft in order:
                step(draft)
    if not keep_amp_cast:
        _remove_casts(order)
    return _finish(graph, drafts)


def _unknown(draft: Draft) -> Iterable[Fault]:
    signature = lookup(draft.op)
    if draft.is_variable or (
        signature is not None
        and signature.registered
        and signature.outputs(draft.attrs) is not None
    ):
        return
    if draft.op == "Custom":
        hint = "they are declared in the Python code that defines it; every other command works on the file"
        message = f"the inputs and outputs of the Custom operator {draft.attrs.get('op_type', '')!r} are unknown"
        yield Fault(message, node=draft.name, hint=hint)
    else:
        hint = (
            "MXNet 1.9.1 does not register it and refuses the file; every other command works on it"
        )
        yield Fault(f"operator {draft.op} is unknown", node=draft.name, hint=hint)


def list_refused_keys(graph: Graph) -> dict[Node, list[str]]:
    """Return, by operator, the hidden keys that MXNet refuses in an older file: step A finds no
    variable for them.
    """
    order = list(_make_drafts(graph).values())
    for draft in order:
        draft.op = canonical(draft.op)
    hidden = _take_hidden(order)
    _give_hidden(order, hidden)
    refused: dict[Node, list[str]] = {}
    for draft, pairs in hidden.items():
        keys = [key for key, _ in pairs if key in draft.attrs]
        if keys and _is_parsed_again(draft):
            refused[draft.node] = keys
    return refused


def _rename_attributes(draft: Draft) -> None:
    """Every load replaces MXNet 1.5's spelling of three int8 attributes; the old key wins."""
    signature = lookup(draft.op)
    for old, new in (signature.renamed_attributes if signature else EMPTY).items():
        if old in draft.attrs:
            draft.attrs[new] = draft.attrs.pop(old)


def _take_hidden(order: list[Draft]) -> dict[Draft, list[tuple[str, str]]]:
    """Set aside, before parsing, keys that begin or end with the plain spelling of a hidden
    attribute.
    """
    taken: dict[Draft, list[tuple[str, str]]] = {}
    for draft in order:
        for key in list(draft.attrs):
            if key.startswith(_HIDDEN) or key.endswith(_HIDDEN):
                taken.setdefault(draft, []).append((key, draft.attrs.pop(key)))
    return taken


def _give_hidden(order: list[Draft], hidden: dict[Draft, list[tuple[str, str]]]) -> list[Fault]:
    """Step A: ``lr_mult`` becomes ``__lr_mult__``; an operator's ``weight_lr_mult`` moves to
    ``weight``.

    A key that fits neither is put back. An operator with typed attributes does not accept that.
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
                if _is_parsed_again(draft):
                    message = f"attribute {key!r} does not belong to {draft.op}"
                    hint = "MXNet refuses the file for it"
                    faults.append(Fault(message, node=draft.name, hint=hint))
    return faults


def _is_parsed_again(draft: Draft) -> bool:
    """All but MXNet's oldest operators parse attributes again after step A."""
    signature = lookup(draft.op)
    return (
        signature is not None
        and signature.parameters is not None
        and not signature.is_operator_property
    )


def _owner(draft: Draft, formal: str) -> Draft | None:
    signature = lookup(draft.op)
    if signature is None:
        return None
    names = signature.input_names(draft.attrs, len(draft.inputs), subgraphs=draft.subgraphs)
    if names is None or formal not in names:
        return None
    slot = names.index(formal)
    if slot >= len(draft.inputs):
        return None
    owner = draft.inputs[slot][0]
    return owner if owner.is_variable else None


def _unparsable(draft: Draft) -> Iterable[Fault]:
    signature = lookup(draft.op)
    if signature is not None:
        for fault in signature.parse(draft.attrs)[1]:
            yield Fault(fault.message, node=draft.name, hint="MXNet refuses the file for it")


def _add_implied(draft: Draft) -> None:
    """Step C: missing inputs become variables named after the operator, with its attributes."""
    if not draft.is_variable:
        for implied in list(list_implied_inputs(draft.to_node())):
            draft.inputs.append((Draft(Node("", implied.name, draft.attrs)), 0, 0))


def _add_initializers(draft: Draft) -> None:
    """Step D: operators with a default initializer write it on their variables."""
    signature = lookup(draft.op)
    initializers: Mapping[int, str] = signature.initializers if signature else {}
    for slot, text in initializers.items():
        if slot < len(draft.inputs) and draft.inputs[slot][0].is_variable:
            draft.inputs[slot][0].attrs.setdefault("__init__", text)


def _flatten_argmax(draft: Draft) -> None:
    """Step E: remove ``axis=-1``, the older spelling of all axes."""
    if draft.op in ("argmax", "argmin") and draft.attrs.get("axis") == "-1":
        del draft.attrs["axis"]


_STEPS: tuple[tuple[int, Callable[[Draft], None]], ...] = (
    (IMPLIED_BEFORE, _add_implied),
    (904, _add_initializers),
    (905, _flatten_argmax),
)


def _remove_casts(order: list[Draft]) -> None:
    """Let consumers of a cast read its input and version, unless a head or control dependency names
    it.

    Raises:
        RefusedError: a cast has no input for one of its consumers; MXNet crashes on that.
    """
    faults = [
        Fault(f"{source.op} has no input {index} for its consumer {draft.name!r}", node=source.name)
        for draft in order
        for source, index, _ in draft.inputs
        if source.op in _CASTS and index >= len(source.inputs)
    ]
    RefusedError.raise_any(faults)
    for draft in order:
        draft.inputs = [_behind_casts(edge) for edge in draft.inputs]


def _behind_casts(edge: tuple[Draft, int, int]) -> tuple[Draft, int, int]:
    while edge[0].op in _CASTS:
        edge = edge[0].inputs[edge[1]]
    return edge


def _finish(graph: Graph, drafts: dict[Node, Draft]) -> Rewrite:
    for draft in drafts.values():
        draft.subgraphs = tuple(map(_upgrade_subgraph, draft.subgraphs))
    images, heads = _build(graph, drafts)
    attrs: dict[str, list[object]] = {VERSION: ["int", WRITES_VERSION]}
    np_shape = graph.attrs.get("is_np_shape")
    if isinstance(np_shape, (list, tuple)) and len(np_shape) == 2 and np_shape[1]:
        # MXNet writes this key before the version.
        attrs = {"is_np_shape": ["int", 1], **attrs}
    nodes = tuple(post_order(entry.node for entry in heads))
    # Removed casts have images that no node reads.
    remaining = set(nodes)
    kept = {node: images[node] for node in drafts if images[node] in remaining}
    return Rewrite(Graph(nodes, heads, freeze(attrs), MxnetSource()), (Branch("", graph, kept),))


def _upgrade_subgraph(graph: Graph) -> Graph:
    """Canonicalize names and counts; no other step runs here, and MXNet drops attributes."""
    drafts = _make_drafts(graph)
    for draft in drafts.values():
        draft.op = canonical(draft.op)
        _rename_attributes(draft)
        draft.subgraphs = tuple(map(_upgrade_subgraph, draft.subgraphs))
    images, heads = _build(graph, drafts)
    source = MxnetSource(keys=("nodes", "arg_nodes", "node_row_ptr", "heads"))
    return Graph(tuple(images.values()), heads, EMPTY, source)


def _build(
    graph: Graph, drafts: Mapping[Node, Draft]
) -> tuple[dict[Node, Node], tuple[Entry, ...]]:
    implied = [
        source
        for draft in drafts.values()
        for source, _, _ in draft.inputs
        if source.node not in drafts
    ]
    by_node = {**{draft.node: draft for draft in implied}, **drafts}

    def change(node: Node) -> Node:
        upgraded = by_node[node].to_node()
        return replace(upgraded, num_outputs=total_outputs(upgraded))

    images = rebuild(list(by_node), change)
    heads = [Entry(images[entry.node], entry.index, entry.version or 0) for entry in graph.heads]
    return images, tuple(heads)
