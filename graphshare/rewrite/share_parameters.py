"""``share``: tie parameters of one graph by rule, after finding every reason not to.

With ``--doctor`` variables that merely share a name become one node, or get separate names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from graphshare.analysis.roles import Kind, Role, list_parameters
from graphshare.errors import Fault, RefusedError
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.params.arrays import ArrayReader, have_equal_bytes
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Graph, Node, Rewrite
from graphshare.ir.walk import consumers
from graphshare.ops.attributes import TYPE_FLAGS, has_np_shape, read_declared_shape
from graphshare.ops.registry import find_signature, name_inputs
from graphshare.rewrite.rules.model import Ruleset
from graphshare.rewrite.rules.plan import Plan, plan_sharing
from graphshare.rewrite.tie import Sharing, Tied, Ties, assign_sharing_roles, index_records, tie
from graphshare.text.format import format_dims
from graphshare.text.names import TakenNames

_HINTS = ("lr_mult", "wd_mult", "init")
_NUMBER = re.compile(r"-?\d+")

_Uses = Mapping[Node, list[tuple[Node, int]]]
Repair = Literal["tie", "separate"]
EQUAL = "`equal`"
"""The place of the rules that tie everything equal."""


def plan_share(
    graph: Graph,
    ruleset: Ruleset,
    *,
    params: ParameterFile | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> Sharing:
    """Tie parameters by rules; operators and outputs keep their names.

    Of parameters with one new name, the one that has it already stays with its record in
    ``params``, else the first in file order.

    Raises RefusedError as :func:`graphshare.share`.
    """
    roles = assign_sharing_roles(graph, params, as_input, as_parameter)
    plan = plan_sharing(graph, ruleset, roles)
    if not plan.names and not plan.ties:
        hint = next(iter(plan.notes), "`gs.detect(GRAPH)` lists what could be tied")
        raise RefusedError(Fault("no parameter would change", hint=hint))
    return share_by_plan(graph, plan, roles, params)


def share_by_plan(
    graph: Graph, plan: Plan, roles: Mapping[Node, Role], params: ParameterFile | None
) -> Sharing:
    """Tie parameters as planned. Errors as in :func:`plan_share`."""
    reshaped = _find_reshaped(graph, plan.ties, params)
    faults, notes = _differences(graph, plan, roles, params, reshaped)
    faults = [*_refuse_outputs(graph, plan, reshaped), *faults]
    RefusedError.raise_any(faults)
    ties = {tied: kept for tied, kept in plan.ties.items() if tied not in reshaped}
    rewrite = tie(graph, ties, plan.names)
    check_isomorphic(rewrite, tied=ties.keys())
    reshaping = None
    if reshaped:
        # Start-up: few ties are of two shapes
        from graphshare.onnx_ops.transposed import tie_reshaped

        images = rewrite.branches[0].images
        # A second rewrite: it adds operators that a run has to prove.
        reshaping = tie_reshaped(
            rewrite.graph, {images[node]: images[plan.ties[node]] for node in reshaped}
        )
    report = _report(plan, roles, rewrite)
    notes = [*plan.notes, *notes, *_forgotten_partners(graph, plan, roles, params)]
    if not report.separate and _is_one_pattern(plan):
        kept = len(set(plan.ties.values()))
        count = len(plan.ties) + kept
        notes.append(
            f"one pattern ties all {count} parameters into {kept}: none is separate any more"
        )
    return Sharing(
        *(rewrite.graph, rewrite.branches, rewrite.renames, tuple(notes)),
        roles=roles,
        ties=report,
        reshaping=reshaping,
    )


def _is_one_pattern(plan: Plan) -> bool:
    """Whether all ties follow from one alias with a pattern on the left."""
    rules = {plan.why[node] for node in plan.ties if node in plan.why}
    if len(rules) != 1:
        return False
    rule = rules.pop()
    return rule.kind == "alias" and rule.literal is None


def _find_reshaped(
    graph: Graph, ties: Mapping[Node, Node], params: ParameterFile | None
) -> set[Node]:
    """Equal bytes of another shape can be tied only in ONNX, which has a free Reshape."""
    format_ = find_format(graph)
    if params is None or not format_.supports(Operation.POOL):
        return set()
    # Before opset 9 no Constant holds the integers that a Reshape takes.
    if (format_.operator_set(graph) or 0) < 9:
        return set()
    from graphshare.onnx_ops.transposed import LEAST  # start-up: few models are ONNX models

    records = params.by_key()
    reshaped = set()
    with ArrayReader(params) as left, ArrayReader(params) as right:
        for tied, kept in ties.items():
            ours, theirs = records.get(tied.name), records.get(kept.name)
            if ours is None or theirs is None or ours.dense_size < LEAST:
                continue
            if not _differ_in_shape(ours, theirs):
                continue
            if have_equal_bytes(left.chunks(ours), right.chunks(theirs)):
                reshaped.add(tied)
    return reshaped


def _differ_in_shape(ours: Record, theirs: Record) -> bool:
    """Whether two dense arrays differ only in known shapes."""
    form = (ours.element_type, ours.storage, ours.dense_size)
    other_form = (theirs.element_type, "default", theirs.dense_size)
    if form != other_form or None in (ours.shape, theirs.shape):
        return False
    return ours.shape != theirs.shape


def _refuse_outputs(graph: Graph, plan: Plan, reshaped: Collection[Node]) -> Iterator[Fault]:
    heads = dict.fromkeys(entry.node for entry in graph.heads)
    for node in heads:
        kept = plan.ties.get(node, node)
        name = plan.names.get(kept, kept.name)
        if node.name == name or node in reshaped:
            continue
        hint = "leave it out; `gs.rename` changes the names of outputs"
        can_be_tied = kept is not node and kept not in heads
        if can_be_tied and kept.name == name:
            hint = f"tie them the other way round: `aliases={{{name!r}: {node.name!r}}}`"
        message = f"{node.name!r} would become {name!r}, but it is an output of the graph, and outputs keep their names"
        yield Fault(message, where=plan.why[node].place, hint=hint)


def _report(plan: Plan, roles: Mapping[Node, Role], rewrite: Rewrite) -> Ties:
    images = rewrite.branches[0].images
    changed = {*plan.names, *plan.ties, *plan.ties.values()}

    def describe(node: Node) -> Tied:
        citation = plan.why[node].citation if node in plan.why else ""
        return Tied(node.name, images[plan.ties.get(node, node)].name, citation)

    return Ties(
        tied=[describe(node) for node in plan.ties],
        renamed=[describe(node) for node in plan.names],
        copied=[],
        separate=[node.name for node in list_parameters(roles) if node not in changed],
    )


def _differences(
    graph: Graph,
    plan: Plan,
    roles: Mapping[Node, Role],
    params: ParameterFile | None,
    reshaped: Collection[Node],
) -> tuple[list[Fault], list[str]]:
    faults: list[Fault] = []
    notes: list[str] = []
    uses = consumers(graph.nodes)
    records = index_records(params)
    unequal: list[tuple[Node, Node, Record, Record]] = []
    np_shape = has_np_shape(graph.attrs)
    for tied, kept in plan.ties.items():
        pair = f"{tied.name!r} and {kept.name!r}"
        where = plan.find_place(tied)
        state, kept_state = _describe_state(roles[tied]), _describe_state(roles[kept])
        if state != kept_state:
            states = f"{tied.name!r} is {state} and {kept.name!r} is {kept_state}"
            faults.append(Fault(f"{pair} cannot be one: {states}", where=where))
        forms = _compare_forms(tied, kept, records, uses, np_shape)
        for what, a, b in forms if tied not in reshaped else ():
            message = f"{pair} cannot be one: they have {what} {a} and {b}"
            faults.append(Fault(message, where=where, hint="tie parameters that are alike"))
        notes += [
            f"{pair} have {what} {a} and {b}; the latter holds"
            for what, a, b in _hints(tied, kept, uses)
        ]
        ours, theirs = records.get(tied.name), records.get(kept.name)
        # Variables with the same name have one record: nothing to compare.
        if ours is None or theirs is None or ours is theirs:
            continue
        if ours.shape == theirs.shape:
            unequal.append((tied, kept, ours, theirs))
    # Arrays are read only once nothing forbids the ties.
    if params is not None and not faults:
        notes += _values(params, unequal)
    return faults, notes


def _describe_state(role: Role) -> str:
    return "an auxiliary state" if role.kind is Kind.AUXILIARY else "a parameter"


def _compare_forms(
    tied: Node, kept: Node, records: Mapping[str, Record], uses: _Uses, np_shape: bool
) -> Iterator[tuple[str, object, object]]:
    ours, theirs = records.get(tied.name), records.get(kept.name)
    a, b = _find_shape(tied, ours, np_shape), _find_shape(kept, theirs, np_shape)
    if a is not None and b is not None and not _may_be_equal(a, b):
        yield "shapes", format_dims(a), format_dims(b)
    elif ours is None or theirs is None:
        yield from _by_operators(tied, kept, uses)
    x, y = _dtype(tied, ours), _dtype(kept, theirs)
    if x and y and x != y:
        yield "types", x, y


def _find_shape(node: Node, record: Record | None, np_shape: bool) -> tuple[int | None, ...] | None:
    if record is not None and record.shape is not None:
        return record.shape
    return read_declared_shape(node.attrs.get("__shape__", ""), np_shape=np_shape)


def _may_be_equal(a: tuple[int | None, ...], b: tuple[int | None, ...]) -> bool:
    if len(a) != len(b):
        return False
    return all(x == y or None in (x, y) for x, y in zip(a, b, strict=True))


def _dtype(node: Node, record: Record | None) -> str:
    if record is not None and record.element_type is not None:
        return record.element_type
    return TYPE_FLAGS.get(node.attrs.get("__dtype__", ""), "")


def _by_operators(tied: Node, kept: Node, uses: _Uses) -> Iterator[tuple[str, object, object]]:
    """Yield sizes of one formal input that differ between the first operators."""
    if tied not in uses or kept not in uses:
        return
    (user, slot), (other, place) = uses[tied][0], uses[kept][0]
    signature = find_signature(user)
    if signature is None or signature is not find_signature(other) or slot != place:
        return
    formal = _formal(user, slot)
    keys = [key for name, key in signature.size_attributes if name == formal]
    for key in keys:
        size, other_size = user.attrs.get(key, ""), other.attrs.get(key, "")
        numbers, other_numbers = _NUMBER.findall(size), _NUMBER.findall(other_size)
        if numbers and other_numbers and numbers != other_numbers:
            yield f"different shapes, for their operators have {key}", size, other_size


def _formal(user: Node, slot: int) -> str:
    names = name_inputs(user) or ()
    return names[slot] if slot < len(names) else ""


def _hints(tied: Node, kept: Node, uses: _Uses) -> Iterator[tuple[str, str, str]]:
    for hint in _HINTS:
        ours, theirs = _hint(tied, hint, uses), _hint(kept, hint, uses)
        if ours != theirs:
            yield f"__{hint}__", ours or "none", theirs or "none"


def _hint(node: Node, hint: str, uses: _Uses) -> str:
    """Before 0.9 the operator may have a variable's attribute (``weight_lr_mult``)."""
    own = node.attrs.get(f"__{hint}__", node.attrs.get(hint, ""))
    if own or hint == "init":
        return own
    suffix = f"_{hint}"
    for user, slot in uses.get(node, ()):
        # Looking up the formal name costs more than a search.
        if any(key.endswith(suffix) for key in user.attrs):
            stated = user.attrs.get(_formal(user, slot) + suffix)
            if stated:
                return stated
    return ""


def _values(params: ParameterFile, pairs: list[tuple[Node, Node, Record, Record]]) -> Iterator[str]:
    with ArrayReader(params) as left, ArrayReader(params) as right:
        for tied, kept, ours, theirs in pairs:
            if not have_equal_bytes(left.chunks(ours), right.chunks(theirs)):
                yield (
                    f"{tied.name!r} and {kept.name!r} have different values in {params.path}; "
                    f"those of {kept.name!r} are kept"
                )


def _forgotten_partners(
    graph: Graph, plan: Plan, roles: Mapping[Node, Role], params: ParameterFile | None
) -> list[str]:
    """Return untied parameters beside tied ones: a bias of a tied weight, statistics of a tied
    gamma.

    Parameters that cannot be tied do not count, nor pairs left by a search for everything equal.
    """
    uses = consumers(graph.nodes) if plan.ties else {}
    records = index_records(params)
    np_shape = has_np_shape(graph.attrs)
    notes: dict[str, None] = {}
    for tied, kept in plan.ties.items():
        if plan.find_place(tied) == EQUAL:
            continue
        for user, slot in uses.get(tied, ()):
            form = (user.op, slot, len(user.inputs))
            twins = [
                twin
                for twin, place in uses.get(kept, ())
                if (twin.op, place, len(twin.inputs)) == form
            ]
            apart = [list(_list_apart(user, twin, slot, plan.ties, roles)) for twin in twins]
            # One twin whose neighbours are tied is enough.
            if not apart or not all(apart):
                continue
            for one, other in apart[0]:
                if any(_compare_forms(one, other, records, uses, np_shape)):
                    continue
                pair = f"{one.name!r} and {other.name!r}"
                note = f"{tied.name!r} is tied to {kept.name!r}, but {pair} beside them are not"
                notes[note] = None
    return list(notes)


def _list_apart(
    user: Node, twin: Node, slot: int, ties: Mapping[Node, Node], roles: Mapping[Node, Role]
) -> Iterator[tuple[Node, Node]]:
    shared = ties.get(user.inputs[slot].node, user.inputs[slot].node)
    for place, (a, b) in enumerate(zip(user.inputs, twin.inputs, strict=True)):
        one, other = ties.get(a.node, a.node), ties.get(b.node, b.node)
        if place == slot or one is other or shared in (one, other):
            continue
        if _is_parameter(one, roles) and _is_parameter(other, roles):
            yield a.node, b.node


def _is_parameter(node: Node, roles: Mapping[Node, Role]) -> bool:
    return node in roles and roles[node].is_parameter


def find_repeated_names(graph: Graph) -> dict[str, list[Node]]:
    """Return repeated names of variables, which MXNet's Module refuses; unnamed ones do not count."""
    by_name: dict[str, list[Node]] = {}
    for node in graph.variables():
        by_name.setdefault(node.name, []).append(node)
    return {name: nodes for name, nodes in by_name.items() if name and len(nodes) > 1}


def plan_doctor(
    graph: Graph,
    how: Repair,
    *,
    params: ParameterFile | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> Sharing:
    """Variables of one name become one node (``tie``), or get numbers (``separate``).

    A record in ``params`` is written for each separate one.

    Raises:
        RefusedError: no two variables have one name, or those that do cannot be one.
    """
    roles = assign_sharing_roles(graph, params, as_input, as_parameter)
    repeated = find_repeated_names(graph)
    if not repeated:
        raise RefusedError(Fault("no two variables have one name, so there is nothing to repair"))
    if how == "tie":
        ties = {node: nodes[0] for nodes in repeated.values() for node in nodes[1:]}
        sharing = share_by_plan(graph, Plan({}, ties, {}), roles, params)
        report = [Tied(node.name, node.name, "--doctor tie") for node in ties]
        return replace(sharing, ties=Ties(report, [], [], sharing.ties.separate))
    names = _number_names(graph, repeated)
    rewrite = tie(graph, {}, names)
    check_isomorphic(rewrite)
    return Sharing(
        rewrite.graph,
        rewrite.branches,
        rewrite.renames,
        roles=roles,
        ties=_report_separate(names, roles),
    )


def _number_names(graph: Graph, repeated: Mapping[str, Sequence[Node]]) -> dict[Node, str]:
    taken = TakenNames(node.name for node in graph.nodes)
    return {node: taken.take(name) for name, nodes in repeated.items() for node in nodes[1:]}


def _report_separate(names: Mapping[Node, str], roles: Mapping[Node, Role]) -> Ties:
    copied = [Tied(node.name, new, "--doctor separate") for node, new in names.items()]
    old = {node.name for node in names}
    separate = [node.name for node in list_parameters(roles) if node.name not in old]
    return Ties([], [], copied, separate)
