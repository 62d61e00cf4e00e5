"""Variables: inputs under the name scope, parameters under the variable scope.

An operator creates all of its new parameters or none: :func:`plan_parameter` checks everything,
:func:`create_parameter` changes the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.roles import Kind
from graphshare.builder.initializers import ones, uniform, zeros
from graphshare.builder.scopes import Scope, current_scope
from graphshare.builder.var import Reuse, ReuseLike, Settings, Var, Variable, resolve_reuse
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import EMPTY, Entry, Node, freeze
from graphshare.ops.attributes import TYPE_FLAGS
from graphshare.ops.kernel import KernelError, Shape
from graphshare.ops.unification import unify
from graphshare.rewrite.rules.scopes import SEPARATOR
from graphshare.text.format import format_shape

_FLAGS = {name: flag for flag, name in TYPE_FLAGS.items()}
# MXNet's initializers choose the first value by these endings; other names need ``__init__``.
_ENDINGS = (
    "weight",
    "bias",
    "gamma",
    "beta",
    "moving_mean",
    "moving_var",
    "running_mean",
    "running_var",
)
_FIRST_VALUES = {
    **dict.fromkeys(("bias", "beta", "moving_mean", "mean"), zeros()),
    **dict.fromkeys(("gamma", "moving_var", "var"), ones()),
}


class ParameterRequest(msgspec.Struct, frozen=True, eq=False):
    """A requested parameter: ``local`` is its name in the scope.

    ``own`` are its own settings; unset ones are inherited from the scope, except for an auxiliary
    state. ``formal`` is the operator's name for it (``weight``, ``bias``; empty for a standalone
    variable): a scope's initializer applies to weights and standalone variables. An operator's
    ``__init__`` in ``attrs`` takes precedence.
    """

    local: str
    kind: Kind = Kind.PARAMETER
    formal: str = ""
    shape: Shape = None
    own: Settings = Settings()
    attrs: Mapping[str, str] = EMPTY


class ParameterPlan(msgspec.Struct, frozen=True, eq=False):
    """An ``existing`` parameter, or a new one with ``name`` and ``attrs``."""

    name: str
    kind: Kind
    shape: Shape
    settings: Settings
    attrs: Mapping[str, str]
    existing: Variable | None


def plan_parameter(
    scope: Scope, request: ParameterRequest, *, reuse: ReuseLike = None, absolute: bool = False
) -> ParameterPlan:
    """Resolve and check a parameter without creating it; ``absolute`` means a whole name.

    Raises RefusedError as :func:`variable`.
    """
    path = request.local if absolute else scope.variables + request.local
    name = path if absolute else scope.parameter_name(path)
    formal, attrs, own = request.formal, request.attrs, request.own
    settings = own.within(scope.settings) if request.kind is Kind.PARAMETER else own
    if own.initializer is None and (formal not in ("", "weight") or "__init__" in attrs):
        settings = msgspec.structs.replace(settings, initializer=None)
    existing = scope.registry.variables.get(name)
    policy = resolve_reuse(reuse, scope.reuse)
    if policy is None:
        # An override that leads to a parameter asks to share it.
        policy = Reuse.AUTO if name != path or scope.naming.shares_by_name else Reuse.FORBID
    if existing is None:
        _check_new(scope, name, policy)
    else:
        _check_shared(existing, name, policy, request, settings)
    attrs = {**_default_initializer(name, formal), **attrs, **_format_settings(settings)}
    return ParameterPlan(name, request.kind, request.shape, settings, attrs, existing)


def _check_new(scope: Scope, name: str, policy: Reuse) -> None:
    if policy is Reuse.REQUIRE:
        hint = "create it first, or use reuse=AUTO_REUSE, which creates missing variables"
        raise RefusedError(
            Fault(f"variable {name} does not exist, and reuse=True requires it", hint=hint)
        )
    check_name(name)
    if name in scope.registry.names:
        raise RefusedError(
            Fault(
                f"variable {name} would have the name of an operator", hint="give it another name"
            )
        )


def check_name(name: str) -> None:
    """Reject a name that no file can contain.

    Raises:
        RefusedError: ``name`` is empty or contains a NUL character.
    """
    if not name or name.endswith(SEPARATOR) or "\0" in name:
        raise RefusedError(Fault(f"{name!r} is not a valid name for a variable"))


def _check_shared(
    existing: Variable, name: str, policy: Reuse, request: ParameterRequest, settings: Settings
) -> None:
    if policy is Reuse.FORBID:
        hint = "share it with reuse=True or reuse=AUTO_REUSE in a variable_scope, or give this one another name"
        raise RefusedError(Fault(f"variable {name} already exists, disallowed", hint=hint))
    faults, own, shape = [], request.own, request.shape
    if existing.kind is Kind.INPUT:
        faults.append(f"variable {name} is an input and cannot be shared as a parameter")
    try:
        unify(existing.var.shape, shape)
    except KernelError:
        faults.append(
            f"variable {name} is shared with inconsistent shapes: "
            f"{format_shape(existing.var.shape)} and {format_shape(shape)}"
        )
    # An auxiliary state is not trained
    if existing.kind is Kind.PARAMETER and request.kind is Kind.PARAMETER:
        for field in ("dtype", "trainable", "regularizer"):
            old, new = getattr(existing.settings, field), getattr(settings, field)
            if old != new:
                faults.append(f"variable {name} is shared with {field} {old} and {new}")
    if own.initializer is not None and own.initializer != existing.settings.initializer:
        faults.append(
            f"variable {name} is shared with the initializers {existing.settings.initializer} and {own.initializer}"
        )
    if faults:
        hint = "a shared parameter has one shape and one value of each setting"
        raise RefusedError([Fault(text, node=name, hint=hint) for text in faults])


def _default_initializer(name: str, formal: str) -> dict[str, str]:
    """Return ``__init__`` by the formal's name, unless MXNet's initializers recognize the
    parameter's own name.
    """
    if name.endswith(formal or _ENDINGS) or name.endswith(_ENDINGS):
        return {}
    return {"__init__": _FIRST_VALUES.get(formal) or uniform(0.01)}


def _format_settings(settings: Settings) -> dict[str, str]:
    attrs = {}
    if settings.initializer is not None:
        attrs["__init__"] = settings.initializer
    if settings.regularizer is not None:
        attrs["__wd_mult__"] = str(settings.regularizer)
    if settings.trainable is False:
        attrs["__lr_mult__"] = "0.0"
    if settings.dtype is not None:
        attrs["__dtype__"] = dtype_flag(settings.dtype)
    return attrs


def dtype_flag(dtype: str) -> str:
    """Return MXNet's number for a dtype.

    Raises:
        RefusedError: MXNet has no number for it.
    """
    if dtype not in _FLAGS:
        raise RefusedError(
            Fault(
                f"a variable cannot have the dtype {dtype!r}",
                hint=f"dtypes are {', '.join(_FLAGS)}",
            )
        )
    return _FLAGS[dtype]


def parse_shape(shape: Sequence[int | None] | None) -> Shape:
    """Return ``shape`` with None for unknown sizes; 0 is unknown, too.

    Raises:
        RefusedError: it is not a shape, or a scalar's: symbol files without np-shape cannot express
            that.
    """
    if shape is None:
        return None
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else ()
    if not sizes or not all(map(_is_size, sizes)):
        hint = (
            "a shape is a tuple of sizes such as (None, 3), with None for an unknown size; the "
            "shape of a single number is (1,)"
        )
        raise RefusedError(Fault(f"{shape!r} is not a shape for a variable", hint=hint))
    return tuple(int(size) if size else None for size in sizes)


def _is_size(size: int | None) -> bool:
    if size is None:
        return True
    is_whole = hasattr(size, "__index__") and not isinstance(size, bool)
    return is_whole and 0 <= size < 1 << 63


def _format_shape_attribute(shape: Shape) -> dict[str, str]:
    """Return ``__shape__``, if the rank is known; 0 stands for an unknown size."""
    if shape is None:
        return {}
    return {"__shape__": str(tuple(0 if size is None else size for size in shape))}


def create_parameter(scope: Scope, plan: ParameterPlan) -> Var:
    """Return the planned parameter, created if necessary, and refine its shape."""
    if plan.existing is None:
        return _create(scope, plan.name, plan.kind, plan.shape, plan.settings, plan.attrs)
    var = plan.existing.var
    scope.registry.refine(var, plan.shape, None)
    return var


def create_input(
    scope: Scope,
    name: str,
    shape: Shape,
    dtype: str | None = None,
    attrs: Mapping[str, str] = EMPTY,
) -> Var:
    """Create an input; ``name`` is free."""
    return _create(scope, name, Kind.INPUT, shape, Settings(dtype=dtype), attrs)


def _create(
    scope: Scope, name: str, kind: Kind, shape: Shape, settings: Settings, attrs: Mapping[str, str]
) -> Var:
    node = Node(
        "", scope.registry.reserve(name), freeze(dict(sorted(attrs.items()))), num_outputs=1
    )
    return scope.registry.add_variable(
        Variable(Var(scope.session, Entry(node)), kind, settings), shape
    )


def variable(
    name: str | None = None,
    shape: Sequence[int | None] | None = None,
    *,
    initializer: str | None = None,
    regularizer: float | None = None,
    dtype: str | None = None,
    trainable: bool | None = None,
    reuse: ReuseLike = None,
    absolute: bool = False,
) -> Var:
    """Return a new parameter, or an existing one of that name if the scope or ``reuse`` allows
    sharing.

    Its name is relative to the variable scope and resolved by the overrides, or with ``absolute``
    the whole name; by default it is automatic. Unset settings are inherited from the scopes.

    Raises:
        RefusedError: it exists and must not, or does not and must; it is shared with a different
            shape or settings.
    """
    scope = current_scope()
    if name is None:
        if reuse is True or resolve_reuse(reuse, None) is not None:
            raise RefusedError(
                Fault(
                    "a variable without a name cannot be reused", hint="name it, or leave reuse out"
                )
            )
        name = _draw_variable_name(scope)
    own = Settings(initializer, regularizer, dtype, trainable)
    sizes = parse_shape(shape)
    attrs = _format_shape_attribute(sizes)
    request = ParameterRequest(name, shape=sizes, own=own, attrs=attrs)
    return create_parameter(scope, plan_parameter(scope, request, reuse=reuse, absolute=absolute))


def _draw_variable_name(scope: Scope) -> str:
    kind = scope.naming.kind("var")
    return scope.prefix + scope.naming.automatic(
        kind, scope.counters.draw(scope.naming, kind, scope.variables)
    )


def placeholder(
    name: str | None = None, shape: Sequence[int | None] | None = None, *, dtype: str | None = None
) -> Var:
    """Create an input to feed, named relative to the name scope; the policy handles a taken name.

    Raises:
        RefusedError: the name is taken, and the naming policy does not number repeated names.
    """
    scope = current_scope()
    local = _draw_variable_name(scope) if name is None else name
    check_name(local)
    sizes = parse_shape(shape)
    attrs = _format_shape_attribute(sizes)
    if dtype is not None:
        attrs["__dtype__"] = dtype_flag(dtype)
    return create_input(
        scope, scope.registry.find_free(scope.names + local, scope.naming), sizes, dtype, attrs
    )
