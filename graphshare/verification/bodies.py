"""Bodies of If, Loop and Scan as models of their own: two models are compared there on the values of a first pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.rebuild import keep, rebuild, relink
from graphshare.ir.terms import GraphTerms, Place
from graphshare.ir.walk import Body, list_bodies, list_operands, own_inputs, post_order
from graphshare.ops.kernel import Array
from graphshare.verification.region_plan import Cone, Pair, RegionPlan, Side, get_place, name_dtype

Read = Callable[[Entry], Any]
"""Returns a value of the original."""
_COUNTERS = (np.array(0, np.int64), np.array(True))  # the number of a Loop's pass, and whether there is one


class BodyPair(msgspec.Struct, eq=False):
    """One body of two operators as models whose inputs have equal names; ``place`` names the body and its operator."""

    place: str
    models: tuple[Checkpoint, Checkpoint]
    heads: list[Pair]
    feeds: dict[str, Array]


def find_decided(side: Side, terms: GraphTerms) -> dict[Node, Body]:
    """Return the Ifs of a constant, each with the body that it computes."""
    format_, decided = find_format(side.model.graph), dict[Node, Body]()
    for node in side.nodes:
        switch = format_.find_switch(node)
        truth = None if switch is None else terms.form.find_truth(terms.of(switch[0]))
        if switch is not None and truth is not None:
            decided[node] = switch[1][0 if truth else 1]
    return decided


def choose_bodies(side: Side, decided: Mapping[Node, Body]) -> tuple[Checkpoint, tuple[Entry, ...]] | None:
    """Return a model with bodies in the places of their Ifs, and its heads; None where names would clash, or there are none."""
    graph = side.model.graph
    links: dict[Place, Entry] = {}
    order: list[Node] = []
    for node in side.nodes:
        if node not in decided:
            order.append(node)
            continue
        body = decided[node]
        links.update({(variable, 0): entry for variable, entry in body.captured.items()})
        links.update({(node, index): head for index, head in enumerate(body.graph.heads)})
        order += [inner for inner in post_order(head.node for head in body.graph.heads) if (inner, 0) not in links]
    names = [name for node in order for name in node.details.outputs if name]
    if not links or len(set(names)) < len(names):
        return None
    images: dict[Node, Node] = {}

    def redirect(entry: Entry, _: Node | None = None) -> Entry:
        # A body may return what it captures, and that may come from another If that gave way.
        while get_place(entry) in links:
            entry = links[get_place(entry)]
        return relink(entry, images)

    rebuild(order, keep, redirect=redirect, images=images)
    heads = tuple(map(redirect, side.heads))
    nodes = tuple(post_order(head.node for head in heads))
    return msgspec.structs.replace(side.model, graph=Graph(nodes, heads, graph.attrs, graph.source, graph.extra)), heads


def pair_owners(plan: RegionPlan, cone: Cone) -> Iterator[tuple[Node, Node, dict[int, int]]]:
    """Yield the operators of a region whose bodies can be compared one by one, with the outputs that belong together."""
    lefts, rights = ([node for node in side if node.subgraphs] for side in (cone.left, cone.right))
    for a, b in zip(lefts, rights, strict=True) if len(lefts) == len(rights) else ():
        # Only operators of one meaning on equal operands give their bodies the same arguments.
        if a.op == b.op and a.details.values == b.details.values and list_bodies(a).keys() == list_bodies(b).keys():
            operands = [[plan.find_term(terms, e) for e in own_inputs(n)] for terms, n in ((plan.left, a), (plan.right, b))]
            outputs = _pair_outputs(plan, a, b)
            if operands[0] == operands[1] and outputs:
                yield a, b, outputs


def _pair_outputs(plan: RegionPlan, a: Node, b: Node) -> dict[int, int]:
    """Return which outputs of two operators belong together: those at the ends of regions, or all in their order."""
    if a.op != "If":
        return {index: index for index in range(a.num_outputs or 0)} if a.num_outputs == b.num_outputs else {}
    pairs: dict[int, int] = {}
    for x, y in (end for cone in plan.cones for end in cone.ends):
        i, j = _find_output(plan, plan.left, a, x), _find_output(plan, plan.right, b, y)
        if i is not None and j is not None:
            pairs[i] = j
    return pairs


def _find_output(plan: RegionPlan, terms: GraphTerms, node: Node, end: Entry) -> int | None:
    """Return which output of an operator a value is, also behind operators that change nothing."""
    if end.node is node:
        return end.index
    term = plan.uncut.get(get_place(end), terms.of(end))
    places = [(node, index) for index in range(node.num_outputs or 0)]
    return next((place[1] for place in places if plan.uncut.get(place, terms.terms[place]) == term), None)


def open_bodies(
    sides: Sequence[Side], plan: RegionPlan, owners: tuple[Node, Node], outputs: Mapping[int, int], read: Read
) -> list[BodyPair]:
    """Return the bodies of two operators as models; none where what they are given is not known, or not an array."""

    def read_source(entry: Entry) -> Any:
        source = plan.sources.get(plan.find_term(plan.right, entry))
        return None if source is None else read(source)

    node = owners[0]
    operands = [None if entry is None else read(entry) for entry in list_operands(node)]
    arguments = find_format(sides[0].model.graph).start_body(node, operands, _COUNTERS)
    others = list_bodies(owners[1])
    pairs = []
    for key, body in list_bodies(node).items() if arguments is not None else ():
        feeds = {f"argument {number}": value for number, value in enumerate(arguments or ())}
        scalars = list(feeds)[: len(_COUNTERS)] if node.op == "Loop" else []
        left = _open_body(sides[0], plan, plan.left, body, scalars, feeds, read)
        right = _open_body(sides[1], plan, plan.right, others[key], scalars, feeds, read_source)
        if left is None or right is None:
            return []
        heads = left.graph.heads, right.graph.heads
        # The body of a Loop also returns its condition, so its heads are not the outputs of the operator.
        matched = outputs if node.op == "If" else {number: number for number in range(len(heads[0]))}
        place = f"{key} of {output_name(Entry(node, 0))!r}"
        pairs.append(BodyPair(place, (left, right), [(heads[0][i], heads[1][j]) for i, j in matched.items()], feeds))
    return pairs


def _open_body(
    side: Side, plan: RegionPlan, terms: GraphTerms, body: Body, scalars: Sequence[str], feeds: dict[str, Array], read: Read
) -> Checkpoint | None:
    """Return a body as a model, and add the values of what it captures to ``feeds``; None where one is not known.

    Constants that it captures are constants of the model. ``feeds`` has its arguments, of which ``scalars`` have no axes.
    """
    format_, graph = find_format(side.model.graph), side.model.graph
    links: dict[Place, Entry] = {}
    outer: dict[Node, Node] = {}
    for variable, entry in body.captured.items():
        # Constants stay constants of the body's model: identities and axes need their values, not an input.
        needed = post_order([entry.node]) if terms.key(entry)[0] == "constant" else []
        if needed and all(node.op or node.details.holds_value for node in needed):
            outer.update({node: node for node in needed})
            links[variable, 0] = entry
            continue
        name = f"captured {plan.find_term(terms, entry)}"
        value = feeds[name] if name in feeds else read(entry)
        if not isinstance(value, np.ndarray):
            return None
        feeds[name] = value
        dtype, shape = side.find_parts(entry)
        links[variable, 0] = Entry(format_.make_input(name, dtype or name_dtype(value), shape))
    arguments = [name for name in feeds if name.startswith("argument ")]
    body_inputs = [node for node in body.graph.nodes if node.details.holds_value is False and node not in body.captured]
    if len(body_inputs) != len(arguments):
        return None
    for node, name in zip(sorted(body_inputs, key=lambda node: node.details.values["position"]), arguments, strict=True):
        # The sizes of other arguments may change from one pass to the next.
        shape = () if name in scalars else None
        links[node, 0] = Entry(format_.make_input(name, name_dtype(feeds[name]), shape))
    own = [node for node in post_order(head.node for head in body.graph.heads) if get_place(Entry(node)) not in links]
    images = rebuild(own, keep, redirect=lambda entry, _: links.get(get_place(entry)), images=outer)
    heads = tuple(links.get(get_place(head)) or relink(head, images) for head in body.graph.heads)
    nodes = tuple(post_order(head.node for head in heads))
    return msgspec.structs.replace(side.model, graph=Graph(nodes, heads, graph.attrs, graph.source, graph.extra))


def chooses_bodies(node: Node) -> bool:
    """Whether an operator computes one of its bodies alone, or has one inside that does."""
    inner = (each for body in list_bodies(node).values() for each in body.graph.nodes if each.subgraphs)
    return node.op == "If" or any(map(chooses_bodies, inner))
