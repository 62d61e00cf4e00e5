"""Training on prepared inputs, step by step as in MXNet's Module, and its losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

import msgspec

from graphshare.analysis.roles import Kind, Role
from graphshare.errors import Fault, RefusedError
from graphshare.execute.outputs import NumericResult, tabulate_outputs
from graphshare.execute.prepare.memory import check_memory
from graphshare.execute.prepare.prepare import Prepared
from graphshare.execute.train.sgd import Sgd
from graphshare.execute.train.tape import needs_head_gradient
from graphshare.execute.train.trainer import NodeStreams, Trainer, check_heads, list_last
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Entry, Node
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.loss.value import measure_loss
from graphshare.ops.registry import canonical, lookup
from graphshare.progress import item_progress
from graphshare.text.format import format_count, format_names, format_number
from graphshare.text.names import find_duplicates, join_key, suggest
from graphshare.text.summary import Table, format_html


class LossHistory(NumericResult, msgspec.Struct, eq=False):
    """The loss of one head before each step: the mean over samples of ``measure`` (``cross
    entropy``, ``squared error``...).

    The measure ``mean`` is the mean of the output, for a head that is the loss itself, or not a
    loss.
    """

    name: str
    measure: str
    values: list[float]


StepListener = Callable[[int, Sequence[LossHistory]], None]
"""Receives the number of steps done and the losses so far, after each step."""


class _Losses:
    def __init__(self, names: Sequence[str], heads: Sequence[Entry]) -> None:
        self.histories = [LossHistory(name, "", []) for name in names]
        self._heads = [_describe_head(entry.node) for entry in heads]

    def add(self, outputs: Sequence[Array], values: Mapping[Node, Array]) -> None:
        rows = zip(self.histories, self._heads, outputs, strict=True)
        for history, (op, attrs, label), output in rows:
            labels = values.get(label) if label is not None else None
            loss = measure_loss(op, attrs, output, labels)
            history.measure = loss.measure
            history.values.append(loss.value)


def _describe_head(node: Node) -> tuple[str, Attrs, Node | None]:
    signature = lookup(node.op)
    if signature is None or node.is_variable:
        return "", {}, None
    label = None
    # MXNet's output layers have the label as their second input.
    if len(node.inputs) == 2 and node.inputs[1].node.is_variable:
        label = node.inputs[1].node
    return canonical(node.op), signature.parse(node.attrs)[0], label


class Trained(NumericResult, msgspec.Struct, eq=False):
    """The result of training. ``before`` and ``outputs`` are outputs of inference before the first
    step and after the last.

    Outputs are by MXNet's names. ``updated`` are the new parameters and auxiliary states by their
    key in a parameter file. ``losses`` has each head's loss, step by step, on the values before the
    step. ``seconds`` is the time of the steps alone; it does not count when results are compared.
    ``settings`` are the settings used, with ``rescale`` filled in.
    """

    before: dict[str, Any]
    outputs: dict[str, Any]
    updated: dict[str, Any]
    settings: Sgd
    steps: int
    seconds: float
    variable_bytes: int
    notes: list[str]
    losses: list[LossHistory]

    def _summary(self) -> str:
        return (
            f"{format_count(self.steps, 'step')}, "
            f"{format_count(len(self.updated), 'updated array')}, {self.seconds:.3g} s"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, ...]] = []
        for history in self.losses:
            if history.values:
                first, last = history.values[0], history.values[-1]
                numbers = format_number(first), format_number(last)
                rows.append((history.name, history.measure, *numbers))
        losses = Table(("head", "measure", "before the first step", "before the last step"), rows)
        facts = [("note", note) for note in self.notes]
        return format_html(
            self._summary(), facts=facts, tables=[losses, tabulate_outputs(self.outputs)]
        )


def run_training(
    ready: Prepared,
    params: ParameterFile | None,
    steps: int,
    settings: Sgd,
    head_gradients: Mapping[str, Array],
    seed: int,
    on_step: StepListener | None,
) -> Trained:
    """Train prepared parameters; ``params`` has their keys, ``head_gradients`` are by output name.

    Raises:
        RefusedError: an operator has no gradient, there is nothing to train, or memory is not
            enough.
    """
    # prepare() checked inference only; training keeps all values and has gradients.
    check_memory(
        ready.inference.nodes, ready.part.heads, ready.inference, ready.values, keeps_all=True
    )
    trained = [node for node in ready.values if ready.roles[node].kind is Kind.PARAMETER]
    states = [node for node in ready.values if ready.roles[node].kind is Kind.AUXILIARY]
    _check_names([*trained, *states], trained)
    heads = _heads(ready, head_gradients)
    streams, shapes = NodeStreams(seed), ready.inference.shapes
    trainer = Trainer(
        ready.part.heads,
        ready.values,
        trained,
        settings,
        heads=heads,
        streams=streams,
        shapes=shapes,
    )
    before = trainer.outputs()
    check_heads(ready.part.heads, heads, before)
    losses = _Losses(ready.names, ready.part.heads)
    seconds = _run_steps(trainer, steps, losses, on_step, ready.notes)
    records = RecordsByName(params) if params is not None else None
    updated = {
        _key(node, ready.roles[node], records): trainer.values[node] for node in (*trained, *states)
    }
    return Trained(
        dict(zip(ready.names, before, strict=True)),
        dict(zip(ready.names, trainer.outputs(), strict=True)),
        updated,
        settings,
        steps,
        seconds,
        ready.variable_bytes,
        ready.notes,
        losses.histories,
    )


def _run_steps(
    trainer: Trainer, steps: int, losses: _Losses, on_step: StepListener | None, notes: list[str]
) -> float:
    """Train for some steps; return the seconds, and note parameters without a gradient.

    Without a listener, progress is shown.
    """
    started = perf_counter()
    numbers: Iterable[int] = range(1, steps + 1)
    if on_step is None:
        numbers = item_progress(range(1, steps + 1), "training", "steps")
    for number in numbers:
        outputs = trainer.step()
        losses.add(outputs, trainer.values)
        if on_step is not None:
            on_step(number, losses.histories)
    seconds = perf_counter() - started
    without_gradient = [node.name for node in trainer.without_gradient]
    if without_gradient:
        notes.append(f"no gradient reaches {format_names(without_gradient, 6)}")
    return seconds


def _check_names(variables: Sequence[Node], trained: Sequence[Node]) -> None:
    hint = "tie them, or give them names of their own"
    # The results are by name.
    faults = [
        Fault(f"several variables have the name {name!r}", hint=hint)
        for name in find_duplicates(node.name for node in variables)
    ]
    if faults:
        raise RefusedError(faults)
    if not trained:
        hint = "the names in `params=FILE` decide which variables are parameters"
        raise RefusedError(Fault("there is no parameter to train", hint=hint))


def _heads(ready: Prepared, gradients: Mapping[str, Any]) -> list[Any]:
    """Return the given gradients of heads; None means ones, unless the head is a loss."""
    faults: list[Fault] = []
    for name in gradients:
        if name not in ready.names:
            hint = suggest(name, ready.names, "outputs")
            faults.append(Fault(f"`head_gradients` {name!r} is not an output", hint=hint))
    if faults:
        raise RefusedError(faults)
    heads = ready.part.heads
    wanting = [ready.names[i] for i in list_last(heads) if needs_head_gradient(heads[i].node)]
    ones = [name for name in wanting if name not in gradients]
    idle = [name for name in gradients if name not in wanting]
    if ones:
        ready.notes.append(
            f"outputs that are not losses get a gradient of ones: {', '.join(ones)} (`head_gradients` sets another)"
        )
    if idle:
        ready.notes.append(
            f"ignored head gradients, of losses or of outputs that are listed again: {', '.join(idle)}"
        )
    return [gradients.get(name) for name in ready.names]


def _key(node: Node, role: Role, records: RecordsByName | None) -> str:
    auxiliary = role.kind is Kind.AUXILIARY
    record = records.of(node, auxiliary=auxiliary) if records is not None else None
    if record is not None and record.key:
        return record.key
    return join_key("aux" if auxiliary else "arg", node.name)
