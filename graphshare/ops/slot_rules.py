"""Inputs, outputs and slots by attributes, where the tables' notation does not suffice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshare.ops.signature import MAX_COUNT, AttributeFault, OutputList
from graphshare.text.format import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphshare.ops.signature import Attributes, InputRule, LoadCheck, OutputRule, Signature


def number_outputs(count: int, visible: int | None = None) -> OutputList:
    """Return unlabelled outputs: ``output`` for a single one, else ``output0``, ``output1``, ..."""
    labels = ("output",) if count == 1 else ()
    return OutputList(count, count if visible is None else visible, labels)


def read_count(signature: Signature, attrs: Attributes, key: str) -> int:
    """Return a count attribute; 0 if missing, negative or above ``MAX_COUNT``."""
    value = signature.value(attrs, key)
    return value if isinstance(value, int) and MAX_COUNT >= value > 0 else 0


def outputs_by_attribute(key: str) -> OutputRule:
    """Return a rule for as many outputs as ``key`` says."""
    return lambda signature, attrs, subgraphs: number_outputs(read_count(signature, attrs, key))


def split(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> OutputList:
    """Return ``sections`` outputs, or one for each of ``indices``."""
    # MXNet's Python interface puts 0 before the user's indices: as many as parts.
    return number_outputs(
        read_count(signature, attrs, "sections") or len(signature.value(attrs, "indices") or ())
    )


def pooling_outputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> OutputList:
    """Return the output, plus oneDNN's workspace for max pooling: rank 1 to 3, channels first."""
    kernel = signature.value(attrs, "kernel") or ()
    # Only oneDNN needs the workspace for the backward pass.
    channels_first = signature.value(attrs, "layout") in (None, "NCW", "NCHW", "NCDHW")
    if signature.value(attrs, "pool_type") == "max" and 1 <= len(kernel) <= 3 and channels_first:
        return OutputList(2, 1, ("output", "workspace"))
    return number_outputs(1)


def require_same_rank(*keys: str) -> LoadCheck:
    """Return a check that tuples are empty or as long as ``kernel``."""

    def check(values: Mapping[str, Any]) -> AttributeFault | None:
        kernel = values["kernel"] or ()
        for key in keys:
            value = values[key]
            if value is None or (value and len(value) != len(kernel)):
                count = format_count(len(kernel), "member")
                expected = f"have {count}, as many as kernel, or none"
                return AttributeFault("constraint", key, str(value), expected)
        return None

    return check


def require_kernel_rank(*ranks: int) -> LoadCheck:
    """Return a check of ``kernel``'s rank, unless pooling is global."""

    def check(values: Mapping[str, Any]) -> AttributeFault | None:
        kernel = values["kernel"]
        if values.get("global_pool"):
            return None
        if kernel is not None and len(kernel) in ranks:
            return None
        expected = f"have {' or '.join(map(str, ranks))} members"
        return AttributeFault("constraint", "kernel", str(kernel), expected)

    return check


def require_nonzero(*keys: str) -> LoadCheck:
    """Return a check that tuples do not contain 0."""

    def check(values: Mapping[str, Any]) -> AttributeFault | None:
        for key in keys:
            if 0 in (values[key] or ()):
                return AttributeFault("constraint", key, str(values[key]), "not contain 0")
        return None

    return check


def inputs_by_flags(first: str, *flags: str) -> InputRule:
    """Return a rule for ``input1``...: one if ``first`` is empty or None, one per set flag."""

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        count = sum(bool(signature.value(attrs, flag)) for flag in flags)
        if not first or signature.value(attrs, first) is None:
            count += 1
        return tuple(f"input{i}" for i in range(1, count + 1))

    return rule
