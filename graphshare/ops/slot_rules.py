"""Rules that the tables' notation has no words for: inputs, outputs and slots that follow from counts in the attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshare.ops.signature import MAX_COUNT, AttributeFault, Outputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphshare.ops.signature import Attributes, InputRule, LoadCheck, OutputRule, Signature


def number_outputs(count: int, visible: int | None = None) -> Outputs:
    """Outputs without declared labels: ``output`` for a single one, else ``output0``, ``output1``, ..."""
    labels = ("output",) if count == 1 else tuple(f"output{i}" for i in range(count))
    return Outputs(count, count if visible is None else visible, labels)


def count_of(signature: Signature, attrs: Attributes, key: str) -> int:
    """A count from the attributes; 0 where it is missing or senseless, or larger than any graph's (``MAX_COUNT``)."""
    value = signature.value(attrs, key)
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else 0


def outputs_by_attribute(key: str) -> OutputRule:
    """As many outputs as the attribute ``key`` says."""
    return lambda signature, attrs: number_outputs(count_of(signature, attrs, key))


def split(signature: Signature, attrs: Attributes) -> Outputs:
    """``sections`` equal parts, or one for each of ``indices`` (which begin with 0)."""
    return number_outputs(count_of(signature, attrs, "sections") or len(signature.value(attrs, "indices") or ()))


def pooling_outputs(signature: Signature, attrs: Attributes) -> Outputs:
    """A maximum keeps a workspace where oneDNN computes it: a kernel of rank 1 to 3, channels first."""
    kernel = signature.value(attrs, "kernel") or ()
    channels_first = signature.value(attrs, "layout") in (None, "NCW", "NCHW", "NCDHW")
    if signature.value(attrs, "pool_type") == "max" and 1 <= len(kernel) <= 3 and channels_first:
        return Outputs(2, 1, ("output", "workspace"))
    return number_outputs(1)


def ranks_agree(*keys: str) -> LoadCheck:
    """These tuples are empty or as long as ``kernel``."""

    def check(values: Mapping[str, Any]) -> AttributeFault | None:
        kernel = values["kernel"]
        for key in keys:
            value = values[key]
            if value is None or (value and len(value) != len(kernel)):
                return AttributeFault("constraint", key, str(value), f"have {len(kernel)} members, as kernel has, or none")
        return None

    return check


def kernel_rank(*ranks: int) -> LoadCheck:
    """``kernel`` has one of these ranks, unless the whole plane is pooled."""

    def check(values: Mapping[str, Any]) -> AttributeFault | None:
        kernel = values["kernel"]
        if values.get("global_pool") or (kernel is not None and len(kernel) in ranks):
            return None
        return AttributeFault("constraint", "kernel", str(kernel), f"have {' or '.join(map(str, ranks))} members")

    return check


def without_zeros(*keys: str) -> LoadCheck:
    """These tuples have no member 0."""

    def check(values: Mapping[str, Any]) -> AttributeFault | None:
        wrong = [key for key in keys if 0 in (values[key] or ())]
        return AttributeFault("constraint", wrong[0], str(values[wrong[0]]), "not hold 0") if wrong else None

    return check


def inputs_by_flags(first: str, *flags: str) -> InputRule:
    """``input1``, ``input2``...: one where ``first`` is None (always, if it is empty), one for each flag that is set."""

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        count = (not first or signature.value(attrs, first) is None) + sum(bool(signature.value(attrs, flag)) for flag in flags)
        return tuple(f"input{i}" for i in range(1, count + 1))

    return rule
