"""Variables: inputs under the name scope, parameters under the variable scope, shared as the scopes say.

Making one has two steps, so that an operator with several new parameters makes all of them or none: :func:`planned` finds the
name and checks everything, :func:`made` changes the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.roles import Kind
from graphshare.analysis.shapes import TYPE_FLAGS
from graphshare.builder.initializers import ones, uniform, zeros
from graphshare.builder.registry import Variable
from graphshare.builder.scopes import Scope, current_scope
from graphshare.builder.settings import Reuse, ReuseLike, Settings, reuse_of
from graphshare.builder.var import Var
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import EMPTY, VARIABLE, Entry, Node
from graphshare.kernels.inference import unify
from graphshare.kernels.kernel import KernelError, Shape
from graphshare.rewrite.rules.scopes import SEPARATOR
from graphshare.text.format import format_shape

_FLAGS = {name: flag for flag, name in TYPE_FLAGS.items()}
# Names that end so get their first value by that (and are parameters to whoever reads the file).
_ENDINGS = ("weight", "bias", "gamma", "beta", "moving_mean", "moving_var", "running_mean", "running_var")
_FIRST = {
    **dict.fromkeys(("bias", "beta", "moving_mean", "mean"), zeros()),
    **dict.fromkeys(("gamma", "moving_var", "var"), ones()),
}


class Planned(msgspec.Struct, frozen=True, eq=False):
    """A variable that is to be used: an ``existing`` one, or a new one of ``name`` and ``attrs``."""

    name: str
    kind: Kind
    shape: Shape
    settings: Settings
    attrs: Mapping[str, str]
    existing: Variable | None


def planned(
    scope: Scope,
    local: str,
    *,
    kind: Kind = Kind.PARAMETER,
    formal: str = "",
    shape: Shape = None,
    own: Settings = Settings(),  # noqa: B008 - it is frozen
    attrs: Mapping[str, str] | None = None,
    reuse: ReuseLike = None,
    absolute: bool = False,
) -> Planned:
    """The parameter that ``local`` means in ``scope``, checked and not made yet.

    ``own`` are settings given for it alone; the scope's complete them, but for an auxiliary state. ``formal`` is what it is to
    its operator (``weight``, ``bias``; empty for a variable by itself): a scope's initializer is for weights and variables by
    themselves. An ``__init__`` in ``attrs`` is the operator's own wish and stands before it.

    Raises:
        RefusedError: it exists and may not, or does not and must; or it is shared with another shape or other settings.
    """
    path = local if absolute else scope.variables + local
    name = path if absolute else scope.parameter_name(path)
    attrs = attrs or {}
    settings = own.within(scope.settings) if kind is Kind.PARAMETER else own
    if own.initializer is None and (formal not in ("", "weight") or "__init__" in attrs):
        settings = msgspec.structs.replace(settings, initializer=None)
    existing = scope.registry.variables.get(name)
    policy = reuse_of(reuse, scope.reuse)
    if policy is None:
        policy = Reuse.AUTO if name != path or scope.naming.shares_by_name else Reuse.FORBID
    if existing is None:
        _check_new(scope, name, policy)
    else:
        _check_shared(existing, name, policy, kind, shape, settings, own)
    return Planned(name, kind, shape, settings, {**first_value(name, formal), **attrs, **_hidden(settings)}, existing)


def _check_new(scope: Scope, name: str, policy: Reuse) -> None:
    if policy is Reuse.REQUIRE:
        hint = "make it first, or share with reuse=AUTO_REUSE, which makes what does not exist"
        raise RefusedError(Fault(f"variable {name} does not exist, and reuse=True demands that it does", hint=hint))
    check_name(name)
    if name in scope.registry.names:
        raise RefusedError(Fault(f"variable {name} would have the name of an operator", hint="give it another name"))


def check_name(name: str) -> None:
    """Refuses what no file can hold: an empty name, or one with a NUL character.

    Raises:
        RefusedError: it is such a name.
    """
    if not name or name.endswith(SEPARATOR) or "\0" in name:
        raise RefusedError(Fault(f"{name!r} is no name for a variable"))


def _check_shared(
    existing: Variable, name: str, policy: Reuse, kind: Kind, shape: Shape, settings: Settings, own: Settings
) -> None:
    if policy is Reuse.FORBID:
        hint = "share it with reuse=True or reuse=AUTO_REUSE in a variable_scope, or give this one another name"
        raise RefusedError(Fault(f"variable {name} already exists, disallowed", hint=hint))
    faults = []
    if existing.kind is Kind.INPUT:
        faults.append(f"variable {name} is an input and cannot be shared as a parameter")
    try:
        unify(existing.var.shape, shape)
    except KernelError:
        faults.append(
            f"variable {name} is shared with inconsistent shapes: {format_shape(existing.var.shape)} and {format_shape(shape)}"
        )
    both = existing.kind is Kind.PARAMETER and kind is Kind.PARAMETER  # an auxiliary state is not trained
    for field in ("dtype", "trainable", "regularizer") if both else ():
        old, new = getattr(existing.settings, field), getattr(settings, field)
        if old != new:
            faults.append(f"variable {name} is shared with {field} {old} and {new}")
    if own.initializer is not None and own.initializer != existing.settings.initializer:
        faults.append(f"variable {name} is shared with the initializers {existing.settings.initializer} and {own.initializer}")
    if faults:
        raise RefusedError([Fault(text, node=name, hint="one parameter has one of each") for text in faults])


def first_value(name: str, formal: str) -> dict[str, str]:
    """``__init__`` for a parameter whose name tells MXNet's initializers nothing: by what it is, as MXNet would by its name."""
    if name.endswith(formal or _ENDINGS) or name.endswith(_ENDINGS):
        return {}
    return {"__init__": _FIRST.get(formal) or uniform(0.01)}


def _hidden(settings: Settings) -> dict[str, str]:
    """Settings as MXNet reads them off a variable."""
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
    """MXNet's number of a type.

    Raises:
        RefusedError: it has none.
    """
    if dtype not in _FLAGS:
        raise RefusedError(Fault(f"no variable can have the type {dtype!r}", hint=f"types are {', '.join(_FLAGS)}"))
    return _FLAGS[dtype]


def checked_shape(shape: Sequence[int | None] | None) -> Shape:
    """``shape`` with None for sizes that are not known, as 0 says too.

    Raises:
        RefusedError: it is no shape, or that of a scalar, for which symbol files without np-shape have no words.
    """
    if shape is None:
        return None
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else ()
    if not sizes or not all(size is None or (_is_whole(size) and 0 <= size < 1 << 63) for size in sizes):
        hint = "a shape is a tuple of sizes as (None, 3), None where a size is not known; of a single number it is (1,)"
        raise RefusedError(Fault(f"{shape!r} is no shape for a variable", hint=hint))
    return tuple(int(size) if size else None for size in sizes)


def _is_whole(size: object) -> bool:
    return hasattr(size, "__index__") and not isinstance(size, bool)


def shape_text(shape: Sequence[int | None]) -> str:
    """``__shape__`` as MXNet spells it; 0 stands for a size that is not known."""
    return str(tuple(0 if size is None else size for size in shape))


def made(scope: Scope, plan: Planned) -> Var:
    """The planned variable, made unless it exists; what is newly known of its shape is kept."""
    registry = scope.registry
    if plan.existing is not None:
        var = plan.existing.var
        registry.shapes[var.node] = [unify(var.shape, plan.shape)]
        return var
    node = Node(VARIABLE, registry.take(plan.name), dict(sorted(plan.attrs.items())), num_outputs=1)
    var = Var(scope.session, Entry(node))
    registry.add(node, [plan.shape], [plan.settings.dtype], (var,))
    registry.variables[plan.name] = Variable(var, plan.kind, plan.settings)
    return var


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
    """A parameter: a new one, or the existing one of that name where the scope or ``reuse`` lets it be shared.

    Its name stands under the variable scope, as scope overrides resolve it; with ``absolute`` it is the whole name. Without a
    name it gets an automatic one. What is not given is inherited from the scopes.

    Raises:
        RefusedError: it exists and may not, or does not and must; it is shared with another shape or other settings.
    """
    scope = current_scope()
    if name is None:
        if reuse is True or reuse_of(reuse, None) is not None:
            raise RefusedError(Fault("a variable without a name cannot be reused", hint="name it, or leave reuse out"))
        name = automatic_variable_name(scope)
    own = Settings(initializer, regularizer, dtype, trainable)
    sizes = checked_shape(shape)
    attrs = {} if sizes is None else {"__shape__": shape_text(sizes)}
    return made(scope, planned(scope, name, shape=sizes, own=own, attrs=attrs, reuse=reuse, absolute=absolute))


def automatic_variable_name(scope: Scope) -> str:
    """The next automatic name of a variable, below the scope's path."""
    kind = scope.naming.kind("var")
    return scope.prefix + scope.naming.automatic(kind, scope.counters.draw(scope.naming, kind, scope.variables))


def placeholder(name: str | None = None, shape: Sequence[int | None] | None = None, *, dtype: str | None = None) -> Var:
    """An input, to be fed. Its name stands under the name scope, as an operator's does; a taken one follows the policy.

    Raises:
        RefusedError: the name is taken, and the naming policy does not number repeated names.
    """
    scope = current_scope()
    local = automatic_variable_name(scope) if name is None else name
    check_name(local)
    attrs = {}
    sizes = checked_shape(shape)
    if sizes is not None:
        attrs["__shape__"] = shape_text(sizes)
    if dtype is not None:
        attrs["__dtype__"] = dtype_flag(dtype)
    return made_input(scope, scope.registry.free(scope.names + local, scope.naming), sizes, dtype, attrs)


def made_input(scope: Scope, name: str, shape: Shape, dtype: str | None = None, attrs: Mapping[str, str] = EMPTY) -> Var:
    """A new input called ``name``, which is free."""
    registry = scope.registry
    node = Node(VARIABLE, registry.take(name), dict(sorted(attrs.items())), num_outputs=1)
    var = Var(scope.session, Entry(node))
    registry.add(node, [shape], [dtype], (var,))
    registry.variables[node.name] = Variable(var, Kind.INPUT, Settings(dtype=dtype))
    return var
