"""Which output and which inputs ``--connect OUT=IN`` means: names as in the result, or as in the graphs' own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphshare.analysis.name_lists import auxiliary_variables, internals, output_name, visible_outputs
from graphshare.analysis.roles import Role
from graphshare.errors import Fault
from graphshare.ir.graph import Entry, Node
from graphshare.rewrite.group.join import Output, Part, Place
from graphshare.text.names import did_you_mean

_MOST_GUESSES = 20


def resolve_names(
    parts: Sequence[Part], roles: Sequence[Mapping[Node, Role]], pairs: Sequence[tuple[str, str]]
) -> tuple[dict[Place, Output], list[Fault]]:
    """The output that takes the place of each connected variable, and every fault of ``pairs``.

    Names are those of the result, with prefixes; where there is no such name, those of the graphs' own files. OUT is an
    output, or a node that has one; operators come before variables of that name. IN is an input; every graph that has one of
    that name is meant, but the graph that OUT is of only where no other has one.
    """
    if not pairs:
        return {}, []
    names = _Names(parts, roles)
    wired: dict[Place, Output] = {}
    faults: list[Fault] = []
    fed: dict[Place, str] = {}
    for out, name in pairs:
        option = f"--connect {out}={name}"
        output, fault = names.output(out, option)
        places, wrong = names.inputs(name, option, output)
        faults += [*([fault] if fault else []), *wrong]
        for place in places:
            label = parts[place[0]].label
            if fed.setdefault(place, out) != out:
                hint = "connect it once, or give the graphs prefixes so that the inputs have different names"
                faults.append(Fault(f"{option}: input {name!r} of {label} is fed by {fed[place]!r} already", hint=hint))
            elif output is not None and output[1].node is place[1] and output[0] == place[0]:
                faults.append(Fault(f"{option} connects an input with itself"))
            elif output is not None:
                wired[place] = output
    return wired, faults


class _Names:
    """The names of all parts, with their prefixes."""

    def __init__(self, parts: Sequence[Part], roles: Sequence[Mapping[Node, Role]]) -> None:
        self._parts = parts
        self._roles = roles
        self._guesses = _MOST_GUESSES
        self._outputs: dict[str, list[Output]] = {}
        self._nodes: dict[str, list[Place]] = {}
        self._variables: dict[str, list[Place]] = {}
        self._states = [auxiliary_variables(part.graph.nodes) for part in parts]
        for number, part in enumerate(parts):
            for name, entry in internals(part.graph.nodes):
                self._outputs.setdefault(part.prefix + name if entry.node.name else name, []).append((number, entry))
            for node in part.graph.nodes:
                if node.name:
                    self._nodes.setdefault(part.name(node), []).append((number, node))
                    if node.is_variable:
                        self._variables.setdefault(part.name(node), []).append((number, node))
        for names in (self._outputs, self._nodes, self._variables):
            _add_own_names(parts, names)

    def output(self, name: str, option: str) -> tuple[Output | None, Fault | None]:
        """The output called ``name``, or what is wrong with it."""
        found = self._outputs.get(name, [])
        found = [output for output in found if not output[1].node.is_variable] or found
        if not found:
            found = [(number, entry) for number, node in self._nodes.get(name, ()) for entry in visible_outputs(node)]
        if len(found) == 1:
            return found[0], None
        if not found:
            hint = self._near(name, [*self._outputs, *self._nodes])
            return None, Fault(f"{option}: {name!r} names no output and no node", hint=hint)
        if len({(number, entry.node) for number, entry in found}) == 1:
            listed = ", ".join(output_name(entry) for _, entry in found)
            return None, Fault(f"{option}: {name!r} has {len(found)} outputs", hint=f"name one of {listed}")
        labels = ", ".join(dict.fromkeys(self._parts[number].label for number, _ in found))
        hint = "give each file a --prefix, and name the output with it"
        return None, Fault(f"{option}: {name!r} means {len(found)} outputs ({labels})", hint=hint)

    def inputs(self, name: str, option: str, output: Output | None) -> tuple[list[Place], list[Fault]]:
        """The input variables called ``name`` that ``output`` is to feed, or what is wrong with them."""
        found = self._variables.get(name, [])
        if output is not None:
            found = [place for place in found if place[0] != output[0]] or found
        if not found:
            known = [n for n, places in self._variables.items() if any(self._refusal(place) is None for place in places)]
            listed = f"inputs are {', '.join(known[:8])}" if known else ""
            return [], [Fault(f"{option}: {name!r} names no variable", hint=self._near(name, known) or listed)]
        faults = []
        for place in found:
            refusal = self._refusal(place)
            if refusal is not None:
                why, hint = refusal
                faults.append(Fault(f"{option}: {name!r} of {self._parts[place[0]].label} is {why}", hint=hint))
        return ([] if faults else found), faults

    def _near(self, name: str, known: list[str]) -> str:
        """A hint for an unknown name; thousands of them would take long to guess."""
        self._guesses -= 1
        return did_you_mean(name, known) if self._guesses >= 0 else ""

    def _refusal(self, place: Place) -> tuple[str, str] | None:
        """Why a variable cannot be fed by an output, if so, and what to do about it."""
        number, node = place
        if node in self._states[number]:
            return "an auxiliary state, which its operator writes", "only inputs can be connected"
        role = self._roles[number][node]
        if role.is_parameter:
            return f"a parameter ({role.reason})", f"if it is an input after all, add --as-input {node.name}"
        return None


def _add_own_names(parts: Sequence[Part], names: dict[str, list[Any]]) -> None:
    """Adds the names without prefixes that no name of the result is equal to."""
    own: dict[str, list[Any]] = {}
    for name, found in names.items():
        for place in found:
            prefix = parts[place[0]].prefix
            if prefix and name.startswith(prefix):
                own.setdefault(name[len(prefix) :], []).append(place)
    names.update({name: found for name, found in own.items() if name not in names})


def name_output(parts: Sequence[Part], output: Output) -> str:
    """The name that an output has in the result."""
    number, entry = output
    name = output_name(Entry(entry.node, entry.index))
    return parts[number].prefix + name if entry.node.name else name
