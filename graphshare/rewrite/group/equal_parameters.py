"""Parameters that two graphs have under one name and that are equal byte for byte."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack

from graphshare.analysis.roles import Kind, Role
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Node
from graphshare.rewrite.group.join import Part, Place


def equal_parameters(
    parts: Sequence[Part],
    roles: Sequence[Mapping[Node, Role]],
    params: Sequence[ParameterFile | None],
    taken: Collection[Place],
) -> tuple[dict[Place, Place], dict[str, str]]:
    """Parameters and auxiliary states of later parts with the earlier one that each is equal to, and why others are not.

    Names are those of the graphs' own files. Equal means the same kind, attributes, shape, type and bytes. The reasons are by
    the name in the result. Arrays are compared piece by piece.
    """
    from graphshare.formats.params.arrays import ArrayReader  # start-up: only this path needs it
    from graphshare.formats.params.lookup import RecordsByName, describe_difference

    records = [RecordsByName(file) if file is not None else None for file in params]
    first: dict[str, Place] = {}
    equal: dict[Place, Place] = {}
    reasons: dict[str, str] = {}
    with ExitStack() as files:
        readers = [files.enter_context(ArrayReader(file)) if file is not None else None for file in params]
        for number, found in enumerate(roles):
            for node, role in found.items():
                place = (number, node)
                if not role.is_parameter or place in taken or not node.name:
                    continue
                keeper = first.setdefault(node.name, place)
                if keeper[0] == number:
                    continue
                other, twin = roles[keeper[0]][keeper[1]], keeper[1]
                x, y = (
                    of.of(n, auxiliary=r.kind is Kind.AUXILIARY) if of is not None else None
                    for of, n, r in ((records[keeper[0]], twin, other), (records[number], node, role))
                )
                left, right = readers[keeper[0]], readers[number]
                if role.kind is not other.kind:
                    reason = "an auxiliary state in one of them"
                elif dict(twin.attrs) != dict(node.attrs) or twin.inputs or node.inputs:
                    reason = "with different attributes"
                elif x is None or y is None or left is None or right is None:
                    reason = "and its values are not known from parameter files"
                else:
                    difference = "" if x.shape is None and y.shape is None else describe_difference(left, x, right, y)
                    reason = difference and f"with different {difference}"
                if reason:
                    reasons[parts[number].name(node)] = reason
                else:
                    equal[place] = keeper
    return equal, reasons
