"""Resolve the names in ``--connect OUT=IN``: names in the result, or in the graphs' own files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from graphshare.analysis.name_lists import (
    auxiliary_variables,
    list_by_name,
    list_numbered,
    output_name,
)
from graphshare.analysis.roles import Role
from graphshare.errors import Fault
from graphshare.ir.graph import Entry, Node
from graphshare.ops.registry import visible_outputs
from graphshare.rewrite.grouping.join import Member, Output, Place
from graphshare.text.format import format_count
from graphshare.text.names import did_you_mean, find_numbered

_MOST_GUESSES = 20
T = TypeVar("T")


def resolve_names(
    parts: Sequence[Member], roles: Sequence[Mapping[Node, Role]], pairs: Sequence[tuple[str, str]]
) -> tuple[dict[Place, Output], list[Fault]]:
    """Return the output that replaces each connected variable, and every fault of ``pairs``.

    Names in the result, with prefixes, come before names in the graphs' own files. OUT names an
    output, or a node that has one (in an ONNX model by the node's own name, too); operators come
    before variables. IN names an input of every graph that has it, of OUT's own graph only if no
    other has one. A name in a file never means an input that a pair already names by its name in
    the result.
    """
    if not pairs:
        return {}, []
    names = _Names(parts, roles, [name for _, name in pairs])
    wired: dict[Place, Output] = {}
    faults: list[Fault] = []
    fed: dict[Place, str] = {}
    for out, name in pairs:
        option = f"`connect={{{out!r}: {name!r}}}`"
        output, output_faults = names.output(out, option)
        places, input_faults = names.inputs(name, option, output)
        faults += [*output_faults, *input_faults]
        source = None if output is None else (output[0], output[1].node)
        for place in places:
            feeder = fed.setdefault(place, out)
            if feeder != out:
                label = parts[place[0]].label
                message = f"{option}: input {name!r} of {label} is fed by {feeder!r} already"
                hint = "connect it once, or give the graphs prefixes so that the inputs have different names"
                faults.append(Fault(message, hint=hint))
            elif source == place:
                faults.append(Fault(f"{option} connects an input with itself"))
            elif output is not None:
                wired[place] = output
    return wired, faults


class _Names:
    """The names of all parts, with and without prefixes; ``inputs`` are names of connected inputs."""

    def __init__(
        self, parts: Sequence[Member], roles: Sequence[Mapping[Node, Role]], inputs: Sequence[str]
    ) -> None:
        self._parts = parts
        self._roles = roles
        self._guesses = _MOST_GUESSES
        self._outputs: dict[str, list[Output]] = {}
        self._nodes: dict[str, list[Place]] = {}
        self._variables: dict[str, list[Place]] = {}
        self._states = [auxiliary_variables(part.graph.nodes) for part in parts]
        for number, part in enumerate(parts):
            for name, entry in list_numbered(part.graph.nodes, part.graph.heads):
                full_name = part.prefix + name if entry.node.name else name
                self._outputs.setdefault(full_name, []).append((number, entry))
            for name, same in list_by_name(part.graph.nodes, part.graph.heads).items():
                places = [(number, node) for node in same]
                self._nodes.setdefault(part.prefix + name, []).extend(places)
            for node in part.graph.variables():
                if node.name:
                    self._variables.setdefault(part.name(node), []).append((number, node))
        self._own_outputs = _own_names(parts, self._outputs)
        self._own_nodes = _own_names(parts, self._nodes)
        self._own_variables = _own_names(parts, self._variables)
        self._numbered = {place for name in inputs for place in self._find_numbered(name)}
        self._named = {place for name in inputs for place in self._variables.get(name, ())}

    def _find_outputs(self, name: str) -> list[Output]:
        named = self._outputs.get(name, [])
        own = self._own_outputs.get(name, [])
        numbered = _find_one(name, (self._outputs, self._own_outputs))
        by_rank = (_skip_variables(named), _skip_variables(own), named, own, numbered)
        matches = next(filter(None, by_rank), [])
        if matches:
            return matches
        nodes = (
            self._nodes.get(name)
            or self._own_nodes.get(name)
            or _find_one(name, (self._nodes, self._own_nodes))
        )
        return [(number, entry) for number, node in nodes for entry in visible_outputs(node)]

    def output(self, name: str, option: str) -> tuple[Output | None, list[Fault]]:
        matches = self._find_outputs(name)
        if len(matches) == 1:
            return matches[0], []
        if not matches:
            known = [*self._outputs, *self._nodes, *self._own_outputs, *self._own_nodes]
            message = f"{option}: {name!r} names no output and no node"
            return None, [Fault(message, hint=self._near(name, known))]
        count = format_count(len(matches), "output")
        if len({(number, entry.node) for number, entry in matches}) == 1:
            listed = ", ".join(output_name(entry) for _, entry in matches)
            return None, [Fault(f"{option}: {name!r} has {count}", hint=f"name one of {listed}")]
        labels = ", ".join(dict.fromkeys(self._parts[number].label for number, _ in matches))
        message = f"{option}: {name!r} means {count} ({labels})"
        return None, [Fault(message, hint=self._hint_at_outputs(name, matches))]

    def _hint_at_outputs(self, name: str, matches: Sequence[Output]) -> str:
        names = dict.fromkeys(name_output(self._parts, each) for each in matches)
        if len(names) == len(matches):
            return f"name one of {', '.join(names)}"
        if len({number for number, _ in matches}) == 1:
            return f"{name}#0 is the first of them, {name}#1 the second"
        return "give each file a `prefixes`, and name the output with it"

    def _find_inputs(self, name: str) -> list[Place]:
        numbered = self._find_numbered(name)
        candidates = numbered or [
            place for place in self._variables.get(name, []) if place not in self._numbered
        ]
        named_otherwise = self._named | self._numbered
        own = [place for place in self._own_variables.get(name, []) if place not in named_otherwise]
        allowed = list(filter(self._is_input, own))
        if candidates or allowed:
            return candidates + allowed
        return own

    def inputs(
        self, name: str, option: str, output: Output | None
    ) -> tuple[list[Place], list[Fault]]:
        candidates = self._find_inputs(name)
        if output is not None:
            elsewhere = [place for place in candidates if place[0] != output[0]]
            candidates = elsewhere or candidates
        if not candidates:
            names = {**self._own_variables, **self._variables}
            known = [each for each, places in names.items() if any(map(self._is_input, places))]
            listed = f"inputs are {', '.join(known[:8])}" if known else ""
            hint = self._near(name, known) or listed
            return [], [Fault(f"{option}: {name!r} names no variable", hint=hint)]
        faults = []
        for place in candidates:
            refusal = self._refusal(place)
            if refusal is not None:
                why, hint = refusal
                label = self._parts[place[0]].label
                faults.append(Fault(f"{option}: {name!r} of {label} is {why}", hint=hint))
        if faults:
            return [], faults
        return candidates, []

    def _find_numbered(self, name: str) -> list[Place]:
        if name in self._variables:
            return []
        return _find_one(name, (self._variables, self._own_variables))

    def _near(self, name: str, known: list[str]) -> str:
        """Compare only the first few unknown names with known ones."""
        self._guesses -= 1
        return did_you_mean(name, known) if self._guesses >= 0 else ""

    def _refusal(self, place: Place) -> tuple[str, str] | None:
        number, node = place
        if node in self._states[number]:
            return "an auxiliary state, which its operator writes", "only inputs can be connected"
        role = self._roles[number][node]
        if role.is_parameter:
            hint = f"if it is an input after all, add `as_input={node.name!r}`"
            return f"a parameter ({role.reason})", hint
        return None

    def _is_input(self, place: Place) -> bool:
        return self._refusal(place) is None


def _skip_variables(outputs: Iterable[Output]) -> list[Output]:
    return [output for output in outputs if not output[1].node.is_variable]


def _find_one(name: str, namings: Iterable[Mapping[str, list[T]]]) -> list[T]:
    """Return the item that ``NAME#1`` means in the first naming with several ``NAME``."""
    return [one for named in namings if (one := find_numbered(name, named)) is not None][:1]


def _own_names(parts: Sequence[Member], names: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    own: dict[str, list[Any]] = {}
    for name, places in names.items():
        for place in places:
            prefix = parts[place[0]].prefix
            if prefix and name.startswith(prefix):
                own.setdefault(name[len(prefix) :], []).append(place)
    return own


def name_output(parts: Sequence[Member], output: Output) -> str:
    """Return an output's name in the result."""
    number, entry = output
    name = output_name(Entry(entry.node, entry.index))
    return parts[number].prefix + name if entry.node.name else name


def find_forgotten_inputs(
    parts: Sequence[Member],
    roles: Sequence[Mapping[Node, Role]],
    wired: Mapping[Place, Output],
    ties: Collection[Place],
) -> list[tuple[Place, Place]]:
    """Return inputs that stay, each with its connected namesake in another graph.

    Own inputs of a graph that feeds others do not count.
    """
    feeding = {number for number, _ in wired.values()}
    connected: dict[str, Place] = {}
    for place in wired:
        connected.setdefault(place[1].name, place)
    forgotten = []
    for number, own in enumerate(roles):
        if number in feeding:
            continue
        for node, role in own.items():
            place = (number, node)
            if role.is_parameter or place in wired or place in ties:
                continue
            twin = connected.get(node.name)
            if twin is not None and twin[0] != number:
                forgotten.append((place, twin))
    return forgotten
