"""Layers and models: several operators under one name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any

import msgspec

from graphshare.builder.apply_operator import apply, check_reuse, draw_automatic_names
from graphshare.builder.scopes import Scope, current_scope, variable_scope
from graphshare.builder.var import ReuseLike, Settings, Var
from graphshare.builder.variables import (
    ParameterRequest,
    create_parameter,
    parse_shape,
    plan_parameter,
)
from graphshare.errors import Fault, RefusedError
from graphshare.ops.unification import count_elements


class Layer:
    """The names of a layer under construction, by default after its ``kind``.

    Two layers of one name share all parameters if the reuse policy allows it. Outputs are never
    shared: the naming policy numbers or rejects a taken operator name.

    Raises:
        RefusedError: ``reuse=True`` without a name by which to find the parameters.
    """

    def __init__(self, kind: str, name: str | None = None, *, reuse: ReuseLike = None) -> None:
        check_reuse(kind, name, reuse)
        self._scope = current_scope()
        naming = self._scope.naming
        self.name = (
            draw_automatic_names(self._scope, naming.kind(kind), True)[0] if name is None else name
        )
        self._reuse = reuse
        self._formals: dict[str, int] = {}
        self._temporaries = 0

    def parameter(
        self,
        formal: str,
        shape: Sequence[int] | None = None,
        *,
        initializer: str | None = None,
        regularizer: float | None = None,
        dtype: str | None = None,
        trainable: bool | None = None,
    ) -> Var:
        """Return the parameter ``formal`` (``weight``, ``bias``); the second one of a formal gets
        number 1.
        """
        number = self._formals.get(formal, 0)
        self._formals[formal] = number + 1
        local = self._scope.naming.parameter_name(self.name, formal, number)
        own = Settings(initializer, regularizer, dtype, trainable)
        request = ParameterRequest(local, formal=formal, shape=parse_shape(shape), own=own)
        plan = plan_parameter(self._scope, request, reuse=self._reuse)
        return create_parameter(self._scope, plan)

    def temporary(self) -> str | None:
        """Return a name for an inner result; None if the policy has none."""
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
    """Return ``x`` times a weight, plus a bias, through ``activation`` (``sigmoid``, ``relu`` ...),
    one operator each.

    The last operator has the layer's name; those before it are temporaries.

    Raises:
        RefusedError: a size of ``x`` after the first axis is unknown, or :class:`Layer` or an
            operator raises it.
    """
    layer = Layer("fc", name, reuse=reuse)
    units = None if x.shape is None else count_elements(x.shape[1:])
    if units is None:
        raise RefusedError(
            Fault(f"fully_connected: the size of {x!r} after its first axis is not known")
        )
    parts: list[tuple[str, list[Var], dict[str, Any]]] = []
    weight = layer.parameter("weight", (size, units), initializer=weight_initializer)
    parts.append(("FullyConnected", [weight], {"num_hidden": size, "no_bias": True}))
    if bias:
        parts.append(
            (
                "broadcast_add",
                [layer.parameter("bias", (1, size), initializer=bias_initializer)],
                {},
            )
        )
    if activation is not None:
        parts.append(("Activation", [], {"act_type": activation}))
    for number, (operator, others, attrs) in enumerate(parts, start=1):
        operator_name = layer.name if number == len(parts) else layer.temporary()
        x = apply(operator, x, *others, name=operator_name, **attrs)[0]
    return x


def constant(
    value: float, shape: Sequence[int] = (1,), *, dtype: str = "float32", name: str | None = None
) -> Var:
    """Return an array filled with ``value``."""
    return apply("_full", name=name, shape=tuple(shape), value=value, dtype=dtype)[0]


class Model(msgspec.Struct, frozen=True, eq=False):
    """The ``output`` of a model function, and the scope in which it was created.

    The variable scope finds parameters, so clones that share them list the same ones. The name
    scope finds outputs: each clone has its own.
    """

    output: Var
    scope: Scope

    @property
    def name(self) -> str:
        return self.output.name

    def get_weights(self) -> list[Var]:
        """Return the parameters and auxiliary states, in the order of creation."""
        parameters = self.scope.registry.parameters()
        # The path ends in a slash, so a scope with a longer name does not match.
        return [
            variable.var
            for name, variable in parameters.items()
            if name.startswith(self.scope.variables)
        ]

    def get_outputs(self) -> list[Var]:
        """Return the outputs of all operators, in the order of creation."""
        outputs: list[Var] = []
        for node, own in self.scope.registry.outputs.items():
            if not node.is_variable and node.name.startswith(self.scope.names):
                outputs += own
        return outputs

    def get_middles(self, pattern: str = "*/out") -> list[Var]:
        """Return the outputs whose operators match a glob; by default a block's last, called
        ``out``.
        """
        return [output for output in self.get_outputs() if fnmatchcase(output.node.name, pattern)]


def model(name: str) -> Callable[[Callable[..., Var]], Callable[..., Model]]:
    """Turn a function that applies operators and returns the output into a model function.

    Its calls also take ``reuse`` and ``scope``, for ``variable_scope(scope or name, reuse=reuse)``
    around the model.
    """

    def decorate(body: Callable[..., Var]) -> Callable[..., Model]:
        @wraps(body)
        def build(
            *args: Any, reuse: ReuseLike = None, scope: str | None = None, **options: Any
        ) -> Model:
            with variable_scope(scope or name, reuse=reuse) as inner:
                return Model(body(*args, **options), inner)

        return build

    return decorate
