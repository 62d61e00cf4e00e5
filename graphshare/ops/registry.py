"""Operators by name: signature, kernel, gradient, batch-axis rule, translation.

A family loads when a graph first uses it. Other packages add kernels, gradients and translations
through the entry point groups ``graphshare.kernels``, ``graphshare.gradients`` and
``graphshare.to_onnx``: tuples of :class:`~graphshare.ops.kernel.Kernel`,
:class:`~graphshare.ops.gradient.Gradient` or :class:`~graphshare.ops.translation.Translator`. These
prevail over the families' own. :func:`register_kernel`, :func:`register_gradient` and
:func:`register_translation` do the same in Python.
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
    """Return an alias's own operator name, as MXNet writes it; others unchanged."""
    return ALIASES.get(name, name)


def lookup(name: str) -> Signature | None:
    """Return the signature for a name or alias, None if unknown.

    Foreign operators have one too; its ``registered`` is False.
    """
    name = ALIASES.get(name, name)
    family = FAMILY_OF.get(name)
    return None if family is None else _signatures(family)[name]


def find_signature(node: Node) -> Signature | None:
    """Return a node's signature; None for variables, unknown operators and other domains.

    ONNX's operators of the same names differ.
    """
    return lookup(node.op) if node.details.domain == MXNET_DOMAIN else None


def name_inputs(node: Node) -> tuple[str, ...] | None:
    """Return the inputs' formal names, perhaps too many; None without a signature."""
    signature = find_signature(node)
    if signature is None:
        return None
    return signature.input_names(node.attrs, len(node.inputs), subgraphs=node.subgraphs)


def auxiliary_slots(node: Node) -> tuple[int, ...]:
    """Return the positions of mutated inputs; none for an unknown operator."""
    signature = find_signature(node)
    if signature is None:
        return ()
    return signature.auxiliary_slots(node.attrs, len(node.inputs), subgraphs=node.subgraphs)


def visible_outputs(node: Node) -> Iterator[Entry]:
    """Return the outputs that a user can name; for an unknown operator all in the file."""
    if node.details.outputs and node.op:
        return (Entry(node, i) for i, name in enumerate(node.details.outputs) if name)
    count = 1 if node.is_variable else node.num_outputs or 1
    outputs = find_outputs(node)
    if outputs is not None:
        count = outputs.visible
    return (Entry(node, i) for i in range(count))


def total_outputs(node: Node) -> int | None:
    """Return the number of outputs with hidden ones, by operator, else by file, else None."""
    if node.is_variable:
        return 1
    outputs = find_outputs(node)
    return outputs.total if outputs else node.num_outputs


def find_outputs(node: Node) -> OutputList | None:
    """Return the outputs by signature and attributes; None if unknown."""
    if node.is_variable:
        return None
    signature = find_signature(node)
    return signature.outputs(node.attrs, subgraphs=node.subgraphs) if signature else None


def output_name(entry: Entry) -> str:
    """Return a variable's name, the one stored in an ONNX file, or MXNet's.

    MXNet's is node name, underscore, label; only the label without a node name.
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
    """Return a node's kernel; None without one, and for other domains."""
    return find_kernel(node.op) if node.details.domain == MXNET_DOMAIN else None


def list_known_names() -> Iterable[str]:
    """Return all names that :func:`lookup` knows: canonical ones, foreign ones, then aliases."""
    return (*FAMILY_OF, *ALIASES)


@cache
def load_registered_signatures() -> Mapping[str, Signature]:
    """Return MXNet 1.9.1's signatures by canonical name. Loads every family."""
    return MappingProxyType({name: row for name, row in _all_signatures() if row.registered})


@cache
def foreign_signatures() -> Mapping[str, Signature]:
    """Return the signatures that MXNet 1.9.1 lacks, by name. Loads every family."""
    return MappingProxyType({name: row for name, row in _all_signatures() if not row.registered})


def _all_signatures() -> Iterable[tuple[str, Signature]]:
    return ((name, _signatures(family)[name]) for name, family in FAMILY_OF.items())


@cache
def _signatures(family: str) -> dict[str, Signature]:
    return {row.name: row for row in import_module(f"graphshare.ops.{family}.signature").OPERATORS}


def find_batch_rule(name: str) -> Rule | None:
    """Return a batch-axis rule by any of the operator's names, if there is one."""
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
    """Kernels, gradients or translations of families, installed packages and this process."""

    def __init__(self, group: str, table: str, *files: str) -> None:
        self._group, self._table, self._files = group, table, files
        self.registered: dict[str, Item] = {}
        self._installed: dict[str, Item] | None = None

    def find(self, operator: str) -> Item | None:
        """Return an operator's item by any of its names, or None."""
        name = canonical(operator)
        return (
            self.registered.get(name)
            or self.load_installed().get(name)
            or self._find_in_family(name)
        )

    def register(self, item: Item) -> None:
        self.registered[canonical(item.operator)] = item

    def load_installed(self) -> dict[str, Item]:
        """Return installed packages' items by canonical name; looked up once."""
        if self._installed is None:
            # Start-up: only graphs that are executed need it
            from importlib.metadata import entry_points

            points = entry_points(group=self._group)
            self._installed = {
                canonical(item.operator): item for point in points for item in point.load()
            }
        return self._installed

    def all(self) -> dict[str, Item]:
        """Return families' and installed items by canonical name. Loads every family."""
        items: dict[str, Item] = {}
        for family in dict.fromkeys(FAMILY_OF.values()):
            for file in self._files:
                items |= _read_table(family, file, self._table)
        return items | self.load_installed()

    def _find_in_family(self, name: str) -> Item | None:
        """Load no file after the one with the item."""
        family = FAMILY_OF.get(name)
        if family is None:
            return None
        tables = (_read_table(family, file, self._table) for file in self._files)
        return next((table[name] for table in tables if name in table), None)


@cache
def _read_table(family: str, file: str, table: str) -> dict[str, Any]:
    from importlib.util import find_spec  # start-up: only this path needs it

    module = f"graphshare.ops.{family}.{file}"
    items: dict[str, Any] = {}
    # find_spec, because an ImportError could also come from within the module.
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
