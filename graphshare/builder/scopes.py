"""Name scopes, variable scopes, sharing blocks and naming policies, as nested context managers.

The state is one frozen record in a context variable, so threads and tasks do not see each other's
scopes. A variable scope is a name scope, too, like Caffe2's ``NameScope``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from graphshare.arguments import check_arguments
from graphshare.builder.naming import Counters, Naming
from graphshare.builder.var import Owner, Registry, Reuse, ReuseLike, Settings, resolve_reuse
from graphshare.errors import Fault, RefusedError
from graphshare.rewrite.rules.scopes import (
    SEPARATOR,
    Overrides,
    make_overrides,
    split_name,
    split_scope,
)

_NO_OVERRIDES = Overrides()


class Scope(msgspec.Struct, frozen=True, eq=False):
    """The state at one place. ``names`` and ``variables`` are paths, empty or ending in a slash.

    ``outer`` is the state before the session was entered.
    """

    session: Owner
    naming: Naming
    counters: Counters
    prefix: str = ""
    names: str = ""
    variables: str = ""
    reuse: Reuse | None = None
    settings: Settings = Settings()
    overrides: Overrides = _NO_OVERRIDES
    outer: Scope | None = None

    @property
    def registry(self) -> Registry:
        return self.session.registry

    def parameter_name(self, path: str) -> str:
        return self.overrides.parameter_name(*split_name(path))

    @property
    def name(self) -> str:
        return self.variables.removesuffix(SEPARATOR)


_CURRENT: ContextVar[Scope | None] = ContextVar("graphshare_scope", default=None)
# Filled later, because the session imports this module.
_default_scopes: list[Callable[[], Scope]] = []


def current_scope() -> Scope:
    """Return the current scope, by default the root of the default session."""
    return _CURRENT.get() or _default_scopes[0]()


def register_default_scope(default_scope: Callable[[], Scope]) -> None:
    """Set the default session's root scope; the layer above defines it."""
    _default_scopes[:] = [default_scope]


def enter(scope: Scope) -> None:
    """Make ``scope`` current until :func:`leave`."""
    # Threads would share a token in the session, so the record has the outer scope.
    _CURRENT.set(msgspec.structs.replace(scope, outer=_CURRENT.get()))


def leave() -> None:
    """Restore the scope before the last :func:`enter`."""
    scope = _CURRENT.get()
    _CURRENT.set(scope.outer if scope is not None else None)


@contextmanager
def _open_inner(scope: Scope, **changes: object) -> Iterator[Scope]:
    inner = msgspec.structs.replace(scope, **changes)
    token = _CURRENT.set(inner)
    try:
        yield inner
    finally:
        _CURRENT.reset(token)


def _open_path(scope: Scope, name: str, *, absolute: bool = False) -> str:
    path = name if absolute else scope.names + name
    if scope.naming.unique_scopes:
        path = scope.registry.reserve(scope.registry.find_free(path, scope.naming))
    return path + SEPARATOR


def check_scope_name(name: str) -> str:
    """Return ``name`` without its final slash.

    Raises:
        RefusedError: ``name`` is empty, or has an empty component or a NUL character.
    """
    stripped = name.removesuffix(SEPARATOR)
    if "" in stripped.split(SEPARATOR) or "\0" in stripped:
        raise RefusedError(
            Fault(
                f"{name!r} is not a scope", hint="a scope is one or more names with / between them"
            )
        )
    return stripped


@check_arguments
@contextmanager
def name_scope(name: str, *, absolute: bool = False) -> Iterator[Scope]:
    """Name the operators and inputs inside ``name/...``; parameters keep their names.

    Under a policy with ``unique_scopes`` (TensorFlow's) a scope opened again is ``name_1``. With
    ``absolute``, ``name`` is the whole path (empty for the root), regardless of the outer scopes.
    """
    scope = current_scope()
    names = (
        ""
        if absolute and not name
        else _open_path(scope, check_scope_name(name), absolute=absolute)
    )
    with _open_inner(scope, names=names) as inner:
        yield inner


@check_arguments
@contextmanager
def variable_scope(
    name: str | Scope | None = None,
    *,
    reuse: ReuseLike = None,
    initializer: str | None = None,
    regularizer: float | None = None,
    dtype: str | None = None,
    trainable: bool | None = None,
    absolute: bool = False,
) -> Iterator[Scope]:
    """Name parameters, operators and inputs inside ``name/...`` and set defaults for the variables.

    Without a name only settings change. With ``absolute``, ``name`` is the whole path of the
    parameters (empty for the root), regardless of the outer scopes; the :class:`Scope` of an
    earlier block has the same effect. Operators still follow the name scope.

    ``reuse``: None inherits; True requires that every parameter exists already; ``AUTO_REUSE``
    shares parameters that exist. An inner scope undoes neither.
    """
    scope = current_scope()
    settings = Settings(initializer, regularizer, dtype, trainable)
    changes: dict[str, object] = {"reuse": resolve_reuse(reuse, scope.reuse)}
    if isinstance(name, Scope):
        settings = settings.within(name.settings)
        # The policy of the scope's first block applies again.
        changes["reuse"] = resolve_reuse(reuse, resolve_reuse(name.reuse, scope.reuse))
        changes["variables"] = name.variables
        if name.name:
            # As in TensorFlow, a scope entered again opens a name scope with its last component.
            changes["names"] = _open_path(scope, name.name.rpartition(SEPARATOR)[2])
    elif absolute and not name:
        changes["variables"] = ""
    elif name is not None:
        own = check_scope_name(name)
        changes["variables"] = ("" if absolute else scope.variables) + own + SEPARATOR
        changes["names"] = _open_path(scope, own)
    changes["settings"] = settings.within(scope.settings)
    with _open_inner(scope, **changes) as inner:
        yield inner


@check_arguments
@contextmanager
def unique_names(naming: Naming | None = None, *, prefix: str = "") -> Iterator[Scope]:
    """Restart the counters of automatic names inside, under ``naming`` if given.

    ``prefix`` precedes automatic names, and under MXNet's policy also the user's names of
    operators. Layers in two such blocks get equal names, so they share parameters if the reuse
    policy allows it; operators never share a name.
    """
    scope = current_scope()
    changes: dict[str, object] = {"counters": Counters(), "prefix": prefix}
    if naming is not None:
        changes["naming"] = naming
    with _open_inner(scope, **changes) as inner:
        yield inner


@check_arguments
@contextmanager
def parameter_sharing(overrides: Mapping[str, str]) -> Iterator[Scope]:
    """Map the parameters of each left scope to its right scope, like Caffe2's ``ParameterSharing``.

    Scopes are relative to the current variable scope. Overrides are resolved recursively, the
    deepest scope first, and the rest of the path is kept; of two rules for one scope the inner
    block's applies. Operators are not affected. A parameter that an override leads to is shared
    without any ``reuse``.

    Raises:
        RefusedError: a rule would apply to its own result, or rules form a cycle (shown as a path);
            the block is not entered.
    """
    scope = current_scope()
    rules = make_overrides(overrides, current=split_scope(scope.variables))
    with _open_inner(scope, overrides=Overrides((*scope.overrides.rules, *rules))) as inner:
        yield inner
