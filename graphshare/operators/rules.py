"""Rules that the tables' notation has no words for: inputs, outputs and slots that follow from counts in the attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshare.operators.signature import MAX_COUNT, AttributeFault, Outputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphshare.operators.signature import Attributes, InputRule, LoadCheck, OutputRule, Signature, SlotRule


def numbered(count: int, visible: int | None = None) -> Outputs:
    """Outputs without declared labels: ``output`` for a single one, else ``output0``, ``output1``, ..."""
    labels = ("output",) if count == 1 else tuple(f"output{i}" for i in range(count))
    return Outputs(count, count if visible is None else visible, labels)


def count_of(signature: Signature, attrs: Attributes, key: str) -> int:
    """A count from the attributes; 0 where it is missing or senseless, or larger than any graph's (``MAX_COUNT``)."""
    value = signature.value(attrs, key)
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else 0


def counted(key: str) -> OutputRule:
    """As many outputs as the attribute ``key`` says."""
    return lambda signature, attrs: numbered(count_of(signature, attrs, key))


def sliced(signature: Signature, attrs: Attributes) -> Outputs:
    """SliceChannel numbers its outputs even when there is only one."""
    count = count_of(signature, attrs, "num_outputs")
    return Outputs(count, count, tuple(f"output{i}" for i in range(count)))


def split(signature: Signature, attrs: Attributes) -> Outputs:
    """``sections`` equal parts, or one for each of ``indices`` (which begin with 0)."""
    return numbered(count_of(signature, attrs, "sections") or len(signature.value(attrs, "indices") or ()))


def top_k(signature: Signature, attrs: Attributes) -> Outputs:
    """Values come with their indices, which ``value`` alone then hides."""
    kind = signature.value(attrs, "ret_typ")
    return numbered(2, 2 if kind == "both" else 1) if kind in ("both", "value") else numbered(1)


def pooled(signature: Signature, attrs: Attributes) -> Outputs:
    """A maximum keeps a workspace where oneDNN computes it: a kernel of rank 1 to 3, channels first."""
    kernel = signature.value(attrs, "kernel") or ()
    channels_first = signature.value(attrs, "layout") in (None, "NCW", "NCHW", "NCDHW")
    if signature.value(attrs, "pool_type") == "max" and 1 <= len(kernel) <= 3 and channels_first:
        return Outputs(2, 1, ("output", "workspace"))
    return numbered(1)


def unique(signature: Signature, attrs: Attributes) -> Outputs:
    """The values and one array for each kind of position asked for."""
    flags = ("return_index", "return_inverse", "return_counts")
    return numbered(1 + sum(bool(signature.value(attrs, flag)) for flag in flags))


def averaged(signature: Signature, attrs: Attributes) -> Outputs:
    """The average, and the sum of weights, shown on request."""
    return numbered(2, 2 if signature.value(attrs, "returned") else 1)


def not_knowable(signature: Signature, attrs: Attributes) -> None:
    """The code behind the operator decides."""
    return


def repeated(names: str, count: str, tail: str = "") -> InputRule:
    """A group of inputs for every weight, numbered, and what follows once: ``weight_0 grad_0 weight_1 grad_1 lrs``."""
    group, once = names.split(), tuple(tail.split())

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        return tuple(f"{name}{i}" for i in range(count_of(signature, attrs, count)) for name in group) + once

    return rule


def repeated_slots(width: int, slots: tuple[int, ...], count: str) -> SlotRule:
    """The same mutable places in every group of ``width`` inputs."""

    def rule(signature: Signature, attrs: Attributes, num_inputs: int, subgraphs: Sequence[Any]) -> tuple[int, ...]:
        return tuple(width * i + slot for i in range(count_of(signature, attrs, count)) for slot in slots)

    return rule


def all_slots(signature: Signature, attrs: Attributes, num_inputs: int, subgraphs: Sequence[Any]) -> tuple[int, ...]:
    """Every input is written."""
    return tuple(range(num_inputs))


def up_sampling_inputs(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
    """Bilinear sampling has one input and a weight, whatever ``num_args`` says."""
    if signature.value(attrs, "sample_type") == "bilinear":
        return ("data", "weight")
    return tuple(f"arg{i}" for i in range(count_of(signature, attrs, "num_args")))


def body_inputs(*bodies: str) -> InputRule:
    """Control flow: the names of the bodies come first although no entry stands for them; ``num_args`` counts all."""

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        data = count_of(signature, attrs, "num_args") - len(bodies)
        return bodies + tuple(f"data{i}" for i in range(data))

    return rule


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


def pairs_of_sizes(*keys: str) -> LoadCheck:
    """These tuples have two members."""

    def check(values: Mapping[str, Any]) -> AttributeFault | None:
        wrong = [key for key in keys if values[key] is None or len(values[key]) != 2]
        return AttributeFault("constraint", wrong[0], str(values[wrong[0]]), "have 2 members") if wrong else None

    return check


def without_zeros(*keys: str) -> LoadCheck:
    """These tuples have no member 0."""

    def check(values: Mapping[str, Any]) -> AttributeFault | None:
        wrong = [key for key in keys if 0 in (values[key] or ())]
        return AttributeFault("constraint", wrong[0], str(values[wrong[0]]), "not hold 0") if wrong else None

    return check


def standing_in(*keys: str) -> InputRule:
    """``input1``, ``input2``: one for each of these parameters that is None, numbered without gaps."""

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        missing = [key for key in keys if signature.value(attrs, key) is None]
        return tuple(f"input{i}" for i in range(1, len(missing) + 1))

    return rule


def asked_for(first: str, *flags: str) -> InputRule:
    """``input1``, ``input2``...: one where ``first`` is None (always, if it is empty), one for each flag that is set."""

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        count = (not first or signature.value(attrs, first) is None) + sum(bool(signature.value(attrs, flag)) for flag in flags)
        return tuple(f"input{i}" for i in range(1, count + 1))

    return rule


def paired_ranges(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
    """All arrays first, then the least and greatest value of each."""
    names = [f"arg{i}" for i in range(count_of(signature, attrs, "num_args"))]
    return (*names, *(f"{name}_{end}" for name in names for end in ("min", "max")))


def fused_update(width: int, count: str, tail: int = 0) -> InputRule:
    """MXNet 1.9.1 names these inputs by the weight's number where it means the place in the group; so do its files."""
    places = ("weight_", "grad_", "mean_", "var_", "weight32_")[:width]

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        total = width * count_of(signature, attrs, count) + tail
        return tuple(_misnamed(places, i, width + tail) for i in range(total))

    return rule


def _misnamed(places: tuple[str, ...], position: int, width: int) -> str:
    group = position // width
    return f"{places[group % len(places)]}{group}"


def sampled_subgraphs(arrays: int, others: int) -> OutputRule:
    """Graph sampling: ``arrays`` outputs for every seed; ``others`` inputs are no seeds."""
    return lambda signature, attrs: numbered(arrays * max(0, count_of(signature, attrs, "num_args") - others))


def mapped_subgraphs(signature: Signature, attrs: Attributes) -> Outputs:
    """One sub-graph for every list of vertices, and its mapping on request."""
    graphs = max(0, count_of(signature, attrs, "num_args") - 1)
    return numbered(graphs * 2 if signature.value(attrs, "return_mapping") else graphs)


def compacted_graphs(signature: Signature, attrs: Attributes) -> Outputs:
    """One graph for every graph given, and its mapping on request."""
    graphs = count_of(signature, attrs, "num_args") // 2
    return numbered(graphs * 2 if signature.value(attrs, "return_mapping") else graphs)


def compacted_inputs(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
    """The graphs, then the vertices of each."""
    graphs = range(count_of(signature, attrs, "num_args") // 2)
    return (*(f"graph{i}" for i in graphs), *(f"varray{i}" for i in graphs))


def subgraph_inputs(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
    """The graph, then a list of vertices for every sub-graph."""
    return ("graph", *(f"varray{i}" for i in range(count_of(signature, attrs, "num_args") - 1)))
