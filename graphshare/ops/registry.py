"""Operators by name: signature, kernel, gradient, batch-axis rule, translation. A family loads when
a graph first uses it.

Other packages add kernels, gradients and translations through the entry point groups ``graphshare.kernels``,
``graphshare.gradients`` and ``graphshare.to_onnx``: objects that are tuples of :class:`~graphshare.ops.kernel.Kernel`,
:class:`~graphshare.ops.gradient.Gradient` or :class:`~graphshare.ops.translation.Translator`. In Python,
:func:`register_kernel`, :func:`register_gradient` and :func:`register_translation` do the same. They prevail over the
families' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from graphshare.ir.graph import MXNET_DOMAIN, Entry, Node
from graphshare.ops.index import ALIASES, FAMILY_OF
from graphshare.ops.signature import OutputList, Signature

if TYPE_CHECKING:
    from graphshare.ops.batch_axis import Rule
    from graphshare.ops.gradient import Gradient, NoGradient
    from graphshare.ops.kernel import Kernel
    from graphshare.ops.translation import NoTranslation, Translator


def canonical(name: str) -> str:
    """Return the name that MXNet writes back: of an alias the operator's own name, any other name unchanged."""
    return ALIASES.get(name, name)


def lookup(name: str) -> Signature | None:
    """Return the signature of an operator, given its own name or an alias; None for an unknown operator.

    Foreign operators have a signature too; their ``registered`` is False.
    """
    name = ALIASES.get(name, name)
    family = FAMILY_OF.get(name)
    return None if family is None else _signatures(family)[name]


def find_signature(node: Node) -> Signature | None:
    """Return the signature of a node's operator; None for a variable, an unknown operator, and one of another domain.

    ONNX has operators of the same names with other inputs and attributes.
    """
    return lookup(node.op) if node.details.domain == MXNET_DOMAIN else None


def name_inputs(node: Node) -> tuple[str, ...] | None:
    """Return the formal names of an operator's inputs, perhaps more than it has; None without a signature."""
    signature = find_signature(node)
    return (
        None
        if signature is None
        else signature.input_names(node.attrs, len(node.inputs), subgraphs=node.subgraphs)
    )


def auxiliary_slots(node: Node) -> tuple[int, ...]:
    """Return the positions of the inputs that an operator mutates; none for an unknown one."""
    signature = find_signature(node)
    return (
        ()
        if signature is None
        else signature.auxiliary_slots(node.attrs, len(node.inputs), subgraphs=node.subgraphs)
    )


def visible_outputs(node: Node) -> Iterator[Entry]:
    """Return the outputs of ``node`` that a user can name, in order; for an unknown operator all
    that its file counts.
    """
    if node.details.outputs and node.op:
        return (Entry(node, i) for i, name in enumerate(node.details.outputs) if name)
    outputs = find_outputs(node)
    count = outputs.visible if outputs else 1 if node.is_variable else node.num_outputs or 1
    return (Entry(node, i) for i in range(count))


def total_outputs(node: Node) -> int | None:
    """Return the number of outputs of ``node``, hidden ones included: by its operator, else as its
    file counts, else None.
    """
    if node.is_variable:
        return 1
    outputs = find_outputs(node)
    return outputs.total if outputs else node.num_outputs


def find_outputs(node: Node) -> OutputList | None:
    """Return the outputs that an operator has by its signature and attributes; None where it is not known."""
    signature = find_signature(node) if not node.is_variable else None
    return signature.outputs(node.attrs, subgraphs=node.subgraphs) if signature else None


def output_name(entry: Entry) -> str:
    """Return the name of an output: a variable's own, the one that an ONNX file stores, else the one that MXNet makes.

    That is node name, underscore, label; only the label if the node has no name.
    """
    node = entry.node
    if node.is_variable:
        return node.name
    if entry.index < len(node.details.outputs):
        return node.details.outputs[entry.index]
    label = _label(node, entry.index)
    return f"{node.name}_{label}" if node.name else label


def _label(node: Node, index: int) -> str:
    outputs = find_outputs(node)
    if outputs is not None:
        return outputs.label(index)
    several = (node.num_outputs or 1) > 1 or index > 0
    return f"output{index}" if several else "output"


def find_node_kernel(node: Node) -> Kernel | None:
    """Return the kernel of a node's operator; None where there is none, and for operators of other domains."""
    return find_kernel(node.op) if node.details.domain == MXNET_DOMAIN else None


def list_known_names() -> Iterable[str]:
    """Return every name that :func:`lookup` answers: canonical names, foreign ones included, then aliases."""
    return (*FAMILY_OF, *ALIASES)


@cache
def load_registered_signatures() -> Mapping[str, Signature]:
    """Return the signatures of all operators that MXNet 1.9.1 registers, by canonical name. Loads every family."""
    return MappingProxyType({name: row for name, row in _all_signatures() if row.registered})


@cache
def foreign_signatures() -> Mapping[str, Signature]:
    """Return the signatures of the operators that MXNet 1.9.1 does not register, by name. Loads every family."""
    return MappingProxyType({name: row for name, row in _all_signatures() if not row.registered})


def _all_signatures() -> Iterable[tuple[str, Signature]]:
    return ((name, _signatures(family)[name]) for name, family in FAMILY_OF.items())


@cache
def _signatures(family: str) -> dict[str, Signature]:
    return {row.name: row for row in import_module(f"graphshare.ops.{family}.signature").OPERATORS}


def find_batch_rule(name: str) -> Rule | None:
    """Return the batch-axis rule of an operator, by any of its names; None if only its signature decides."""
    name = canonical(name)
    family = FAMILY_OF.get(name)
    return None if family is None else _batch_rules(family).get(name)


@cache
def _batch_rules(family: str) -> dict[str, Rule]:
    return getattr(import_module(f"graphshare.ops.{family}.signature"), "RULES", {})


class ForOperator(Protocol):
    """Anything that belongs to one operator."""

    @property
    def operator(self) -> str: ...


Item = TypeVar("Item", bound=ForOperator)


class Contributions(Generic[Item]):
    """The kernels, gradients or translations of the families, of installed packages, and those
    registered in this process.
    """

    def __init__(self, group: str, table: str, *files: str) -> None:
        self._group, self._table, self._files = group, table, files
        self.registered: dict[str, Item] = {}
        self._installed: dict[str, Item] | None = None

    def find(self, operator: str) -> Item | None:
        """Return the item of an operator, by any of its names; None when there is none."""
        name = canonical(operator)
        return (
            self.registered.get(name)
            or self.load_installed().get(name)
            or self._find_in_family(name)
        )

    def register(self, item: Item) -> None:
        """Add ``item``, or replace the one for the same operator."""
        self.registered[canonical(item.operator)] = item

    def load_installed(self) -> dict[str, Item]:
        """Return the items of installed packages, by canonical name; they are looked up once."""
        if self._installed is None:
            from importlib.metadata import (
                entry_points,
            )  # start-up: only graphs that are executed need it

            points = entry_points(group=self._group)
            self._installed = {
                canonical(item.operator): item for point in points for item in point.load()
            }
        return self._installed

    def all(self) -> dict[str, Item]:
        """Return the items of all families and installed packages, by canonical name. Loads every family."""
        items: dict[str, Item] = {}
        for family in dict.fromkeys(FAMILY_OF.values()):
            for file in self._files:
                items |= _read_table(family, file, self._table)
        return items | self.load_installed()

    def _find_in_family(self, name: str) -> Item | None:
        """Return the item from the first of the family's files that has it; later files are not loaded."""
        family = FAMILY_OF.get(name)
        tables = (
            ()
            if family is None
            else (_read_table(family, file, self._table) for file in self._files)
        )
        return next((table[name] for table in tables if name in table), None)


@cache
def _read_table(family: str, file: str, table: str) -> dict[str, Any]:
    """Return ``table`` of a file of a family, by operator; nothing where there is no such file or table."""
    from importlib.util import find_spec  # start-up: only this path needs it

    module = f"graphshare.ops.{family}.{file}"
    items: dict[str, Any] = {}
    # find_spec and not an ImportError: that could also come from within the module.
    for item in getattr(import_module(module), table, ()) if find_spec(module) is not None else ():
        assert item.operator not in items, f"{family}/{file}.py has {item.operator} twice"
        assert FAMILY_OF.get(item.operator) == family, (
            f"{family}/{file}.py has {item.operator}, which is not of this family"
        )
        items[item.operator] = item
    return items


KERNELS: Contributions[Kernel] = Contributions(
    "graphshare.kernels", "KERNELS", "kernel", "numpy_kernel"
)
GRADIENTS: Contributions[Gradient | NoGradient] = Contributions(
    "graphshare.gradients", "GRADIENTS", "gradient", "kernel", "numpy_kernel"
)
TRANSLATIONS: Contributions[Translator | NoTranslation] = Contributions(
    "graphshare.to_onnx", "TRANSLATIONS", "to_onnx"
)

find_kernel = KERNELS.find
find_gradient = GRADIENTS.find
find_translation = TRANSLATIONS.find
register_kernel = KERNELS.register
register_gradient = GRADIENTS.register
register_translation = TRANSLATIONS.register
known_kernels = KERNELS.all
known_translations = TRANSLATIONS.all
