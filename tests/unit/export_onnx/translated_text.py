"""The text of a translated graph: a line for each node, its values by number, and its constants."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from graphshare.formats.onnx.stored import find_stored
from graphshare.formats.onnx.types import input_types, output_types
from graphshare.ir.graph import Graph, Node
from graphshare.ir.onnx import dtype_name

LONG = 24
"""Elements of a constant that are all written; of more a part is."""
SAMPLED = 12
RELATIVE = 1e-3
"""The difference of two floats that are taken as equal: they are written with four digits."""
_NUMBER = re.compile(r"-?(?:\binf\b|\bnan\b|\d+\.?\d*(?:e[+-]?\d+)?)")


def describe_graph(graph: Graph) -> str:
    """Return the lines of a graph: its inputs, its operators, its outputs."""
    return "\n".join(_Description().list_lines(graph, {}, ""))


class _Description:
    """Numbers the values of a graph and of the bodies in it, each in the order in which they are computed."""

    def __init__(self) -> None:
        self._count = 0

    def list_lines(self, graph: Graph, captured: Mapping[Node, str], indent: str) -> Iterator[str]:
        """Yield the lines of a graph, or of a body that captures values."""
        values: dict[tuple[Node, int], str] = {(node, 0): text for node, text in captured.items()}
        inputs = input_types(graph)
        for node in graph.variables():
            if node in captured:
                continue
            if node.name in inputs and not node.details.holds_value:
                text = self._number() if indent else node.name
                yield f"{indent}{text}: {inputs[node.name]}"
            else:
                text = (
                    node.name
                    if re.fullmatch(r"in\d+", node.name)
                    else describe_constant(_read(node))
                )
            values[node, 0] = text
        for node in graph.nodes:
            if node.op:
                yield from self._list_node(node, values, indent)
        for head, stated in zip(graph.heads, output_types(graph).values(), strict=True):
            yield f"{indent}-> {values[head.node, head.index]}: {stated}"

    def _list_node(
        self, node: Node, values: dict[tuple[Node, int], str], indent: str
    ) -> Iterator[str]:
        captures = [variable for body in node.subgraphs for variable in body.captures]
        names = [values[entry.node, entry.index] for entry in node.inputs]
        own, outer = names[: len(names) - len(captures)], names[len(names) - len(captures) :]
        for position in node.details.absent:
            own.insert(position, "")
        results = [self._number() if name else "" for name in node.details.outputs]
        values.update({(node, index): text for index, text in enumerate(results)})
        attributes = [
            f" {name}={text}"
            for name, text in sorted(node.attrs.items())
            if name not in node.details.bodies
        ]
        domain = f"{node.details.domain}:" if node.details.domain else ""
        yield f"{indent}{' '.join(results)} = {domain}{node.op}({', '.join(own)}){''.join(attributes)}"
        known = dict(zip(captures, outer, strict=True))
        for name, body in zip(node.details.bodies, node.subgraphs, strict=True):
            yield f"{indent} {name}:"
            yield from self.list_lines(
                body,
                {n: text for n, text in known.items() if n in set(body.captures)},
                indent + "  ",
            )

    def _number(self) -> str:
        self._count += 1
        return f"%{self._count}"


def _read(node: Node) -> Any:
    stored = find_stored(node.details)
    assert stored.tensor is not None
    assert stored.place is not None
    content = stored.tensor.read()[stored.place.start : stored.place.end]
    return np.frombuffer(
        content, np.dtype(dtype_name(stored.place.code)).newbyteorder("<")
    ).reshape(stored.place.shape)


def describe_constant(array: Any) -> str:
    """Return dtype, shape and elements: of many a part, and a number that follows from all of them."""
    shape = ",".join(map(str, array.shape))
    elements = array.ravel()
    if elements.size <= LONG:
        return f"{array.dtype}[{shape}]({' '.join(_list_numbers(elements))})"
    sample = elements[np.linspace(0, elements.size - 1, SAMPLED).astype(int)]
    if array.dtype.kind == "f":
        finite = np.where(np.isfinite(elements), elements, 0).astype(np.float64)
        # Weights that never repeat, so that two elements that change places are noticed.
        weights = np.sqrt(np.arange(1, elements.size + 1))
        whole = _list_numbers(np.array([np.abs(finite).sum(), np.abs(finite) @ weights]))
    else:
        whole = [str(zlib.crc32(elements.astype("<i8").tobytes()))]
    return f"{array.dtype}[{shape}]({' '.join(_list_numbers(sample))} .. {' '.join(whole)})"


def _list_numbers(elements: Any) -> list[str]:
    if elements.dtype.kind != "f":
        return [str(int(x)) for x in elements]
    finite = np.abs(elements[np.isfinite(elements)].astype(np.float64))
    # What rounding leaves of a zero depends on the processor.
    least = 1e-7 * finite.max(initial=0)
    return [f"{0.0 if abs(x) < least else x:.4g}" for x in elements.tolist()]


def find_difference(text: str, recorded: str) -> str:
    """Return the first lines in which two texts differ, in floats by more than :data:`RELATIVE`;
    empty where none do.
    """
    if text == recorded:
        return ""
    lines, others = text.split("\n"), recorded.split("\n")
    for line, other in zip(lines, others, strict=False):
        if not _is_alike(line, other):
            return f"{line!r} instead of {other!r}"
    return "" if len(lines) == len(others) else f"{len(lines)} lines instead of {len(others)}"


def _is_alike(line: str, other: str) -> bool:
    if _NUMBER.sub("#", line) != _NUMBER.sub("#", other):
        return False
    return all(map(_is_close, _NUMBER.findall(line), _NUMBER.findall(other)))


def _is_close(number: str, other: str) -> bool:
    if number == other:
        return True
    if number.lstrip("-").isdigit() and other.lstrip("-").isdigit():
        return False
    return bool(np.isclose(float(number), float(other), rtol=RELATIVE, atol=0))
