"""What an operator is: its inputs, outputs, attributes, auxiliary slots and initializers, as MXNet 1.9.1 registers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from graphshare.ops.attributes import describe_spellings, read_value
from graphshare.ops.notation import Condition, FormalName, Parameter, read_parameters, read_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Attributes = Mapping[str, str]
    InputRule = Callable[["Signature", Attributes, Sequence[Any]], tuple[str, ...]]
    OutputRule = Callable[["Signature", Attributes], "OutputList | None"]
    SlotRule = Callable[["Signature", Attributes, int, Sequence[Any]], tuple[int, ...]]
    LoadCheck = Callable[[Mapping[str, Any]], "AttributeFault | None"]

__all__ = ["MAX_COUNT", "AttributeFault", "OutputList", "Parameter", "Signature"]

# An attribute is text, and a file of a hundred bytes can say a thousand million inputs; no list is made of more than these.
MAX_COUNT = 1 << 16


# The formal inputs that hold parameters or auxiliary states.
PARAMETER_FORMALS = frozenset(
    ("weight", "bias", "gamma", "beta", "parameters", "mean", "var", "moving_mean", "moving_var", "moving_avg")
)


class OutputList(NamedTuple):
    """``total`` outputs, of which the first ``visible`` can be named.

    ``labels`` are those that the operator declares, in order; output ``i`` beyond them is called ``output<i>``, so that
    thousands of outputs need no list.
    """

    total: int
    visible: int
    labels: tuple[str, ...]

    def label(self, index: int) -> str:
        """Return what output ``index`` is called."""
        return self.labels[index] if index < len(self.labels) else f"output{index}"


class AttributeFault(msgspec.Struct, frozen=True):
    """One attribute that MXNet refuses.

    ``kind`` is ``unknown`` (the operator has no such parameter), ``missing`` (a required one), ``unreadable`` (the text is not
    of the parameter's kind) or ``constraint`` (the value has a wrong length, or contradicts another attribute). ``value`` is
    the attribute's text, of a constraint the value as read; ``expected`` completes the message.
    """

    kind: Literal["unknown", "missing", "unreadable", "constraint"]
    key: str
    value: str | None
    expected: str

    @property
    def message(self) -> str:
        """The fault as a sentence for people."""
        if self.kind == "unknown":
            return f"unknown attribute {self.key!r}; {self.expected}"
        if self.kind == "missing":
            return f"missing attribute {self.key!r}, which is required: {self.expected}"
        if self.kind == "unreadable":
            return f"attribute {self.key!r} is {self.value!r}; it takes {self.expected}"
        return f"attribute {self.key!r} must {self.expected}: {self.value}"


class Signature(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One operator. The texts are in the tables' notation (:mod:`graphshare.ops.notation`).

    ``couples_batch`` says whether one sample's result depends on other samples when axis 0 of the first input counts samples:

    * ``"elementwise"``: never, and samples may lie on any axis;
    * ``"never"``: sample by sample, on axis 0;
    * ``"training"``: only while training (batch statistics);
    * ``"axis"``: where the attribute ``axis`` (``axes``, ``dim``...) takes in axis 0;
    * ``"shape"``: where the attributes move or fold axis 0 (Reshape, transpose, slice, tile);
    * ``"always"``: yes;
    * None: not known.

    ``aliases`` are other names that MXNet accepts in a file; it writes ``name`` back. ``is_operator_property`` marks operators
    of MXNet's oldest kind, registered as an ``OperatorProperty``: while an older file loads, attributes are parsed a second
    time, and these operators then accept keys that are not theirs. ``no_kernel`` says why an operator is not computed here.
    ``num_subgraphs`` counts the bodies of control flow, which ``num_args`` counts too. ``index_bounds`` maps an input that
    holds indices to the attribute that bounds them. ``size_attributes`` are pairs of a formal input and an attribute that
    decides its shape.
    """

    name: str
    inputs: str | InputRule = ""
    attributes: str | None = None
    results: str | OutputRule = "output"
    visible: int = 0
    all_visible_if: str = ""
    mutable: tuple[int, ...] | SlotRule = ()
    initializers: Mapping[int, str] = {}
    renamed_attributes: Mapping[str, str] = {}
    load_checks: tuple[LoadCheck, ...] = ()
    registers_inputs: bool = True
    checks_attributes: bool = True
    registered: bool = True
    couples_batch: str | None = None
    aliases: tuple[str, ...] = ()
    is_operator_property: bool = False
    no_kernel: str = ""
    num_subgraphs: int = 0
    index_bounds: Mapping[int, str] = {}
    size_attributes: tuple[tuple[str, str], ...] = ()

    @property
    def parameters(self) -> tuple[Parameter, ...] | None:
        """The typed attributes; None for an operator that parses nothing and keeps any key."""
        return None if self.attributes is None else read_parameters(self.attributes)

    def parameter(self, key: str) -> Parameter | None:
        """The parameter called ``key``, if there is one."""
        return next((p for p in self.parameters or () if p.name == key), None)

    def value(self, attrs: Attributes, key: str) -> Any:
        """The typed value of one attribute; its default where the text is absent or not readable (None if it has none)."""
        parameter = self.parameter(key)
        if parameter is None:
            return attrs.get(key)
        try:
            return _read(parameter, attrs[key])
        except (KeyError, ValueError):
            return None if parameter.default is None else _read(parameter, parameter.default)

    def input_names(self, attrs: Attributes, num_inputs: int = 0, *, subgraphs: Sequence[Any] = ()) -> tuple[str, ...] | None:
        """The formal inputs that these attributes decide; None where the operator registers no names.

        ``num_inputs`` is how many the node has; it serves only operators whose inputs nothing else tells (Custom).
        """
        if not self.registers_inputs:
            return None
        names = self.formal_inputs(attrs, subgraphs=subgraphs)
        return names if self.inputs_known else tuple(f"arg{i}" for i in range(num_inputs))

    def formal_inputs(self, attrs: Attributes, *, subgraphs: Sequence[Any] = ()) -> tuple[str, ...]:
        """The names of the inputs, also of operators that register none (then as their documentation calls them)."""
        if callable(self.inputs):
            return self.inputs(self, attrs, subgraphs)
        return self._names(self.inputs, attrs)

    @property
    def inputs_known(self) -> bool:
        """False for Custom alone, whose inputs the code behind its ``op_type`` declares."""
        return self.inputs != "*"

    def auxiliary_slots(self, attrs: Attributes, num_inputs: int, *, subgraphs: Sequence[Any] = ()) -> tuple[int, ...]:
        """The inputs that a run writes into. Slots the node has no input for are left out."""
        slots = self.mutable
        if callable(slots):
            slots = slots(self, attrs, num_inputs, subgraphs)
        return tuple(slot for slot in slots if slot < num_inputs)

    def outputs(self, attrs: Attributes) -> OutputList | None:
        """How many outputs there are and what they are called; None where no file can tell (Custom)."""
        if callable(self.results):
            return self.results(self, attrs)
        labels = self._names(self.results, attrs)
        shown = self.visible or len(labels)
        if self.all_visible_if and self.value(attrs, self.all_visible_if):
            shown = min(3, len(labels))
        return OutputList(len(labels), shown, labels)

    def parse(self, attrs: Attributes) -> tuple[dict[str, Any], list[AttributeFault]]:
        """Return the typed attributes with defaults filled in, and the attributes that MXNet refuses.

        Keys that begin and end with two underscores are free. An operator without parameters gives its attributes back as
        they are. Attributes with a fault have no value.
        """
        if self.parameters is None:
            return dict(attrs), []
        values: dict[str, Any] = {}
        faults: list[AttributeFault] = []
        attrs = self.current_attributes(attrs)
        for parameter in self.parameters:
            _fill(values, faults, parameter, attrs)
        if not self.checks_attributes:
            return {**attrs, **values}, [fault for fault in faults if fault.kind == "missing"]
        known = {parameter.name for parameter in self.parameters}
        for key in attrs:
            if key not in known and not is_free_key(key):
                faults.append(AttributeFault("unknown", key, attrs[key], f"{self.name} takes {self._listing()}"))
        if not faults:
            faults.extend(fault for check in self.load_checks if (fault := check(values)) is not None)
        return values, faults

    def current_attributes(self, attrs: Attributes) -> Attributes:
        """``attrs`` with the keys of earlier releases under their present names; the old key wins where both are given."""
        old = [key for key in attrs if key in self.renamed_attributes]
        if not old:
            return attrs
        kept = {key: value for key, value in attrs.items() if key not in self.renamed_attributes}
        return {**kept, **{self.renamed_attributes[key]: attrs[key] for key in old}}

    def _listing(self) -> str:
        return ", ".join(parameter.name for parameter in self.parameters or ()) or "none"

    def _names(self, text: str, attrs: Attributes) -> tuple[str, ...]:
        names: list[str] = []
        for term in read_terms(text) if text != "*" else ():
            if term.conditions and not all(self._holds(condition, attrs) for condition in term.conditions):
                continue
            names.extend(self._run(term, attrs) if term.counted_by else (term.name,))
        return tuple(names)

    def _run(self, term: FormalName, attrs: Attributes) -> list[str]:
        count = self.value(attrs, term.counted_by)
        return [f"{term.name}{i}" for i in range(count if count and count <= MAX_COUNT else 0)]

    def _holds(self, condition: Condition, attrs: Attributes) -> bool:
        value = self.value(attrs, condition.key)
        if condition.expected == "None":
            holds = value is None
        else:
            holds = bool(value) if condition.expected is True else value == condition.expected
        return holds != condition.negated


def define(names: str, inputs: str | InputRule = "", attributes: str | None = None, **facts: Any) -> list[Signature]:
    """Return one signature for every operator of ``names``, all with the same facts.

    Names are separated by blanks; aliases follow a name in parentheses: ``"Concat(concat) stack(_rnn_stack,_npx_stack)"``.
    """
    rows = []
    for name, aliases in (_split_aliases(text) for text in names.split()):
        rows.append(Signature(name=name, inputs=inputs, attributes=attributes, aliases=aliases, **facts))
    return rows


def _split_aliases(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, aliases = text.rstrip(")").partition("(")
    return name, tuple(aliases.split(",")) if aliases else ()


def is_free_key(key: str) -> bool:
    """Whether any operator lets ``key`` pass: it begins and ends with two underscores and has something between them."""
    return len(key) > 4 and key.startswith("__") and key.endswith("__")


def _read(parameter: Parameter, text: str) -> Any:
    if parameter.kind in ("enum", "enum?"):
        if text in parameter.choices:
            return text
        if text == "None" and parameter.kind == "enum?":
            return None
        raise ValueError(text)
    value = read_value(parameter.kind, text)
    low, high = parameter.bounds
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(text)
    return value


def _fill(values: dict[str, Any], faults: list[AttributeFault], parameter: Parameter, attrs: Attributes) -> None:
    """Put the value of one parameter into ``values``, or the fault into ``faults``."""
    text = attrs.get(parameter.name, parameter.default)
    if text is None:
        expected = describe_spellings(parameter.kind, parameter.choices)
        faults.append(AttributeFault("missing", parameter.name, None, expected))
        return
    try:
        values[parameter.name] = _read(parameter, text)
    except ValueError:
        faults.append(AttributeFault("unreadable", parameter.name, text, _format_expected(parameter)))


def _format_expected(parameter: Parameter) -> str:
    words = describe_spellings(parameter.kind, parameter.choices)
    low, high = parameter.bounds
    if low is not None and high is not None:
        return f"{words}, from {low:g} to {high:g}"
    return words if low is None else f"{words}, at least {low:g}"
