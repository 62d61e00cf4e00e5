"""Attributes of operators that MXNet refuses, with their places in the file."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.document import Steps
from graphshare.checks.signatures import is_hidden
from graphshare.checks.subject import Subject
from graphshare.ir.graph import Node
from graphshare.ops.registry import canonical
from graphshare.ops.signature import AttributeFault
from graphshare.rewrite.upgrade import WRITES_VERSION, refused_hidden_keys


def find_attribute_faults(subject: Subject, *kinds: str) -> Iterator[tuple[Steps, Node, AttributeFault]]:
    """Yield the place, the node and the record of each fault whose kind is one of ``kinds``."""
    hidden_keys_are_free = _is_older_than_mxnet(subject)
    for steps, node in subject.operators():
        if canonical(node.op) == "Custom":
            continue
        for fault in subject.facts(node).faults:
            if fault.kind == "unknown" and hidden_keys_are_free and len(steps) == 2 and is_hidden(fault.key):
                continue  # MXNet sets the key aside before it reads the attributes
            if fault.kind in kinds:
                yield attribute_steps(steps, node, fault.key), node, fault


def find_refused_hidden_keys(subject: Subject) -> Iterator[tuple[Steps, Node, str]]:
    """Yield the place, the node and the key of each hidden attribute of an old file that no variable takes."""
    if not _is_older_than_mxnet(subject) or not _has_hidden_keys(subject):
        return
    refused = refused_hidden_keys(subject.graph)
    for steps, node in subject.operators():
        if len(steps) == 2 and canonical(node.op) != "Custom":
            for key in refused.get(node, ()):
                yield attribute_steps(steps, node, key), node, key


def attribute_steps(steps: Steps, node: Node, key: str) -> Steps:
    """Return the place of an attribute, under whichever of the three keys the file uses; the node's if it has none."""
    if key not in node.attrs:
        return steps
    keys = node.form.keys if node.form is not None else ()
    maps = [name for name in keys if name in ("attrs", "attr")] or ["param"]
    in_param = node.form is not None and node.form.param is not None and key in node.form.param
    return (*steps, "param" if in_param else maps[-1], key)


def _is_older_than_mxnet(subject: Subject) -> bool:
    return subject.sound and (subject.graph.version if subject.graph.version is not None else 0) < WRITES_VERSION


def _has_hidden_keys(subject: Subject) -> bool:
    return any(is_hidden(key) for node in subject.graph.nodes if not node.is_variable for key in node.attrs)
