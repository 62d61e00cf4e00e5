"""Errors at a node: faults of the model, and bugs of a kernel or gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import msgspec

from graphshare.errors import BugError, Fault, GraphshareError, RefusedError
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array, Attrs, Kernel, KernelError, Shapes, Types
from graphshare.ops.limits import negative_size
from graphshare.ops.registry import find_signature
from graphshare.ops.signature import Parameter
from graphshare.text.format import format_count, format_shape

_NUMBER_KINDS = ("int", "int64", "uint", "uint64", "float", "double")


class KernelCall(msgspec.Struct, frozen=True, eq=False):
    """A node's facts as its kernel or rule had them; ``results`` are the inferred output shapes."""

    node: Node
    kernel: Kernel
    attrs: Attrs
    shapes: Shapes
    dtypes: Types
    arrays: Sequence[Array] = ()
    results: Shapes = ()


def refuse_inputs(node: Node, inputs: Sequence[str], reason: object) -> RefusedError:
    """Return the error for shapes or dtypes that the operator cannot take."""
    return RefusedError(
        Fault(f"{node.op} cannot take {_format_inputs(node, inputs)}: {reason}", node=node.name)
    )


def explain_failure(call: KernelCall, part: str, error: Exception) -> Exception:
    """Return the error to raise where ``part`` of a kernel or gradient raised ``error``.

    It is a refusal if the node is wrong or its inputs are beyond the kernel's limits, else a bug.
    An error already explained (in a subgraph) or caused by the machine is raised again.
    """
    if isinstance(error, (BugError, GraphshareError, MemoryError, RecursionError)):
        raise error
    node, limits = call.node, call.kernel.limits
    faults = find_faults(node)
    if faults:
        return RefusedError(faults)
    reason = (
        negative_size(call.results) or _contradiction(call) or _unusable_attribute(node, call.attrs)
    )
    # A Python integer that its dtype cannot hold.
    if reason is None and isinstance(error, OverflowError):
        reason = f"a number is out of range ({error})"
    if reason is None and limits is not None:
        reason = limits.violation(call.attrs, call.shapes, call.dtypes, call.arrays)
    if reason:
        return refuse_inputs(node, [format_shape(shape) for shape in call.shapes], reason)
    texts = [
        f"{dtype or '?'} {format_shape(shape)}"
        for dtype, shape in zip(call.dtypes, call.shapes, strict=False)
    ]
    return report_bug(node, part, texts, error)


def _contradiction(call: KernelCall) -> str | None:
    """Return why the kernel's rules refuse facts that were not inferred before."""
    try:
        call.kernel.shapes(call.attrs, call.shapes, [None])
        call.kernel.types(call.attrs, call.dtypes, [None])
    except KernelError as error:
        return str(error)
    except Exception:  # the rule itself fails: the first error is the bug to report
        return None
    return None


def _unusable_attribute(node: Node, attrs: Attrs) -> str | None:
    """Describe an attribute that was read but cannot be computed with."""
    signature = find_signature(node)
    if signature is None:
        return None
    for parameter in signature.parameters or ():
        if parameter.name not in node.attrs:
            continue
        if not _is_usable(parameter, attrs.get(parameter.name)):
            return f"{parameter.name} is {node.attrs[parameter.name]!r}"
    return None


def _is_usable(parameter: Parameter, value: Any) -> bool:
    kind = parameter.kind
    if isinstance(value, str) and kind.removesuffix("?") in _NUMBER_KINDS:
        return False
    members = value if isinstance(value, (tuple, list)) else (value,)
    if None in members and not kind.endswith("?"):
        return False
    return all(isfinite(member) for member in members if isinstance(member, float))


def report_bug(node: Node, part: str, inputs: Sequence[str], error: Exception) -> BugError:
    """Return the error for an unexpected exception in ``part`` (kernel, shape rule...)."""
    cause = f"{type(error).__name__}: {error}"
    return BugError(
        f"the {part} of {node.op} (node {node.name!r}) failed on {_format_inputs(node, inputs)}: {cause}"
    )


def _format_inputs(node: Node, inputs: Sequence[str]) -> str:
    names = [entry.node.name or entry.node.operator_text for entry in node.inputs]
    texts = [f"{name} {text}" for name, text in zip(names, inputs, strict=False)]
    return ", ".join(texts) or "no inputs"


def find_faults(node: Node) -> list[Fault]:
    """Return the faults of unreadable attributes and of a wrong number of inputs."""
    signature = find_signature(node)
    if signature is None:
        return []
    faults = [Fault(fault.message, node=node.name) for fault in signature.parse(node.attrs)[1]]
    return faults or list(_count_faults(node))


def _count_faults(node: Node) -> Iterable[Fault]:
    signature = find_signature(node)
    if signature is None or not signature.inputs_known:
        return
    # The first names belong to subgraphs and have no entries.
    names = signature.formal_inputs(node.attrs, subgraphs=node.subgraphs)[signature.num_subgraphs :]
    if len(names) != len(node.inputs):
        count, listing = format_count(len(node.inputs), "input"), ", ".join(names) or "none"
        message = f"{node.op} has {count}, expected {len(names)} ({listing})"
        yield Fault(message, node=node.name)
