"""Parts of a model, computed without optimizations from values computed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import open_computation
from graphshare.execute.prepare.prepare import unique_names
from graphshare.formats.model_format import find_format
from graphshare.formats.params import narrow_dtypes
from graphshare.ir.graph import Entry, Node, Rewrite
from graphshare.ir.terms import Place
from graphshare.ops.kernel import Array
from graphshare.rewrite.extract_graph import extract_entries

Values = Mapping[Place, Array]
Compute = Callable[[Values], list[Any]]
"""Computes some values of a model from others."""
_ROOM = 1 << 26
"""The most bytes of values of one model on one set of inputs to keep for other plans."""


class Part(msgspec.Struct, eq=False):
    """One side of a region: targets, starting places with terms, and nodes.

    ``opened`` caches its computation by the places, ranks and dtypes of values.
    """

    model: Checkpoint
    targets: list[Entry]
    touched: dict[Place, int]
    nodes: list[Node]
    opened: dict[Any, Compute] = msgspec.field(default_factory=dict)

    def open(self, values: Values) -> Compute:
        """Return a function that computes the targets. Raises InputError if the backend rejects it."""
        kinds = (_describe_kind(value) for value in values.values())
        key = frozenset(zip(values, kinds, strict=True))
        if key not in self.opened:
            self.opened[key] = open_part(self.model, self.targets, values)
        return self.opened[key]


def _describe_kind(value: Any) -> object:
    return (value.ndim, value.dtype) if isinstance(value, np.ndarray) else type(value)


class ModelValues(msgspec.Struct, eq=False):
    """One model's values on one set of inputs: inputs by place, regions' ends and starts by term.

    ``kept`` has ends and starts by place, within ``room``: other plans have other terms.
    """

    inputs: dict[Place, Array]
    by_term: dict[int, Any] = msgspec.field(default_factory=dict)
    kept: dict[Place, Any] = msgspec.field(default_factory=dict)
    room: int = _ROOM

    def keep(self, place: Place, value: Any) -> None:
        """Keep a value for other plans, if there is room."""
        if place not in self.kept and is_array(value) and value.nbytes <= self.room:
            self.kept[place] = value
            self.room -= value.nbytes

    def compute(self, part: Part, source: ModelValues) -> list[Any]:
        """Compute a part of this model from values of ``source``, in this model's dtypes.

        Raises:
            InputError: the backend rejects the part.
            RefusedError: the computation fails, or a value was not computed.
        """
        values = {
            (node, 0): self.inputs[node, 0] for node in part.nodes if (node, 0) in self.inputs
        }
        for place, term in part.touched.items():
            value, like = source.by_term.get(term), self.by_term.get(term)
            if value is None or like is None:
                raise RefusedError(Fault(f"value {output_name(Entry(*place))!r} was not computed"))
            is_other = is_array(value) and is_array(like) and value.dtype != like.dtype
            values[place] = value.astype(like.dtype) if is_other else value
        return part.open(values)(values)


def feed_inputs(nodes: Iterable[Node], feeds: Mapping[str, Array]) -> ModelValues:
    """Return the values of a model's inputs; ``feeds`` has them by name."""
    variables = [node for node in nodes if not node.op]
    return ModelValues({(node, 0): feeds[node.name] for node in variables if node.name in feeds})


def is_array(value: Any) -> bool:
    """Whether a value is an array, not a sequence or an optional value."""
    return isinstance(value, np.ndarray)


def are_unlike_sizes(wanted: Array, value: Array) -> bool:
    """Whether arrays are sizes of different lengths: no fault explains that."""
    are_sizes = wanted.dtype.kind == value.dtype.kind == "i" and wanted.ndim == value.ndim == 1
    return are_sizes and wanted.shape != value.shape


def compute_part(model: Checkpoint, targets: Sequence[Entry], values: Values) -> list[Any]:
    """Compute ``targets`` from ``values``, as :func:`open_part` does."""
    return open_part(model, targets, values)(values)


def open_part(model: Checkpoint, targets: Sequence[Entry], values: Values) -> Compute:
    """Return a function of values at these places that computes ``targets``, without optimizations.

    Ranks and dtypes are from ``values``; sizes are free.

    Raises:
        InputError: the backend rejects the part.
        RefusedError: the function fails.
    """
    places = [place for place in values if place[0].op]
    names = dict(
        zip(places, unique_names([output_name(Entry(*place)) for place in places]), strict=True)
    )
    rewrite, inputs = cut_part(model, targets, values, names, has_sizes=False)
    computation = open_computation(msgspec.structs.replace(model, graph=rewrite.graph), exact=True)

    def compute(values: Values) -> list[Any]:
        return computation.run(
            {inputs.get(place, place[0]): value for place, value in values.items()}
        ).outputs

    return compute


def name_dtype(array: Array) -> str:
    """Return the name of an array's dtype in model formats."""
    return "string" if array.dtype.kind == "O" else narrow_dtypes.name_dtype(array.dtype)


def cast_value(value: Any, dtype: str | None) -> Any:
    """Cast an array of numbers to a dtype of model formats; return anything else unchanged."""
    if not dtype or not isinstance(value, np.ndarray) or value.dtype.kind == "O":
        return value
    if dtype in narrow_dtypes.NARROW:
        return value.astype(narrow_dtypes.find_numpy_dtype(dtype))
    return value.astype(dtype)


def cut_part(
    model: Checkpoint,
    targets: Sequence[Entry],
    values: Mapping[Place, Array],
    names: Mapping[Place, str],
    constants: Collection[str] = (),
    *,
    has_sizes: bool = True,
) -> tuple[Rewrite, Mapping[Place, Node]]:
    """Cut out the nodes between the places of ``names`` and ``targets``; return variables by place.

    Places with one name share an input, or a parameter if ``constants`` has the name. Unless
    ``has_sizes``, input sizes are free.
    """
    format_, inputs = find_format(model.graph), dict[str, Node]()
    for place, name in names.items():
        # Only the model has the type of a sequence or an optional value.
        if not isinstance(values[place], np.ndarray):
            inputs.setdefault(name, format_.editing.make_inputs(model.graph, {place: name})[place])
            continue
        dtype, shape = name_dtype(values[place]), values[place].shape
        sizes = shape if has_sizes else [None] * len(shape)
        if name in constants:
            node = format_.editing.make_parameter(model.graph, name, dtype, shape)
        else:
            node = format_.editing.make_input(name, dtype, sizes)
        inputs.setdefault(name, node)
    variables = {place: inputs[name] for place, name in names.items()}
    return extract_entries(model.graph, targets, cuts=names, inputs=variables), variables
