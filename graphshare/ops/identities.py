"""The normal form of MXNet's operators at inference: equal forms compute equal bits.

It applies to graphs after the upgrade that precedes every run. No identity rounds: it drops or
respells a node.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from graphshare.ir.affine import AffineStep, FindConstant
from graphshare.ir.graph import Graph, Node
from graphshare.ir.terms import NormalForm, ReadContent, TermTable
from graphshare.ops.attributes import has_np_shape
from graphshare.ops.bodies import draws_numbers
from graphshare.ops.registry import canonical, find_signature, visible_outputs
from graphshare.ops.signature import Signature, is_free_key

_PASSED_ON = frozenset(
    (
        "BlockGrad",
        "MakeLoss",
        "_contrib_gradientmultiplier",
        "_copy",
        "_np_copy",
        "make_loss",
        "IdentityAttachKLSparseReg",
    )
)
"""Operators that return their input; only the gradient differs."""
_IDLE: Mapping[str, tuple[str, ...]] = {"BatchNorm": ("momentum",)}
"""Attributes that only training reads, by operator."""
_DEVICE = frozenset(("cudnn_off", "cudnn_tune", "workspace"))
"""Attributes that choose how a device computes, without effect on the result."""
_WINDOWS = frozenset(("Convolution", "Deconvolution", "Pooling"))
_PLAIN = {"stride": 1, "dilate": 1, "pad": 0, "adj": 0}
"""Values of absent window attributes."""


class OperatorForm(NormalForm):
    """The normal form of a graph of operators; ``read`` returns a variable's known content."""

    def __init__(self, graph: Graph, table: TermTable, read: ReadContent) -> None:
        super().__init__(table)
        self._read, self._np_shape = read, has_np_shape(graph.attrs)

    def find_constant(self, node: Node) -> Hashable | None:
        return self._read(node)

    def read_statement(self, node: Node) -> Hashable:
        stated = sorted((key, text) for key, text in node.attrs.items() if not is_free_key(key))
        return node.op, tuple(stated), self._np_shape

    def make_terms(self, node: Node, operands: Sequence[int], bodies: Hashable) -> list[int]:
        signature = find_signature(node)
        op = canonical(node.op)
        values, faults = signature.parse(node.attrs) if signature is not None else ({}, ())
        if signature is None or faults or op == "Custom":  # an unknown operator may draw numbers
            unknown = (op, tuple(sorted(node.attrs.items())), tuple(operands), bodies)
            return self._number_all(node, "unknown", *unknown, self.count_drawn(unknown))
        if op != node.op:
            self.used["aliases of operators"] += 1
        is_dropout = op == "Dropout" and values["mode"] != "always"
        attributes = self._find_attributes(op, signature, node, values)
        key = (op, attributes, tuple(operands), bodies, self._np_shape)
        draws = draws_numbers(node) or (op == "Dropout" and not is_dropout)
        # Nodes that draw differ even if written alike: each has a number.
        outputs = self._number_all(node, "operator", *key, self.count_drawn(key) if draws else 0)
        passes_on = is_dropout or op in _PASSED_ON
        if passes_on and operands:
            identity = (
                "Dropout in inference" if is_dropout else "operators that pass their input on"
            )
            self.used[identity] += 1
            # Only the first: Dropout's second output is its mask.
            outputs[0] = operands[0]
        return outputs

    def read_step(
        self, node: Node, operands: Sequence[int | None], find: FindConstant
    ) -> AffineStep | None:
        from graphshare.ops.affine import (  # start-up: terms alone often do
            OperatorWithConstants,
            read_step,
        )

        signature, op = find_signature(node), canonical(node.op)
        if signature is None or not operands or None in operands:
            return None
        values, faults = signature.parse(node.attrs)
        if faults:
            return None

        def name_rest(shape: tuple[int, ...]) -> Hashable:
            attributes = self._find_attributes(
                op, signature, node, values, apart=frozenset(("no_bias",))
            )
            return self.table.number("linear", op, attributes, operands[0], shape, self._np_shape)

        return read_step(OperatorWithConstants(op, values, len(operands), find, name_rest))

    def _number_all(self, node: Node, *key: Hashable) -> list[int]:
        first = self.table.number(*key)
        count = max([node.num_outputs or 1, *(entry.index + 1 for entry in visible_outputs(node))])
        return [first, *(self.table.number("output", first, index) for index in range(1, count))]

    def _find_attributes(
        self,
        op: str,
        signature: Signature,
        node: Node,
        values: Mapping[str, Any],
        apart: Collection[str] = (),
    ) -> str:
        """Return attributes as text, with defaults, without ``apart`` and ineffective ones."""
        left_out = {*_IDLE.get(op, ()), *_DEVICE} & values.keys()
        if left_out & node.attrs.keys():
            self.used["attributes that change no value"] += 1
        if op in _WINDOWS:
            # An absent stride, () and (1, 1) are one.
            left_out |= {
                name for name, size in _PLAIN.items() if set(values.get(name) or ()) <= {size}
            }
        known: dict[str, Any] = {}
        for name in values.keys() - left_out - set(apart):
            if not is_free_key(name):
                known[name] = values[name]
        stated = [name for name in known if name in node.attrs]
        states_default = any(signature.value({}, name) == known[name] for name in stated)
        if states_default or left_out & _PLAIN.keys() & node.attrs.keys():
            self.used["defaults of attributes"] += 1
        return repr(sorted(known.items()))
