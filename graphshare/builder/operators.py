"""The operators of MXNet as functions of :class:`Var`.

    from graphshare.builder import operators as op

    x = op.FullyConnected(x, num_hidden=10)
    x = op.Convolution(x, weight=shared, kernel=(3, 3), num_filter=8, no_bias=True, name="conv1")

Names are MXNet's, including aliases. Inputs are passed in order or by their formal names;
everything else is an attribute, checked against the operator. As in MXNet, a missing parameter or
label becomes a variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphshare.builder.apply_operator import apply
from graphshare.builder.var import Var
from graphshare.ops.registry import list_known_names, lookup
from graphshare.text.names import did_you_mean

__all__ = ["apply"]


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__") or lookup(name) is None:
        raise AttributeError(
            f"MXNet 1.9.1 has no operator {name!r}. {did_you_mean(name, list(list_known_names()))}".rstrip()
        )

    def operator(*inputs: Var, **named: Any) -> Any:
        outputs = apply(name, *inputs, **named)
        return outputs[0] if len(outputs) == 1 else outputs

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"Apply MXNet's operator ``{name}``; see :func:`apply`."
    return operator
