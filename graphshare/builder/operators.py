"""Operators: any of the operator table applied to :class:`Var`, with the parameters it needs made under the scopes.

    from graphshare.builder import operators as op

    x = op.FullyConnected(x, num_hidden=10)
    x = op.Convolution(x, weight=shared, kernel=(3, 3), num_filter=8, no_bias=True, name="conv1")

Names are those of MXNet, aliases included. Inputs come in order or by the operator's own names for them; everything else is
an attribute, checked against the operator. As with MXNet, a parameter or label that is not given becomes a variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.name_lists import total_outputs, visible_outputs
from graphshare.analysis.roles import LABEL_FORMALS, PARAMETER_FORMALS, STATE_FORMALS, Kind
from graphshare.builder.scopes import Scope, current_scope
from graphshare.builder.settings import ReuseLike
from graphshare.builder.stubs import Learned, learn
from graphshare.builder.var import Var
from graphshare.builder.variables import Planned, made, made_input, planned
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import VARIABLE, Entry, Node
from graphshare.kernels.kernel import Shape
from graphshare.operators.registry import canonical, known_names, lookup
from graphshare.operators.signature import Signature
from graphshare.text.names import did_you_mean

Outputs = tuple[Var, ...]

_WITH_BODIES = frozenset(("_cond", "_foreach", "_while_loop", "_CachedOp", "_CachedOpThreadSafe"))


class _Missing(msgspec.Struct, frozen=True, eq=False):
    """An input that was not given and becomes a variable."""

    position: int
    formal: str
    kind: Kind


def apply(operator: str, *inputs: Var, name: str | None = None, reuse: ReuseLike = None, **named: Any) -> Outputs:
    """All visible outputs of ``operator`` on ``inputs``; see the module for what else can be given.

    ``name`` is the operator's own name below the name scope, ``reuse`` what holds for the parameters made for it.

    Raises:
        RefusedError: an unknown operator, attributes or inputs that do not fit it, shapes that contradict each other, a name
            that is taken; faults of one kind are all listed, and nothing is made then.
    """
    scope = current_scope()
    if name is None and reuse is True:
        hint = "give name=, or the scope where the parameters are"
        raise RefusedError(Fault(f"{operator}: reuse=True needs a name to find the parameters by", hint=hint))
    signature = _signature(operator)
    attrs = _attributes(signature, operator, named, len(inputs))
    formals = signature.formal_inputs(attrs)
    given = _placed(operator, signature, formals, inputs, named)
    _check_sessions(scope, operator, given.values())
    slots = signature.auxiliary_slots(attrs, max(len(formals), len(given)))
    _check_targets(operator, given, slots)
    missing = _missing(operator, signature, formals, given, slots)
    owner, node_name = _names(scope, operator, name, any(m.kind is not Kind.INPUT for m in missing))
    known = learn(signature.name, node_name, attrs, given, len(formals) or len(given))
    held = [m for m in missing if m.kind is not Kind.INPUT]
    plans = [_plan(scope, signature, owner, m, attrs, known.inputs[m.position], reuse) for m in held]
    final = scope.registry.free(node_name, scope.naming)
    labels = {m.position: scope.registry.free(f"{final}_{m.formal}", scope.naming) for m in missing if m.kind is Kind.INPUT}
    _check_distinct(operator, [final, *labels.values(), *(plan.name for plan in plans)])
    return _commit(
        scope, signature, final, attrs, given, labels, dict(zip((m.position for m in held), plans, strict=True)), known, slots
    )


def _signature(operator: str) -> Signature:
    signature = lookup(operator)
    if signature is None or not signature.registered:
        hint = did_you_mean(operator, list(known_names()))
        raise RefusedError(Fault(f"{operator!r} is not an operator of MXNet 1.9.1", hint=hint))
    if signature.name in _WITH_BODIES or signature.name.startswith("_sg_"):
        raise RefusedError(Fault(f"{operator!r} holds sub-graphs, which cannot be authored here"))
    return signature


def _attributes(signature: Signature, operator: str, named: Mapping[str, Any], count: int) -> dict[str, str]:
    """What was given besides inputs, as text and checked."""
    attrs = {key: attribute_text(value) for key, value in named.items() if not isinstance(value, Var)}
    counted = signature.parameter("num_args")
    if counted is not None and counted.required and "num_args" not in attrs:
        attrs["num_args"] = str(count)
    faults = signature.parse(attrs)[1]
    if faults:
        raise RefusedError([Fault(f"{operator}: {fault.message}") for fault in faults])
    return dict(sorted(attrs.items()))


def attribute_text(value: Any) -> str:
    """An attribute as MXNet's Python interface spells it; numpy's integers are integers."""
    if isinstance(value, (tuple, list)):
        members = ", ".join(map(attribute_text, value))
        return f"[{members}]" if isinstance(value, list) else f"({members},)" if len(value) == 1 else f"({members})"
    return value.__name__ if isinstance(value, type) else str(value)


def _placed(
    operator: str, signature: Signature, formals: Sequence[str], inputs: Sequence[Var], named: Mapping[str, Any]
) -> dict[int, Var]:
    """The given inputs by position."""
    faults = []
    variadic = not signature.inputs_known
    if len(inputs) > len(formals) and not variadic:
        takes = ", ".join(formals) or "none"
        faults.append(Fault(f"{operator}: {len(inputs)} inputs are given, and it takes {len(formals)} ({takes})"))
    faults += [
        Fault(
            f"{operator}: input {i} is a {type(x).__name__}, not a Var", hint="make it with constant, variable or placeholder"
        )
        for i, x in enumerate(inputs)
        if not isinstance(x, Var)
    ]
    given = dict(enumerate(inputs))
    for key, value in named.items():
        if not isinstance(value, Var):
            continue
        if key not in formals:
            faults.append(Fault(f"{operator}: has no input {key!r}", hint=f"its inputs are {', '.join(formals) or 'none'}"))
        elif formals.index(key) in given:
            faults.append(Fault(f"{operator}: input {key!r} is given twice"))
        else:
            given[formals.index(key)] = value
    if faults:
        raise RefusedError(faults)
    return dict(sorted(given.items()))


def _check_sessions(scope: Scope, operator: str, inputs: Any) -> None:
    foreign = [x for x in inputs if x.session is not scope.session]
    if foreign:
        hint = "a graph is authored in one session; enter that of its inputs with `with session:`"
        raise RefusedError([Fault(f"{operator}: {x.name!r} belongs to another session", hint=hint) for x in foreign])


def _check_distinct(operator: str, names: Sequence[str]) -> None:
    """A naming policy may be anybody's, and give an operator's parameters one name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise RefusedError([Fault(f"{operator}: the naming policy gives the name {name!r} twice") for name in repeated])


def _check_targets(operator: str, given: Mapping[int, Var], slots: Sequence[int]) -> None:
    wrong = [given[slot] for slot in slots if slot in given and given[slot].op != VARIABLE]
    if wrong:
        raise RefusedError([Fault(f"{operator}: writes into {x.name!r}, which is no variable") for x in wrong])


def _missing(
    operator: str, signature: Signature, formals: Sequence[str], given: Mapping[int, Var], slots: Sequence[int]
) -> list[_Missing]:
    """The inputs that become variables; what carries values through the graph must be given."""
    found, faults = [], []
    for position, formal in enumerate(formals):
        if position in given:
            continue
        if position in slots:
            found.append(_Missing(position, formal, Kind.AUXILIARY))
        elif formal in PARAMETER_FORMALS and signature.registers_inputs:
            found.append(_Missing(position, formal, Kind.PARAMETER))
        elif formal in LABEL_FORMALS | STATE_FORMALS and signature.registers_inputs:
            found.append(_Missing(position, formal, Kind.INPUT))
        else:
            faults.append(Fault(f"{operator}: input {formal!r} is missing", hint=f"its inputs are {', '.join(formals)}"))
    if faults:
        raise RefusedError(faults)
    return found


def _names(scope: Scope, operator: str, name: str | None, has_parameters: bool) -> tuple[str, str]:
    """What parameters are called after, below the variable scope, and the operator's path, which may be taken."""
    naming = scope.naming
    if name is not None:
        own = (scope.prefix if naming.prefixes_given else "") + name
        return own, scope.names + own
    return automatic_names(scope, naming.kind(operator), has_parameters)


def automatic_names(scope: Scope, kind: str, has_parameters: bool) -> tuple[str, str]:
    """An automatic name below the variable scope, and one with the path of the name scope.

    They are one where numbers count per kind. Where every scope counts by itself, the two scopes count each for its own.
    """
    naming = scope.naming
    if naming.counted != "path":
        while True:
            own = scope.prefix + naming.automatic(kind, scope.counters.draw(naming, kind, ""))
            if naming.again is not None or not scope.registry.is_taken(scope.names + own):
                return own, scope.names + own
    owner = scope.prefix + kind
    if has_parameters:
        number = scope.counters.draw(naming, kind, f"parameters of {scope.variables}")
        owner = scope.prefix + naming.automatic(kind, number)
    return owner, scope.names + scope.prefix + kind


def _plan(
    scope: Scope,
    signature: Signature,
    owner: str,
    missing: _Missing,
    attrs: Mapping[str, str],
    shape: Shape,
    reuse: ReuseLike,
) -> Planned:
    """A parameter or auxiliary state of an operator."""
    local = scope.naming.parameter_name(owner, missing.formal)
    # As MXNet has it, the variable repeats the operator's attributes; nothing reads them.
    copied = dict(attrs)
    if missing.position in signature.initializers:
        copied["__init__"] = signature.initializers[missing.position]
    return planned(scope, local, kind=missing.kind, formal=missing.formal, shape=shape, attrs=copied, reuse=reuse)


def _commit(
    scope: Scope,
    signature: Signature,
    name: str,
    attrs: Mapping[str, str],
    given: Mapping[int, Var],
    labels: Mapping[int, str],
    plans: Mapping[int, Planned],
    known: Learned,
    slots: Sequence[int],
) -> Outputs:
    """Makes the variables and the operator; nothing can be refused any more."""
    registry = scope.registry
    inputs = dict(given)
    for position, label in labels.items():
        inputs[position] = made_input(scope, label, known.inputs[position], attrs=attrs)
    for position, plan in plans.items():
        inputs[position] = made(scope, plan)
    entries = []
    for position, var in sorted(inputs.items()):
        version = registry.mutated(var) if position in slots else registry.mutations.get(var.node, 0)
        entries.append(var.entry if version == var.entry.version else Entry(var.node, var.entry.index, version))
        registry.learned(var, known.inputs[position], known.input_types[position])
    node = Node(canonical(signature.name), registry.take(name), attrs, tuple(entries))
    node = msgspec.structs.replace(node, num_outputs=total_outputs(node))
    outputs = tuple(Var(scope.session, entry) for entry in visible_outputs(node))
    registry.add(node, known.outputs, known.output_types, outputs)
    return outputs


def one_of(outputs: Outputs) -> Any:
    """The output itself where there is one, else all of them."""
    return outputs[0] if len(outputs) == 1 else outputs


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__") or lookup(name) is None:
        raise AttributeError(f"MXNet 1.9.1 has no operator {name!r}. {did_you_mean(name, list(known_names()))}".rstrip())

    def applied(*inputs: Var, **given: Any) -> Any:
        return one_of(apply(name, *inputs, **given))

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = f"MXNet's operator ``{name}``; see :func:`apply`."
    return applied
