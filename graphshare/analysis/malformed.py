"""Faults of graphs that a reader accepts and no rewrite or run can use. Found without numpy."""

from __future__ import annotations

from collections.abc import Iterable

from graphshare.analysis.name_lists import total_outputs
from graphshare.errors import Fault
from graphshare.ir.graph import Entry, Node
from graphshare.text.format import format_count


def find_missing_outputs(nodes: Iterable[Node], heads: Iterable[Entry]) -> list[Fault]:
    """Return a fault for each output that an input or head takes and its node does not have."""
    entries = [entry for node in nodes for entry in node.inputs if entry.index] + [entry for entry in heads if entry.index]
    taken = dict.fromkeys((entry.node, entry.index) for entry in entries)
    faults = []
    for node, index in taken:
        count = total_outputs(node)
        if count is not None and index >= max(count, 1):
            owner = "a variable" if node.is_variable else node.op
            message = f"{owner} has {format_count(max(count, 1), 'output')}, and output {index} is used"
            faults.append(Fault(message, node=node.name, hint="outputs count from 0"))
    return faults


def find_odd_variables(nodes: Iterable[Node]) -> list[Fault]:
    """Return a fault for each variable with inputs or control dependencies."""
    hint = "a variable takes its value from outside; should it be an operator? `graphshare check` lists such nodes"
    odd = [node for node in nodes if node.is_variable and (node.inputs or node.control_deps)]
    return [Fault("is a variable with inputs or control dependencies", node=node.name, hint=hint) for node in odd]
