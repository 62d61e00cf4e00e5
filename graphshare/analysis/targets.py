"""The outputs that a user means by ``--target``, ``--cut`` and ``--upto``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphshare.analysis.name_lists import internals, output_name, visible_outputs
from graphshare.errors import Fault, RefusedError
from graphshare.formats.mxnet.document import operator_text
from graphshare.ir.graph import Entry, Node
from graphshare.text.names import did_you_mean


def resolve_targets(names: Sequence[str], nodes: Iterable[Node], *, option: str) -> list[Entry]:
    """Return the outputs that ``names`` mean, in their order.

    A name is an output's (``conv1_output``) or a node's (``conv1``, all its visible outputs); an output's comes first, so
    with an operator ``fc1`` and another ``fc1_output`` the name ``fc1_output`` means the output of the first, as in MXNet.

    Raises:
        RefusedError: every name that no node or several nodes have.
    """
    nodes = list(nodes)
    outputs: dict[str, list[Entry]] = {}
    for name, entry in internals(nodes):
        outputs.setdefault(name, []).append(entry)
    by_name: dict[str, list[Node]] = {}
    for node in nodes:
        if node.name:
            by_name.setdefault(node.name, []).append(node)
    targets: list[Entry] = []
    faults: list[Fault] = []
    for name in names:
        entries = outputs.get(name) or [entry for node in by_name.get(name, []) for entry in visible_outputs(node)]
        owners = list(dict.fromkeys(entry.node for entry in entries))
        if len(owners) == 1:
            targets.extend(entries)
        elif owners:
            ops = ", ".join(map(operator_text, owners))
            hint = "names repeat in this graph; rename one of the nodes first (`graphshare rename --map`)"
            faults.append(Fault(f"{option} {name!r} means {len(owners)} nodes ({ops})", hint=hint))
        else:
            faults.append(
                Fault(f"{option} {name!r} names no output and no node", hint=did_you_mean(name, [*outputs, *by_name]))
            )
    if faults:
        raise RefusedError(faults)
    return targets


def target_names(entries: Iterable[Entry]) -> list[str]:
    """Return the output names of ``entries``."""
    return [output_name(entry) for entry in entries]
