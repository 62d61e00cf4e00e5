"""The faults of operators that other checks rely on not to be there."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.analysis.name_lists import implies_variables
from graphshare.checks.context import CheckContext
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.registry import canonical, signature_of
from graphshare.ops.signature import AttributeFault
from graphshare.reports.model import Steps
from graphshare.rewrite.upgrade import WRITES_VERSION, list_refused_keys

#: Keys that MXNet sets aside before it parses the attributes of a file older than itself.
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


def is_hidden_key(key: str) -> bool:
    """Whether MXNet sets ``key`` aside while it loads an older file."""
    return key.startswith(HIDDEN) or key.endswith(HIDDEN)


def find_attribute_faults(context: CheckContext, *kinds: str) -> Iterator[tuple[Steps, Node, AttributeFault]]:
    """Yield the place, the node and the record of each attribute fault whose kind is one of ``kinds``."""
    hidden_keys_are_free = _is_older_than_mxnet(context)
    for steps, node in context.operators():
        if canonical(node.op) == "Custom":
            continue
        for fault in context.facts(node).faults:
            if fault.kind == "unknown" and hidden_keys_are_free and len(steps) == 2 and is_hidden_key(fault.key):
                continue  # MXNet sets the key aside before it reads the attributes
            if fault.kind in kinds:
                yield _attribute_steps(steps, node, fault.key), node, fault


def find_refused_hidden_keys(context: CheckContext) -> Iterator[tuple[Steps, Node, str]]:
    """Yield the place, the node and the key of each hidden attribute of an old file that no variable takes."""
    if not _is_older_than_mxnet(context) or not _has_hidden_keys(context.graph):
        return
    refused = list_refused_keys(context.graph)
    for steps, node in context.operators():
        if len(steps) == 2 and canonical(node.op) != "Custom":
            for key in refused.get(node, ()):
                yield _attribute_steps(steps, node, key), node, key


def find_reshapes_without_shape(context: CheckContext) -> Iterator[tuple[Steps, Node]]:
    """Yield each Reshape that has neither of the attributes that tell its shape; MXNet requires none of the two alone."""
    for steps, node in context.operators():
        if canonical(node.op) == "Reshape" and not ("shape" in node.attrs or "target_shape" in node.attrs):
            yield steps, node


def find_wrong_input_counts(context: CheckContext) -> Iterator[tuple[Steps, Node, tuple[str, ...]]]:
    """Yield each operator that has fewer or more inputs than its attributes ask for, with the inputs that it should have."""
    adds_inputs = implies_variables(context.graph)
    for steps, node in context.operators():
        facts = context.facts(node)
        if not facts.registered or facts.formals is None or any(fault.kind != "unknown" for fault in facts.faults):
            continue
        signature = signature_of(node)  # control flow counts its subgraphs among the formal inputs
        if signature is not None and signature.name == "add_n" and node.inputs:
            continue  # MXNet adds what is there, whatever num_args says
        formals = facts.formals[signature.num_subgraphs if signature is not None else 0 :]
        missing = len(formals) - len(node.inputs)
        if missing < 0 or (missing > 0 and not (adds_inputs and facts.named and len(steps) == 2)):
            yield steps, node, formals


def find_missing_outputs(context: CheckContext) -> Iterator[tuple[Steps, Node | None, Entry, int]]:
    """Yield each input and head that takes an output its node does not have: place, consumer, entry, number of outputs."""
    for steps, consumer, entry in context.later_outputs():
        count = _count_outputs(context, entry.node)
        if count is not None and entry.index >= count:
            yield steps, consumer, entry, count


def _count_outputs(context: CheckContext, node: Node) -> int | None:
    """Return the number of outputs, hidden ones included; for an unknown operator the file's own count, as builds differ."""
    if node.is_variable:
        return 1
    outputs = context.facts(node).outputs
    return max(outputs.total, 1) if outputs is not None else node.num_outputs


def _attribute_steps(steps: Steps, node: Node, key: str) -> Steps:
    """Return the place of an attribute, under whichever of the three keys the file uses; the node's if it has none."""
    if key not in node.attrs:
        return steps
    keys = node.form.keys if node.form is not None else ()
    maps = [name for name in keys if name in ("attrs", "attr")] or ["param"]
    in_param = node.form is not None and node.form.param is not None and key in node.form.param
    return (*steps, "param" if in_param else maps[-1], key)


def _is_older_than_mxnet(context: CheckContext) -> bool:
    return (context.graph.version or 0) < WRITES_VERSION


def _has_hidden_keys(graph: Graph) -> bool:
    return any(is_hidden_key(key) for node in graph.nodes if not node.is_variable for key in node.attrs)
