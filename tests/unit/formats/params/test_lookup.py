"""Parameters of two graphs by their nodes: which are tied, equal, different or missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphshare.formats.params.format import read_index
from graphshare.formats.params.lookup import RecordsByName, compare_parameters, find_equal_arrays
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Node
from tests import params_bytes as build

A, B, C, BOTH = (Node("", name, num_outputs=1) for name in ("a", "b", "c", "both"))


def write(path: Path, **arrays: object) -> ParameterFile:
    values: dict[str, Any] = {name.replace("_", ":"): array for name, array in arrays.items()}
    np.savez(path, **values)
    return read_index(path)


def compare(*arguments: Any) -> list[tuple[Node, Node, str, str]]:
    return [
        (pair.left, pair.right, pair.how, pair.detail) for pair in compare_parameters(*arguments)
    ]


def test_each_pair_is_tied_equal_different_or_missing(tmp_path: Path) -> None:
    ones, twos = np.ones(2, "float32"), np.full(2, 2, "float32")
    left = RecordsByName(
        write(tmp_path / "a.npz", arg_a=ones, aux_b=twos, arg_both=ones, aux_both=twos)
    )
    right = RecordsByName(write(tmp_path / "b.npz", a=ones, b=np.ones(2), both=ones[:1]))
    assert (left.names(), right.names()) == ({"a", "b", "both"}, {"a", "b", "both"})
    pairs = [(A, A), (A, B), (B, B), (BOTH, A), (A, BOTH), (C, A), (A, C), (C, C)]
    assert compare(pairs, {BOTH}, left, right) == [
        (A, A, "equal", ""),
        (A, B, "different", "types float32 and float64"),
        (B, B, "different", "types float32 and float64"),
        (BOTH, A, "different", "values"),  # as an auxiliary state it is 2, as an argument 1
        (A, BOTH, "different", "shapes (2,) and (1,)"),
        (C, A, "missing", "the parameter file does not hold c"),
        (A, C, "missing", "the parameter file does not hold c"),
        (C, C, "missing", "the parameter file does not hold c and c"),
    ]
    assert compare([(BOTH, A)], (), left, right) == [(BOTH, A, "equal", "")]
    assert compare([(C, C), (BOTH, A)], (), left, left) == [
        (C, C, "tied", ""),
        (BOTH, A, "equal", ""),
    ]
    for one, other in ((left, None), (None, right), (None, None)):
        assert compare([(A, A), (A, B)], (), one, other) == [
            (A, A, "tied", ""),
            (A, B, "missing", "no parameter file is given"),
        ]


def test_equal_arrays_are_found_once_and_only_those_of_one_form(tmp_path: Path) -> None:
    ones = np.ones(2, "float32")
    file = write(
        tmp_path / "a.npz", a=ones, b=np.zeros(2, "float32"), c=ones, d=ones[None], e=ones.astype("int32"),
        f=np.zeros(2, "float32"), g=ones, h=np.empty(0, "float32"), i=np.empty(0, "float32"),
    )  # fmt: skip
    assert list(find_equal_arrays(file, file.records)) == [("a", ["c", "g"]), ("b", ["f"])]
    assert list(find_equal_arrays(file, file.records[1:4])) == []


def test_equal_sparse_arrays_have_equal_values_at_equal_places(tmp_path: Path) -> None:
    def csr(indptr: list[int], columns: list[int], *values: float) -> bytes:
        return build.csr((2, 3), indptr, columns, build.floats(*values))

    records = [csr([0, 1, 2], [0, 1], 1, 2), csr([0, 2, 2], [0, 1], 1, 2), csr([0, 1, 2], [0, 2], 1, 2),
               csr([0, 1, 2], [0, 1], 1, 2), csr([0, 1, 2], [0, 1], 1, 3), build.dense((2, 3))]  # fmt: skip
    (tmp_path / "a.params").write_bytes(build.container(records, list("abcdef")))
    file = read_index(tmp_path / "a.params")
    assert list(find_equal_arrays(file, file.records)) == [("a", ["d"])]
