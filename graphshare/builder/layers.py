"""Layers: several operators that have one name and parameters of their own, named by the session's policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphshare.builder.operators import apply, automatic_names
from graphshare.builder.scopes import current_scope
from graphshare.builder.settings import ReuseLike, Settings
from graphshare.builder.var import Var
from graphshare.builder.variables import checked_shape, made, planned
from graphshare.errors import Fault, RefusedError


class Layer:
    """The names of a layer that is being written: ``kind`` is what it is called after when it has no ``name``.

    Parameters belong to the name, so a name given twice shares all of them where the reuse policy allows it. Operators are
    called after it too, and a name that is taken is numbered or refused as the naming policy has it: outputs are never shared.

    Raises:
        RefusedError: ``reuse=True`` without a name to find the parameters by.
    """

    def __init__(self, kind: str, name: str | None = None, *, reuse: ReuseLike = None) -> None:
        if name is None and reuse is True:
            hint = "give name=, or the scope where the parameters are"
            raise RefusedError(Fault(f"{kind}: reuse=True needs a name to find the parameters by", hint=hint))
        self._scope = current_scope()
        naming = self._scope.naming
        self.name = automatic_names(self._scope, naming.kind(kind), True)[0] if name is None else name
        self._reuse = reuse
        self._formals: dict[str, int] = {}
        self._temporaries = 0

    def parameter(self, formal: str, shape: Sequence[int] | None = None, **settings: Any) -> Var:
        """The layer's parameter of that sort (``weight``, ``bias``); the second of one sort is numbered 1.

        ``settings`` are those of :class:`graphshare.builder.settings.Settings`.
        """
        number = self._formals.get(formal, 0)
        self._formals[formal] = number + 1
        local = self._scope.naming.parameter_name(self.name, formal, number)
        own, sizes = Settings(**settings), checked_shape(shape)
        return made(self._scope, planned(self._scope, local, formal=formal, shape=sizes, own=own, reuse=self._reuse))

    def temporary(self) -> str | None:
        """The name for the operator of an inner result; None under policies where it is named as any operator."""
        self._temporaries += 1
        return self._scope.naming.temporary_name(self.name, self._temporaries - 1)


def fully_connected(
    x: Var,
    size: int,
    *,
    name: str | None = None,
    reuse: ReuseLike = None,
    bias: bool = True,
    activation: str | None = None,
    weight_initializer: str | None = None,
    bias_initializer: str | None = None,
) -> Var:
    """``x`` times a weight, plus a bias, through ``activation`` (as ``sigmoid``, ``relu``); one operator for each.

    The last operator bears the layer's name, those before it are temporaries.

    Raises:
        RefusedError: the second axis of ``x`` and those behind it are not known, or as :class:`Layer` and operators.
    """
    layer = Layer("fc", name, reuse=reuse)
    if x.shape is None or None in x.shape[1:]:
        raise RefusedError(Fault(f"fully_connected: the size of {x!r} behind its first axis is not known"))
    units = 1
    for dimension in x.shape[1:]:
        units *= dimension or 0
    parts: list[tuple[str, list[Var], dict[str, Any]]] = []
    weight = layer.parameter("weight", (size, units), initializer=weight_initializer)
    parts.append(("FullyConnected", [weight], {"num_hidden": size, "no_bias": True}))
    if bias:
        parts.append(("broadcast_add", [layer.parameter("bias", (1, size), initializer=bias_initializer)], {}))
    if activation is not None:
        parts.append(("Activation", [], {"act_type": activation}))
    for number, (operator, others, attrs) in enumerate(parts, start=1):
        last = number == len(parts)
        x = apply(operator, x, *others, name=layer.name if last else layer.temporary(), **attrs)[0]
    return x
