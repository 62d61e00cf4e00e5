"""Facts about a graph for several rules: faults of operators, shared parameters, repeated names,
suppressed codes.

The node attribute ``__graphshare_ignore__`` lists codes, or ``*`` for all. MXNet keeps any key that
begins and ends with two underscores, and so keeps the suppressions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from graphshare.analysis.name_lists import implies_variables
from graphshare.checks.context import CheckContext
from graphshare.checks.rules import rule_modules
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.registry import canonical, find_signature
from graphshare.ops.signature import AttributeFault
from graphshare.reports.model import Steps
from graphshare.rewrite.upgrade_graph import WRITES_VERSION, list_refused_keys

#: Keys that MXNet sets aside before it parses the attributes of an older file.
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
T = TypeVar("T")
#: A formal name followed by more text.
INNER_FORMAL = re.compile(
    r"(?:^|_)(weight|bias|gamma|beta|moving_mean|moving_var|running_mean|running_var)(?=[^a-z])"
)
KEY = "__graphshare_ignore__"
_CODE = re.compile(r"[^\s,;]+")


def is_hidden_key(key: str) -> bool:
    """Whether MXNet sets ``key`` aside while it loads an older file."""
    return key.startswith(HIDDEN) or key.endswith(HIDDEN)


def find_attribute_faults(
    context: CheckContext, *kinds: str
) -> Iterator[tuple[Steps, Node, AttributeFault]]:
    """Yield the place, node and record of each attribute fault of one of ``kinds``."""
    is_old = _is_older_than_mxnet(context)
    for steps, node in context.operators():
        if canonical(node.op) == "Custom":
            continue
        hidden_keys_are_free = is_old and len(steps) == 2
        for fault in context.facts(node).faults:
            if fault.kind == "unknown" and hidden_keys_are_free and is_hidden_key(fault.key):
                continue  # set aside before MXNet reads the attributes
            if fault.kind in kinds:
                yield _attribute_steps(steps, node, fault.key), node, fault


def find_refused_hidden_keys(context: CheckContext) -> Iterator[tuple[Steps, Node, str]]:
    """Yield the place, node and key of each hidden attribute of an old file that no variable takes."""
    if not _is_older_than_mxnet(context) or not _has_hidden_keys(context.graph):
        return
    refused = list_refused_keys(context.graph)
    for steps, node in context.operators():
        if len(steps) == 2 and canonical(node.op) != "Custom":
            for key in refused.get(node, ()):
                yield _attribute_steps(steps, node, key), node, key


def find_reshapes_without_shape(context: CheckContext) -> Iterator[tuple[Steps, Node]]:
    """Yield each Reshape without a shape: either of two attributes can state it, so neither alone
    is required.
    """
    for steps, node in context.operators():
        if canonical(node.op) != "Reshape":
            continue
        if "shape" not in node.attrs and "target_shape" not in node.attrs:
            yield steps, node


def find_wrong_input_counts(context: CheckContext) -> Iterator[tuple[Steps, Node, tuple[str, ...]]]:
    """Yield each operator with a wrong number of inputs, and the inputs it should have."""
    adds_inputs = implies_variables(context.graph)
    for steps, node in context.operators():
        facts, signature = context.facts(node), find_signature(node)
        if signature is None or not facts.registered or facts.formals is None:
            continue
        if any(fault.kind != "unknown" for fault in facts.faults):
            continue
        if signature.name == "add_n" and node.inputs:
            continue  # MXNet sums the actual inputs and ignores num_args
        # Control flow counts its subgraphs among the formal inputs
        formals = facts.formals[signature.num_subgraphs :]
        expected, actual = len(formals), len(node.inputs)
        if adds_inputs and facts.named and len(steps) == 2:
            expected = min(expected, actual)  # MXNet adds the missing ones
        if actual != expected:
            yield steps, node, formals


def find_missing_outputs(context: CheckContext) -> Iterator[tuple[Steps, Node | None, Entry, int]]:
    """Yield inputs and heads that take a missing output: place, consumer, entry, number of outputs."""
    for steps, consumer, entry in context.later_outputs():
        count = _count_outputs(context, entry.node)
        if count is not None and entry.index >= count:
            yield steps, consumer, entry, count


def _count_outputs(context: CheckContext, node: Node) -> int | None:
    """Return the number of outputs, hidden ones included; builds differ in operators unknown here,
    so theirs is the file's.
    """
    if node.is_variable:
        return 1
    outputs = context.facts(node).outputs
    return max(outputs.total, 1) if outputs is not None else node.num_outputs


def _attribute_steps(steps: Steps, node: Node, key: str) -> Steps:
    """Return the place of an attribute, under any of three keys, else the node's."""
    if key not in node.attrs:
        return steps
    if node.form is None:
        return (*steps, "param", key)
    maps = [name for name in node.form.keys if name in ("attrs", "attr")]
    in_param = key in (node.form.param or ()) and key not in node.extra.get("param", ())
    if in_param or not maps:
        return (*steps, "param", key)
    return (*steps, maps[-1], key)


def _is_older_than_mxnet(context: CheckContext) -> bool:
    version = context.graph.version
    return version is None or version < WRITES_VERSION


def _has_hidden_keys(graph: Graph) -> bool:
    operators = (node for node in graph.nodes if not node.is_variable)
    return any(is_hidden_key(key) for node in operators for key in node.attrs)


class SharingPair(NamedTuple):
    """Two operators of one kind, and the formal inputs at which they share a variable and do not."""

    first: Node
    second: Node
    shared: list[str]
    separate: list[str]


def find_sharing_pairs(context: CheckContext, formals: Collection[str]) -> Iterator[SharingPair]:
    """Yield each operator with the first of its kind that has the same variable at one of
    ``formals``.
    """
    if not context.shared_parameters:
        return
    owner: dict[tuple[str, str, Node], Node] = {}
    for node in context.reachable:
        if node.is_variable:
            continue
        mine = find_parameters(context, node, formals)
        op = canonical(node.op)
        slots = [(op, formal, variable) for formal, variable in mine.items()]
        first = next((owner[slot] for slot in slots if slot in owner), None)
        if first is not None:
            yield _compare_parameters(first, node, find_parameters(context, first, formals), mine)
        for slot in slots:
            owner.setdefault(slot, node)


def _compare_parameters(
    first: Node, second: Node, left: Mapping[str, Node], right: Mapping[str, Node]
) -> SharingPair:
    """Sort the formal inputs at which both operators have a variable; ``right`` has the order."""
    both = [formal for formal in right if formal in left]
    shared = [formal for formal in both if left[formal] is right[formal]]
    separate = [formal for formal in both if left[formal] is not right[formal]]
    return SharingPair(first, second, shared, separate)


def find_parameters(context: CheckContext, node: Node, formals: Collection[str]) -> dict[str, Node]:
    """Return the variables at the inputs ``formals`` of ``node``, by formal name."""
    parameters: dict[str, Node] = {}
    for formal, entry in context.list_named_inputs(node):
        if formal in formals and entry.node.is_variable:
            parameters[formal] = entry.node
    return parameters


def find_repeats(named: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T, T]]:
    """Yield each repeated name that is not empty: the name, its first item, this item."""
    first: dict[str, T] = {}
    for name, item in named:
        if name and first.setdefault(name, item) is not item:
            yield name, first[name], item


def read_suppressed_codes(node: Node) -> tuple[str, ...]:
    """Return the codes that a node suppresses; ``*`` means all."""
    if KEY not in node.attrs:
        return ()
    return tuple(_CODE.findall(node.attrs[KEY]))


def is_suppressed(node: Node, code: str) -> bool:
    """Whether ``node`` suppresses findings of ``code``; ``GS2`` stands for all codes that begin so."""
    return any(part == "*" or code.startswith(part) for part in read_suppressed_codes(node))


def is_known_code(code: str) -> bool:
    """Whether ``code`` is ``*``, a rule's code or the beginning of one."""
    return code == "*" or any(known.startswith(code) for known in rule_modules())
