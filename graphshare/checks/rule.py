"""Check rules: a level, a reason, two examples, and a function that finds violations.

The examples are the rule's tests and documentation: it must report the first and not the second.
They have a short notation: symbol files with one node per line, ONNX models field by field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from graphshare.checks.context import SHARDS
from graphshare.checks.context import CheckContext as CheckContext
from graphshare.errors import Fault
from graphshare.ir.graph import VARIABLE_OP, Node
from graphshare.reports.model import Level as Level
from graphshare.reports.model import RuleInfo, Steps, parse_path


class Violation(msgspec.Struct, frozen=True, eq=False):
    """A place that breaks a rule: ``steps`` in the JSON document, or a ``record`` of the parameter
    file.

    Without ``steps`` it is the place of ``node``, or the whole document. ``record`` is the record's
    name in messages; an empty text means the whole file. ``at`` is a line and column for places
    that steps cannot express. ``level`` is set if the violation is milder than its rule. ``file``
    is the file in a folder.
    """

    message: str
    steps: Steps = ()
    node: Node | None = None
    hint: str = ""
    record: str | None = None
    at: tuple[int, int] = (0, 0)
    name: str | None = None
    level: Level | None = None
    file: str = ""

    @property
    def node_name(self) -> str | None:
        return self.node.name if self.node is not None else self.name

    @staticmethod
    def of_fault(fault: Fault) -> Violation:
        return Violation(
            fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node
        )


_FORMATS = {"gs6": "onnx", "gs7": SHARDS, "gs8": "paddle"}
"""The formats of rules by the beginning of their codes; the others check MXNet's."""
Violations = Iterator[Violation]
FindViolations = Callable[[CheckContext], Violations]


class ExampleRecord(msgspec.Struct, frozen=True):
    """An array in an example's parameter file, filled with ``value``; with ``shape`` None it was
    never filled.
    """

    key: str
    shape: tuple[int, ...] | None = (2,)
    dtype: str = "float32"
    value: float = 0.5


class Example(msgspec.Struct, frozen=True):
    """A symbol file, and the records of its parameter file if the rule needs one.

    ``named``: the records have names; ``damaged``: the parameter file is cut in half; ``shapes``
    are given by ``--shape``. ``files`` has the files of a checkpoint folder, by name.
    """

    graph: str | bytes
    params: tuple[ExampleRecord, ...] | None = None
    named: bool = True
    damaged: bool = False
    shapes: Mapping[str, tuple[int | None, ...]] = {}
    files: Mapping[str, bytes] = {}


class CheckRule(msgspec.Struct, frozen=True, kw_only=True):
    """One check. ``why`` describes the damage of a violation, ``fix`` the effect of ``--fix``
    (empty: none).

    Without ``runs_after_errors`` it skips graphs in which another rule finds an error.
    """

    code: str
    name: str
    level: Level
    summary: str
    why: str
    find: FindViolations
    fails: Example
    passes: Example
    fix: str = ""
    format: str = "mxnet"
    runs_after_errors: bool = True

    @property
    def info(self) -> RuleInfo:
        text = f"{self.summary}. {self.why}" + (f" --fix {self.fix}." if self.fix else "")
        return RuleInfo(self.code, self.name, self.level, self.summary, text, bool(self.fix))


def check_rule(
    *,
    level: Literal["error", "warning", "note"],
    summary: str,
    why: str,
    fails: Example | str | bytes,
    passes: Example | str | bytes,
    fix: str = "",
    runs_after_errors: bool = True,
) -> Callable[[FindViolations], CheckRule]:
    """Make a rule from the function that finds its violations; the module's name has its code and
    name.

    The code implies the format of the graphs. An example given as text or bytes has no parameters.
    """

    def make(find: FindViolations) -> CheckRule:
        code, _, name = find.__module__.rpartition(".")[2].partition("_")
        return CheckRule(
            code=code.upper(),
            name=name.replace("_", "-"),
            level=Level(level),
            summary=summary,
            why=why,
            find=find,
            fails=fails if isinstance(fails, Example) else Example(fails),
            passes=passes if isinstance(passes, Example) else Example(passes),
            fix=fix,
            format=_FORMATS.get(code[:3], "mxnet"),
            runs_after_errors=runs_after_errors,
        )

    return make


NodeObject = dict[str, Any]


def variable(name: str, **attrs: str) -> NodeObject:
    """Return a variable node."""
    return {"op": VARIABLE_OP, "name": name, **({"attrs": attrs} if attrs else {}), "inputs": []}


def operator(op: str, name: str, *inputs: int | tuple[int, int], **attrs: str) -> NodeObject:
    """Return an operator node; an input is a node id, or an id and an output index."""
    entries = [[i, 0, 0] if isinstance(i, int) else [*i, 0] for i in inputs]
    return {"op": op, "name": name, **({"attrs": attrs} if attrs else {}), "inputs": entries}


def symbol(
    *nodes: NodeObject,
    heads: Sequence[int | tuple[int, int]] | None = None,
    arg_nodes: Iterable[int] | None = None,
    version: int | None = 10901,
    **more: object,
) -> str:
    """Return the text of a symbol file; the last node is its output unless ``heads`` is given."""
    outputs = [
        [i, 0, 0] if isinstance(i, int) else [*i, 0]
        for i in ((len(nodes) - 1,) if heads is None else heads)
    ]
    variables = (
        [i for i, node in enumerate(nodes) if node["op"] == VARIABLE_OP]
        if arg_nodes is None
        else list(arg_nodes)
    )
    keys = {"arg_nodes": variables, "heads": outputs, **more}
    if version is not None:
        keys.setdefault("attrs", {"mxnet_version": ["int", version]})
    lines = ",\n  ".join(json.dumps(node, ensure_ascii=False) for node in nodes)
    rest = "".join(
        f",\n {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in keys.items()
    )
    return f'{{"nodes": [\n  {lines}]{rest}}}\n'


#: The parameters of :func:`dense`.
DENSE_RECORDS = (ExampleRecord("arg:fc_weight", (2, 3)), ExampleRecord("arg:fc_bias", (2,)))


def dense() -> str:
    """Return a graph of one FullyConnected with two units."""
    names = ("data", "fc_weight", "fc_bias")
    return symbol(*map(variable, names), operator("FullyConnected", "fc", 0, 1, 2, num_hidden="2"))


def batch_norm(*, mean: str = "bn_moving_mean", var: str = "bn_moving_var") -> str:
    """Return a graph of one BatchNorm."""
    names = ("data", "bn_gamma", "bn_beta", mean, var)
    return symbol(*map(variable, names), operator("BatchNorm", "bn", 0, 1, 2, 3, 4, eps="0.001"))


def field(number: int, content: int | str | bytes) -> bytes:
    """Return a field with an integer or at most 16,383 bytes."""
    if isinstance(content, int):
        return _number(number << 3) + _number(content)
    data = content.encode() if isinstance(content, str) else content
    return _number(number << 3 | 2) + _number(len(data)) + data


def _number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


def apply(
    op: str, inputs: str, outputs: str, *attributes: bytes, name: str = "", domain: str = ""
) -> bytes:
    """Return a node; its values are separated by blanks."""
    values = [
        field(number, text)
        for number, texts in ((1, inputs), (2, outputs))
        for text in texts.split()
    ]
    more = [field(number, text) for number, text in ((3, name), (4, op), (7, domain)) if text]
    return field(1, b"".join([*values, *more, *attributes]))


def branch(name: str, *parts: bytes) -> bytes:
    """Return an attribute that is a body with one value, its output ``name``."""
    return field(
        5,
        field(1, name)
        + field(6, b"".join([*parts, field(2, name), field(12, field(1, name))]))
        + field(20, 5),
    )


def function(name: str) -> bytes:
    """Return a function in the domain ``own`` that returns its input."""
    return field(25, field(1, name) + field(4, "a") + field(5, "a") + field(10, "own"))


def value(number: int, name: str, *shape: int, dtype: int = 1) -> bytes:
    """Return a graph input (11), a graph output (12) or a value_info (13)."""
    sizes = b"".join(field(1, field(1, size)) for size in shape)
    return field(number, field(1, name) + field(2, field(1, field(1, dtype) + field(2, sizes))))


def initializer(name: str, *, location: str = "", size: int = 2) -> bytes:
    """Return an initializer of ``size`` float32 numbers, in the file ``location`` if given."""
    # The last byte differs, because GS612 ignores arrays of one repeated number.
    data = field(13, field(1, "location") + field(2, location)) + field(14, 1) if location else b""
    return field(
        5,
        field(1, size)
        + field(2, 1)
        + field(8, name)
        + (data or field(9, bytes(4 * size - 1) + b"?")),
    )


def model(*parts: bytes, opset: int = 17, more: bytes = b"") -> bytes:
    """Return a model of IR version 8 from fields of its graph and ``more`` of its own; ``opset`` 0
    imports none.
    """
    graph = field(7, b"".join([*parts, field(2, "graph")]))
    return field(1, 8) + graph + (field(8, field(2, opset)) if opset else b"") + more


def relu(*parts: bytes, opset: int = 17, more: bytes = b"") -> bytes:
    """Return a model of one Relu, with further fields of its graph."""
    return model(
        apply("Relu", "x", "y"),
        *parts,
        value(11, "x", 2),
        value(12, "y", 2),
        opset=opset,
        more=more,
    )


def checkpoint(
    shards: Mapping[str, str], *, index: Mapping[str, str] | None = None, **config: object
) -> Example:
    """Return a checkpoint folder: ``shards`` have names of tensors separated by blanks.

    ``name`` has 2 bytes, ``name:4`` has 4, ``name:0`` none, and ``name!`` different values.
    """
    files: dict[str, bytes] = {"config.json": json.dumps(config).encode()} if config else {}
    if index is not None:
        files["model.safetensors.index.json"] = json.dumps({"weight_map": index}).encode()
    for file, names in shards.items():
        header, data = {}, b""
        for text in names.split():
            name, _, size = text.removesuffix("!").partition(":")
            content = (b"\1" if text.endswith("!") else b"\0") * int(size or 2)
            shape = [len(content)] if content else []
            offsets = [len(data), len(data) + len(content)]
            header[name] = {
                "dtype": "U8" if content else "",
                "shape": shape,
                "data_offsets": offsets,
            }
            data += content
        text = json.dumps(header)
        files[file] = len(text).to_bytes(8, "little") + text.encode() + data
    return Example("", files=files)


def program(*operators: NodeObject, version: int = 4) -> bytes:
    """Return a program of Paddle."""
    block = {"#": "block_0", "args": [], "ops": operators}
    document = {
        "base_code": {"magic": "pir", "trainable": True, "version": version},
        "program": {"regions": [{"#": "region_0", "blocks": [block]}]},
    }
    return json.dumps(document, separators=(",", ":")).encode()


def step(tag: str, inputs: str, number: int, **attributes: Any) -> NodeObject:
    """Return an operator of Paddle with the result ``number``; blanks separate its inputs' numbers."""
    kinds = {bool: "0.a_bool", int: "0.a_i32", str: "0.a_str"}
    listed = [
        {"AT": {"#": kinds[type(value)], "D": value}, "N": name}
        for name, value in attributes.items()
    ]
    return {
        "#": tag,
        "A": listed,
        "I": [{"%": int(text)} for text in inputs.split()],
        "O": [_result(number)],
        "OA": [],
    }


def parameter(name: str, number: int) -> NodeObject:
    """Return a parameter of Paddle with two float32 elements, both ``number``."""
    return {
        "#": "p",
        "A": [0, 1, 1, name],
        "DA": [],
        "O": _result(number),
        "OA": [1, 0, 1],
        "QA": [],
    }


def _result(number: int) -> NodeObject:
    return {"%": number, "TT": {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [2], "NCHW", [], 0]}}
