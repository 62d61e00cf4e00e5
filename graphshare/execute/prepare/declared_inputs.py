"""Inputs of models that are computed as a whole: fed, or drawn by declared dtypes and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from graphshare.errors import Fault, MemoryLimitError, RefusedError
from graphshare.execute.backends.session import NO_ARRAY, BackendSession
from graphshare.execute.prepare.fed_values import convert_value, split_type
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.formats.facets import Integers
from graphshare.formats.model_format import find_format
from graphshare.formats.params.narrow_dtypes import (
    INSTALL,
    NARROW,
    find_numpy_dtype,
    is_floating,
    is_installed,
    is_narrow,
)
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs
from graphshare.resources import MORE_MEMORY, describe_excess
from graphshare.text.format import format_bytes, format_names, format_shape

OPEN_SIZES = (8, 64, 224)
"""The sizes to try in turn for open ones; the batch size is 1."""
SIZES_OF_BATCH = (65, 64, 8, 224)
"""The sizes to try with a batch: a stride may reduce a small size to 1, which hides an exchange of
axes, and an even size hides how halves are rounded.
"""
_DRAWN_BYTES = 8  # of each number before its conversion to a dtype
_DTYPES = {"float": "float32", "double": "float64", "string": "object"}
_DTYPES |= {name: name for name in ("float16", "float32", "float64", "bool")}
_DTYPES |= {
    f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
_UNKNOWN = (None, None)
_TEXTS = ("a", "b", "ab", "", "1")
"""The texts to draw."""
_ELEMENTS = 2
"""The length of a drawn sequence."""
Declared = dict[str, tuple[str | None, Sequence[object] | None]]
"""The declared dtype and sizes of a model's inputs, by name; fixed sizes are numbers."""


def list_declared(graph: Graph) -> Declared:
    """Return the declared dtypes and shapes of a model's inputs."""
    nodes = [node for node in graph.variables() if not node.details.holds_value]
    types = find_format(graph).types.find_types(graph, [Entry(node) for node in nodes])
    return {node.name: types[node, 0].parts for node in nodes if (node, 0) in types}


def infer_by_format(
    part: Graph,
    nodes: list[Node],
    shapes: Mapping[str, Sequence[int | None]],
    *,
    independent: bool = False,
) -> Inference:
    """Return the types that a graph's format can infer from ``shapes`` of inputs by name.

    A size may be a name. With ``independent`` the file's shapes of inner values are not trusted.
    """
    entries = [entry for node in nodes for entry in visible_outputs(node)]
    types = find_format(part).types.find_types(
        part, entries, shapes=shapes, independent=independent
    )
    inferred_shapes: dict[Node, list[Any]] = {}  # a size may be a name
    dtypes: dict[Node, list[str | None]] = {}
    for node in nodes:
        places = [(node, index) for index in range(node.num_outputs or 1)]
        parts = [types[place].parts if place in types else _UNKNOWN for place in places]
        dtypes[node] = [dtype for dtype, _ in parts]
        inferred_shapes[node] = [shape for _, shape in parts]
    return Inference(nodes, inferred_shapes, dtypes)


def unify_sizes(
    graphs: Sequence[Graph],
    names: Mapping[str, str],
    shapes: Mapping[str, GivenShape],
    titles: Sequence[str],
) -> dict[str, GivenShape]:
    """Return given or fed ``shapes`` with the sizes that the second graph fixes.

    ``names`` maps the first graph's inputs to the second's. Sizes of one name in the second are
    equal.

    Raises RefusedError if both fix different sizes, or the second and ``shapes`` do; all are
    listed, with both ``titles``.
    """
    unified, faults = dict(shapes), list[Fault]()
    left, right = map(list_declared, graphs)
    held = {node.name for node in graphs[0].variables()}
    # The second graph's statements by the first one's names: a body need not read all that the
    # other one reads
    stated = {
        name: right[twin][1] for name, twin in names.items() if name in held and twin in right
    }
    for name, others in stated.items():
        if others is None:
            continue
        wanted, sizes = shapes.get(name), left.get(name, _UNKNOWN)[1]
        conflict = _describe_conflict(wanted, sizes, others, titles)
        if conflict:
            faults.append(Fault(f"input {name!r} is {conflict}", node=name))
        elif fits_sizes(wanted, sizes):
            # A graph without stated sizes infers them from the other's.
            unified[name] = _fill_sizes(wanted or sizes or (None,) * len(others), others)
    if faults:
        raise RefusedError(faults)
    # A size of one name in the second graph is one size, even if the first has no names.
    named = {name: texts for name, texts in stated.items() if texts and name in unified}
    return {**unified, **_bind_names(unified, named)}


def _describe_conflict(
    wanted: GivenShape | None,
    sizes: Sequence[object] | None,
    others: Sequence[object],
    titles: Sequence[str],
) -> str:
    """Describe sizes of one input that both graphs, or the second and the user, fix differently."""
    text = f"{format_declared(others)} in {titles[1]}"
    if sizes is not None and not fits_sizes(sizes, others):
        return f"{format_declared(sizes)} in {titles[0]}, and {text}"
    # Drawing values for the first graph reports what does not fit there.
    if wanted is not None and fits_sizes(wanted, sizes) and not fits_sizes(wanted, others):
        return f"given as {format_shape(wanted)}, but it is {text}"
    return ""


def _fill_sizes(sizes: Sequence[object], others: Sequence[object]) -> GivenShape:
    pairs = zip(sizes, others, strict=False)
    return tuple(next((size for size in pair if isinstance(size, int)), None) for pair in pairs)


def _bind_names(
    shapes: Mapping[str, GivenShape], named: Mapping[str, Sequence[object]]
) -> dict[str, GivenShape]:
    """Fill open sizes whose name in ``named`` has a number elsewhere."""
    rows = {name: list(zip(shapes[name], texts, strict=False)) for name, texts in named.items()}
    bound: dict[object, int] = {}
    for size, text in chain.from_iterable(rows.values()):
        if isinstance(text, str) and isinstance(size, int):
            bound[text] = size
    return {
        name: tuple(bound.get(text) if size is None else size for size, text in row)
        for name, row in rows.items()
    }


def fits_sizes(sizes: Sequence[object] | None, others: Sequence[object] | None) -> bool:
    """Return whether a value can have both shapes; only numbers are fixed sizes, None is unknown."""
    if sizes is None or others is None:
        return True
    if len(sizes) != len(others):
        return False
    pairs = zip(sizes, others, strict=True)
    return all(n == m for n, m in pairs if isinstance(n, int) and isinstance(m, int))


def find_dtype(session: BackendSession, name: str) -> str:
    """Return the numpy dtype of an input, or of its tensors; empty if none."""
    dtype = split_type(session.dtypes[name])[1]
    if dtype in NARROW and is_installed():
        return str(find_numpy_dtype(dtype))
    return _DTYPES.get(dtype, "")


def _is_sequence(dtype: str) -> bool:
    return "sequence" in split_type(dtype)[0]


def convert_inputs(session: BackendSession, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` by input in a session's dtypes. Raises RefusedError as :func:`convert_feed`."""
    converted: dict[str, Any] = {}
    for name, value in values.items():
        # An array for a sequence has an element per row.
        if isinstance(value, np.ndarray) and _is_sequence(session.dtypes[name]):
            value = list(value)
        converted[name] = convert_value(name, value, find_dtype(session, name))
    return converted


def draw_as(array: Array, dtype: str) -> Array:
    """Change drawn numbers to fit ``dtype``, the input's dtype in another model, too."""
    # Texts, sequences and optional values have no single numeric dtype.
    if dtype in ("", "string") or " of " in dtype or not is_floating(array.dtype):
        return array
    own = find_numpy_dtype(dtype) if dtype in NARROW else np.dtype(dtype)
    if is_floating(own):
        return _round(array, own).astype(array.dtype)
    return np.rint(np.abs(array)).astype(own).astype(array.dtype)


class InputDrawer:
    """Draws inputs for a session; ``feeds`` and ``shapes`` are by input name.

    ``integers`` are the model's wishes beyond its declarations; ``notes`` explain the values drawn
    for them. ``graph`` tells scalars from inputs of any rank. Inputs in ``order`` are drawn first.

    Raises:
        RefusedError: a name names no input; an input has no dtype that can be drawn, or a shape
            that does not fit the declared one; all are listed.
    """

    def __init__(
        self,
        session: BackendSession,
        feeds: Mapping[str, Array],
        shapes: Mapping[str, GivenShape] = EMPTY,
        seed: int = 0,
        integers: Mapping[str, Sequence[Integers]] = EMPTY,
        graph: Graph | None = None,
        order: Sequence[str] = (),
    ) -> None:
        self._session, self._feeds, self._shapes = session, feeds, shapes
        self._seed, self._graph = seed, graph
        self._integers, self.notes = integers, dict[str, str]()
        wanted = {*feeds, *shapes}
        chosen = {name: shape for name, shape in session.defaults.items() if name in wanted}
        declared = {**session.inputs, **chosen}
        names = dict.fromkeys((*order, *declared))
        self._declared = {name: declared[name] for name in names if name in declared}
        faults: list[Fault] = []
        for option, by_name in (("`feeds`", feeds), ("`shapes`", shapes)):
            for name in by_name:
                if name not in declared:
                    message = f"{option} {name!r} is not an input: the model contains its value"
                    faults.append(Fault(message))
        for name in self._declared:
            faults += self._find_faults(name)
        if faults:
            raise RefusedError(faults)

    @property
    def open_names(self) -> list[str]:
        """Return the inputs with an open size."""
        drawn = [name for name in self._declared if name not in self._feeds]
        return [name for name in drawn if None in self._sizes(name)]

    def draw(
        self, size: int, *, is_batch: bool = False, batch: int = 1, differ: bool = False
    ) -> dict[str, Any]:
        """Return a value for each input, with ``size`` for open sizes, and ``batch`` samples.

        With ``is_batch`` an input's only open size is the batch, possibly on a later axis, as in
        RNN states. With ``differ`` sizes of different names differ. Raises MemoryLimitError.
        """
        drawn: dict[str, Any] = {}
        taken, turn = 0, self._seed
        # One restarted stream for all inputs: another open size changes only shapes.
        rng = np.random.default_rng(self._seed)
        for name in self._declared:
            dtype = find_dtype(self._session, name)
            if name in self._feeds:
                drawn |= convert_inputs(self._session, {name: self._feeds[name]})
                continue
            shape = tuple(
                self._choose(name, place, size, batch, is_batch=is_batch, differ=differ)
                for place in range(len(self._sizes(name)))
            )
            taken += prod(shape) * _DRAWN_BYTES
            if excess := describe_excess(taken):
                message = f"the values {format_shape(shape)} take {format_bytes(taken)} to be drawn, {excess}"
                raise MemoryLimitError(Fault(message, node=name, hint=MORE_MEMORY))
            if _is_sequence(self._session.dtypes[name]):
                drawn[name] = [_draw(rng, shape, dtype) for _ in range(_ELEMENTS)]
                continue
            wishes = _select_wishes(self._integers.get(name, ()), dtype)
            if wishes:
                drawn[name], choice, turns = _draw_integers(rng, shape, dtype, wishes, turn)
                # Inputs take turns like digits of a number, so that rounds reach every combination.
                turn //= turns
                reasons = dict.fromkeys(wish.why for wish in wishes if wish.why)
                if reasons:
                    self.notes[name] = f"{name!r} is {choice}: {'; '.join(reasons)}"
            else:
                drawn[name] = _draw(rng, shape, dtype)
        return drawn

    def _find_faults(self, name: str) -> list[Fault]:
        dtype = self._session.dtypes[name]
        if not _can_draw(dtype):
            return self._find_dtype_faults(name, dtype)
        return [] if _is_sequence(dtype) else self._find_shape_faults(name)

    def _find_dtype_faults(self, name: str, dtype: str) -> list[Fault]:
        """Return the fault of a dtype that cannot be drawn, unless numpy can hold a feed."""
        if name not in self._feeds:
            reason = "cannot be drawn"
        elif NO_ARRAY.search(dtype):
            reason = "numpy has no arrays of"
        else:
            return []
        hint = "compare a part without it (extract `cuts`)"
        if _is_narrow_array(dtype):
            hint = f"{INSTALL}, or {hint}"
        return [Fault(f"input {name!r} is a {dtype}, which {reason}", hint=hint)]

    def _find_shape_faults(self, name: str) -> list[Fault]:
        declared = self._declared[name]
        if name in self._feeds:
            option, node, chosen = "`feeds`", name, getattr(self._feeds[name], "shape", None)
        else:
            option, node, chosen = "`shapes`", None, self._shapes.get(name)
        if fits_sizes(chosen, declared):
            return []
        if not declared and self._has_open_rank(name):
            return []
        sizes = f"{option} {name!r} is {format_shape(chosen)}"
        message = f"{sizes}, but the model declares {format_declared(declared)}"
        return [Fault(message, node=node)]

    def _has_open_rank(self, name: str) -> bool:
        # onnxruntime reports () for an open rank, too, and takes any array for a scalar: the file
        # tells them apart.
        if self._graph is None:
            return name in self._feeds
        return list_declared(self._graph).get(name, _UNKNOWN)[1] is None

    def _sizes(self, name: str) -> Sequence[int | None]:
        declared = _keep_sizes(self._declared[name])
        if not declared and _is_sequence(self._session.dtypes[name]):
            declared = self._find_element_sizes(name)
        chosen = self._shapes.get(name, (None,) * len(declared))
        if not declared:
            return list(chosen)
        return [m if n is None else n for n, m in zip(chosen, declared, strict=True)]

    def _list_known_sizes(self, name: str) -> Sequence[int | None]:
        if name in self._feeds:
            return getattr(self._feeds[name], "shape", ())
        return self._sizes(name)

    def _find_element_sizes(self, name: str) -> list[int | None]:
        """Return the file's sizes of tensors in a sequence, else one open size."""
        if self._graph is None:
            return [None]
        node = next((node for node in self._graph.variables() if node.name == name), None)
        if node is None:
            return [None]
        stated = find_format(self._graph).types.find_types(self._graph, [Entry(node)])
        inner: Any = next(iter(stated.values()), None)
        while hasattr(inner, "inner"):
            inner = inner.inner
        if inner is None or inner.shape is None:
            return [None]
        return _keep_sizes(inner.shape)

    def _choose(
        self, name: str, place: int, size: int, batch: int, *, is_batch: bool, differ: bool
    ) -> int:
        """Return a given size, else the same dimension's elsewhere, else ``batch`` or ``size``."""
        sizes = self._sizes(name)
        symbol = self._declared[name][place] if self._declared[name] else None
        is_name = isinstance(symbol, str)
        known = sizes[place]
        if known is None and is_name:
            known = self._find_size(symbol)
        if known is not None:
            return known
        is_only_open_size = len(sizes) > 1 and sizes.count(None) == 1
        if place == 0 or (is_batch and is_only_open_size):
            return batch
        # The name of some input's first size is the batch on every axis.
        if is_name and symbol in self._first_sizes:
            return batch
        return size + self._inner_names.index(symbol) if differ and is_name else size

    @cached_property
    def _first_sizes(self) -> set[object]:
        return {shape[0] for shape in self._declared.values() if shape}

    @cached_property
    def _inner_names(self) -> list[object]:
        names: dict[object, None] = {}
        for size in chain.from_iterable(self._declared.values()):
            if isinstance(size, str) and size not in self._first_sizes:
                names[size] = None
        return list(names)

    def _find_size(self, symbol: object) -> int | None:
        for name, declared in self._declared.items():
            for dimension, size in zip(declared, self._list_known_sizes(name), strict=False):
                if dimension == symbol and size is not None:
                    return int(size)
        return None


def _keep_sizes(sizes: Sequence[object]) -> list[int | None]:
    """Return sizes with None for names and for onnxruntime's negative numbers."""
    return [n if isinstance(n, int) and n >= 0 else None for n in sizes]


def _is_narrow_array(dtype: str) -> bool:
    kinds, inner = split_type(dtype)
    return inner in NARROW and not kinds


def _can_draw(dtype: str) -> bool:
    return split_type(dtype)[1] in _DTYPES or (_is_narrow_array(dtype) and is_installed())


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    if dtype == "object":
        return np.array(rng.choice(_TEXTS, shape), dtype)
    own = np.dtype(dtype)
    if is_narrow(own):
        return _draw_narrow(rng, shape, own)
    if dtype.startswith("float"):
        return _round(rng.standard_normal(shape), own)
    # Indices of any table, and both values of a condition
    return rng.integers(0, 2, shape).astype(dtype)


def _draw_narrow(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    name = str(dtype)
    if not is_floating(dtype):
        # Such integers are never indices: they can be any.
        return rng.integers(0, 1 << int(name[-1]), shape).astype(dtype)
    numbers = rng.standard_normal(shape)
    if "e8m0" in name:  # it has no sign
        numbers = np.abs(numbers)
    return numbers.astype(dtype)


def _round(numbers: Array, dtype: np.dtype[Any]) -> Array:
    # Through float32, so that the order of two models changes no number.
    if dtype.itemsize < 4:
        numbers = numbers.astype(np.float32)
    return numbers.astype(dtype)


def _select_wishes(wishes: Sequence[Integers], dtype: str) -> Sequence[Integers]:
    """Return the wishes for this dtype; a mask counts only if there is no other."""
    if dtype == "bool":
        return [wish for wish in wishes if wish.is_mask]
    if "int" not in dtype or is_narrow(np.dtype(dtype)):
        return ()
    stated = [wish for wish in wishes if wish.why]
    others = [wish for wish in stated if not _wants_mask(wish)]
    # Pixels are cast to floats, too.
    chosen = others if dtype.endswith("int8") else others or stated
    return chosen or [wish for wish in wishes if not wish.why]


def _wants_mask(wish: Integers) -> bool:
    return not wish.high and {0, 1}.issuperset(wish.values)


def _draw_integers(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: str,
    wishes: Sequence[Integers],
    turn: int,
) -> tuple[Array, str, int]:
    """Return the wanted integers, their range in words, and how many turns show all values.

    A single number is one that the graph compares it with, a new one at each ``turn``; a lone one
    takes turns with a different number. An array has other numbers, too, so that a comparison
    distinguishes its elements.
    """
    (low, high), is_mask = _find_range(wishes, dtype), any(wish.is_mask for wish in wishes)
    values = _list_values(wishes, low, high)
    is_single, turns = prod(shape) == 1, 1
    if is_single and (values or low >= high):
        if not high and not is_mask:
            values = _add_other(values)
        numbers = values or [0, 1]
        turns = len(numbers)
        drawn, choice = np.full(shape, numbers[turn % turns]), ""
    elif low < high:
        drawn, choice = rng.integers(low, high, shape), f"drawn from {low} to {high - 1}"
    else:
        values = sorted({0, 1, *values})
        drawn, choice = rng.choice(values, shape), f"drawn from {format_names(map(str, values))}"
        if is_mask and values == [0, 1]:
            # A row of a mask without a 1 gives NaN.
            drawn[..., :1] = 1
    drawn = drawn.astype(dtype)
    if is_single:
        choice = str(drawn.item())
    return drawn, choice, turns


def _find_range(wishes: Sequence[Integers], dtype: str) -> tuple[int, int]:
    """Return the range that all wishes allow; its end is 0 if there is none."""
    ranges = [wish for wish in wishes if wish.high]
    if not ranges:
        return 0, 0
    limits = np.iinfo(dtype)
    low = max(int(limits.min), *(wish.low for wish in ranges))
    return low, min(int(limits.max) + 1, *(wish.high for wish in ranges))


def _list_values(wishes: Sequence[Integers], low: int, high: int) -> list[int]:
    values = set(chain.from_iterable(wish.values for wish in wishes))
    if not high:
        return sorted(values)
    return sorted(value for value in values if low <= value < high)


def _add_other(values: list[int]) -> list[int]:
    """Return the values for a single number: a lone one gets another beside it."""
    if len(values) != 1:
        return values
    (value,) = values
    # A rate of 8000 beside 16000
    return [value, value // 2 if value > 0 else value + 1]


def format_declared(shape: Sequence[object]) -> str:
    """Return a shape as a model declares it, with names of free sizes."""
    return "x".join(str(n) if isinstance(n, int) else str(n or "?") for n in shape) or "()"
