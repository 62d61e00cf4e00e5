"""Programs of PaddlePaddle built as JSON documents, and their parameter files, independent of the code under test."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PDIPARAMS_CODES = {"bool": (0, 1), "int16": (1, 2), "int32": (2, 4), "int64": (3, 8), "float16": (4, 2), "float32": (5, 4),
                   "float64": (6, 8), "uint8": (20, 1), "int8": (21, 1), "bfloat16": (22, 2), "complex64": (23, 8),
                   "complex128": (24, 16)}  # fmt: skip
"""The code of each dtype in a parameter file, and the bytes of an element."""
WORDS = {"bool": "bool", "int8": "i8", "uint8": "ui8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "f16",
         "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128"}  # fmt: skip


def tensor_type(shape: Sequence[int], dtype: str = "float32") -> dict[str, Any]:
    return {"#": "0.t_dtensor", "D": [{"#": f"0.t_{WORDS[dtype]}"}, list(shape), "NCHW", [], 0]}


def attribute(name: str, kind: str, value: object) -> dict[str, Any]:
    return {"AT": {"#": kind, "D": value}, "N": name}


def booleans(name: str, *values: bool) -> dict[str, Any]:
    return attribute(name, "0.a_array", [{"#": "0.a_bool", "D": value} for value in values])


class Block:
    """The operators of a block. The methods add one and return the number of its value."""

    def __init__(self, program: Program) -> None:
        self.program, self.ops = program, list[dict[str, Any]]()
        self.args, self.kwargs = list[dict[str, Any]](), list[dict[str, Any]]()

    def parameter(
        self, name: str, *shape: int, dtype: str = "float32", persistable: bool = True
    ) -> int:
        result = self.program.new_result(shape, dtype)
        flags = {
            "A": [0, 1, 1, name],
            "DA": [],
            "O": result,
            "OA": [int(persistable), 0, 1],
            "QA": [],
        }
        self.ops.append({"#": "p", **flags})
        return int(result["%"])

    def data(self, name: str, *shape: int, dtype: str = "float32") -> int:
        attributes = [
            attribute("name", "0.a_str", name),
            attribute("shape", "1.a_intarray", list(shape)),
            attribute("dtype", "1.a_dtype", dtype),
            attribute("place", "1.a_place", [0, 0, ""]),
        ]
        return self.op("1.data", shape=shape, dtype=dtype, attributes=attributes)

    def fetch(
        self, value: int, name: str, column: int = 0, *, shape: Sequence[int] = (-1, 2)
    ) -> int:
        attributes = [attribute("name", "0.a_str", name), attribute("col", "0.a_i32", column)]
        return self.op("1.fetch", value, shape=shape, attributes=attributes)

    def op(
        self,
        tag: str,
        *inputs: int,
        shape: Sequence[int] = (-1, 2),
        dtype: str = "float32",
        attributes: Sequence[Mapping[str, Any]] = (),
        bodies: Sequence[Callable[[Block], Sequence[int]]] = (),
        **more: object,
    ) -> int:
        """Add an operator of one value; ``more`` are further keys of its object."""
        return self.several(
            tag, *inputs, shapes=[shape], dtype=dtype, attributes=attributes, bodies=bodies, **more
        )[0]

    def several(
        self,
        tag: str,
        *inputs: int,
        shapes: Sequence[Sequence[int]],
        dtype: str = "float32",
        attributes: Sequence[Mapping[str, Any]] = (),
        bodies: Sequence[Callable[[Block], Sequence[int]]] = (),
        **more: object,
    ) -> list[int]:
        """Add an operator that gives a value for each of ``shapes``."""
        results = [self.program.new_result(shape, dtype) for shape in shapes]
        flags = [booleans("stop_gradient", *(False for _ in shapes))]
        entry: dict[str, Any] = {
            "#": tag,
            "A": list(attributes),
            "I": [{"%": number} for number in inputs],
        }
        self.ops.append({**entry, "O": results, "OA": flags, **more})
        if bodies:
            self.ops[-1]["regions"] = [self.program.region(body) for body in bodies]
        return [int(result["%"]) for result in results]

    def argument(self, *shape: int, dtype: str = "float32", key: str = "") -> int:
        """Add an argument of a body; one with a ``key`` is among the keyword arguments."""
        self.program.arguments += 1
        record = {"#": -self.program.arguments, "TT": tensor_type(shape, dtype)}
        (self.kwargs if key else self.args).append({**record, "key": key} if key else record)
        return -self.program.arguments


class Program(Block):
    """A program; numbers count from 1 in the order of calls."""

    def __init__(self, version: int = 4) -> None:
        self.version, self.values, self.arguments, self.regions = version, 0, 0, 0
        super().__init__(self)

    def new_result(self, shape: Sequence[int], dtype: str) -> dict[str, Any]:
        self.values += 1
        return {"%": self.values, "TT": tensor_type(shape, dtype)}

    def region(self, build: Callable[[Block], Sequence[int]]) -> dict[str, Any]:
        """Return a body; ``build`` adds its operators and returns the values that it gives."""
        self.regions += 1
        number, block = self.regions, Block(self)
        given = build(block)
        block.ops.append(
            {"#": "2.yield", "A": [], "I": [{"%": value} for value in given], "O": [], "OA": []}
        )
        inner = {"#": f"block_{number}", "args": block.args, "ops": block.ops}
        if block.kwargs:
            inner["kwargs"] = block.kwargs
        return {"#": f"region_{number}", "blocks": [inner]}

    def document(self) -> dict[str, Any]:
        block = {"#": "block_0", "args": [], "ops": self.ops}
        return {
            "base_code": {"magic": "pir", "trainable": True, "version": self.version},
            "program": {"regions": [{"#": "region_0", "blocks": [block]}]},
        }

    def encode(self) -> bytes:
        return encode(self.document())

    def save(self, folder: Path, arrays: Mapping[str, bytes], name: str = "inference") -> str:
        """Write both files, ``arrays`` are records by name; return the stem."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_bytes(self.encode())
        (folder / f"{name}.pdiparams").write_bytes(pdiparams(arrays))
        return str(folder / name)


def encode(document: object) -> bytes:
    """The text that Paddle writes: keys in alphabetical order, no whitespace, UTF-8."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()


def pdiparams(arrays: Mapping[str, bytes]) -> bytes:
    """The parameter file of records by name, which come in the order of the names."""
    return b"".join(arrays[name] for name in sorted(arrays))


def record(
    shape: Sequence[int],
    dtype: str = "float32",
    data: bytes | None = None,
    *,
    levels: Sequence[bytes] = (),
) -> bytes:
    """A record of a parameter file; without ``data`` with bytes that tell its place."""
    code, item = PDIPARAMS_CODES[dtype]
    count = item
    for size in shape:
        count *= size
    description = b"\x08" + varint(code) + b"".join(b"\x10" + varint(size) for size in shape)
    head = struct.pack("<IQ", 0, len(levels)) + b"".join(
        struct.pack("<Q", len(level)) + level for level in levels
    )
    content = bytes((sum(shape) * 31 + i * 7) % 251 for i in range(count)) if data is None else data
    return head + struct.pack("<Ii", 0, len(description)) + description + content


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def varint(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes(data + bytes([value]))


def dense() -> tuple[Program, dict[str, bytes]]:
    """``x`` times ``fc.w`` plus ``fc.b`` into ``out``."""
    program = Program()
    bias, weight = program.parameter("fc.b", 2), program.parameter("fc.w", 3, 2)
    x = program.data("x", -1, 3)
    flags = [
        attribute("transpose_x", "0.a_bool", False),
        attribute("transpose_y", "0.a_bool", False),
    ]
    product = program.op(
        "1.matmul", x, weight, attributes=[*flags, attribute("struct_name", "0.a_str", "/Linear/")]
    )
    program.fetch(program.op("1.add", product, bias), "out")
    return program, {"fc.b": record((2,)), "fc.w": record((3, 2))}


def bodies() -> tuple[Program, dict[str, bytes]]:
    """An ``if`` whose branches capture a parameter, and a ``while`` with arguments, an ``if`` and a
    capture in its body.
    """
    program = Program()
    weight, x = program.parameter("层.w", 2), program.data("x", -1, 2)
    condition = program.op("1.any", x, shape=(), dtype="bool")

    def inner(block: Block) -> list[int]:
        return [block.op("1.scale", weight, shape=(2,))]

    def branch(block: Block) -> list[int]:
        added = block.op("1.add", x, weight)
        return [
            block.op("1.add", added, block.op("1.if", condition, shape=(2,), bodies=[inner, inner]))
        ]

    chosen = program.op(
        "1.if", condition, bodies=[branch, lambda block: [block.op("1.multiply", x, weight)]]
    )

    def loop(block: Block) -> list[int]:
        value = block.argument(-1, 2)
        step = block.argument(-1, 2, key="step")
        value = block.op("1.add", value, step)
        return [
            block.op("1.any", value, shape=(), dtype="bool"),
            block.op("1.add", value, weight),
            step,
        ]

    result, _ = program.several(
        "1.while", condition, chosen, x, shapes=[(-1, 2), (-1, 2)], bodies=[loop]
    )
    program.fetch(result, "out")
    return program, {"层.w": record((2,))}


def odd() -> tuple[Program, dict[str, bytes]]:
    """Absent inputs, several outputs out of order, gaps between numbers, keys and dialects that are not known."""
    program = Program()
    scratch = program.parameter("scratch", 2, persistable=False)
    weight, x = program.parameter("w", 2), program.data("x", -1, 2)
    program.values = 40
    left, right = program.several(
        "1.split", x, 0, weight, 0, shapes=[(-1, 1), (-1, 1)], note={"k": [1.5e-07]}
    )
    joined = program.op(
        "3.mine",
        left,
        right,
        0,
        attributes=[attribute("scale", "0.a_f32", 1e-05), attribute("é\n", "9.a_z", None)],
    )
    total = program.op("1.add", joined, scratch)
    program.fetch(joined, "first", 0)
    program.fetch(total, "second", 1)
    return program, {"w": record((2,))}
