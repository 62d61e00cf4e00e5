"""Runs a plan: kernels in order; after their last use values are freed, and buffers reused in
place.

Reused memory stays in the cache, and needs no new pages.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from sys import getrefcount
from time import perf_counter
from typing import Any

import msgspec
import numpy as np

from graphshare.errors import Fault, RefusedError
from graphshare.execute.plan import ExecutionPlan, PlanStep, make_plan
from graphshare.execute.prepare.memory import check_memory
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ops.bodies import inner_variables
from graphshare.ops.inference import Inference, ShapeTable, infer
from graphshare.ops.kernel import (
    Array,
    Context,
    KernelError,
    KernelResult,
    Once,
    RunSubgraph,
    Shape,
    compute_now,
)
from graphshare.ops.node_errors import KernelCall, explain_failure, refuse_inputs
from graphshare.progress import item_progress
from graphshare.text.format import format_count, format_shape

SMALL = 1 << 15
"""Bytes below which the allocator is faster."""
_KEPT = 1 << 26
"""Bytes that may always stay idle."""
_SLACK = 4
"""The factor by which a buffer may be too large."""
_NBYTES = attrgetter("nbytes")
_PROBE: list[Array] = [np.empty(0, np.uint8)]
_IDLE = getrefcount(_PROBE[0])
"""The :func:`getrefcount` of an item to which only its list refers: measured, because it differs
between versions of Python.
"""


class Pool:
    """Creates uninitialised arrays. A buffer is reusable once no array refers to it."""

    def __init__(self) -> None:
        self._buffers: list[Array] = []  # by size

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """Return an array like ``numpy.empty``; its buffer may be larger."""
        dtype = np.dtype(dtype)
        size = dtype.itemsize
        for n in shape:
            size *= int(n)
        # A buffer is bytes: references to objects would not be counted in it.
        if size < SMALL or dtype.hasobject:
            return np.empty(shape, dtype)
        buffer = self._free(size)
        if buffer is None:
            self._make_room(size)
            buffer = np.empty(size, np.uint8)
            insort(self._buffers, buffer, key=_NBYTES)
        array: Array = buffer[:size].view(dtype).reshape(shape)
        return array

    def _free(self, size: int) -> Array | None:
        """Return the smallest unused buffer with room for ``size`` bytes."""
        for i in range(bisect_left(self._buffers, size, key=_NBYTES), len(self._buffers)):
            if self._buffers[i].nbytes > _SLACK * size:
                break
            # Never through a local variable: some versions of Python count it as a reference.
            if getrefcount(self._buffers[i]) == _IDLE:
                return self._buffers[i]
        return None

    def _make_room(self, size: int) -> None:
        """Release idle buffers, large ones first, down to the size in use or ``_KEPT``."""
        idle = [i for i in range(len(self._buffers)) if getrefcount(self._buffers[i]) == _IDLE]
        total = sum(self._buffers[i].nbytes for i in idle)
        used = sum(buffer.nbytes for buffer in self._buffers) - total + size
        for i in reversed(idle):
            if total <= max(used, _KEPT):
                break
            total -= self._buffers[i].nbytes
            del self._buffers[i]


class Timing(msgspec.Struct, frozen=True):
    """The cost of one step: ``seconds``, and the ``bytes`` of its outputs."""

    node: Node
    seconds: float
    bytes: int


class Run(msgspec.Struct, eq=False):
    """The result of a run. ``peak_bytes`` is the most that values took, without variables."""

    outputs: list[Array]
    peak_bytes: int = 0
    timings: list[Timing] = []


class Memo:
    """State of a plan between runs: buffers, and each step's last result from parameters alone.

    ``constant`` are slots whose values never change.
    """

    def __init__(self, constant: Collection[int]) -> None:
        self.pool = Pool()
        self._constant = constant
        self._results: dict[PlanStep, tuple[Any, Any]] = {}
        self._once: dict[PlanStep, Once] = {}
        self._runners: dict[PlanStep, RunSubgraph] = {}

    def of(self, step: PlanStep) -> Once:
        if step not in self._once:
            self._once[step] = self._keep_results(step)
        return self._once[step]

    def find_runner(self, step: PlanStep, make: Callable[[], RunSubgraph]) -> RunSubgraph:
        """Return the runner of a step's subgraphs; it keeps their plans and shapes."""
        if step not in self._runners:
            self._runners[step] = make()
        return self._runners[step]

    def _keep_results(self, step: PlanStep) -> Once:
        def once(positions: Sequence[int], key: Any, compute: Callable[[], Any]) -> Any:
            if not all(step.inputs[position] in self._constant for position in positions):
                return compute()
            # Only one result per step: keys may change with input shapes.
            if step not in self._results or self._results[step][0] != key:
                self._results[step] = key, compute()
            return self._results[step][1]

        return once


def run_plan(
    plan: ExecutionPlan,
    values: Mapping[Node, Array],
    *,
    shapes: Mapping[Node, Sequence[Shape]] = EMPTY,
    rng: np.random.Generator | None = None,
    profile: bool = False,
    watch: Callable[[Node, Sequence[Array]], None] | None = None,
    memo: Memo | None = None,
) -> Run:
    """Run ``plan`` for inference on the values of its variables, and never write to these.

    ``shapes`` are the inferred shapes of outputs; operators without inputs may need them. ``watch``
    is called with each node and its outputs; with it, or ``profile``, steps are not fused. ``memo``
    is kept between runs of ``plan``.

    Raises:
        RefusedError: a kernel cannot take its inputs; node and shapes are named.
    """
    state = _State(plan, values, tracked=0 if memo is None else SMALL)
    pool = Pool() if memo is None else memo.pool
    timings: list[Timing] = []
    np_shape = has_np_shape(shapes)
    # Values inside a fused step cannot be timed or watched.
    steps = plan.steps if profile or watch is not None else plan.fused
    with np.errstate(all="ignore"):  # once, because it takes as long as a small kernel
        for step in item_progress(steps, "computing", "nodes"):
            inputs = [state.values[slot] for slot in step.inputs]
            # Without a context, 200 operators on 64 numbers take a quarter of the time.
            if step.direct is not None:
                state.values[step.outputs[0]] = step.direct(*inputs)
                state.free(step)
                continue
            context = Context(
                rng=rng,
                reusable=state.dead(step),
                num_outputs=len(step.outputs),
                shapes=shapes.get(step.node, ()),
                inner=step.inner,
                run_subgraph=_find_runner(step, memo, rng, np_shape)
                if step.node.subgraphs
                else None,
                empty=pool.empty,
                once=memo.of(step) if memo is not None else compute_now,
            )
            started = perf_counter() if profile else 0.0
            result = run_kernel(step, context, inputs)
            outputs = result.outputs
            if profile:
                timings.append(
                    Timing(step.node, perf_counter() - started, sum(x.nbytes for x in outputs))
                )
            del inputs  # the list would keep buffers alive that free() is to release
            state.keep(step, outputs)
            if watch is not None:
                watch(step.node, outputs)
            state.free(step)
    return Run([state.values[slot] for slot in plan.targets], state.peak, timings)


def run_kernel(step: PlanStep, context: Context, inputs: Sequence[Array]) -> KernelResult:
    """Run the kernel of a step and return its result in one form; numpy's warnings must be off.

    Raises:
        RefusedError: the kernel cannot take its inputs; node and shapes are named.
        BugError: the kernel failed within its limits.
    """
    try:
        output: Any = step.kernel.forward(context, step.attrs, *inputs)
    except KernelError as error:
        raise refuse_inputs(step.node, [format_shape(x.shape) for x in inputs], error) from error
    except MemoryError as error:
        reason = "there is not enough memory"
        if str(error):
            reason += f" ({error})"
        raise refuse_inputs(step.node, [format_shape(x.shape) for x in inputs], reason) from error
    except Exception as error:
        shapes, dtypes = [x.shape for x in inputs], [str(x.dtype) for x in inputs]
        call = KernelCall(
            step.node, step.kernel, step.attrs, shapes, dtypes, inputs, context.shapes
        )
        raise explain_failure(call, "kernel", error) from error
    if not isinstance(output, KernelResult):
        output = KernelResult(output if isinstance(output, tuple) else (output,))
    result: KernelResult = output
    if len(result.outputs) < len(step.outputs):
        message = (
            f"{step.node.op} has {format_count(len(result.outputs), 'output')}, but output "
            f"{len(step.outputs) - 1} is used"
        )
        raise RefusedError(Fault(message, node=step.node.name))
    return result


class _State:
    """The live values, and the number of slots that share each buffer.

    A result may be a view of an input, so buffers are counted by the array that owns them. Only a
    buffer of a single slot and no variable may be reused in place.
    """

    def __init__(self, plan: ExecutionPlan, values: Mapping[Node, Array], *, tracked: int) -> None:
        """Fill the slots of variables. Buffers smaller than ``tracked`` bytes are neither counted nor reused."""
        self.values: list[Any] = [None] * plan.slots
        self._tracked = tracked
        self._owners = [0] * plan.slots  # ids of the arrays that own computed values' buffers
        self._holders: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._variables: set[int] = set()
        self.bytes = 0
        self.peak = 0
        for node, slot in plan.variables.items():
            self.values[slot] = values[node]
            self._variables.add(id(_owner(values[node])))
        for slot, value in plan.constants.items():
            self.values[slot] = value
            self._variables.add(id(_owner(value)))

    def dead(self, step: PlanStep) -> tuple[bool, ...]:
        """Return for each input whether its buffer may be reused in place."""
        last, owners, holders = step.last, self._owners, self._holders
        if not holders:
            return ()
        return tuple([slot in last and holders.get(owners[slot]) == 1 for slot in step.inputs])

    def keep(self, step: PlanStep, outputs: Sequence[Array]) -> None:
        for slot, value in zip(step.outputs, outputs, strict=False):
            if slot < 0:
                continue
            self.values[slot] = value
            owner = _owner(value)
            key = id(owner)
            # A view of a variable has no memory of its own, and must never be written to.
            if owner.nbytes < self._tracked or key in self._variables:
                continue
            self._owners[slot] = key
            holders = self._holders.get(key, 0)
            if not holders:
                self._sizes[key] = owner.nbytes
                self.bytes += owner.nbytes
                self.peak = max(self.peak, self.bytes)
            self._holders[key] = holders + 1

    def free(self, step: PlanStep) -> None:
        for slot in step.last:
            key = self._owners[slot]
            if key:
                self._owners[slot] = 0
                self._holders[key] -= 1
                if not self._holders[key]:
                    del self._holders[key]
                    self.bytes -= self._sizes.pop(key)
            self.values[slot] = None


def _owner(array: Array) -> Array:
    # An array may own bytes or a memory map that numpy did not allocate.
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def has_np_shape(shapes: Mapping[Node, Sequence[Shape]]) -> bool:
    """Return whether 0 and () are sizes in ``shapes``, and not unknown."""
    return isinstance(shapes, ShapeTable) and shapes.np_shape


def _find_runner(
    step: PlanStep, memo: Memo | None, rng: np.random.Generator | None, np_shape: bool
) -> RunSubgraph:
    def make() -> RunSubgraph:
        return _subgraph_runner(step.node, rng, np_shape)

    return make() if memo is None else memo.find_runner(step, make)


def _subgraph_runner(node: Node, rng: np.random.Generator | None, np_shape: bool) -> RunSubgraph:
    """Return a function that runs a subgraph on arrays for its variables, in MXNet's order."""
    plans: dict[int, tuple[ExecutionPlan, list[Node]]] = {}
    inferences: dict[Any, Inference] = {}

    def run_subgraph(number: int, arrays: Sequence[Array]) -> list[Array]:
        if number not in plans:
            graph: Graph = node.subgraphs[number]
            plans[number] = (make_plan(graph.heads), inner_variables(graph))
        plan, variables = plans[number]
        values = dict(zip(variables, arrays, strict=True))
        key = (number, *((x.shape, x.dtype) for x in arrays))
        if key not in inferences:  # a loop has the same shapes in each step
            # Only the last shapes are kept: a growing body would add more and more.
            inferences.clear()
            inferences[key] = infer_body(node.subgraphs[number], values, np_shape=np_shape)
        # Shapes of operators without inputs may follow only from those of others.
        creates = any(not step.inputs for step in plan.steps)
        shapes = inferences[key].shapes if creates or np_shape else EMPTY
        return run_plan(plan, values, shapes=shapes, rng=rng).outputs

    return run_subgraph


def infer_body(graph: Graph, values: Mapping[Node, Array], *, np_shape: bool = False) -> Inference:
    """Infer the inside of a subgraph from the values of its variables.

    Raises:
        RefusedError: they do not fit, or one run of the subgraph takes more than the memory limit.
    """
    shapes, types = (
        {n: x.shape for n, x in values.items()},
        {n: str(x.dtype) for n, x in values.items()},
    )
    inference = infer(graph, shapes, types, np_shape=np_shape)
    check_memory(inference.nodes, graph.heads, inference, values)
    return inference


def run_graph(targets: Sequence[Entry], values: Mapping[Node, Array]) -> list[Array]:
    """Return the values of ``targets`` for these variables."""
    return run_plan(make_plan(targets), values).outputs
