"""The files of one check, and facts about them for rules, computed at first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

from graphshare.analysis.name_lists import (
    Listed,
    NameLists,
    implies_variables,
    list_implied_inputs,
    list_implied_variables,
)
from graphshare.analysis.roles import Kind, Role, assign_implied_role, assign_roles
from graphshare.checks.document import Reading, read_model_file, walk_documents
from graphshare.errors import Fault, InputError
from graphshare.formats.model_file import HeldFile
from graphshare.formats.model_format import ModelFormat, recognize_format
from graphshare.formats.mxnet.places import LineIndex
from graphshare.formats.params.format import read_index
from graphshare.formats.params.records import ParameterFile, Record, format_record
from graphshare.formats.params.shards import ShardFolder
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import consumers, node_ids, reachable
from graphshare.ops.registry import lookup
from graphshare.ops.signature import AttributeFault, OutputList
from graphshare.reports.model import Steps
from graphshare.text.names import join_key, split_key
from graphshare.text.patterns import expand_patterns

T = TypeVar("T")
SHARDS = "safetensors"
"""The format of rules on checkpoint folders; these have no graph."""
PartialShape = tuple[int | None, ...]


class NamedRecord:
    """A record of the parameter file that has a key.

    ``number`` is its position in the file, ``prefix`` is ``arg``, ``aux`` or empty, ``name`` the
    rest of the key, and ``place`` its name in messages.
    """

    __slots__ = ("key", "name", "number", "place", "prefix", "record")

    def __init__(self, number: int, key: str, record: Record) -> None:
        self.number, self.key, self.record = number, key, record
        self.prefix, self.name = split_key(key)
        self.place = format_record(key, number)

    @property
    def shape(self) -> tuple[int, ...] | None:
        return self.record.shape

    @property
    def dtype(self) -> str | None:
        return self.record.dtype


class CheckContext:
    """The files that are checked.

    ``where`` is the path of the graph file and ``data`` its bytes; ``format`` and ``reading``
    follow from these unless given. ``params`` is the path of a parameter file, or its index;
    ``given_shapes`` are the user's shapes by variable name. A checkpoint folder has only
    ``shards``. ``graph`` is empty unless ``has_graph``.
    """

    def __init__(
        self,
        where: str,
        data: bytes,
        *,
        params: str | ParameterFile | None = None,
        given_shapes: Mapping[str, PartialShape] | None = None,
        format_: ModelFormat | None = None,
        reading: Reading | None = None,
        shards: ShardFolder | None = None,
    ) -> None:
        if format_ is not None:
            self.format = format_
        if reading is not None:
            self.reading = reading
        self.where, self.data, self._given_shapes, self._shards = (
            where,
            data,
            given_shapes or {},
            shards,
        )
        self.params_path = params if isinstance(params, str) else ""
        self._params = params if isinstance(params, ParameterFile) else None
        self._facts: dict[tuple[str, int], OperatorFacts] = {}
        self._findings: dict[Callable[[CheckContext], Any], Any] = {}

    @cached_property
    def format(self) -> ModelFormat:
        return recognize_format(HeldFile(self.where, self.data))[0]

    @property
    def subject(self) -> str:
        """The format that a rule must name to run on these files."""
        return SHARDS if self._shards is not None else self.format.name

    @property
    def shards(self) -> ShardFolder:
        assert self._shards is not None
        return self._shards

    @cached_property
    def reading(self) -> Reading:
        return read_model_file(self.format, HeldFile(self.where, self.data))

    @cached_property
    def line_index(self) -> LineIndex:
        return LineIndex(self.reading.text or "")

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends; none if the text cannot be decoded."""
        text = self.reading.text
        return [] if text is None else [line.removesuffix("\r") for line in text.split("\n")]

    @property
    def has_graph(self) -> bool:
        return self.reading.graph is not None

    @cached_property
    def documents(self) -> list[tuple[Steps, dict[str, Any]]]:
        """The graph objects of the JSON, subgraphs included; none if it does not match the schema."""
        reading = self.reading
        if reading.value is None or reading.schema_faults or reading.json_faults:
            return []
        return list(walk_documents(reading.value))

    @cached_property
    def graph(self) -> Graph:
        return self.reading.graph or Graph((), ())

    @cached_property
    def graphs(self) -> list[tuple[Steps, Graph]]:
        if not self.has_graph:
            return []
        graphs: list[tuple[Steps, Graph]] = [((), self.graph)]
        for steps, graph in graphs:  # grows during the loop
            for i, node in enumerate(graph.nodes):
                for k, part in enumerate(node.subgraphs):
                    graphs.append(((*steps, "nodes", i, "subgraphs", k), part))
        return graphs

    def nodes(self) -> Iterator[tuple[Steps, Node]]:
        for steps, graph in self.graphs:
            for i, node in enumerate(graph.nodes):
                yield (*steps, "nodes", i), node

    def operators(self) -> Iterator[tuple[Steps, Node]]:
        return ((steps, node) for steps, node in self.nodes() if not node.is_variable)

    def later_outputs(self) -> Iterator[tuple[Steps, Node | None, Entry]]:
        """Yield the inputs and heads that take an output other than the first: place, consumer,
        entry.
        """
        for steps, graph in self.graphs:
            for i, node in enumerate(graph.nodes):
                for k, entry in enumerate(node.inputs):
                    if entry.index:
                        yield (*steps, "nodes", i, "inputs", k), node, entry
            for k, entry in enumerate(graph.heads):
                if entry.index:
                    yield (*steps, "heads", k), None, entry

    @cached_property
    def ids(self) -> dict[Node, int]:
        return node_ids(self.graph)

    def node_steps(self, node: Node | None) -> Steps:
        """Return the place of a node of the outermost graph, else the document's."""
        return ("nodes", self.ids[node]) if node is not None and node in self.ids else ()

    @cached_property
    def reachable(self) -> list[Node]:
        return reachable(self.graph)

    @cached_property
    def name_lists(self) -> NameLists:
        return NameLists(self.graph)

    @cached_property
    def variables(self) -> list[tuple[Listed, Node]]:
        """MXNet's list, each with its node, or the operator that implies it."""
        implies = implies_variables(self.graph)
        owners: list[Node] = []
        for node in self.reachable:
            if node.is_variable:
                owners.append(node)
            elif implies:
                owners += [node for _ in list_implied_inputs(node)]
        return list(zip(self.name_lists.variables, owners, strict=True))

    @cached_property
    def roles(self) -> dict[Node, Role]:
        names = None
        if self.params is not None and self.params.named:
            names = frozenset(self.records_by_name)
        return assign_roles(self.graph, held=names)

    @cached_property
    def prefixes(self) -> dict[str, set[str]]:
        """The prefixes (``arg``, ``aux``) allowed in a parameter file, by variable."""
        prefixes: dict[str, set[str]] = {}
        for node, role in self.roles.items():
            prefix = "aux" if role.kind is Kind.AUXILIARY else "arg"
            prefixes.setdefault(node.name, set()).add(prefix)
        for implied in list_implied_variables(self.graph):
            prefix = "aux" if implied.auxiliary else "arg"
            prefixes.setdefault(implied.name, set()).add(prefix)
        return prefixes

    @cached_property
    def parameters(self) -> list[tuple[Node, Role]]:
        roles = [(node, self.roles.get(node)) for node in self.reachable]
        return [(node, role) for node, role in roles if role is not None and role.is_parameter]

    @cached_property
    def expected_parameters(self) -> dict[str, Node | None]:
        """The parameters that a file should contain, with their nodes (None for an implied
        variable).
        """
        needed = set(self.reachable)
        names: dict[str, Node | None] = {}
        for node, role in self.roles.items():
            if not role.is_parameter or node not in needed:
                continue
            # An initializer alone does not make an operator's data input a parameter: inputs may
            # have one, too.
            if "__init__" not in role.why:
                names[node.name] = node
        for implied in list_implied_variables(self.graph):
            if implied.node in needed and assign_implied_role(implied).is_parameter:
                names.setdefault(implied.name, None)
        return names

    @cached_property
    def _index(self) -> tuple[ParameterFile | None, tuple[Fault, ...]]:
        try:
            if self.params_path:
                return read_index(self.params_path), ()
        except InputError as error:
            return None, error.faults
        if self._params is None and self.has_graph:
            return self.format.index_parameters(self.graph, complete=False), ()
        return self._params, ()

    @property
    def params(self) -> ParameterFile | None:
        return self._index[0]

    @property
    def params_faults(self) -> tuple[Fault, ...]:
        return self._index[1]

    @cached_property
    def records(self) -> list[NamedRecord]:
        records: list[NamedRecord] = []
        if self.params is not None:
            for i, record in enumerate(self.params.records):
                if record.key is not None:
                    records.append(NamedRecord(i, record.key, record))
        return records

    @cached_property
    def records_by_name(self) -> dict[str, list[NamedRecord]]:
        records: dict[str, list[NamedRecord]] = {}
        for record in self.records:
            records.setdefault(record.name, []).append(record)
        return records

    def find_record(self, name: str, prefixes: Collection[str] = ()) -> NamedRecord | None:
        """Return the last record of a variable (as in MXNet), preferably under one of ``prefixes``."""
        records = self.records_by_name.get(name, [])[::-1]
        preferred = [record for record in records if record.prefix in prefixes]
        return next(iter(preferred or records), None)

    @cached_property
    def misfiled_records(self) -> list[tuple[NamedRecord, str]]:
        prefixed = [(record, key) for record, key in self._keys_by_graph if record.prefix]
        return [
            (record, key)
            for record, key in prefixed
            if record.prefix not in self.prefixes[record.name]
        ]

    @cached_property
    def bare_records(self) -> list[tuple[NamedRecord, str]]:
        """The records of variables without ``arg:`` or ``aux:``, and their right keys."""
        return [(record, key) for record, key in self._keys_by_graph if not record.prefix]

    @cached_property
    def _keys_by_graph(self) -> list[tuple[NamedRecord, str]]:
        """Leaves out variables of operators whose auxiliary states are unknown."""
        if not self.has_graph or self.params is None:
            return []
        # Without knowing which inputs an operator writes, a record may rightly have either prefix.
        undecided: set[str] = set()
        for _, node in self.operators():
            if node.op == "Custom" or not self.facts(node).known:
                undecided.update(entry.node.name for entry in node.inputs)
        return [
            (record, join_key(min(self.prefixes[record.name]), record.name))
            for record in self.records
            if record.name in self.prefixes and record.name not in undecided
        ]

    @cached_property
    def given_shapes(self) -> dict[str, PartialShape]:
        """The user's shapes by name; a pattern's shape applies to all matching variables."""
        if not self._given_shapes:
            return {}
        names = dict.fromkeys(variable.name for variable in self.name_lists.variables)
        return expand_patterns(self._given_shapes, names)

    @cached_property
    def consumers(self) -> dict[Node, list[tuple[Node, int]]]:
        return consumers(self.reachable)

    @cached_property
    def shared_parameters(self) -> list[Node]:
        parameters = [node for node, role in self.roles.items() if role.is_parameter]
        return [node for node in parameters if len(self.consumers.get(node, ())) > 1]

    def facts(self, node: Node) -> OperatorFacts:
        if node.subgraphs:
            return read_facts(node)
        # Nodes with equal attributes share one map, and the graph keeps the maps alive, so identity
        # implies equal content.
        key = (node.op, id(node.attrs))
        facts = self._facts.get(key)
        if facts is None:
            facts = self._facts[key] = read_facts(node)
        return facts

    def list_named_inputs(self, node: Node) -> list[tuple[str, Entry]]:
        formals = () if node.is_variable else self.facts(node).formals or ()
        return list(zip(formals, node.inputs, strict=False))

    def once(self, find: Callable[[CheckContext], T]) -> T:
        """Return the result of ``find``, called once for this context."""
        if find not in self._findings:
            self._findings[find] = find(self)
        result: T = self._findings[find]
        return result


class OperatorFacts(NamedTuple):
    """The facts that a signature states about one node.

    ``faults`` are the attributes that MXNet rejects; ``formals`` (inputs) and ``outputs`` are None
    if only code outside the file knows them. With ``named`` MXNet registers the names of the
    inputs, and so adds missing ones to an old file.
    """

    known: bool
    registered: bool
    faults: tuple[AttributeFault, ...]
    formals: tuple[str, ...] | None
    named: bool
    slots: tuple[int, ...]
    outputs: OutputList | None


_UNKNOWN = OperatorFacts(False, False, (), None, False, (), None)


def read_facts(node: Node) -> OperatorFacts:
    """Return the facts that a node's signature states, cached by operator and attributes."""
    items = tuple(node.attrs.items())
    if node.subgraphs:
        return _read_facts(node.op, items, node.subgraphs)
    return _read_facts_once(node.op, items)


@lru_cache(maxsize=1 << 14)
def _read_facts_once(op: str, attrs: tuple[tuple[str, str], ...]) -> OperatorFacts:
    return _read_facts(op, attrs, ())


def _read_facts(
    op: str, items: tuple[tuple[str, str], ...], subgraphs: tuple[Graph, ...]
) -> OperatorFacts:
    signature = lookup(op)
    if signature is None:
        return _UNKNOWN
    attrs = dict(items)
    faults = tuple(signature.parse(attrs)[1])
    formals = None
    if signature.inputs_known:
        formals = signature.formal_inputs(attrs, subgraphs=subgraphs)
    slots = signature.auxiliary_slots(attrs, len(formals or ()), subgraphs=subgraphs)
    outputs = signature.outputs(attrs, subgraphs=subgraphs)
    return OperatorFacts(
        True,
        signature.registered,
        faults,
        formals,
        signature.registers_inputs,
        tuple(slots),
        outputs,
    )
