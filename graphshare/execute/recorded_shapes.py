"""Shapes and dtypes of the variables that a parameter file holds: from its headers, without any array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphshare.analysis.roles import Kind, Role
from graphshare.execute.feeds import GivenShape
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Node


def read_recorded_shapes(
    variables: Sequence[Node], params: ParameterFile | None, roles: Mapping[Node, Role]
) -> dict[Node, tuple[GivenShape, str]]:
    """Return shape and dtype of the variables that a parameter file holds; bfloat16 is computed as float32."""
    if params is None:
        return {}
    records = RecordsByName(params)
    recorded: dict[Node, tuple[GivenShape, str]] = {}
    for node in variables:
        record = records.of(node, auxiliary=roles[node].kind is Kind.AUXILIARY)
        if record is not None and record.shape is not None:
            recorded[node] = (record.shape, "float32" if record.dtype == "bfloat16" else record.dtype or "float32")
    return recorded
