"""Signatures and kernels belong together: every operator of MXNet is computed, or its signature says why not."""

from __future__ import annotations

import pytest

from graphshare.ops.make_index import FOLDER, render_index, render_table
from graphshare.ops.registry import (
    GRADIENTS,
    canonical,
    find_kernel,
    known_kernels,
    load_registered_signatures,
    lookup,
)


def test_the_index_is_what_the_signatures_say() -> None:
    assert (FOLDER / "index.py").read_text(encoding="utf-8") == render_index()


def test_every_operator_has_a_kernel_or_a_reason() -> None:
    signatures = load_registered_signatures()
    assert len(signatures) > 600
    assert [
        name for name, row in signatures.items() if find_kernel(name) is None and not row.no_kernel
    ] == []
    assert [
        name for name, row in signatures.items() if find_kernel(name) is not None and row.no_kernel
    ] == []


def test_every_kernel_has_a_signature() -> None:
    assert [
        name for name in known_kernels() if lookup(name) is None or canonical(name) != name
    ] == []


def test_every_gradient_has_a_kernel() -> None:
    assert set(GRADIENTS.all()) <= set(known_kernels())


def test_a_foreign_operator_has_no_reason() -> None:
    foreign, custom = lookup("QConvolution"), lookup("Custom")
    assert foreign is not None
    assert foreign.no_kernel == ""
    assert lookup("Nobody") is None
    assert custom is not None
    assert custom.no_kernel != ""


@pytest.mark.parametrize(("length", "rows"), [(83, 0), (84, 1), (90, 1), (91, 2)])
def test_names_of_a_family_are_joined_where_they_fit_on_a_line(length: int, rows: int) -> None:
    names = ["relu", "x" * 50, "y" * (length - 56)]
    lines = render_table("_OPERATORS", {"family": names}).splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith(" " * 8) for line in lines) == rows
