"""The little that is known about Paddle's operators: equal ones on equal operands compute the
same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain

from graphshare.formats.facets import Meaning
from graphshare.formats.paddle.records import FETCH, get_source, is_written
from graphshare.ir.graph import Graph, Node
from graphshare.ir.onnx import dtype_code
from graphshare.ir.terms import Facts, NormalForm, Place, ReadContent, TermTable
from graphshare.ir.walk import iter_graphs, list_operands

_IDLE = frozenset(("persistable", "stop_gradient", "struct_name"))
"""Attributes that change no value."""
_DIALECTS = frozenset(("builtin", "cf", "pd_op"))
_DRAWING = frozenset(
    (
        "bernoulli",
        "binomial",
        "class_center_sample",
        "dirichlet",
        "dropout",
        "exponential",
        "fused_dropout_add",
        "gaussian",
        "gaussian_inplace",
        "gumbel_softmax",
        "multinomial",
        "poisson",
        "randint",
        "random_routing",
        "randperm",
        "rrelu",
        "standard_gamma",
        "top_p_sampling",
        "truncated_gaussian_random",
        "uniform",
        "uniform_inplace",
        "uniform_random_batch_size_like",
    )
)
"""Operators that draw random numbers, unless they only test or have a seed; some have a writing
twin, with a ``_``.
"""


def draws_numbers(node: Node) -> bool:
    """Whether an operator draws random numbers: it has no seed, and does not only test."""
    values = node.details.values
    is_fixed = str(values.get("is_test", "false")) == "true" or str(
        values.get("seed", "0")
    ) not in ("0", "-1")
    return node.op.removesuffix("_") in _DRAWING and not is_fixed


class PaddleForm(NormalForm):
    """A value is an operator with its attributes and operands."""

    def __init__(self, table: TermTable, read: ReadContent, version: int) -> None:
        super().__init__(table)
        self._read, self._version = read, version

    def find_constant(self, node: Node) -> Hashable | None:
        content = None if node.op else self._read(node)
        # The same key as in ONNX, so that equal parameters match.
        return None if content is None else (dtype_code(content[0]), *content[1:])

    def make_terms(self, node: Node, operands: Sequence[int], bodies: Hashable) -> list[int]:
        if node.op == FETCH:
            return list(operands)
        values, domain = node.details.values, node.details.domain
        stated = tuple([(name, str(values[name])) for name in sorted(values) if name not in _IDLE])
        key = (
            domain,
            node.op,
            self._version,
            stated,
            node.details.absent,
            node.num_outputs,
            tuple(operands),
            bodies,
        )
        # Nothing is known of operators that others define
        draws = domain not in _DIALECTS or draws_numbers(node)
        return self.number_outputs(node, "paddle", *key, self.count_drawn(key) if draws else 0)


class PaddleMeaning(Meaning):
    """The normal form of programs, and the names that their values get in ONNX."""

    draws_numbers = staticmethod(draws_numbers)

    def make_normal_form(
        self, graph: Graph, table: TermTable, facts: Facts, read: ReadContent
    ) -> NormalForm | None:
        return (
            None if _overwrites(graph) else PaddleForm(table, read, get_source(graph).base_version)
        )

    def list_converted_names(self, graph: Graph) -> Mapping[Place, str]:
        """Return paddle2onnx's names: operator, count of earlier ones of its kind, output's
        number.
        """
        counts, names = Counter[str](), dict[Place, str]()
        for node in graph.nodes:
            if node.op:
                kind = f"p2o.{node.details.domain}.{node.op}"
                names.update(
                    {
                        (node, index): f"{kind}.{counts[kind]}.{index}"
                        for index in range(node.num_outputs or 0)
                    }
                )
                counts[kind] += 1
        return names


def _overwrites(graph: Graph) -> bool:
    """Whether an operator overwrites a value that others read: results depend on the order."""
    for each in iter_graphs(graph):
        uses = Counter(
            (e.node, e.index) for e in chain(each.heads, *(node.inputs for node in each.nodes))
        )
        for node in each.nodes:
            written = [
                e
                for place, e in enumerate(list_operands(node))
                if e is not None and is_written(node, place)
            ]
            if any(uses[e.node, e.index] > 1 or not e.node.op for e in written):
                return True
    return False
