"""The normal form of ONNX operators, by operator set: unlike nodes that compute the same bits.

Nothing here rounds: an identity moves, drops or rewrites, and holds for every value. Types follow
from the model's inputs; other types in a file are not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from graphshare.formats.onnx.constants import (
    FLOAT,
    FLOAT32,
    FLOATS,
    INT,
    INT8,
    INT64,
    INTS,
    UINT8,
    count_bytes,
    read_constant,
    read_parts,
    read_stored,
)
from graphshare.formats.onnx.statements import key_of_call, list_functions
from graphshare.formats.onnx.stored import find_stored, get_source
from graphshare.formats.onnx.values import MALFORMED, Content, StoredValue
from graphshare.ir.affine import AffineStep, FindConstant
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.onnx import DTYPE_NAMES, OTHER_NAMES, dtype_code
from graphshare.ir.terms import Facts, Place, ReadContent, TermTable
from graphshare.ir.walk import list_operands
from graphshare.onnx_ops.computable import find_sizes, static_shape
from graphshare.onnx_ops.constant_terms import ConstantTerms
from graphshare.onnx_ops.operators import CHANGED, MOVED, encode_value, find_meaning
from graphshare.onnx_ops.random_operators import DRAWING
from graphshare.onnx_ops.windows import WEIGHTS, WINDOWS, read_integers, settle_windows

_BY_AXIS = frozenset(
    """ArgMax ArgMin Concat Flatten Gather GatherElements Hardmax LayerNormalization LogSoftmax
LpNormalization ScatterElements Softmax Split TopK""".split()
)
_OF_FURTHER = {"BatchNormalization": "momentum", "MaxPool": "storage_order"}
"""Attributes that the first output does not depend on: the momentum of running statistics, and the
order of indices.
"""
_ZEROS = {
    "DequantizeLinear": (UINT8, INT8),
    "Pad": (*DTYPE_NAMES, *OTHER_NAMES),
    "QuantizeLinear": (UINT8,),
}
"""Dtypes of a third operand that may be omitted if it is 0: quantization without a zero point yields uint8."""


class OnnxForm(ConstantTerms):
    """The normal form of a model. Fewer ``facts`` prove fewer nodes equal."""

    def __init__(self, graph: Graph, table: TermTable, facts: Facts, read: ReadContent) -> None:
        super().__init__(table)
        self._read = read
        self._types, self._computed, self._ranks = facts.types, facts.computed, facts.ranks
        self._opsets = get_source(graph).opsets
        self._stored = list_functions(graph)
        self._functions = {key: function.span.read() for key, function in self._stored.items()}
        self._shapes: dict[int, tuple[int, ...]] = {}

    def find_constant(self, node: Node) -> Hashable | None:
        if node.op:
            is_constant = node.op == "Constant" and not node.details.domain
            return read_constant(node.details.values) if is_constant else None
        stored, replaced = find_stored(node.details), self._read(node)
        if replaced is not None:
            dtype, shape, data = replaced
            return dtype_code(dtype), shape, data
        return ("unread", node) if stored.data_in_record else read_stored(stored)

    def find_outline(self, node: Node) -> Hashable | None:
        place = None if node.op else find_stored(node.details).place
        if place is not None:
            return place.code, place.shape
        content = self.find_constant(node)
        return content[:2] if isinstance(content, tuple) else None

    def read_statement(self, node: Node) -> Hashable:
        domain, name, overload = key_of_call(node)
        stored = self._stored.get((domain, name, overload))
        own: Hashable = (domain, name, self._opsets.get(domain))
        # Functions are identified by their bodies
        if stored is not None and stored.function is not None:
            defaults = {
                key: getattr(value, "content", None)
                for key, value in stored.function.attributes.items()
            }
            own = tuple(sorted(defaults.items())), tuple(sorted(stored.function.opsets.items()))
        return own, tuple(sorted(self._list_attributes(node).items())), _count_outputs(node)

    def make_terms(self, node: Node, operands: Sequence[int], bodies: Hashable) -> list[int]:
        constants = self._number_computed(node) if self._computed else EMPTY
        if not constants:
            return self._make_own_terms(node, operands, bodies)
        self.used["constants computed"] += 1
        if len(constants) == (node.num_outputs or 1):
            return list(constants.values())
        outputs = self._make_own_terms(node, operands, bodies)
        return [constants.get(index, term) for index, term in enumerate(outputs)]

    def _number_computed(self, node: Node) -> dict[int, int]:
        """Return the terms of outputs that are computed constants, by position."""
        constants = {}
        for index in range(node.num_outputs or 1):
            computed = self._computed.get((node, index))
            if computed is not None:
                constants[index] = self.number_array(*computed)
        return constants

    def _make_own_terms(self, node: Node, operands: Sequence[int], bodies: Hashable) -> list[int]:
        """Return the terms of an operator's outputs by its operands."""
        terms = iter(operands)
        places = _drop_absent(
            [None if entry is None else next(terms) for entry in list_operands(node)]
        )
        if node.details.domain or self.is_call(node):
            return self._number_call(node, places, bodies)
        if node.op == "Constant":
            content = read_constant(node.details.values)
            if content is not None:
                return [self.table.number("constant", content)]
        operator = _Call(self, node, self._list_attributes(node), places)
        rule = _RULES.get(node.op)
        same = rule(operator) if rule is not None else None
        if same is not None and (node.num_outputs or 1) == 1:
            return [same]
        outputs = self.number_outputs(node, *operator.key(bodies))
        if same is not None:
            return [same, *outputs[1:]]
        if operator.of_further:
            outputs[1:] = [
                self.table.number("output", outputs[0], i, operator.of_further)
                for i in range(1, len(outputs))
            ]
        shape = static_shape(self._types, (node, 0))
        if shape is not None:
            self._shapes.setdefault(outputs[0], shape)
        return outputs

    def _number_call(
        self, node: Node, operands: Sequence[int | None], bodies: Hashable
    ) -> list[int]:
        """Return the terms of a call of a function, or of another domain's operator."""
        domain, key = node.details.domain, key_of_call(node)
        # A function may call others: calls are equal only if models define all functions alike.
        own = tuple(sorted(self._functions.items())) if key in self._functions else ()
        stated = tuple(sorted(self._list_attributes(node).items()))
        call = (
            key,
            self._opsets.get(domain),
            own,
            _count_outputs(node),
            stated,
            tuple(operands),
            bodies,
        )
        # Unknown operators may draw random numbers, so equal calls differ. Operators of ai.onnx.ml
        # draw none.
        drawn = 0 if domain == "ai.onnx.ml" else self.count_drawn(call)
        return self.number_outputs(node, "call", *call, drawn)

    def read_version(self, term: int) -> int:
        key = self.table.keys[term]
        return int(key[2]) if key[0] == "operator" else 0

    def read_step(
        self, node: Node, operands: Sequence[int | None], find: FindConstant
    ) -> AffineStep | None:
        from graphshare.onnx_ops.affine import read_step  # start-up: terms alone often do

        return read_step(self, self._opsets.get("", 1), node, operands, find)

    def is_call(self, node: Node) -> bool:
        return key_of_call(node) in self._functions

    def may_be_default(self, node: Node, name: str) -> bool:
        _, defaults = self.find_version(node.op)
        if node.details.domain or name not in defaults:
            return True
        return self._list_attributes(node).get(name) == encode_value(defaults[name])

    def find_shape(self, place: Place | None) -> tuple[int, ...] | None:
        """Return a value's shape if it follows from the inputs."""
        return None if place is None else static_shape(self._types, place)

    def find_sizes(self, place: Place | None) -> Sequence[int | str | None] | None:
        """Return a value's sizes if its rank follows from the inputs."""
        return None if place is None else find_sizes(self._types, place)

    def find_rank(self, place: Place | None) -> int | None:
        """Return a value's rank if it follows from the inputs, or was seen."""
        if place is None:
            return None
        sizes = self.find_sizes(place)
        return self._ranks.get(place) if sizes is None else len(sizes)

    def find_dtype(self, place: Place | None) -> str | None:
        """Return a value's dtype if it follows from the inputs."""
        kind = None if place is None else self._types.get(place)
        return None if kind is None else kind.parts[0]

    def find_version(self, op: str, least: int = 0) -> tuple[int, Mapping[str, Any]]:
        """Return the first version with the meaning of the model's version, and its default attributes."""
        return find_meaning(op, max(self._opsets.get("", 1), least))

    def _list_attributes(self, node: Node) -> dict[str, Content]:
        values = node.details.values
        return {
            name: value.content for name, value in values.items() if isinstance(value, StoredValue)
        }


class _Call:
    """An ONNX operator as a rule sees it: attributes by content, operands by position."""

    def __init__(
        self, form: OnnxForm, node: Node, attributes: dict[str, Content], operands: list[int | None]
    ) -> None:
        self.form, self.node, self.attributes, self.operands = form, node, attributes, operands
        self.places = [
            None if entry is None else (entry.node, entry.index) for entry in list_operands(node)
        ] or [None]
        self.least = 0
        self.of_further: Hashable = None
        self._move_attributes()
        self.version, self.defaults = form.find_version(node.op, self.least)

    def use(self, identity: str, term: int | None = None) -> int | None:
        """Count an identity, and return the operator's new term."""
        self.form.used[identity] += 1
        return term

    def read_integer(self, name: str) -> int | None:
        content = self.attributes.get(name)
        if content is None:
            value = self.defaults.get(name)
            return value if isinstance(value, int) else None
        return None if content[0] == MALFORMED else int(read_parts(content).get(INT, 0))

    def read_integers(self, name: str) -> list[int] | None:
        return read_integers(self.attributes.get(name))

    def operand(self, place: int) -> int | None:
        return self.operands[place] if place < len(self.operands) else None

    def key(self, bodies: Hashable) -> tuple[Hashable, ...]:
        """Return the key of the operator's value."""
        op, attributes = self.node.op, dict(self.attributes)
        self._drop_default_attributes(attributes)
        if op in WINDOWS:
            self._settle_windows(attributes)
        version = self._find_version(attributes)
        if op in _BY_AXIS:
            version = self._count_axis(attributes)
        count = 0  # of outputs, where it changes the computation
        if op == "Split":
            count = len(self.node.details.outputs)
            if self.read_integer("num_outputs") == count:
                del attributes["num_outputs"]  # before version 18 only the outputs state it
        elif op == "BatchNormalization":
            count = _count_outputs(self.node)
            # From version 14 on an attribute states training, before that the number of outputs.
            if version >= 14 or count == 1:
                version, count = 14 if version == 9 else version, 0
        if op in _OF_FURTHER and not count:
            self.of_further = attributes.pop(_OF_FURTHER[op], None)
        key = (
            "operator",
            op,
            version,
            count,
            tuple(sorted(attributes.items())),
            self._list_operands(),
            bodies,
        )
        return (*key, self.form.count_drawn(key)) if op in DRAWING else key

    def _drop_default_attributes(self, attributes: dict[str, Content]) -> None:
        for name, value in self.defaults.items():
            if attributes.get(name) == encode_value(value):
                self.use("defaults of attributes")
                del attributes[name]

    def _find_version(self, attributes: Mapping[str, Content]) -> int:
        first, later, changed = CHANGED.get(self.node.op, (0, 0, ()))
        is_changed = any(name in attributes for name in changed)
        return later if first <= self.version < later and not is_changed else self.version

    def _settle_windows(self, attributes: dict[str, Content]) -> None:
        place, had_auto = WEIGHTS.get(self.node.op), "auto_pad" in attributes
        weight = None
        if place is not None and place < len(self.places):
            weight = self._find_shape(place)
        settle_windows(self.node.op, attributes, weight, self.form.find_sizes(self.places[0]))
        if had_auto and "auto_pad" not in attributes:
            self.use("pads that auto_pad states")

    def _find_shape(self, place: int) -> tuple[int, ...] | None:
        """Return an operand's shape if known; a constant's needs no types."""
        content = self.form.read_content(self.operand(place))
        is_array = content is not None and isinstance(content[0], int)
        return tuple(content[1]) if is_array else self.form.find_shape(self.places[place])

    def _list_operands(self) -> tuple[int | None, ...]:
        """Return the operands without defaults; axes count from the first."""
        op, read, operands = self.node.op, self.form.read_integers, list(self.operands)
        operands += [None] * (5 - len(operands))
        if op.startswith("Reduce"):
            operands[1] = self._count_axes(operands[1])
        elif op == "Slice":
            axes, steps = read(operands[3]), read(operands[4])
            if axes is not None and axes == list(range(len(axes))):
                operands[3] = None
            if steps and set(steps) == {1}:
                operands[4] = None
        elif op in _ZEROS and self.form.find_zero(operands[2]) in _ZEROS[op]:
            has_dtype = op == "QuantizeLinear" and self.read_integer("output_dtype")
            if not has_dtype:
                operands[2] = None
        return tuple(_drop_absent(operands))

    def _count_axes(self, term: int | None) -> int | None:
        """Return a reduction's axes from the first; None for all of them."""
        rank, axes = self.find_rank(), self.form.read_integers(term)
        if not rank or not axes:
            return term
        numbers = sorted(axis % rank for axis in axes)
        is_all = numbers == list(range(rank)) and not self.read_integer("noop_with_empty_axes")
        return None if is_all else self.form.number_integers(numbers)

    def find_rank(self) -> int | None:
        """Return the rank of the first operand if known."""
        return self.form.find_rank(self.places[0])

    def _count_axis(self, attributes: dict[str, Content]) -> int:
        """Count an axis from the first; return the version with the operator's meaning then."""
        axis, rank = self.read_integer("axis"), self.find_rank()
        if axis is None or not rank:
            return self.version
        if axis < 0:
            axis += rank
        attributes["axis"] = encode_value(axis)
        if self.node.op in ("Softmax", "LogSoftmax", "Hardmax") and axis == rank - 1:
            return 13  # over the last axis both meanings of the operator agree
        return self.version

    def _move_attributes(self) -> None:
        """Turn attributes into operands that later versions have as inputs."""
        least, places = MOVED.get(self.node.op, (0, EMPTY))
        if self.form.find_version(self.node.op)[0] >= least:
            return
        if self.node.op == "Clip" and len(self.attributes) < len(places):
            return  # an absent limit is the largest float32 here, and none in later versions
        moved: dict[int, int] = {}
        for name, place in places.items():
            if name in self.attributes:
                term = self._number_attribute(name, self.attributes[name])
                if term is None:
                    return
                moved[place] = term
        self.operands += [None] * (max(moved, default=0) + 1 - len(self.operands))
        for place, term in moved.items():
            self.operands[place] = term
        for name in places:
            self.attributes.pop(name, None)
        self.least = least
        self.use("attributes as inputs")

    def _number_attribute(self, name: str, content: Content) -> int | None:
        """Return an attribute's term as an input; None if its dtype is unknown."""
        parts = read_parts(content)
        table = self.form.table
        if INTS in parts:
            data = parts[INTS]
            return table.number("constant", (INT64, (count_bytes(data) // 8,), data))
        if name == "k":
            return self.form.number_integers([parts.get(INT, 0)])
        if name == "scales":
            data = parts[FLOATS]
            return table.number("constant", (FLOAT32, (count_bytes(data) // 4,), data))
        if self.form.find_dtype(self.places[0]) != "float32":
            return None
        return table.number("constant", (FLOAT32, (), (parts.get(FLOAT, bytes(4)),)))


def _drop_identity(call: _Call) -> int | None:
    return call.use("Identity", call.operand(0))


def _drop_dropout(call: _Call) -> int | None:
    """Return the input of a Dropout in inference, the default from version 12 on."""
    if call.version < 7 and not call.read_integer("is_test"):
        return None
    training = call.operand(2)
    is_training = training is not None and call.form.find_truth(training) is not False
    # Training with a ratio of 0 drops nothing, and multiplies by 1.
    if is_training and not call.form.find_zero(call.operand(1)):
        return None
    return call.use("Dropout in inference", call.operand(0))


def _drop_cast(call: _Call) -> int | None:
    dtype, *others = map(call.form.find_dtype, call.places)
    if dtype is None:
        return None
    wanted = call.read_integer("to")
    if call.node.op == "CastLike":
        wanted = dtype_code(others[0] or "") if others else None
    if wanted != dtype_code(dtype):
        return None
    return call.use("casts to the same dtype", call.operand(0))


def _drop_neutral(call: _Call) -> int | None:
    """Drop an integer 0 that is added, or 1 that multiplies. For floats, -0 + 0 is not -0."""
    neutral = [1 if call.node.op in ("Div", "Mul") else 0]
    places = (1, 0) if call.node.op in ("Add", "Mul") else (1,)
    for place in places:
        term, other = call.operand(place), call.operand(1 - place)
        if term is None or other is None or call.form.read_integers(term) != neutral:
            continue
        own = len(call.form.table.keys[term][1][1])
        rank = call.form.find_rank(call.places[1 - place])
        if not own or (rank is not None and own <= rank):
            return call.use("integers that change nothing", other)
    return None


def _join_transposes(call: _Call) -> int | None:
    """Join Transposes; none is left in the original order."""
    perm, term = call.read_integers("perm"), call.operand(0)
    if not perm:
        perm = list(reversed(range(call.find_rank() or 0)))
    if not perm or term is None:
        return None
    key = call.form.table.keys[term]
    if key[0] == "transpose":
        call.use("Transposes joined")
        perm, term = [key[2][axis] for axis in perm], key[1]
    if perm == sorted(perm):
        return call.use("Transposes that change nothing", term)
    return call.form.table.number("transpose", term, tuple(perm))


def _join_reshapes(call: _Call) -> int | None:
    """Join changes of shape; none is left for the original shape."""
    term, shape = call.operand(0), call.form.find_shape((call.node, 0))
    if term is None:
        return None
    if shape is not None:
        return _reshape(call, term, shape)
    if call.node.op in _OTHER:
        return _join_moved_axes(call, term)
    return _join_open_shapes(call, term)


def _find_base(call: _Call, term: int, *kinds: str) -> int:
    key = call.form.table.keys[term]
    if key[0] not in kinds:
        return term
    call.use("Reshapes joined")
    return int(key[1])


def _reshape(call: _Call, term: int, shape: tuple[int, ...]) -> int | None:
    form, base = call.form, _find_base(call, term, "reshape")
    before = form.find_shape(call.places[0]) if base == term else form._shapes.get(base)
    if before == shape:
        return call.use("Reshapes that change nothing", base)
    if before is not None:
        form._shapes.setdefault(base, before)
    return form.table.number("reshape", base, shape)


def _join_open_shapes(call: _Call, term: int) -> int | None:
    form = call.form
    wanted = _find_wanted(form.find_sizes((call.node, 0)))
    if wanted is not None and wanted == _find_wanted(form.find_sizes(call.places[0])):
        return call.use("Reshapes that change nothing", term)
    if wanted is None and call.node.op == "Reshape":
        wanted = form.read_integers(call.operand(1))
        # A 0 copies a size of this Reshape's input; an earlier value may lack that size.
        if wanted and 0 in wanted and not call.read_integer("allowzero"):
            return None
    if wanted is None:
        return None
    base = _find_base(call, term, "reshape", "reshape to")
    return form.table.number("reshape to", base, tuple(wanted))


def _join_moved_axes(call: _Call, term: int) -> int | None:
    axes, key = call.form.read_integers(call.operand(1)), call.form.table.keys[term]
    if axes is None:
        return None
    inverse = _OTHER[call.node.op], call.operand(1)
    is_inverse = key[0] == "moved axes" and (key[1], key[3]) == inverse
    # Negative axes count from the end, a different place before and after.
    if is_inverse and min(axes, default=-1) >= 0:
        return call.use("Squeeze of Unsqueeze", int(key[2]))
    return call.form.table.number("moved axes", call.node.op, term, call.operand(1))


def _find_wanted(sizes: Sequence[int | str | None] | None) -> list[int] | None:
    """Return sizes with -1 for the open one, if unambiguous."""
    wanted = [size if isinstance(size, int) else -1 for size in sizes or ()]
    if wanted.count(-1) != 1 or 0 in wanted:
        return None
    return wanted


_OTHER = {"Squeeze": "Unsqueeze", "Unsqueeze": "Squeeze"}


def _join_concat(call: _Call) -> int | None:
    if len(call.operands) != 1:
        return None
    return call.use("Concat of one value", call.operand(0))


_RULES: Mapping[str, Callable[[_Call], int | None]] = {
    **dict.fromkeys(("Cast", "CastLike"), _drop_cast),
    "Concat": _join_concat,
    **dict.fromkeys(("Add", "Div", "Mul", "Sub"), _drop_neutral),
    "Dropout": _drop_dropout,
    "Identity": _drop_identity,
    "Transpose": _join_transposes,
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _join_reshapes),
}


def _drop_absent(operands: list[int | None]) -> list[int | None]:
    """Drop absent operands at the end."""
    while operands and operands[-1] is None:
        operands.pop()
    return operands


def _count_outputs(node: Node) -> int:
    return max((place + 1 for place, name in enumerate(node.details.outputs) if name), default=0)
