"""Naming policies: how each system names unnamed operators, repeated names, and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec


class Naming(msgspec.Struct, frozen=True):
    """The naming scheme of one system.

    ``first`` is the automatic name of a ``{kind}`` for number 0, ``later`` for higher numbers.
    ``counted`` is the unit that has its own counter: every ``kind``, every ``path`` (a kind within
    its scope), or ``all`` share one. ``again`` names an operator whose name is taken; without it a
    repeated name is rejected. ``parameter`` names the parameter ``{formal}`` of the operator
    ``{owner}``, ``temporary`` the inner results of a layer.

    ``kinds`` maps an operator's name in lower case to its kind, by default ``other_kind``;
    ``formals`` renames formal inputs. With ``unique_scopes`` a reopened name scope gets a number,
    too; with ``shares_by_name`` a repeated parameter name means one parameter unless a scope says
    otherwise. With ``prefixes_given`` the prefix of :func:`graphshare.builder.scopes.unique_names`
    also applies to names that the user chose.
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
        """Return an operator's kind by the name used; an alias is a kind of its own."""
        lowered = called.lower()
        return self.kinds.get(lowered) or self.other_kind or lowered

    def automatic(self, kind: str, number: int) -> str:
        return (self.later if number else self.first).format(kind=kind, n=number, before=number - 1)

    def number_repeated(self, name: str, number: int) -> str | None:
        """Return candidate ``number`` (from 1) for a taken name; None if the policy rejects it."""
        return (
            None
            if self.again is None
            else self.again.format(name=name, n=number, before=number - 1)
        )

    def parameter_name(self, owner: str, formal: str, number: int = 0) -> str:
        """Return the name of the parameter ``formal`` (number ``number`` of that formal) of
        ``owner``.
        """
        return self.parameter.format(owner=owner, formal=self.formals.get(formal, formal), n=number)

    def temporary_name(self, layer: str, number: int) -> str | None:
        """Return the name of a layer's inner result; None if it is named like any other operator."""
        return self.temporary.format(layer=layer, n=number) if self.temporary else None


class Counters:
    """Counters for automatic names."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def draw(self, naming: Naming, kind: str, path: str) -> int:
        """Return the next number, from 0."""
        key = {"kind": kind, "path": path + kind, "all": ""}[naming.counted]
        number = self._next.get(key, 0)
        self._next[key] = number + 1
        return number


def _kinds(**words: str) -> dict[str, str]:
    """Invert ``fc="fullyconnected"``: map each name to its kind."""
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
"""MXNet: ``fullyconnected0``, ``fullyconnected0_weight``, a counter for each operator; repeated
names are rejected.
"""

TENSORFLOW = Naming(
    first="{kind}",
    later="{kind}_{n}",
    counted="path",
    again="{name}_{n}",
    parameter="{owner}/{formal}",
    kinds={
        **_ARITHMETIC,
        **_kinds(fc="fullyconnected", conv="convolution", batch_norm="bn batchnorm"),
        # TensorFlow's name for constants; layers.constant applies _full.
        "_full": "Const",
        "activation": "activation",
        "softmax": "Softmax",
        "broadcast_add": "add",
    },
    formals={"weight": "weights", "bias": "biases"},
    unique_scopes=True,
)
"""TensorFlow: ``mul``, ``mul_1``, each scope counting by itself; scopes opened again are numbered;
``fc/weights``.
"""

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
"""Paddle's first proposal: one counter for everything (``fc0``, ``conv1``), ``fc0.w.0``,
``fc0.bias.0``, ``fc0.tmp.0``.
"""

PADDLE_PER_KIND = msgspec.structs.replace(
    PADDLE,
    first="{kind}_0",
    later="{kind}_{n}",
    counted="kind",
    parameter="{owner}.{formal}_{n}",
    temporary="{layer}.tmp_{n}",
    formals={"weight": "w", "bias": "b"},
)
"""Paddle as released: a counter for each kind, ``fc_0.w_0``, ``fc_0.b_0``, ``fc_0.tmp_0``."""

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
"""Paddle's second proposal: ``var-0``, ``op-0``, distinguished by their scopes; ``fc0/W``."""

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
"""Caffe2's layers: ``fc``, ``fc_auto_0``, each scope counting by itself; a layer is a scope:
``fc/w``.
"""

BREW = msgspec.structs.replace(CAFFE2, parameter="{owner}_{formal}")
"""Caffe2's brew: ``fc1_w``, ``fc1_b``."""
