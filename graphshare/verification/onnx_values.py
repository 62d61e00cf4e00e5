"""Stage 3 for ONNX models: each branch is cut out and computed in a session of onnxruntime of its own.

No work is shared between the branches. When outputs differ, both run once more with all inner values as outputs, for the first
pair of values that differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.branches import HeadPairs
from graphshare.errors import InputError, RefusedError
from graphshare.execute.engines.onnx_session import Session
from graphshare.execute.feeds import GivenShape
from graphshare.formats.onnx.staging import encode_for_session
from graphshare.formats.params.comparison import Comparison, compare_arrays
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Entry, Graph
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.verification.inputs import BranchInputs, Setup
from graphshare.verification.onnx_inputs import OPEN_SIZES, InputDrawer
from graphshare.verification.sides import Twins
from graphshare.verification.values import InnerComparison, OutputComparison, Values

ENGINE = "onnxruntime"
_APART = float("inf")


def compare_in_sessions(pairing: Pairing, values: BranchInputs, twins: Twins, notes: dict[str, None]) -> tuple[Values, ...]:
    """Compare the outputs of a branch with those of its reference, for all rounds and sizes.

    Raises:
        RefusedError: inputs cannot be drawn, or onnxruntime fails on them; with the option that chooses others.
        InputError: onnxruntime refuses a branch.
    """
    pair, sides = values.pair, values.sides
    left = open_session(sides.graphs[0], pair.left, sides.files[0])
    right = open_session(sides.graphs[1], pair.right, sides.files[1])
    to_right = {a.name: b.name for a, b in pairing.pairs if a.is_variable}
    found = []
    for number in range(values.settings.rounds):
        for setup in values.setups:
            drawer = _make_drawer(left, setup, values.settings.seed + number)
            feeds, wanted = run_drawn(left, drawer)
            others = {to_right.get(name, name): array for name, array in feeds.items()}
            got = run_or_refuse(right, others)
            outputs = _compare_outputs(pair, wanted, got, values)
            first = None
            if not all(output.comparison for output in outputs):
                first = _find_first(pairing, values, feeds, others)
            found.append(Values(tuple(outputs), first, 0, setup.branch, engine=ENGINE))
            names = {a.name: twins.describe(a) for a, _ in pairing.pairs if a.is_variable}
            notes.update({f"{names.get(name, repr(name))} {how}": None for name, how in drawer.describe(feeds)})
    return tuple(found)


def compare_values(found: Any, wanted: Any, *, atol: float, rtol: float) -> Comparison:
    """Compare two values of onnxruntime: arrays, lists of them (sequences), or nothing (optional values)."""
    if isinstance(found, list) and isinstance(wanted, list):
        if len(found) != len(wanted):
            return Comparison(False, False, _APART, _APART, f"sequences of {len(found)} and {len(wanted)}")
        each = [compare_values(a, b, atol=atol, rtol=rtol) for a, b in zip(found, wanted, strict=True)]
        return next((c for c in each if not c), max(each, key=lambda c: (not c.identical, c.max_abs), default=_SAME))
    if isinstance(found, np.ndarray) and isinstance(wanted, np.ndarray) and found.dtype.kind != "O":
        return compare_arrays(found, wanted, atol=atol, rtol=rtol)
    if isinstance(found, np.ndarray) and isinstance(wanted, np.ndarray) and found.shape != wanted.shape:
        return Comparison(False, False, _APART, _APART, f"shapes {found.shape} and {wanted.shape}")
    same = bool(np.array_equal(found, wanted))
    return _SAME if same else Comparison(False, False, _APART, _APART, "texts or kinds of values differ")


_SAME = Comparison(True, True, 0.0, 0.0)


def describe_value(value: Any) -> tuple[tuple[int, ...], str]:
    """Return shape and dtype of a value; the length of a sequence."""
    if isinstance(value, np.ndarray):
        return tuple(value.shape), str(value.dtype)
    return ((len(value),), "sequence") if isinstance(value, list) else ((), type(value).__name__)


def run_drawn(session: Session, drawer: InputDrawer) -> tuple[dict[str, Array], list[Any]]:
    """Return inputs and outputs, at the first of ``OPEN_SIZES`` that onnxruntime computes. Raises RefusedError."""
    sizes = OPEN_SIZES if drawer.has_open_sizes else OPEN_SIZES[:1]
    for size in sizes[:-1]:
        feeds = drawer.draw(size)
        try:
            return feeds, session.run(feeds)
        except InputError:
            continue
    feeds = drawer.draw(sizes[-1])
    return feeds, run_or_refuse(session, feeds)


def run_or_refuse(session: Session, feeds: Mapping[str, Array]) -> list[Any]:
    """Return the outputs. Raises RefusedError with the options that give other inputs."""
    try:
        return session.run(feeds)
    except InputError as error:
        hint = "give sizes that the model computes with --shape NAME=SIZES, or values with --feed NAME=FILE"
        raise RefusedError([msgspec.structs.replace(fault, hint=hint) for fault in error.faults]) from None


def open_session(graph: Graph, heads: Sequence[Entry], params: ParameterFile | None) -> Session:
    """Return a session of the part of a graph that ``heads`` need, where equal nodes are computed each for itself.

    Raises:
        UsageError: onnxruntime is not installed.
        InputError: it refuses the part.
        RefusedError: the part has external data in several directories.
    """
    part = Graph(tuple(post_order(entry.node for entry in heads)), tuple(heads), graph.attrs, graph.source)
    model, folder = encode_for_session(part, params)
    return Session(model, folder, merge_equal=False, awake=False)


def _make_drawer(session: Session, setup: Setup, seed: int) -> InputDrawer:
    feeds: dict[str, Array] = {node.name: array for node, array in setup.feeds.items()}
    shapes: dict[str, GivenShape] = {node.name: shape for node, shape in setup.shapes.items()}
    return InputDrawer(session, feeds, shapes, seed)


def _compare_outputs(
    pair: HeadPairs, wanted: Sequence[Any], got: Sequence[Any], values: BranchInputs
) -> list[OutputComparison]:
    tolerances = {"atol": values.settings.atol, "rtol": values.settings.rtol}
    return [
        OutputComparison(name_value(a), name_value(b), *describe_value(y), compare_values(y, x, **tolerances))
        for a, b, x, y in zip(pair.left, pair.right, wanted, got, strict=True)
    ]


def name_value(entry: Entry) -> str:
    """Return ONNX's name of a value."""
    details = entry.node.details
    return details.outputs[entry.index] if details is not None and entry.node.op else entry.node.name


def _find_first(
    pairing: Pairing, values: BranchInputs, feeds: Mapping[str, Array], twins: Mapping[str, Array]
) -> InnerComparison | None:
    """Return the first pair of values, in topological order, that differs; None where none does with all exposed."""
    pairs = [
        (Entry(a, index), Entry(b, index))
        for a, b in pairing.pairs
        if a.op and a.details is not None
        for index, name in enumerate(a.details.outputs)
        if name
    ]
    sides = values.sides
    try:
        left = open_session(sides.graphs[0], [a for a, _ in pairs], sides.files[0]).run(feeds)
        right = open_session(sides.graphs[1], [b for _, b in pairs], sides.files[1]).run(twins)
    except InputError:
        return None  # a value that is used in place cannot be an output
    tolerances = {"atol": values.settings.atol, "rtol": values.settings.rtol}
    for (a, b), wanted, got in zip(pairs, left, right, strict=True):
        comparison = compare_values(got, wanted, **tolerances)
        if not comparison:
            return InnerComparison(name_value(a), name_value(b), a.node.op, a.index, comparison)
    return None
