"""Models as functions: opened under a variable scope of their own, with their weights, outputs and inner results by scope."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any

import msgspec

from graphshare.builder.scopes import Scope, variable_scope
from graphshare.builder.settings import ReuseLike
from graphshare.builder.var import Var
from graphshare.ir.graph import VARIABLE


class Model(msgspec.Struct, frozen=True, eq=False):
    """What a model function made: its ``output``, and the scope it was made in.

    Parameters are found by the variable scope, so clones that share them list the same ones; outputs by the name scope, which
    is the clone's own.
    """

    output: Var
    scope: Scope

    @property
    def name(self) -> str:
        """The name of its output."""
        return self.output.name

    def get_weights(self) -> list[Var]:
        """Its parameters and auxiliary states, in the order they were made."""
        known = self.scope.registry.parameters()
        return [variable.var for name, variable in known.items() if name.startswith(self.scope.variables)]

    def get_outputs(self) -> list[Var]:
        """The outputs of its operators, in the order they were made."""
        made = self.scope.registry.outputs.items()
        operators = [v for node, v in made if node.op != VARIABLE and node.name.startswith(self.scope.names)]
        return [output for outputs in operators for output in outputs]

    def get_middles(self, pattern: str = "*/out") -> list[Var]:
        """Those of its outputs whose operators a glob finds: by default what is called ``out``, as blocks call their last."""
        return [output for output in self.get_outputs() if fnmatchcase(output.node.name, pattern)]


def model(name: str) -> Callable[[Callable[..., Var]], Callable[..., Model]]:
    """A model function out of a function that applies operators and returns the output.

    Calls also take ``reuse`` and ``scope``: the model is authored under ``variable_scope(scope or name, reuse=reuse)``.
    """

    def decorated(body: Callable[..., Var]) -> Callable[..., Model]:
        @wraps(body)
        def made(*args: Any, reuse: ReuseLike = None, scope: str | None = None, **options: Any) -> Model:
            with variable_scope(scope or name, reuse=reuse) as inner:
                return Model(body(*args, **options), inner)

        return made

    return decorated
