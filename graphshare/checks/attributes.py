"""What MXNet would object to in the attributes of operators, sorted by kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from graphshare.checks.document import Steps
from graphshare.checks.signatures import is_hidden
from graphshare.checks.subject import Subject
from graphshare.ir.graph import Node
from graphshare.operators.registry import canonical
from graphshare.rewrite.upgrade import WRITES_VERSION, refused_hidden_keys

Kind = Literal["unknown", "value", "missing"]
_QUOTED = re.compile(r"attribute '((?:[^'\\]|\\.)*)'")


def faults_of(subject: Subject, kind: Kind) -> Iterator[tuple[Steps, Node, str, str]]:
    """Place, node, key and message of each fault of ``kind``; the place is the attribute's where it is there."""
    if not subject.sound:
        return
    older = (subject.graph.version if subject.graph.version is not None else 0) < WRITES_VERSION
    put_back = refused_hidden_keys(subject.graph) if older and kind == "unknown" and _any_hidden(subject) else {}
    for steps, node in subject.operators():
        if canonical(node.op) == "Custom":
            continue
        outermost = len(steps) == 2
        for message in subject.facts(node).faults:
            key = match[1] if (match := _QUOTED.search(message)) else ""
            if older and outermost and is_hidden(key) and message.startswith("unknown"):
                continue  # set aside before the attributes are read
            if _kind_of(message) == kind:
                yield _place(steps, node, key), node, key, message
        for key in put_back.get(node, ()) if outermost else ():
            yield _place(steps, node, key), node, key, f"unknown attribute {key!r}: no input of that name is a variable"


def _kind_of(message: str) -> Kind:
    return "unknown" if message.startswith("unknown") else "missing" if message.startswith("missing") else "value"


def _any_hidden(subject: Subject) -> bool:
    return any(is_hidden(key) for node in subject.graph.nodes if not node.is_variable for key in node.attrs)


def _place(steps: Steps, node: Node, key: str) -> Steps:
    """The attribute under whichever of the three keys the file has."""
    if key not in node.attrs:
        return steps
    keys = node.form.keys if node.form is not None else ()
    maps = [name for name in keys if name in ("attrs", "attr")] or ["param"]
    in_param = node.form is not None and node.form.param is not None and key in node.form.param
    return (*steps, "param" if in_param else maps[-1], key)
