"""The nets of ``nets.py`` trained by graphshare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphshare.analysis.roles import Kind, assign_roles
from graphshare.execute.prepare.prepare import runnable_part
from graphshare.execute.train.sgd import Sgd
from graphshare.execute.train.trainer import Trainer
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import infer
from graphshare.ops.kernel import Shape
from tests.training.nets import SGD, STEPS, first_value, inputs, net, symbol_text


class Filled(NamedTuple):
    """A net with its first values."""

    heads: list[Entry]
    values: dict[Node, Any]
    trained: list[Node]
    shapes: Mapping[Node, Sequence[Shape]]


def filled(name: str, corpus: Path | None, dtype: str = "float32") -> Filled:
    """A net of ``nets.py``."""
    graph, _ = runnable_part(*_whole(symbol_text(name, corpus, dtype)))
    fed = inputs(name)
    nodes = post_order(entry.node for entry in graph.heads)
    variables = {node: node.name for node in nodes if node.is_variable}
    shapes = {node: fed[key].shape for node, key in variables.items() if key in fed}
    found = infer(graph, shapes, dict.fromkeys(variables, dtype), nodes=nodes)
    roles = assign_roles(graph)
    values: dict[Node, Any] = {}
    for node, key in variables.items():
        shape = found.shapes[node][0]
        auxiliary = roles[node].kind is Kind.AUXILIARY
        values[node] = (
            fed[key] if key in fed else first_value(name, key, shape or (), auxiliary)
        ).astype(dtype)
    trained = [
        n for n, key in variables.items() if key not in fed and roles[n].kind is not Kind.AUXILIARY
    ]
    return Filled(list(graph.heads), values, trained, found.shapes)


def trainer_of(name: str, corpus: Path | None, dtype: str = "float32") -> Trainer:
    """A net with its first values, and what trains it."""
    heads, values, trained, shapes = filled(name, corpus, dtype)
    batch = next(iter(net(name)["data"].values()))[0][0]
    return Trainer(heads, values, trained, Sgd(rescale=1 / batch, **SGD), shapes=shapes)


def _whole(text: str) -> tuple[Any, Any]:
    graph = read_symbol(text.encode(), where="net")
    return graph, list(graph.heads)


def arrays_of(trainer: Trainer, name: str) -> dict[str, Any]:
    """The values of parameters and states by name."""
    fed = inputs(name)
    return {
        node.name: np.asarray(value)
        for node, value in trainer.values.items()
        if node.name not in fed
    }


def steps_of(
    name: str, corpus: Path | None, dtype: str = "float32"
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The values of parameters and states by name before the first step, after one, and after ten."""
    trainer, done = trainer_of(name, corpus, dtype), 0
    yield done, arrays_of(trainer, name)
    for steps in STEPS:
        for _ in range(steps - done):
            trainer.step()
        done = steps
        yield steps, arrays_of(trainer, name)
