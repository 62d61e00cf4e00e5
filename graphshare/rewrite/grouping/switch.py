"""``group --switch``: two graphs as bodies of one If with shared weights, and one of them alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import list_parameters
from graphshare.errors import BUG, Fault, RefusedError, SelfCheckError
from graphshare.formats.facets import StaticType, Switches
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName, compare_parameters, hash_array
from graphshare.formats.params.records import Record
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Branch, Entry, Graph, Node, NodeDetails, Rewrite
from graphshare.ir.rebuild import rebuild, relink, relink_all, rename_node
from graphshare.ir.walk import Body, topological
from graphshare.rewrite.extract_graph import extract_entries
from graphshare.rewrite.grouping.join import Member
from graphshare.rewrite.grouping.plan import (
    find_incompatibilities,
    follow_member,
    list_renamed_functions,
)
from graphshare.rewrite.tie import assign_sharing_roles
from graphshare.text.format import format_count, format_names
from graphshare.text.names import TakenNames

OPTION = "`switch`"


class Switching(Rewrite, frozen=True, eq=False, gc=False, kw_only=True):
    """A rewrite of two graphs to one; ``shared`` maps parameters of the second to the first's."""

    members: tuple[Member, ...]
    shared: Mapping[Node, Node]


class _Side(NamedTuple):
    """One of the two graphs; ``variables`` are True for an input."""

    member: Member
    graph: Graph
    variables: Mapping[Node, bool]
    inputs: Mapping[str, Node]
    parameters: Sequence[Node]
    types: Mapping[tuple[Node, int], StaticType]

    def find_type(self, entry: Entry) -> StaticType | None:
        return self.types.get((entry.node, entry.index))

    def index_records(self) -> RecordsByName | None:
        params = self.member.params
        return None if params is None else RecordsByName(params)


def plan_switch(members: Sequence[Member], name: str) -> Switching:
    """Return one graph: the first of two if the input ``name`` is true, else the second.

    Inputs of one name become one input, outputs of one name one output. Other outputs are paired by
    position and get the first graph's names. Parameters of equal dtype, shape and bytes become one
    initializer, even under different names. Of different parameters with one name, the second gets
    a number.

    Raises:
        RefusedError: the graphs do not fit together.
    """
    format_ = find_format(members[0].graph)
    switches = format_.demand(
        format_.switches, Operation.SWITCH, what=OPTION, where=members[0].label
    )
    separated = list(format_.separate([member.graph for member in members]))
    faults = find_incompatibilities(
        [replace(m, graph=graph) for m, (graph, _) in zip(members, separated, strict=True)]
    )
    if len(members) != 2:
        hint = (
            "an If has two branches; switch between the result and a third graph under another name"
        )
        faults.append(Fault(f"{OPTION} takes two graphs, not {len(members)}", hint=hint))
    RefusedError.raise_any(faults)
    graphs = [graph for graph, _ in separated]
    graphs[1], by_position, unpaired = _pair_outputs(members, graphs)
    left, right = sides = [
        _describe_side(member, graph) for member, graph in zip(members, graphs, strict=True)
    ]
    heads = [] if unpaired else list(zip(left.graph.heads, right.graph.heads, strict=True))
    faults = [*unpaired, *_find_faults(left, right, name, heads, switches)]
    RefusedError.raise_any(faults)
    shared = _find_equal(left, right)
    images = _place_variables(left, right, shared, name)
    enclosed = [_enclose(graph, own) for graph, own in zip(graphs, images, strict=True)]
    bodies = [body for body, _ in enclosed]
    outputs = [(output_name(a), [left.find_type(a), right.find_type(b)]) for a, b in heads]
    condition, operator = switches.make_switch(name, (bodies[0], bodies[1]), outputs)
    captured = [Entry(node) for _, placed in enclosed for node in placed]
    operator = replace(operator, inputs=(Entry(condition), *captured))
    top = dict.fromkeys([*images[0].values(), *images[1].values(), condition])
    results = tuple(Entry(operator, index) for index in range(len(outputs)))
    source = graphs[0].source.after_join([graphs[1].source]).after_rewrite()
    graph = replace(graphs[0], nodes=(*top, operator), heads=results, source=source)
    branches = [
        follow_member(Branch("", side.graph, own), side.member)
        for side, own in zip(sides, images, strict=True)
    ]
    notes = list_renamed_functions(members, separated)
    if by_position:
        notes.insert(0, f"outputs are paired by position: {', '.join(by_position)}")
    switching = Switching(
        graph, tuple(branches), notes=tuple(notes), members=tuple(members), shared=shared
    )
    _check_result(switching, graphs)
    return switching


def _describe_side(member: Member, graph: Graph) -> _Side:
    roles = assign_sharing_roles(graph, member.params, (), ())
    parameters = dict.fromkeys(list_parameters(roles))
    inputs = {node.name: node for node in roles if node not in parameters}
    types = find_format(graph).types.find_types(graph, [*graph.heads, *map(Entry, inputs.values())])
    return _Side(
        member,
        graph,
        {node: node not in parameters for node in roles},
        inputs,
        list(parameters),
        types,
    )


def _pair_outputs(
    members: Sequence[Member], graphs: Sequence[Graph]
) -> tuple[Graph, list[str], list[Fault]]:
    """Return the second graph with outputs in the first one's order, notes, and faults.

    Names that only one graph has are paired by position if positions agree; otherwise pairs would
    be guesses.
    """
    left = list(map(output_name, graphs[0].heads))
    right = list(map(output_name, graphs[1].heads))
    one, other = members[0].label, members[1].label
    if len(left) != len(right):
        message = f"{one} has {format_count(len(left), 'output')}, and {other} has {len(right)}"
        return graphs[1], [], [Fault(message, hint="`gs.extract` takes the outputs that both have")]
    rest = [place for place, name in enumerate(left) if name not in right]
    others = [place for place, name in enumerate(right) if name not in left]
    if rest != others:
        first = format_names([left[place] for place in rest])
        second = format_names([right[place] for place in others])
        message = (
            f"which outputs belong together is not clear: {first} of {one} and {second} of {other}"
        )
        hint = "`gs.rename` gives outputs that belong together one name"
        return graphs[1], [], [Fault(message, hint=hint)]
    heads = []
    for place, name in enumerate(left):
        partner = place if place in rest else right.index(name)
        heads.append(graphs[1].heads[partner])
    by_position = [f"{left[place]!r} and {right[place]!r}" for place in rest]
    return replace(graphs[1], heads=tuple(heads)), by_position, []


def take_branch(graph: Graph, name: str, value: bool) -> Rewrite:
    """Return the graph with ``value`` for the input ``name``: a body replaces each If on that
    input.

    Raises:
        RefusedError: no If switches on an input of that name.
    """
    format_ = find_format(graph)
    format_.require(Operation.SWITCH, what="`branch`")
    switches = _find_input_switches(graph)
    chosen = {
        node: bodies[int(not value)]
        for node, (entry, bodies) in switches.items()
        if entry.node.name == name
    }
    if not chosen:
        known = format_names(dict.fromkeys(entry.node.name for entry, _ in switches.values()))
        hint = "the graph has no If on an input"
        if known:
            hint = f"inputs that an If switches on: {known}"
        message = f"`branch` {name!r} is not an input that an If switches on"
        raise RefusedError(Fault(message, hint=hint))
    images: dict[Node, Node] = {}
    taken: dict[tuple[Node, int], Entry] = {}
    nodes: list[Node] = []

    def redirect(entry: Entry, _: Node | None = None) -> Entry | None:
        return taken.get((entry.node, entry.index))

    for node in topological(graph):
        if node in chosen:
            nodes += _take_body(node, chosen[node], taken, images)
        else:
            rebuild([node], redirect=redirect, images=images)
            nodes.append(images[node])
    heads = tuple(redirect(head) or relink(head, images) for head in graph.heads)
    own = {node: image for node, image in images.items() if node not in chosen}
    source = graph.source.after_rewrite()
    whole = Rewrite(
        replace(graph, nodes=tuple(nodes), heads=heads, source=source), (Branch("", graph, own),)
    )
    # The removed body leaves unused inputs and parameters.
    return whole.then(extract_entries(whole.graph, heads))


def _find_input_switches(graph: Graph) -> dict[Node, tuple[Entry, Sequence[Body]]]:
    find_switch = find_format(graph).bodies.find_switch
    switches = {node: switch for node in graph.nodes if (switch := find_switch(node)) is not None}
    return {node: switch for node, switch in switches.items() if switch[0].node.is_variable}


def _take_body(
    node: Node, body: Body, taken: dict[tuple[Node, int], Entry], images: Mapping[Node, Node]
) -> list[Node]:
    """Return the nodes of a body; its heads (``taken``) replace the outputs of the If."""
    around = {
        v: taken.get((e.node, e.index)) or Entry(images[e.node], e.index)
        for v, e in body.captured.items()
    }
    names = {
        (head.node, head.index): output
        for head, output in zip(body.graph.heads, node.details.outputs, strict=True)
    }
    inner: dict[Node, Node] = {variable: entry.node for variable, entry in around.items()}

    def rename(own: Node) -> Node:
        outputs = tuple(
            [names.get((own, index), output) for index, output in enumerate(own.details.outputs)]
        )
        if outputs == own.details.outputs:
            return own
        name = next(filter(None, outputs), own.name)
        return replace(own, name=name, details=replace(own.details, outputs=outputs))

    own = [each for each in body.graph.nodes if each not in around]
    rebuild(own, rename, redirect=lambda entry, _: around.get(entry.node), images=inner)
    for index, head in enumerate(body.graph.heads):
        taken[node, index] = around.get(head.node) or relink(head, inner)
    return [inner[each] for each in own]


def _find_faults(
    left: _Side, right: _Side, name: str, heads: Sequence[tuple[Entry, Entry]], switches: Switches
) -> Iterator[Fault]:
    for side in (left, right):
        yield from _check_side(side, name)
    inputs = [
        (node, right.inputs[each]) for each, node in left.inputs.items() if each in right.inputs
    ]
    for a, b in inputs:
        what = f"input {a.name!r}"
        yield from _compare_types(left, right, what, (Entry(a), Entry(b)), is_input=True)
    for pair in heads:
        what = f"output {output_name(pair[0])!r}"
        yield from _compare_types(left, right, what, pair, is_input=False)
    yield from _compare_defaults(left, right, inputs)
    yield from _check_operator_set(left, right, heads, switches)
    for side, other in ((left, right), (right, left)):
        for node in side.parameters:
            if node.name in other.inputs:
                message = f"{node.name!r} is an input of {other.member.label} and a parameter of {side.member.label}"
                yield Fault(message, hint="`gs.rename` gives one of them another name")


def _check_side(side: _Side, name: str) -> Iterator[Fault]:
    if any(node.name == name for node in side.graph.nodes):
        message = f"{OPTION} {name!r} is already the name of a value of {side.member.label}"
        yield Fault(message, hint="give the input another name")
    for head in side.graph.heads:
        if head.node.is_variable:
            output = f"output {output_name(head)!r} of {side.member.label}"
            message = f"{output} is an input or a parameter itself, which no body can return"
            yield Fault(
                message, hint="extract the other outputs first, or put an Identity behind it"
            )


def _check_operator_set(
    left: _Side, right: _Side, heads: Sequence[tuple[Entry, Entry]], switches: Switches
) -> Iterator[Fault]:
    version = find_format(left.graph).operator_set(left.graph)
    if version is None:
        hint = "add one with onnx: model.opset_import.add(version=17)"
        yield Fault(
            "the models import no version of ONNX's own operators, to which If belongs", hint=hint
        )
    for pair in heads:
        for side, head in zip((left, right), pair, strict=True):
            kind = side.find_type(head)
            first = 1 if kind is None else switches.find_switch_version(kind)
            if first is None:
                hint = "extract the other outputs first"
            elif version and version < first:
                hint = f"convert both models to opset {first} or later"
            else:
                continue
            output = f"output {output_name(head)!r} of {side.member.label}"
            message = f"{output} is {kind}, which no If of opset {version} returns"
            yield Fault(message, hint=hint)


def _compare_types(
    left: _Side, right: _Side, what: str, pair: tuple[Entry, Entry], *, is_input: bool
) -> Iterator[Fault]:
    kind, other = left.find_type(pair[0]), right.find_type(pair[1])
    if kind is None or other is None or not kind.contradicts(other):
        return
    # An output has the sizes of the branch that is computed.
    if is_input or not _differ_in_sizes(kind, other):
        message = f"{what} is {kind} in {left.member.label} and {other} in {right.member.label}"
        hint = "a Cast or a Reshape makes them fit; `gs.rename` separates inputs that are not meant to be one"
        yield Fault(message, hint=hint)


def _compare_defaults(
    left: _Side, right: _Side, inputs: Iterable[tuple[Node, Node]]
) -> Iterator[Fault]:
    pairs = [pair for pair in inputs if any(node.details.holds_value for node in pair)]
    labels = f"{left.member.label} and {right.member.label}"
    records = left.index_records(), right.index_records()
    for pair in compare_parameters(pairs, (), *records):
        if pair.how == "different":
            what = f"defaults of different {pair.detail}"
        elif pair.how == "missing":
            what = "a default in one of them only"
        else:
            continue
        message = f"input {pair.left.name!r} of {labels} has {what}"
        yield Fault(message, hint="`gs.rename` separates inputs that are not meant to be one")


def _differ_in_sizes(left: StaticType, right: StaticType) -> bool:
    """Whether two types have equal dtypes and ranks, so that only sizes can differ."""
    dtype, shape = left.parts
    other_dtype, other_shape = right.parts
    if shape is None or other_shape is None:
        return False
    return (dtype, len(shape)) == (other_dtype, len(other_shape))


def _find_equal(left: _Side, right: _Side) -> dict[Node, Node]:
    """Map parameters of the second graph to equal ones of the first.

    If several are equal, each has its own partner, of the same name if possible: they are not tied
    to each other. Arrays of one shape, dtype and storage are compared by a cryptographic hash.
    """
    first, second = _list_records(left), _list_records(right)
    forms = [{_describe_form(record) for _, record in records} for records in (first, second)]
    alike: dict[tuple[object, ...], list[Node]] = {}
    for node, key in _hash_records(left.member, first, forms[1]):
        alike.setdefault(key, []).append(node)
    shared: dict[Node, Node] = {}
    for node, key in _hash_records(right.member, second, forms[0]):
        if twins := alike.get(key):
            shared[node] = min(twins, key=lambda twin: twin.name != node.name)
            twins.remove(shared[node])
    return shared


def _list_records(side: _Side) -> list[tuple[Node, Record]]:
    records = side.index_records()
    if records is None:
        return []
    pairs: list[tuple[Node, Record]] = []
    for node in side.parameters:
        record = records.of(node)
        if record is not None and record.shape is not None:
            pairs.append((node, record))
    return pairs


def _describe_form(record: Record) -> tuple[object, ...]:
    return record.shape, record.element_type, record.storage


def _hash_records(
    member: Member, records: Sequence[tuple[Node, Record]], forms: Collection[tuple[object, ...]]
) -> Iterator[tuple[Node, tuple[object, ...]]]:
    if member.params is None:
        return
    with ArrayReader(member.params) as reader:
        for node, record in records:
            if _describe_form(record) in forms:
                yield node, (*_describe_form(record), hash_array(reader, record))


def _place_variables(
    left: _Side, right: _Side, shared: Mapping[Node, Node], name: str
) -> list[dict[Node, Node]]:
    format_ = find_format(left.graph)
    variables = [*left.variables, *right.variables]
    taken = TakenNames([name, *map(output_name, left.graph.heads)])
    for node in variables:
        taken.add(node.name)
    first = {node: node for node in left.variables}
    for node in left.inputs.values():
        twin = right.inputs.get(node.name)
        if twin is not None:
            types = [left.find_type(Entry(node)), right.find_type(Entry(twin))]
            first[node] = format_.editing.open_input(node, types)
    by_name = {node.name: image for node, image in first.items()}
    second: dict[Node, Node] = {}
    for node, is_input in right.variables.items():
        if node in shared:
            second[node] = first[shared[node]]
        elif node.name not in by_name:
            # Two members may hold one node object, as parts of one loaded model do.
            second[node] = replace(node) if node in first else node
        elif is_input:
            second[node] = by_name[node.name]
        else:
            second[node] = rename_node(node, taken.take(node.name))
    return [first, second]


def _enclose(graph: Graph, variables: Mapping[Node, Node]) -> tuple[Graph, list[Node]]:
    operators = [node for node in graph.nodes if node.op]
    captures: dict[Node, Node] = {}
    by_image: dict[Node, Node] = {}
    for entry in (entry for node in graph.nodes for entry in node.inputs):
        image = variables.get(entry.node)
        if image is None:
            continue
        if image not in by_image:
            details = NodeDetails("", (image.name,), holds_value=False)
            by_image[image] = Node("", f"capture {len(by_image)}", num_outputs=1, details=details)
        captures[entry.node] = by_image[image]
    images = rebuild(operators, images=captures)
    inner = list(map(images.__getitem__, operators))
    own = tuple(by_image.values())
    heads = relink_all(graph.heads, images)
    body = Graph((*own, *inner), heads, source=graph.source, captures=own)
    return body, list(by_image)


def _check_result(switching: Switching, graphs: Sequence[Graph]) -> None:
    graph = switching.graph
    switch = find_format(graph).bodies.find_switch(graph.heads[0].node)
    assert switch is not None
    for whole, body, branch in zip(graphs, switch[1], switching.branches, strict=True):
        operators = [node for node in whole.nodes if node.op]
        inner = [node for node in body.graph.nodes if node.op]
        if len(operators) != len(inner):
            raise SelfCheckError(f"a node was lost; {BUG}")
        own = dict(zip(operators, inner, strict=True))
        outer = dict(zip(branch.source.variables(), whole.variables(), strict=True))
        placed = {outer[node]: image for node, image in branch.images.items() if not node.op}
        by_image = {entry.node: variable for variable, entry in body.captured.items()}
        seen = {node: by_image[image] for node, image in placed.items() if image in by_image}
        check_isomorphic(Rewrite(body.graph, (Branch("", whole, {**seen, **own}),)), tied=[*seen])
        for head, wanted in zip(body.graph.heads, whole.heads, strict=True):
            if (head.node, head.index) != (own[wanted.node], wanted.index):
                raise SelfCheckError(f"an output is not that of its graph; {BUG}")
