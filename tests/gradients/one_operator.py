"""One operator as a graph, and its gradients for seeded gradients of its outputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Entry, Node
from graphshare.ops.registry import lookup
from tests.symbols import document, operator, variable


def graph_of(case: dict[str, Any], count: int, outputs: int) -> tuple[list[Node], list[Entry]]:
    """Variables and heads."""
    more = {"subgraphs": case["subgraphs"]} if "subgraphs" in case else {}
    nodes = [variable(f"in{i}") for i in range(count)]
    nodes.append(operator(case["op"], "node", range(count), attrs=case["attrs"], **more))
    graph = read_symbol(
        json.dumps(document(nodes, [(count, i, 0) for i in range(outputs)], row_ptr=False)).encode()
    )
    return list(graph.nodes[:count]), list(graph.heads)


def head_gradients(outputs: Sequence[Any], number: int) -> list[Any]:
    """Drawn from a stream of the case's number."""
    stream = np.random.RandomState(1000 + number)
    return [stream.standard_normal(out.shape).astype(out.dtype) for out in outputs]


def gradients_of(
    case: dict[str, Any], inputs: Sequence[Any], outputs: int, number: int
) -> dict[int, Any]:
    """The gradients of the inputs, by position, and the new values of auxiliary states."""
    variables, heads = graph_of(case, len(inputs), outputs)
    values = dict(zip(variables, inputs, strict=True))
    signature = lookup(case["op"])
    assert signature is not None
    states = signature.auxiliary_slots(case["attrs"], len(inputs))
    wanted = [v for v, x in values.items() if x.dtype.kind == "f"]
    tape = Tape(
        make_plan(heads), values, wanted, streams=lambda node: np.random.default_rng(number)
    )
    found = tape.backward(head_gradients(tape.outputs, number))
    after = {
        **{v: values[v] for i, v in enumerate(variables) if i in states},
        **found.gradients,
        **found.updates,
    }
    return {i: after.get(v) for i, v in enumerate(variables) if v in wanted}
