"""Signatures of operators as MXNet 1.9.1 registers them: inputs, outputs, attributes, slots.

Tables state them in a notation that is read when an operator is first looked up.

Parameters: ``name:kind=default`` joined by semicolons, ``!`` for a required one, an enumeration in
braces (optional if it lists None), bounds in brackets: ``kernel:shape=!; num_filter:uint[1:]=!;
p:float[0:1]=0.5; mode:{clip/wrap}=clip``.

Inputs and output labels: names in order, perhaps depending on attributes: ``bias[!no_bias]``,
``gamma[act_type=prelu]``, ``a[flag&key=value]``; ``arg*num_args`` is ``arg0``, ``arg1``, ... up to
the attribute's count.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from graphshare.ops.attributes import describe_spellings, read_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Attributes = Mapping[str, str]
    InputRule = Callable[["Signature", Attributes, Sequence[Any]], tuple[str, ...]]
    OutputRule = Callable[["Signature", Attributes, Sequence[Any]], "OutputList | None"]
    SlotRule = Callable[["Signature", Attributes, int, Sequence[Any]], tuple[int, ...]]
    LoadCheck = Callable[[Mapping[str, Any]], "AttributeFault | None"]

__all__ = ["MAX_COUNT", "AttributeFault", "OutputList", "Parameter", "Signature"]


# A small file can demand a thousand million inputs; this is the longest list.
MAX_COUNT = 1 << 16


# Formal inputs that hold parameters or auxiliary states.
PARAMETER_FORMALS = frozenset(
    (
        "weight",
        "bias",
        "gamma",
        "beta",
        "parameters",
        "mean",
        "var",
        "moving_mean",
        "moving_var",
        "moving_avg",
    )
)

_PARAMETER = r"(\w+):(?:\{([^}]*)\}|(\w+\??))(?:\[([^:\]]*):([^\]]*)\])?=(.*)"
_TERM = r"(\w+)(?:\*(\w+))?(?:\[([^\]]+)\])?"


class Parameter(msgspec.Struct, frozen=True):
    """One typed attribute of an operator.

    ``kind`` is one of :data:`graphshare.ops.attributes.KINDS`. ``default`` is the default's text,
    None if required. ``choices`` are an enumeration's spellings, ``bounds`` the least and greatest
    number.
    """

    name: str
    kind: str
    default: str | None
    required: bool
    choices: tuple[str, ...] = ()
    bounds: tuple[float | None, float | None] = (None, None)


class Condition(NamedTuple):
    """``key`` has the value ``expected`` (True for a plain flag), or not, if ``negated``."""

    key: str
    expected: str | bool
    negated: bool


class FormalName(NamedTuple):
    """One name, or as many as ``counted_by`` says, if all conditions hold."""

    name: str
    counted_by: str
    conditions: tuple[Condition, ...]


@cache
def read_parameters(text: str) -> tuple[Parameter, ...]:
    """Return the parameters of a table row."""
    return tuple(_parameter(part.strip()) for part in text.split(";") if part.strip())


def _parameter(text: str) -> Parameter:
    match = re.fullmatch(_PARAMETER, text, re.DOTALL)
    if match is None:
        raise AssertionError(f"not a parameter: {text!r}")
    name, choices, kind, low, high, default = match.groups()
    members = tuple(choices.split("/")) if choices is not None else ()
    if members:
        kind = "enum?" if members[0] == "None" else "enum"
        # MXNet quotes None in an enumeration that is not optional (dtype of _random_uniform).
        members = members[1:] if kind == "enum?" else tuple(member.strip("'") for member in members)
    required = default == "!"
    bounds = (float(low) if low else None, float(high) if high else None)
    return Parameter(name, kind, None if required else default, required, members, bounds)


@cache
def read_terms(text: str) -> tuple[FormalName, ...]:
    """Return the inputs or labels of a table row."""
    return tuple(_term(part) for part in text.split())


def _term(text: str) -> FormalName:
    match = re.fullmatch(_TERM, text)
    if match is None:
        raise AssertionError(f"not a name: {text!r}")
    name, count, conditions = match.groups()
    parts = conditions.split("&") if conditions else ()
    return FormalName(name, count or "", tuple(map(_condition, parts)))


def _condition(text: str) -> Condition:
    key, equals, value = text.lstrip("!").partition("=")
    return Condition(key, value if equals else True, text.startswith("!"))


class OutputList(NamedTuple):
    """``total`` outputs; the first ``visible`` ones can be named.

    Output ``i`` beyond the declared ``labels`` is ``output<i>``, so thousands need no list.
    """

    total: int
    visible: int
    labels: tuple[str, ...]

    def label(self, index: int) -> str:
        return self.labels[index] if index < len(self.labels) else f"output{index}"


class AttributeFault(msgspec.Struct, frozen=True):
    """One attribute that MXNet refuses.

    ``kind``: ``unknown`` (no such parameter), ``missing`` (though required), ``unreadable`` (wrong
    kind of text) or ``constraint`` (wrong length, or a contradiction with another attribute).
    ``value`` is the text, of a constraint the value as read; ``expected`` completes the message.
    """

    kind: Literal["unknown", "missing", "unreadable", "constraint"]
    key: str
    value: str | None
    expected: str

    @property
    def message(self) -> str:
        if self.kind == "unknown":
            return f"unknown attribute {self.key!r}; {self.expected}"
        if self.kind == "missing":
            return f"missing attribute {self.key!r}, which is required: {self.expected}"
        if self.kind == "unreadable":
            return f"attribute {self.key!r} is {self.value!r}; it takes {self.expected}"
        return f"attribute {self.key!r} must {self.expected}: {self.value}"


class Signature(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One operator, in the notation of the tables.

    ``couples_batch`` says whether samples depend on each other, with axis 0 of the first input as
    the batch axis:

    * ``"elementwise"``: never, and samples may lie on any axis;
    * ``"never"``: sample by sample, on axis 0;
    * ``"training"``: only while training (batch statistics);
    * ``"axis"``: where the attribute ``axis`` (``axes``, ``dim``...) includes axis 0;
    * ``"shape"``: where the attributes move or fold axis 0 (Reshape, transpose, slice, tile);
    * ``"always"``: yes;
    * None: not known.

    MXNet accepts ``aliases`` in a file and writes ``name`` back. ``is_operator_property`` marks
    MXNet's oldest operators (``OperatorProperty``): while an older file loads, attributes are
    parsed twice, and these operators then accept unknown keys. ``no_kernel`` says why an operator
    is not computed. ``num_subgraphs`` counts the bodies of control flow; ``num_args`` includes
    them. ``index_bounds`` maps an input of indices to the attribute that bounds them.
    ``size_attributes`` pairs a formal input with an attribute that decides its shape.
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
        """Return the typed attributes; None if the operator parses nothing and keeps any key."""
        return None if self.attributes is None else read_parameters(self.attributes)

    def parameter(self, key: str) -> Parameter | None:
        return next((p for p in self.parameters or () if p.name == key), None)

    def value(self, attrs: Attributes, key: str) -> Any:
        """Return a typed attribute; its default, or None, if absent or unreadable."""
        parameter = self.parameter(key)
        if parameter is None:
            return attrs.get(key)
        try:
            return _read(parameter, attrs[key])
        except (KeyError, ValueError):
            return None if parameter.default is None else _read(parameter, parameter.default)

    def input_names(
        self, attrs: Attributes, num_inputs: int = 0, *, subgraphs: Sequence[Any] = ()
    ) -> tuple[str, ...] | None:
        """Return the formal inputs; None if the operator registers no names.

        ``num_inputs`` serves operators whose inputs follow from nothing else (Custom).
        """
        if not self.registers_inputs:
            return None
        names = self.formal_inputs(attrs, subgraphs=subgraphs)
        return names if self.inputs_known else tuple(f"arg{i}" for i in range(num_inputs))

    def formal_inputs(self, attrs: Attributes, *, subgraphs: Sequence[Any] = ()) -> tuple[str, ...]:
        """Return the inputs' registered names, else their names in the documentation."""
        if callable(self.inputs):
            return self.inputs(self, attrs, subgraphs)
        return self._names(self.inputs, attrs)

    @property
    def inputs_known(self) -> bool:
        """False only for Custom: the code that ``op_type`` names declares its inputs."""
        return self.inputs != "*"

    def auxiliary_slots(
        self, attrs: Attributes, num_inputs: int, *, subgraphs: Sequence[Any] = ()
    ) -> tuple[int, ...]:
        """Return the positions of existing inputs that a run writes into."""
        slots = self.mutable
        if callable(slots):
            slots = slots(self, attrs, num_inputs, subgraphs)
        return tuple(slot for slot in slots if slot < num_inputs)

    def outputs(self, attrs: Attributes, *, subgraphs: Sequence[Any] = ()) -> OutputList | None:
        """Return number and names of outputs; None if unknown (Custom)."""
        if callable(self.results):
            return self.results(self, attrs, subgraphs)
        labels = self._names(self.results, attrs)
        visible = self.visible or len(labels)
        if self.all_visible_if and self.value(attrs, self.all_visible_if):
            # BatchNormWithReLU's fourth output, its workspace, is never visible.
            visible = min(3, len(labels))
        return OutputList(len(labels), visible, labels)

    def parse(self, attrs: Attributes) -> tuple[dict[str, Any], list[AttributeFault]]:
        """Return the typed attributes, with defaults, and those that MXNet refuses.

        Keys in double underscores are free. An operator without parameters keeps its attributes
        unchanged. Attributes with a fault have no value.
        """
        if self.parameters is None:
            return dict(attrs), []
        values: dict[str, Any] = {}
        faults: list[AttributeFault] = []
        attrs = self.current_attributes(attrs)
        for parameter in self.parameters:
            _fill(values, faults, parameter, attrs)
        if not self.checks_attributes:
            # A foreign operator's accepted values are unknown: unreadable text stays unchanged.
            return {**attrs, **values}, [fault for fault in faults if fault.kind == "missing"]
        known = {parameter.name for parameter in self.parameters}
        for key, text in attrs.items():
            if key not in known and not is_free_key(key):
                expected = f"{self.name} takes {self._listing()}"
                faults.append(AttributeFault("unknown", key, text, expected))
        if faults:
            return values, faults
        # The checks read all parameters.
        for check in self.load_checks:
            fault = check(values)
            if fault is not None:
                faults.append(fault)
        return values, faults

    def current_attributes(self, attrs: Attributes) -> Attributes:
        """Rename keys of earlier releases; the old key wins over the new."""
        old = [key for key in attrs if key in self.renamed_attributes]
        if not old:
            return attrs
        kept = {key: value for key, value in attrs.items() if key not in self.renamed_attributes}
        return {**kept, **{self.renamed_attributes[key]: attrs[key] for key in old}}

    def _listing(self) -> str:
        return ", ".join(parameter.name for parameter in self.parameters or ()) or "none"

    def _names(self, text: str, attrs: Attributes) -> tuple[str, ...]:
        if text == "*":
            return ()
        names: list[str] = []
        for term in read_terms(text):
            if not all(self._holds(condition, attrs) for condition in term.conditions):
                continue
            if term.counted_by:
                names += self._run(term, attrs)
            else:
                names.append(term.name)
        return tuple(names)

    def _run(self, term: FormalName, attrs: Attributes) -> list[str]:
        count = self.value(attrs, term.counted_by) or 0
        if count > MAX_COUNT:
            return []
        return [f"{term.name}{i}" for i in range(count)]

    def _holds(self, condition: Condition, attrs: Attributes) -> bool:
        value = self.value(attrs, condition.key)
        if condition.expected == "None":
            holds = value is None
        else:
            holds = bool(value) if condition.expected is True else value == condition.expected
        return holds != condition.negated


def define(
    names: str, inputs: str | InputRule = "", attributes: str | None = None, **facts: Any
) -> list[Signature]:
    """Return signatures for all operators of ``names``, with the same facts.

    Names are separated by blanks, with aliases in parentheses: ``"Concat(concat)
    stack(_rnn_stack,_npx_stack)"``.
    """
    rows = []
    for text in names.split():
        name, aliases = _split_aliases(text)
        rows.append(
            Signature(name=name, inputs=inputs, attributes=attributes, aliases=aliases, **facts)
        )
    return rows


elementwise = partial(define, registers_inputs=False, couples_batch="elementwise")
""":func:`define` for elementwise operators that register no input names."""


def _split_aliases(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, aliases = text.rstrip(")").partition("(")
    return name, tuple(aliases.split(",")) if aliases else ()


def is_free_key(key: str) -> bool:
    """Whether any operator accepts ``key``: something between double underscores."""
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
    if low is not None and value < low:
        raise ValueError(text)
    if high is not None and value > high:
        raise ValueError(text)
    return value


def _fill(
    values: dict[str, Any], faults: list[AttributeFault], parameter: Parameter, attrs: Attributes
) -> None:
    text = attrs.get(parameter.name, parameter.default)
    if text is None:
        expected = describe_spellings(parameter.kind, parameter.choices)
        faults.append(AttributeFault("missing", parameter.name, None, expected))
        return
    try:
        values[parameter.name] = _read(parameter, text)
    except ValueError:
        faults.append(
            AttributeFault("unreadable", parameter.name, text, _format_expected(parameter))
        )


def _format_expected(parameter: Parameter) -> str:
    words = describe_spellings(parameter.kind, parameter.choices)
    low, high = parameter.bounds
    if low is not None and high is not None:
        return f"{words}, from {low:g} to {high:g}"
    return words if low is None else f"{words}, at least {low:g}"
