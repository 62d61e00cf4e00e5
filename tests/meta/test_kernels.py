"""Signatures and kernels belong together: every operator of MXNet can be computed, or it is written down why not."""

from __future__ import annotations

from graphshare.kernels.absent import why_absent
from graphshare.kernels.registry import find_kernel
from graphshare.kernels.registry import known_kernels as kernels
from graphshare.operators.registry import _FAMILIES as FAMILIES
from graphshare.operators.registry import canonical, lookup


def registered() -> list[str]:
    foreign = "graphshare.operators.foreign"
    return [signature.name for family in FAMILIES if family.__name__ != foreign for signature in family.OPERATORS]


def test_every_operator_has_a_kernel_or_a_reason() -> None:
    names = registered()
    assert len(names) > 600
    assert [name for name in names if find_kernel(name) is None and why_absent(name) is None] == []
    assert [name for name in names if find_kernel(name) is not None and why_absent(name) is not None] == []


def test_every_reason_is_of_an_operator() -> None:
    from graphshare.kernels.absent import _REASONS

    named = [name for _, names in _REASONS for name in names.split()]
    assert len(named) == len(set(named))
    assert [name for name in named if lookup(name) is None or canonical(name) != name] == []


def test_every_kernel_has_a_signature() -> None:
    assert [name for name in kernels() if lookup(name) is None or canonical(name) != name] == []


def test_a_foreign_operator_has_no_reason() -> None:
    assert why_absent("QConvolution") is None
    assert why_absent("Nobody") is None
    assert why_absent("Custom") is not None
