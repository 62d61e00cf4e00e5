"""Apply one operator: check its inputs and attributes, create the missing parameters, add the node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from graphshare.analysis.roles import LABEL_FORMALS, STATE_FORMALS, Kind
from graphshare.builder.scopes import Scope, current_scope
from graphshare.builder.var import ReuseLike, Var
from graphshare.builder.variables import (
    ParameterPlan,
    ParameterRequest,
    create_input,
    create_parameter,
    plan_parameter,
)
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Entry, Graph, Node, freeze
from graphshare.ops.inference import infer
from graphshare.ops.kernel import Shape
from graphshare.ops.registry import (
    canonical,
    list_known_names,
    lookup,
    total_outputs,
    visible_outputs,
)
from graphshare.ops.signature import PARAMETER_FORMALS, Signature
from graphshare.text.format import format_count
from graphshare.text.names import did_you_mean, find_duplicates

Outputs = tuple[Var, ...]


class _Missing(msgspec.Struct, frozen=True, eq=False):
    """An input that was not passed and becomes a variable."""

    position: int
    formal: str
    kind: Kind


class _Application(msgspec.Struct, frozen=True, eq=False):
    """An operator with its checked attributes and the passed inputs, by position.

    ``operator`` is the name by which it was applied, ``mutated`` has the positions of inputs that
    it writes into.
    """

    scope: Scope
    operator: str
    signature: Signature
    attrs: dict[str, str]
    formals: tuple[str, ...]
    inputs: dict[int, Var]
    mutated: tuple[int, ...]


def apply(
    operator: str, *inputs: Var, name: str | None = None, reuse: ReuseLike = None, **named: object
) -> Outputs:
    """Apply ``operator`` and return its visible outputs; ``named`` are further inputs and the
    attributes.

    ``name`` is relative to the name scope; ``reuse`` applies to parameters created for the
    operator.

    Raises:
        RefusedError: the operator is unknown, attributes or inputs do not fit it, shapes contradict
            each other, or a name is taken; all of a kind are in one error, and nothing is created.
    """
    scope = current_scope()
    check_reuse(operator, name, reuse)
    application = _check_application(scope, operator, inputs, named)
    missing = _list_missing(application)
    missing_inputs = [m for m in missing if m.kind is Kind.INPUT]
    missing_parameters = [m for m in missing if m.kind is not Kind.INPUT]
    owner, node_name = _choose_names(scope, operator, name, bool(missing_parameters))
    count = len(application.formals) or len(application.inputs)
    inferred = _infer_operator(
        application.signature.name, node_name, application.attrs, application.inputs, count
    )
    parameters = {
        m.position: _plan_parameter(application, owner, m, inferred.inputs[m.position], reuse)
        for m in missing_parameters
    }
    final = scope.registry.find_free(node_name, scope.naming)
    # As in MXNet: softmax_label.
    labels = {
        m.position: scope.registry.find_free(f"{final}_{m.formal}", scope.naming)
        for m in missing_inputs
    }
    parameter_names = [plan.name for plan in parameters.values()]
    _check_distinct(operator, [final, *labels.values(), *parameter_names])
    return _create(application, final, labels, parameters, inferred)


def check_reuse(kind: str, name: str | None, reuse: ReuseLike) -> None:
    """Reject ``reuse=True`` without a name by which to find parameters. Raises RefusedError."""
    if name is None and reuse is True:
        hint = "pass name=, or reuse the scope that contains the parameters"
        raise RefusedError(
            Fault(f"{kind}: reuse=True needs a name to find the parameters by", hint=hint)
        )


def _check_application(
    scope: Scope, operator: str, inputs: Sequence[Var], named: Mapping[str, object]
) -> _Application:
    signature = _find_signature(operator)
    attrs = _check_attributes(signature, operator, named, len(inputs))
    formals = signature.formal_inputs(attrs)
    by_position = _place_inputs(operator, signature, formals, inputs, named)
    _check_sessions(scope, operator, by_position.values())
    mutated = signature.auxiliary_slots(attrs, max(len(formals), len(by_position)))
    written = [by_position[slot] for slot in mutated if slot in by_position]
    faults = [
        Fault(f"{operator}: writes into {var.name!r}, which is not a variable")
        for var in written
        if not var.node.is_variable
    ]
    if faults:
        raise RefusedError(faults)
    return _Application(
        scope, operator, signature, attrs, tuple(formals), by_position, tuple(mutated)
    )


def _find_signature(operator: str) -> Signature:
    signature = lookup(operator)
    if signature is None or not signature.registered:
        hint = did_you_mean(operator, list(list_known_names()))
        raise RefusedError(Fault(f"{operator!r} is not an operator of MXNet 1.9.1", hint=hint))
    # Signatures count only the bodies of control flow; these operators have subgraphs, too.
    if signature.num_subgraphs or signature.name.startswith(("_sg_", "_CachedOp")):
        raise RefusedError(
            Fault(f"{operator!r} contains subgraphs, which the builder does not support")
        )
    return signature


def _check_attributes(
    signature: Signature, operator: str, named: Mapping[str, object], count: int
) -> dict[str, str]:
    """``count`` is the number of positional inputs."""
    attrs = {
        key: _format_attribute(value) for key, value in named.items() if not isinstance(value, Var)
    }
    num_args = signature.parameter("num_args")
    if num_args is not None and num_args.required and "num_args" not in attrs:
        # As in MXNet's Python interface.
        attrs["num_args"] = str(count)
    faults = signature.parse(attrs)[1]
    if faults:
        raise RefusedError([Fault(f"{operator}: {fault.message}") for fault in faults])
    # MXNet's order.
    return dict(sorted(attrs.items()))


def _format_attribute(value: object) -> str:
    """Format like MXNet's Python interface; numpy's integers are integers."""
    if isinstance(value, (tuple, list)):
        members = ", ".join(map(_format_attribute, value))
        if isinstance(value, list):
            return f"[{members}]"
        return f"({members},)" if len(value) == 1 else f"({members})"
    return value.__name__ if isinstance(value, type) else str(value)


def _place_inputs(
    operator: str,
    signature: Signature,
    formals: Sequence[str],
    inputs: Sequence[Var],
    named: Mapping[str, object],
) -> dict[int, Var]:
    faults = []
    names = ", ".join(formals) or "none"
    if len(inputs) > len(formals) and signature.inputs_known:
        count = format_count(len(inputs), "input")
        message = f"{operator}: got {count}, expected at most {len(formals)} ({names})"
        faults.append(Fault(message))
    hint = "create it with constant, variable or placeholder"
    faults += [
        Fault(f"{operator}: input {i} is a {type(x).__name__}, not a Var", hint=hint)
        for i, x in enumerate(inputs)
        if not isinstance(x, Var)
    ]
    by_position = dict(enumerate(inputs))
    for key, value in named.items():
        if not isinstance(value, Var):
            continue
        if key not in formals:
            faults.append(
                Fault(f"{operator}: has no input {key!r}", hint=f"its inputs are {names}")
            )
        elif formals.index(key) in by_position:
            faults.append(Fault(f"{operator}: input {key!r} is given twice"))
        else:
            by_position[formals.index(key)] = value
    if faults:
        raise RefusedError(faults)
    return dict(sorted(by_position.items()))


def _check_sessions(scope: Scope, operator: str, inputs: Iterable[Var]) -> None:
    hint = (
        "a graph is authored in one session; enter the session of the inputs with `with session:`"
    )
    faults = [
        Fault(f"{operator}: {var.name!r} belongs to another session", hint=hint)
        for var in inputs
        if var.session is not scope.session
    ]
    if faults:
        raise RefusedError(faults)


def _check_distinct(operator: str, names: Sequence[str]) -> None:
    """A user's naming policy may give two parameters of one operator the same name."""
    faults = [
        Fault(f"{operator}: the naming policy gives the name {name!r} twice")
        for name in find_duplicates(names)
    ]
    if faults:
        raise RefusedError(faults)


def _list_missing(application: _Application) -> list[_Missing]:
    """Return inputs that become variables. Raises RefusedError for other missing inputs."""
    missing, faults = [], []
    creates = application.signature.registers_inputs
    for position, formal in enumerate(application.formals):
        if position in application.inputs:
            continue
        if position in application.mutated:
            missing.append(_Missing(position, formal, Kind.AUXILIARY))
        elif formal in PARAMETER_FORMALS and creates:
            missing.append(_Missing(position, formal, Kind.PARAMETER))
        elif formal in LABEL_FORMALS | STATE_FORMALS and creates:
            missing.append(_Missing(position, formal, Kind.INPUT))
        else:
            hint = f"its inputs are {', '.join(application.formals)}"
            faults.append(Fault(f"{application.operator}: input {formal!r} is missing", hint=hint))
    if faults:
        raise RefusedError(faults)
    return missing


def _choose_names(
    scope: Scope, operator: str, name: str | None, has_parameters: bool
) -> tuple[str, str]:
    """Return the base of the parameters' names, relative to the variable scope, and the operator's
    path (maybe taken).
    """
    naming = scope.naming
    if name is None:
        return draw_automatic_names(scope, naming.kind(operator), has_parameters)
    own = (scope.prefix if naming.prefixes_given else "") + name
    return own, scope.names + own


def draw_automatic_names(scope: Scope, kind: str, has_parameters: bool) -> tuple[str, str]:
    """Return an automatic name relative to the variable scope, and one with the path of the name
    scope.

    They differ only if every scope has its own counters.
    """
    naming = scope.naming
    if naming.counted != "path":
        while True:
            own = scope.prefix + naming.automatic(kind, scope.counters.draw(naming, kind, ""))
            # A taken number is skipped, unless the policy can number the name itself.
            if naming.again is not None or not scope.registry.is_taken(scope.names + own):
                return own, scope.names + own
    owner = scope.prefix + kind
    if has_parameters:
        number = scope.counters.draw(naming, kind, f"parameters of {scope.variables}")
        owner = scope.prefix + naming.automatic(kind, number)
    return owner, scope.names + scope.prefix + kind


def _plan_parameter(
    application: _Application, owner: str, missing: _Missing, shape: Shape, reuse: ReuseLike
) -> ParameterPlan:
    scope, initializers = application.scope, application.signature.initializers
    local = scope.naming.parameter_name(owner, missing.formal)
    # MXNet also copies the operator's attributes to the variable, without effect
    attrs = dict(application.attrs)
    if missing.position in initializers:
        attrs["__init__"] = initializers[missing.position]
    request = ParameterRequest(local, missing.kind, missing.formal, shape, attrs=attrs)
    return plan_parameter(scope, request, reuse=reuse)


def _create(
    application: _Application,
    name: str,
    labels: Mapping[int, str],
    parameters: Mapping[int, ParameterPlan],
    inferred: _InferredOperator,
) -> Outputs:
    scope, registry = application.scope, application.scope.registry
    inputs = dict(application.inputs)
    for position, label in labels.items():
        inputs[position] = create_input(
            scope, label, inferred.inputs[position], attrs=application.attrs
        )
    for position, plan in parameters.items():
        inputs[position] = create_parameter(scope, plan)
    entries = []
    for position, var in sorted(inputs.items()):
        mutates = position in application.mutated
        version = registry.count_mutation(var) if mutates else registry.mutations.get(var.node, 0)
        entries.append(
            var.entry if version == var.entry.version else Entry(var.node, var.entry.index, version)
        )
        registry.refine(var, inferred.inputs[position], inferred.input_dtypes[position])
    node = Node(
        canonical(application.signature.name),
        registry.reserve(name),
        freeze(application.attrs),
        tuple(entries),
    )
    node = msgspec.structs.replace(node, num_outputs=total_outputs(node))
    outputs = tuple(Var(scope.session, entry) for entry in visible_outputs(node))
    registry.add(node, inferred.outputs, inferred.output_dtypes, outputs)
    return outputs


class _InferredOperator(msgspec.Struct, frozen=True):
    """Shapes and dtypes of the inputs by position, and of the visible outputs."""

    inputs: list[Shape]
    input_dtypes: list[str | None]
    outputs: list[Shape]
    output_dtypes: list[str | None]


def _infer_operator(
    operator: str, name: str, attrs: Mapping[str, str], inputs: Mapping[int, Var], count: int
) -> _InferredOperator:
    """Infer shapes and dtypes of an operator with ``count`` inputs; ``inputs`` exist already.

    Raises:
        RefusedError: the inputs do not fit each other; the message names the operator and their
            shapes.
    """
    stubs: dict[Entry, Node] = {}
    shapes, dtypes = {}, {}
    nodes = []
    for position in range(count):
        var = inputs.get(position)
        # One stub for a value passed twice, so that both places determine its shape.
        if var is not None and var.entry in stubs:
            nodes.append(stubs[var.entry])
            continue
        stub = Node("", var.node.name if var is not None else "?")
        nodes.append(stub)
        if var is None:
            continue
        stubs[var.entry] = stub
        if var.shape is not None:
            shapes[stub] = var.shape
        if var.dtype is not None:
            dtypes[stub] = var.dtype
    node = Node(operator, name, attrs, tuple(map(Entry, nodes)))
    order = [*dict.fromkeys(nodes), node]
    # An open dtype is decided by a later operator, or the run.
    inference = infer(
        Graph(tuple(order), (Entry(node),)), shapes, dtypes, nodes=order, yielding=None
    )
    return _InferredOperator(
        [inference.shapes[stub][0] for stub in nodes],
        [inference.types[stub][0] for stub in nodes],
        list(inference.shapes[node]),
        list(inference.types[node]),
    )
