"""Entries of nodes and heads: a node, one of its outputs, and a version, which files of 2015 leave out."""

from __future__ import annotations

import json

import pytest

from graphshare.formats.mxnet.symbol import read_symbol


# Files with unusual keys are read in another way
@pytest.mark.parametrize("extra", [{}, {"unknown": 1}])
@pytest.mark.parametrize(
    ("stated", "index", "version"),
    [
        ([1, 0], 0, None),
        ([1, 1], 1, None),
        ([1, 0, 0], 0, 0),
        ([1, 1, 0], 1, 0),
        ([1, 0, 2], 0, 2),
        ([1, 1, 2], 1, 2),
    ],
)
def test_an_input_is_an_output_of_a_node(
    stated: list[int], index: int, version: int | None, extra: dict[str, int]
) -> None:
    nodes = [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "SliceChannel", "name": "s", "attrs": {"num_outputs": "2"}, "inputs": [[0, 0, 0]]},
        {"op": "relu", "name": "r", "inputs": [stated], **extra},
    ]
    found = read_symbol(
        json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[2, 0, 0]]}).encode()
    )
    (entry,) = found.nodes[2].inputs
    assert (entry.node, entry.index, entry.version) == (found.nodes[1], index, version)
