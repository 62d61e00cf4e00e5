"""Naming policies: how each system calls what has no name, what is named twice, and the parameters of an operator.

A policy is plain data. Which name is free is known by the session (:mod:`graphshare.builder.registry`); scopes put their paths
before what a policy says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec


class Naming(msgspec.Struct, frozen=True):
    """One system's way to name.

    ``first`` is the automatic name when ``{n}`` is 0, ``later`` for the numbers above, of a thing of ``{kind}``. ``counted``
    says what has a counter of its own: every ``kind``, every ``path`` (kind within its scope), or nothing (``all`` count
    together). ``again`` names an operator whose name is taken; without it a name given twice is refused. ``parameter`` names
    the parameter ``{formal}`` of the operator ``{owner}``, ``temporary`` inner results of a layer.

    ``kinds`` gives an operator's name in lower case another kind, ``other_kind`` all that it does not list; ``formals`` gives
    formal inputs other names. ``unique_scopes`` tells that a name scope opened again gets a number too, ``shares_by_name`` that
    a parameter name given twice means one parameter, where no scope says otherwise. ``prefixes_given`` tells that the prefix of
    :func:`graphshare.builder.scopes.unique_names` stands before names that the user chose, too.
    """

    first: str
    later: str
    counted: Literal["kind", "path", "all"]
    again: str | None
    parameter: str
    temporary: str = ""
    kinds: Mapping[str, str] = {}
    other_kind: str = ""
    formals: Mapping[str, str] = {}
    unique_scopes: bool = False
    shares_by_name: bool = False
    prefixes_given: bool = False

    def kind(self, called: str) -> str:
        """What kind of thing an operator is that was called by this name (an alias counts as its own)."""
        lowered = called.lower()
        return self.kinds.get(lowered) or self.other_kind or lowered

    def automatic(self, kind: str, number: int) -> str:
        """The automatic name with ``number``, from 0."""
        return (self.later if number else self.first).format(kind=kind, n=number, before=number - 1)

    def repeated(self, name: str, number: int) -> str | None:
        """What to try when ``name`` is taken, for ``number`` from 1; None where a repeated name is refused."""
        return None if self.again is None else self.again.format(name=name, n=number, before=number - 1)

    def parameter_name(self, owner: str, formal: str, number: int = 0) -> str:
        """The name of parameter ``formal`` (the ``number``-th of its sort) of the operator or layer ``owner``."""
        return self.parameter.format(owner=owner, formal=self.formals.get(formal, formal), n=number)

    def temporary_name(self, layer: str, number: int) -> str | None:
        """The name of an inner result of a layer; None where such operators are named as any other."""
        return self.temporary.format(layer=layer, n=number) if self.temporary else None


def _kinds(**words: str) -> dict[str, str]:
    """``fc="fullyconnected"`` turned round: each listed name to its kind."""
    return {name: kind for kind, names in words.items() for name in names.split()}


_ARITHMETIC = {
    **_kinds(
        add="elemwise_add broadcast_add _plus _add _plusscalar _plus_scalar add_n",
        sub="elemwise_sub broadcast_sub _minus _sub _minusscalar _minus_scalar _rminusscalar",
        mul="elemwise_mul broadcast_mul _mul _mulscalar _mul_scalar",
        div="elemwise_div broadcast_div _div _divscalar _div_scalar _rdivscalar",
    ),
    "negative": "neg",
}

MXNET = Naming(
    first="{kind}0",
    later="{kind}{n}",
    counted="kind",
    again=None,
    parameter="{owner}_{formal}",
    kinds=_kinds(fullyconnected="fc", convolution="conv", batchnorm="bn"),
    prefixes_given=True,
)
"""MXNet's: ``fullyconnected0``, ``fullyconnected0_weight``, a counter for each operator; a name given twice is refused."""

TENSORFLOW = Naming(
    first="{kind}",
    later="{kind}_{n}",
    counted="path",
    again="{name}_{n}",
    parameter="{owner}/{formal}",
    kinds={
        **_ARITHMETIC,
        **_kinds(fc="fullyconnected", conv="convolution", batch_norm="bn batchnorm"),
        "_full": "Const",
        "activation": "activation",
        "softmax": "Softmax",
        "broadcast_add": "add",
    },
    formals={"weight": "weights", "bias": "biases"},
    unique_scopes=True,
)
"""TensorFlow's: ``mul``, ``mul_1``, each scope counting by itself; scopes opened again are numbered; ``fc/weights``."""

PADDLE = Naming(
    first="{kind}0",
    later="{kind}{n}",
    counted="all",
    again="{name}_{n}",
    parameter="{owner}.{formal}.{n}",
    temporary="{layer}.tmp.{n}",
    kinds={**_ARITHMETIC, **_kinds(fc="fullyconnected", conv="convolution")},
    formals={"weight": "w"},
    shares_by_name=True,
)
"""Paddle's first proposal: one counter for everything (``fc0``, ``conv1``), ``fc0.w.0``, ``fc0.bias.0``, ``fc0.tmp.0``."""

PADDLE_PER_KIND = msgspec.structs.replace(
    PADDLE,
    first="{kind}_0",
    later="{kind}_{n}",
    counted="kind",
    parameter="{owner}.{formal}_{n}",
    temporary="{layer}.tmp_{n}",
    formals={"weight": "w", "bias": "b"},
)
"""Paddle's released one: a counter for each kind, ``fc_0.w_0``, ``fc_0.b_0``, ``fc_0.tmp_0``."""

PADDLE_NUMBERED = Naming(
    first="{kind}-0",
    later="{kind}-{n}",
    counted="kind",
    again="{name}-{n}",
    parameter="{owner}/{formal}",
    kinds={"var": "var"},
    other_kind="op",
    formals={"weight": "W", "bias": "b"},
)
"""Paddle's second proposal: variables ``var-0``, operators ``op-0``, told apart by their scopes; ``fc0/W``."""

CAFFE2 = Naming(
    first="{kind}",
    later="{kind}_auto_{before}",
    counted="path",
    again="{name}_auto_{before}",
    parameter="{owner}/{formal}",
    kinds={**_ARITHMETIC, **_kinds(fc="fullyconnected", conv="convolution")},
    formals={"weight": "w", "bias": "b"},
    shares_by_name=True,
)
"""Caffe2's layers: ``fc``, ``fc_auto_0``, each scope counting by itself; a layer is a scope for its parameters, ``fc/w``."""

BREW = msgspec.structs.replace(CAFFE2, parameter="{owner}_{formal}")
"""Caffe2's brew: ``fc1_w``, ``fc1_b``."""
