"""The examples of rules as files."""

from __future__ import annotations

import struct
from pathlib import Path

from graphshare.checkpoint.folder import Sieve
from graphshare.checks.config import CheckOptions
from graphshare.checks.context import CheckContext
from graphshare.checks.rule import Example, ExampleRecord
from graphshare.checks.targets import find_targets
from graphshare.checks.targets import read_context as read_target
from tests import params_bytes

_CODES = {"float32": "f", "float16": "e", "float64": "d", "int32": "i"}


def graph_bytes(example: Example) -> bytes:
    return (
        example.graph
        if isinstance(example.graph, bytes)
        else example.graph.encode("utf-8", "surrogatepass")
    )


def params_file(example: Example) -> bytes:
    """The bytes of an example's parameter file."""
    records = [_record(record) for record in example.params or ()]
    data = params_bytes.container(
        records, [r.key for r in example.params or ()] if example.named else []
    )
    return data[: len(data) // 2] if example.damaged else data


def _record(record: ExampleRecord) -> bytes:
    if record.shape is None:
        return params_bytes.never_filled()
    count = params_bytes.count_bytes(record.shape, "int8")
    data = struct.pack(f"<{count}{_CODES[record.dtype]}", *[record.value] * count)
    return params_bytes.dense(record.shape, record.dtype, data)


def read_context(example: Example, folder: Path) -> CheckContext:
    """The example as what rules look at, its files in ``folder``."""
    if example.files:
        for name, data in example.files.items():
            (folder / name).write_bytes(data)
        (target,) = find_targets([str(folder)], params=None, epoch=None, sieve=Sieve())
        return read_target(target, CheckOptions())
    path = folder / "a-symbol.json"
    path.write_bytes(graph_bytes(example))
    params = folder / "a-0000.params"
    if example.params is not None:
        params.write_bytes(params_file(example))
    return CheckContext(
        str(path),
        path.read_bytes(),
        params=str(params) if example.params is not None else "",
        given_shapes=example.shapes,
    )
