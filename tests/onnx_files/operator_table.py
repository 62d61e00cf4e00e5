"""Make the table of ONNX's operators that proofs use: ``python -m tests.onnx_files.operator_table``.

Each line is an operator with its ranges of versions. Versions of a range mean the same of a node
that both allow: the later one only adds types, optional inputs, or attributes whose default is what
the earlier one does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
from onnx import defs

TABLE = Path(__file__).parents[2] / "graphshare/onnx_ops/operators.json"
# Versions that mean something else though their signatures fit: PRelu broadcasts in another way,
# RoiAlign's new attribute has another default than what was done before, GroupNormalization scales
# each channel instead of each group, AveragePool counts the last window in another way.
BREAKS = {
    ("PRelu", 7),
    ("RoiAlign", 16),
    ("GroupNormalization", 21),
    ("AveragePool", 19),
    ("Resize", 19),
}


def make_table() -> dict[str, list[list[Any]]]:
    """Return by operator the first version of each range, and the defaults of its attributes."""
    schemas: dict[str, dict[int, Any]] = {}
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain and not schema.deprecated:
            schemas.setdefault(schema.name, {})[schema.since_version] = schema
    table: dict[str, list[list[Any]]] = {}
    for name in sorted(schemas):
        ranges: list[list[Any]] = []
        before = None
        for version, schema in sorted(schemas[name].items()):
            defaults = list_defaults(schema)
            if before is not None and (name, version) not in BREAKS and extends(before, schema):
                ranges[-1][1].update(defaults)
            else:
                ranges.append([version, defaults])
            before = schema
        table[name] = ranges
    return table


def list_defaults(schema: Any) -> dict[str, Any]:
    """Return the defaults that a schema states, by attribute."""
    defaults: dict[str, Any] = {}
    for name, attribute in sorted(schema.attributes.items()):
        if attribute.default_value.name:
            value = onnx.helper.get_attribute_value(attribute.default_value)
            defaults[name] = value.decode() if isinstance(value, bytes) else value
    return {name: value for name, value in defaults.items() if isinstance(value, (int, float, str))}


def extends(before: Any, after: Any) -> bool:
    """Return whether a later version means the same of every node that the earlier one allows."""
    olds, news = list_defaults(before), list_defaults(after)
    kept = all(
        name in after.attributes
        and after.attributes[name].type == attribute.type
        and after.attributes[name].required == attribute.required
        and olds.get(name) == news.get(name)
        for name, attribute in before.attributes.items()
    )
    added = all(
        not each.required
        for name, each in after.attributes.items()
        if name not in before.attributes
    )
    for ours, theirs in ((before.inputs, after.inputs), (before.outputs, after.outputs)):
        kept &= [each.option for each in ours] == [each.option for each in theirs[: len(ours)]]
        added &= all(
            each.option == defs.OpSchema.FormalParameterOption.Optional
            for each in theirs[len(ours) :]
        )
    return bool(kept and added)


def encode_table(table: dict[str, list[list[Any]]]) -> str:
    """Return the text of the table, an operator a line."""
    return (
        "{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(ranges)}" for name, ranges in table.items())
        + "\n}\n"
    )


if __name__ == "__main__":
    TABLE.write_text(encode_table(make_table()))
