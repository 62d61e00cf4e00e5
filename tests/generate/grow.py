"""Grow a valid graph from a seed: operators with attributes at their edges, shared inputs,
broadcasting, zero sizes, dtypes.

Every node starts as a recorded case of its operator, changed or not. Some of its inputs become
values that the graph already computes, and two-way shape inference then says which shapes the
remaining inputs need. The kernel computes the new values at once, so the next node is chosen for
arrays that exist; what a kernel refuses is not added.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from graphshare.errors import BugError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph
from graphshare.ops.kernel import KernelError
from graphshare.ops.registry import find_kernel, lookup
from graphshare.ops.signature import PARAMETER_FORMALS, Signature
from tests.generate.more_cases import BEFORE, BEHIND, more_cases
from tests.oracle.known_in_graphs import BOUND_ANEW, JOINED, OF_VALUES, REWRITTEN
from tests.oracle.probed import Refusal, forward
from tests.oracle.probing import (
    Probe,
    cases_with_bodies,
    change_attribute,
    change_dtype,
    change_shape,
    recorded_cases,
)
from tests.symbols import Document, document, operator, variable

MAX_SIZE = 4096
"""Elements of an array: the judges compute every node several times."""
ATTEMPTS = 8
FRESH = -1
"""The node of an array that becomes a variable, while the shapes of the other inputs follow from it."""
APART = ((BOUND_ANEW, JOINED), (JOINED, BOUND_ANEW))
"""Operators that end MXNet's process when one graph has both."""
BEYOND = (
    "-7",
    "-2147483649",
    "4294967296",
    "99999999999999999999",
    "",
    "abc",
    "(1, -9, 99)",
    "nan",
)
OUTSIDE = frozenset(("_contrib_calibrate_entropy", "_npi_multinomial", "_npi_choice"))


class Value(NamedTuple):
    """An array that the graph has: output ``index`` of node ``node``, made by ``operator`` ("" for a variable)."""

    node: int
    index: int
    array: Any
    operator: str


class Model(NamedTuple):
    """A generated graph. ``feeds`` are the values of all variables; ``cases`` has the probe's case
    of every operator node.

    ``refused`` is the node that ends the graph and that our kernels refuse, with the reason; MXNet
    should refuse it too. ``bugs`` are the operators that ended in an internal error while the graph
    grew.
    """

    seed: int
    document: Document
    feeds: dict[str, Any]
    cases: dict[int, dict[str, Any]]
    values: dict[tuple[int, int], Any]
    refused: str | None
    bugs: tuple[str, ...]

    @property
    def graph(self) -> Graph:
        """The graph as it is read from a file."""
        return read_symbol(json.dumps(self.document).encode())

    @property
    def np_shape(self) -> bool:
        """Whether sizes of 0 and arrays without axes are meant."""
        return "is_np_shape" in self.document.get("attrs", {})


class Coverage:
    """What the generated graphs hold: operators, pairs of neighbours, and attribute values."""

    def __init__(self) -> None:
        self.operators: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.attributes: set[tuple[str, str, str]] = set()

    def add(self, model: Model) -> None:
        """Count what one graph holds."""
        nodes = model.document["nodes"]
        for number, case in model.cases.items():
            self.operators[case["op"]] += 1
            self.attributes.update((case["op"], key, value) for key, value in case["attrs"].items())
            sources = (nodes[entry[0]]["op"] for entry in nodes[number]["inputs"])
            self.pairs.update((source, case["op"]) for source in sources if source != "null")


class Grower:
    """Grows graphs from a pool of recorded cases, all there are by default; the seed alone decides a graph."""

    def __init__(self, pool: dict[str, list[Probe]] | None = None) -> None:
        pool = {**recorded_cases(), **cases_with_bodies(), **more_cases()} if pool is None else pool
        self.pool = {op: cases for op, cases in pool.items() if op not in OUTSIDE}
        self.coverage = Coverage()

    def grow(self, seed: int) -> Model:
        """Return the graph of a seed; it depends on nothing else."""
        stream = np.random.default_rng([seed, 14])
        plant = _Plant(seed, stream, np_shape=bool(stream.integers(5) == 0))
        names = sorted(self.pool)
        # As many up to 17 operators as beyond; two may follow
        size = int(np.exp(stream.uniform(np.log(5), np.log(59))))
        drawn = [names[i] for i in stream.integers(len(names), size=2 * size)]
        for op in drawn:
            if len(plant.cases) >= size:
                break
            plant.add(op, self.pool[op])
        model = plant.finish(self.pool, names)
        self.coverage.add(model)
        return model


class _Plant:
    """A graph while it grows."""

    def __init__(self, seed: int, stream: np.random.Generator, *, np_shape: bool) -> None:
        self.seed, self.stream, self.np_shape = seed, stream, np_shape
        self.nodes: list[dict[str, Any]] = []
        self.values: list[Value] = []
        self.feeds: dict[str, Any] = {}
        self.cases: dict[int, dict[str, Any]] = {}
        self.used: set[tuple[int, int]] = set()
        self.states: set[int] = set()
        self.refused: str | None = None
        self.bugs: list[str] = []

    def add(self, op: str, cases: Sequence[Probe]) -> bool:
        """Add a node of ``op`` if a way is found in some attempts; the last one takes a recorded case as it is."""
        there = {case["op"] for case in self.cases.values()}
        if any(op in group and there & other for group, other in APART):
            return False
        for attempt in range(ATTEMPTS):
            case, recorded = cases[self.stream.integers(len(cases))]
            attrs, arrays = dict(case["attrs"]), [np.asarray(x) for x in recorded]
            chosen: list[Any] | None
            if op in BEFORE:
                chosen = self._append_before(op, arrays)
            elif "subgraphs" in case:
                free = (
                    arrays[:1]
                    if op in JOINED and arrays[0].dtype.kind == "f"
                    else []
                    if op in JOINED
                    else arrays
                )
                chosen = [self._find_equal(x) or x for x in free] + arrays[len(free) :]
            elif attempt < ATTEMPTS - 1:
                if self.stream.integers(3) == 0:
                    change_attribute(self.stream, op, attrs, arrays)
                chosen = self._choose_inputs(op, attrs, arrays)
            else:
                chosen = list(arrays)
            if chosen is not None and self._append(op, attrs, chosen, case):
                if op in BEHIND:
                    self._append_behind(op)
                return True
        return False

    def _append_before(self, op: str, arrays: Sequence[Any]) -> list[Any] | None:
        """Add the operator whose output ``op`` takes, for nothing else."""
        name, attrs = BEFORE[op]
        if not self._append(name, dict(attrs), arrays[:1], {"family": ""}):
            return None
        made = self.values[-1]
        self.states.add(made.node)
        return [made, *arrays[1:]]

    def _append_behind(self, op: str) -> None:
        """Add the operator of two inputs that reads the output of ``op``."""
        made = self.values[-1]
        self._append(BEHIND[op], {}, [made, np.ones_like(made.array)], {"family": ""})

    def _choose_inputs(self, op: str, attrs: dict[str, str], arrays: list[Any]) -> list[Any] | None:
        """Return a :class:`Value` or a new array for each input; None if the shapes contradict each other."""
        signature = lookup(op)
        assert signature is not None
        states = _mutated(op, signature, attrs, len(arrays))
        chosen: list[Any] = [None] * len(arrays)
        for i in self.stream.permutation(len(arrays)):
            if i not in states and self.stream.integers(10) < (9 if i == 0 else 4):
                chosen[i] = self._find_value(arrays[i])
        if self.np_shape and arrays and arrays[0].ndim and self.stream.integers(10) == 0:
            chosen[0] = Value(FRESH, 0, _without_elements(self.stream, arrays[0]), "")
        if any(c is not None for c in chosen):
            shapes = self._infer_rest(op, attrs, arrays, chosen)
            if shapes is None:
                return None
        else:
            shapes = [x.shape for x in arrays]
        return [
            _refill(arrays[i], shapes[i]) if c is None or c.node == FRESH else c
            for i, c in enumerate(chosen)
        ]

    def _find_equal(self, like: Any) -> Value | None:
        """Return a value of the same shape and dtype, for operators whose subgraphs allow no other."""
        fitting = [
            v for v in self.values if (v.array.dtype, v.array.shape) == (like.dtype, like.shape)
        ]
        fitting = [
            v
            for v in fitting
            if v.node not in self.states and _is_moderate(v.array) and v.operator not in OF_VALUES
        ]
        return (
            fitting[self.stream.integers(len(fitting))]
            if fitting and self.stream.integers(4)
            else None
        )

    def _spoil_attribute(self, op: str, attrs: dict[str, str]) -> None:
        """Give an attribute a value beyond its edge: negative, huge, no number, or none where one is required."""
        signature = lookup(op)
        parameters = signature.parameters if signature is not None else None
        if not parameters:
            return
        parameter = parameters[self.stream.integers(len(parameters))]
        if parameter.required and self.stream.integers(3) == 0:
            attrs.pop(parameter.name, None)
        else:
            attrs[parameter.name] = str(self.stream.choice(BEYOND))

    def _find_value(self, like: Any) -> Value | None:
        """Return a value that may stand for ``like``: its dtype, mostly its rank, its range where
        it looks like indices.
        """
        fitting = [
            value
            for value in self.values
            if value.array.dtype == like.dtype and value.node not in self.states
        ]
        if self.stream.integers(8):
            fitting = [value for value in fitting if value.array.ndim == like.ndim]
        if _is_index(like):
            fitting = [
                value
                for value in fitting
                if _is_index(value.array) and value.array.max() <= like.max()
            ]
        fitting = [
            value
            for value in fitting
            if _is_moderate(value.array) and value.operator not in OF_VALUES
        ]
        computed = [value for value in fitting if value.operator]
        if computed and self.stream.integers(4):
            fitting = computed
        return fitting[self.stream.integers(len(fitting))] if fitting else None

    def _infer_rest(
        self, op: str, attrs: dict[str, str], arrays: list[Any], chosen: list[Any]
    ) -> list[Any] | None:
        """Return the shapes of all inputs that follow from the chosen ones, the recorded shape where none follows."""
        kernel, signature = find_kernel(op), lookup(op)
        assert kernel is not None
        assert signature is not None
        typed, faults = signature.parse(attrs)
        outputs = signature.outputs(attrs)
        if faults or outputs is None:
            return None
        shapes = [None if c is None else c.array.shape for c in chosen]
        for _ in range(len(arrays) + 1):
            try:
                inferred, _ = kernel.shapes(typed, shapes, [None] * outputs.visible)
            except (KernelError, ArithmeticError, IndexError, TypeError, ValueError):
                return None
            if len(inferred) != len(shapes) or any(
                d is not None and d < 0 for shape in inferred for d in shape or ()
            ):
                return None  # a changed attribute counts other inputs, or asks for a size below 0
            shapes = [_merge(old, new) for old, new in zip(shapes, inferred, strict=True)]
            open_ = [k for k, shape in enumerate(shapes) if shape is None or None in shape]
            if not open_:
                return shapes
            k = open_[0]
            known = shapes[k]
            if known is not None and len(known) != arrays[k].ndim:
                return None
            shapes[k] = tuple(
                d if d is not None else e
                for d, e in zip(known or arrays[k].shape, arrays[k].shape, strict=True)
            )
        return None

    def _append(
        self,
        op: str,
        attrs: dict[str, str],
        chosen: Sequence[Any],
        origin: dict[str, Any],
        *,
        refusal: bool = False,
    ) -> bool:
        arrays = [c.array if isinstance(c, Value) else c for c in chosen]
        if any(x.size > MAX_SIZE for x in arrays) or (
            not self.np_shape and any(0 in x.shape or not x.ndim for x in arrays)
        ):
            return False
        if attrs.get("mode") == "always":  # Dropout that draws outside training
            return False
        case = {**origin, "op": op, "attrs": attrs, "np_shape": self.np_shape, "count": len(arrays)}
        bodies = {"subgraphs": origin["subgraphs"]} if "subgraphs" in origin else {}
        reason = None
        try:
            with np.errstate(all="ignore"):
                outputs = forward(case, [x.copy() for x in arrays])
        except Refusal as error:
            if not refusal:
                return False
            outputs, reason = [], str(error)
        except BugError as error:
            self.bugs.append(f"{op} {attrs}: {str(error).splitlines()[0]}")
            return False
        except AssertionError:
            # inference and kernel disagree for dtypes outside of the operator's own: see
            # known_differences
            return False
        if any(
            y.size > MAX_SIZE or (not self.np_shape and (0 in y.shape or not y.ndim))
            for y in outputs
        ):
            return False
        signature = lookup(op)
        assert signature is not None
        number = len(self.nodes) + sum(not isinstance(c, Value) for c in chosen)
        entries = []
        for c, formal in zip_longest(
            chosen, signature.formal_inputs(attrs)[: len(chosen)], fillvalue=""
        ):
            entries.append(
                (c.node, c.index)
                if isinstance(c, Value)
                else (self._add_variable(c, number, str(formal)), 0)
            )
        self.states.update(entries[i][0] for i in _mutated(op, signature, attrs, len(arrays)))
        self.nodes.append(
            operator(
                op,
                f"n{number}",
                [(node, index, 0) for node, index in entries],
                attrs=attrs,
                **bodies,
            )
        )
        self.cases[number] = case
        self.used.update(entries)
        self.values += [Value(number, i, y, op) for i, y in enumerate(outputs)]
        self.refused = reason
        return True

    def _add_variable(self, array: Any, user: int, formal: str) -> int:
        """Add a variable, named as a parameter of its first user where it holds one."""
        number = len(self.nodes)
        name = f"n{user}_{formal}" if formal in PARAMETER_FORMALS else f"v{number}"
        self.nodes.append(variable(name))
        self.feeds[name] = array
        self.values.append(Value(number, 0, array, ""))
        return number

    def finish(self, pool: dict[str, list[Probe]], names: list[str]) -> Model:
        """Return the graph, its unused values as heads; one in eight ends in a node that may be invalid."""
        if self.stream.integers(8) == 0:
            op = names[self.stream.integers(len(names))]
            case, recorded = pool[op][self.stream.integers(len(pool[op]))]
            attrs, arrays = dict(case["attrs"]), [np.asarray(x).copy() for x in recorded]
            change_attribute(self.stream, op, attrs, arrays)
            if arrays:
                (change_shape if self.stream.integers(2) else change_dtype)(self.stream, arrays)
            if self.stream.integers(3) == 0:
                self._spoil_attribute(op, attrs)
            self._append(op, attrs, arrays, case, refusal=True)
        heads = [
            (v.node, v.index, 0)
            for v in self.values
            if v.operator and (v.node, v.index) not in self.used
        ]
        if self.refused is not None:
            heads = [(len(self.nodes) - 1, 0, 0)]
        made = document(self.nodes, heads, row_ptr=False)
        if self.np_shape:
            made["attrs"]["is_np_shape"] = ["int", 1]
        values = {(v.node, v.index): v.array for v in self.values}
        return Model(
            self.seed, made, self.feeds, self.cases, values, self.refused, tuple(self.bugs)
        )


def _mutated(op: str, signature: Signature, attrs: dict[str, str], count: int) -> tuple[int, ...]:
    """Return which inputs the operator writes: its states, and those that MXNet writes by mistake."""
    written = REWRITTEN.get(op, ())
    return (
        *signature.auxiliary_slots(attrs, count),
        *(range(count) if written is None else written),
    )


def _is_index(x: Any) -> bool:
    """Whether an array may hold indices: small whole numbers from 0 on."""
    return bool(
        x.size
        and np.isfinite(x).all()
        and x.min() >= 0
        and x.max() < 64
        and (x == np.floor(x)).all()
    )


def _is_moderate(x: Any) -> bool:
    return bool(x.size == 0 or (np.isfinite(x).all() and abs(x.astype(np.float64)).max() < 1e3))


def _without_elements(stream: np.random.Generator, array: Any) -> Any:
    """Return an array of the same dtype and number of axes, one of size 0."""
    shape = list(array.shape)
    shape[stream.integers(len(shape))] = 0
    return np.zeros(shape, array.dtype)


def _refill(array: Any, shape: Sequence[int]) -> Any:
    """Return the numbers of ``array`` in another shape, again from the beginning where they do not suffice."""
    if array.shape == tuple(shape):
        return array
    if int(np.prod(shape, dtype=np.float64)) > MAX_SIZE:
        return np.zeros(MAX_SIZE + 1, array.dtype)  # refused by size
    return np.resize(array, shape) if array.size else np.ones(shape, array.dtype)


def _merge(old: Any, new: Any) -> Any:
    if old is None or new is None:
        return old if new is None else new
    return tuple(d if d is not None else e for d, e in zip(old, new, strict=True))
