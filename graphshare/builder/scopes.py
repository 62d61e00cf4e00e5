"""Where authoring stands: name scopes, variable scopes, sharing blocks and naming policies.

All are context managers that nest, and undo what they did when they are left, on an exception too. The state is one frozen
record in a context variable, so threads (and tasks) do not see each other's scopes.

Operators and inputs take the name scope. Parameters take the variable scope alone, as it is resolved by the scope overrides
that :func:`parameter_sharing` sets. A variable scope is a name scope too. Caffe2's ``NameScope``, which parameters and
operators both take, is therefore :func:`variable_scope`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.builder.counters import Counters
from graphshare.builder.naming import Naming
from graphshare.builder.settings import Reuse, ReuseLike, Settings, reuse_of
from graphshare.errors import Fault, RefusedError
from graphshare.rewrite.rules.scopes import SEPARATOR, Overrides, make_overrides, split_name, split_scope

if TYPE_CHECKING:
    from graphshare.builder.registry import Registry
    from graphshare.builder.session import Session

_NO_OVERRIDES = Overrides()


class Scope(msgspec.Struct, frozen=True, eq=False):
    """What holds at one place. ``names`` and ``variables`` are paths that are empty or end in a slash.

    ``outer`` is what held before the session was entered.
    """

    session: Session
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
        """What the session knows."""
        return self.session.registry

    def parameter_name(self, path: str) -> str:
        """The name of the parameter at ``path``, as the scope overrides resolve it."""
        return self.overrides.parameter_name(*split_name(path))

    @property
    def name(self) -> str:
        """The variable scope's path without the slash at its end."""
        return self.variables.removesuffix(SEPARATOR)


_CURRENT: ContextVar[Scope | None] = ContextVar("graphshare_scope", default=None)


def current_scope() -> Scope:
    """The scope that holds here; that of the default session where none was entered."""
    found = _CURRENT.get()
    if found is not None:
        return found
    from graphshare.builder.session import default_session

    return default_session().root


def enter(scope: Scope) -> None:
    """``scope`` holds until :func:`leave`."""
    _CURRENT.set(msgspec.structs.replace(scope, outer=_CURRENT.get()))


def leave() -> None:
    """What held before the last :func:`enter` holds again."""
    scope = _CURRENT.get()
    _CURRENT.set(scope.outer if scope is not None else None)


@contextmanager
def entered(scope: Scope) -> Iterator[Scope]:
    """``scope`` holds inside of the block."""
    token = _CURRENT.set(scope)
    try:
        yield scope
    finally:
        _CURRENT.reset(token)


def _inner(scope: Scope, **changes: Any) -> Scope:
    return msgspec.structs.replace(scope, **changes)


def _named_path(scope: Scope, name: str, *, absolute: bool = False) -> str:
    path = name if absolute else scope.names + name
    if scope.naming.unique_scopes:
        path = scope.session.registry.unique(path, scope.naming)
    return path + SEPARATOR


def check_scope_name(name: str) -> str:
    """``name`` without a slash at its end.

    Raises:
        RefusedError: it is empty, or has an empty component or a NUL character.
    """
    stripped = name.removesuffix(SEPARATOR)
    if "" in stripped.split(SEPARATOR) or "\0" in stripped:
        raise RefusedError(Fault(f"{name!r} is no scope", hint="a scope is one or more names with / between them"))
    return stripped


@contextmanager
def name_scope(name: str, *, absolute: bool = False) -> Iterator[Scope]:
    """Operators and inputs inside are called ``name/...``; parameters keep their names.

    Under a policy with ``unique_scopes`` (TensorFlow's) a scope that is opened again is ``name_1``. ``absolute`` makes ``name``
    the whole path, whatever scopes are around, and an empty one the root.
    """
    scope = current_scope()
    names = "" if absolute and not name else _named_path(scope, check_scope_name(name), absolute=absolute)
    with entered(_inner(scope, names=names)) as inner:
        yield inner


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
    """Parameters inside are called ``name/...``, and operators and inputs too; what is given holds for variables inside.

    Without a name only settings change. ``absolute`` makes ``name`` the whole path of the parameters inside, whatever scopes
    are around, and an empty one the root; so does the :class:`Scope` that an earlier block gave. Operators are where they
    stand all the same.

    ``reuse``: None inherits; True demands that every parameter exists already, ``AUTO_REUSE`` takes those that do. Neither is
    undone by a scope inside.
    """
    scope = current_scope()
    settings = Settings(initializer, regularizer, dtype, trainable)
    changes: dict[str, Any] = {"reuse": reuse_of(reuse, scope.reuse)}
    if isinstance(name, Scope):
        settings = settings.within(name.settings)
        changes["reuse"] = reuse_of(reuse, reuse_of(name.reuse, scope.reuse))
        changes["variables"] = name.variables
        if name.name:
            changes["names"] = _named_path(scope, name.name.rpartition(SEPARATOR)[2])
    elif absolute and not name:
        changes["variables"] = ""
    elif name is not None:
        own = check_scope_name(name)
        changes["variables"] = ("" if absolute else scope.variables) + own + SEPARATOR
        changes["names"] = _named_path(scope, own)
    changes["settings"] = settings.within(scope.settings)
    with entered(_inner(scope, **changes)) as inner:
        yield inner


@contextmanager
def unique_names(naming: Naming | None = None, *, prefix: str = "") -> Iterator[Scope]:
    """Automatic names count from 0 again inside, under ``naming`` where that is given; then as before.

    ``prefix`` stands before automatic names, and under MXNet's policy before those that the user gave to operators. Two blocks
    give their layers equal names and so equal parameters, which are shared where the reuse policy lets them; operators never
    share a name.
    """
    scope = current_scope()
    changes: dict[str, Any] = {"counters": Counters(), "prefix": prefix}
    if naming is not None:
        changes["naming"] = naming
    with entered(_inner(scope, **changes)) as inner:
        yield inner


@contextmanager
def parameter_sharing(overrides: Mapping[str, str]) -> Iterator[Scope]:
    """Parameters of the scope on the left are those of the scope on the right; Caffe2's ``ParameterSharing``.

    Both are below the current variable scope. Overrides are resolved recursively, the deepest scope first, what follows it is
    kept; blocks nest, and of two rules for one scope the inner one holds. Operators stay where they are. A parameter that an
    override leads to is shared without any ``reuse``.

    Raises:
        RefusedError: a rule that would apply to its own result, or a cycle, shown as a path; the block is not entered.
    """
    scope = current_scope()
    rules = make_overrides(overrides, current=split_scope(scope.variables))
    with entered(_inner(scope, overrides=Overrides((*scope.overrides.rules, *rules)))) as inner:
        yield inner
