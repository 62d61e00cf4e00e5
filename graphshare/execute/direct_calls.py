"""Small results: where buffers do not matter, a step is a function of its input arrays alone."""

from __future__ import annotations

from math import prod

import msgspec
import numpy as np

from graphshare.analysis.shapes import Inference
from graphshare.execute.plan import Plan
from graphshare.execute.pool import SMALL
from graphshare.execute.step import Step
from graphshare.ir.graph import Node


def call_directly(plan: Plan, inference: Inference) -> Plan:
    """Return ``plan`` for inputs of these shapes and dtypes, with such functions where the kernels have them."""
    return msgspec.structs.replace(plan, fused=tuple(_with_function(step, inference) for step in plan.fused))


def _with_function(step: Step, inference: Inference) -> Step:
    node = step.node
    if step.kernel.direct is None or step.outputs != step.outputs[:1] or not _is_small(node, inference):
        return step
    dtypes = [inference.types[entry.node][entry.index] for entry in node.inputs]
    known = [dtype for dtype in dtypes if dtype is not None]
    function = step.kernel.direct(step.attrs, known) if len(known) == len(dtypes) else None
    return step if function is None else msgspec.structs.replace(step, direct=function)


def _is_small(node: Node, inference: Inference) -> bool:
    """Whether the first output has axes, and takes less than what is worth a buffer."""
    shape, dtype = inference.shapes[node][0], inference.types[node][0]
    if not shape or dtype is None:
        return False
    sizes = [size for size in shape if size is not None]
    return len(sizes) == len(shape) and prod(sizes) * np.dtype(dtype).itemsize < SMALL
