"""Files that were laid out by hand: what a rewrite does not change keeps its own text, character by character."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphshare as gs
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.ir.graph import Graph

Y = '{"op":"null","name":"y","inputs":[]}'
X = '{"op":"null" ,"name":"x","inputs":[ ]}'
R = '{"op" : "relu", "name":"r\\u0031\\/", "unknown":{"a":[1 ]},"inputs":[[1, 0,0]] }'
S = '{"op":"elemwise_add","name":"s" ,\n"inputs":[[2,0, 0],[ 1,0,0]]}'
FRAME = (
    '{{ "arg_nodes":[0 ,1], "nodes":[ {} ], "note":"\\u0041",\n'
    '"heads":[[ 3,0,0]] , "attrs":{{"mxnet_version":["int",10901]}} }}\n'
)
TEXT = FRAME.format(f"{Y} ,\n  {X},\n\t{R} , {S}")


@pytest.fixture
def model(tmp_path: Path) -> gs.Checkpoint:
    (tmp_path / "a.json").write_text(TEXT)
    return gs.load(tmp_path / "a.json")


def written(graph: Graph) -> str:
    return b"".join(write_symbol(graph)).decode()


def test_an_unchanged_file_keeps_its_text(model: gs.Checkpoint) -> None:
    assert written(model.graph) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("r1/", "q1/", "r\\u0031\\/", "q\\u0031\\/"),
        ("r1/", "r12/", "r\\u0031\\/", "r\\u00312\\/"),
        ("r1/", "r/", "r\\u0031\\/", "r\\/"),
        ("r1/", "r1", "r\\u0031\\/", "r\\u0031"),
        ("r1/", "r1/r1/", "r\\u0031\\/", "r1/r\\u0031\\/"),
        ("r1/", 'r"', "r\\u0031\\/", 'r\\"'),
        ("x", "xx", '"x"', '"xx"'),
        ("s", "t", '"s" ,\n', '"t" ,\n'),
    ],
)
def test_of_a_name_only_characters_that_changed_are_written_anew(
    old: str, new: str, before: str, after: str, model: gs.Checkpoint, tmp_path: Path
) -> None:
    (tmp_path / "map.json").write_text(json.dumps({old: new}))
    renamed = gs.rename(model, map=tmp_path / "map.json")
    assert written(renamed.graph) == TEXT.replace(before, after, 1)


def test_of_entries_only_ids_that_changed_are_written_anew(model: gs.Checkpoint) -> None:
    extracted = gs.extract(model, "s")
    r, s = (
        R.replace("[[1, 0,0]]", "[[0, 0,0]]"),
        S.replace("[[2,0, 0],[ 1,0,0]]", "[[1,0, 0],[ 0,0,0]]"),
    )
    frame = (
        FRAME.replace("[0 ,1]", "[0]")
        .replace('"nodes":[ {} ]', '"nodes":[{} ]')
        .replace("[[ 3,0,0]]", "[[ 2,0,0]]")
    )
    assert written(extracted.graph) == frame.format(f"{X},\n\t{r} , {s}")


def test_a_node_in_another_place_has_the_white_space_of_the_layout(model: gs.Checkpoint) -> None:
    copied = written(gs.duplicate(model, "b-").graph)
    assert copied.startswith(TEXT[: TEXT.index(S)].replace("[0 ,1]", "[0,1,4,5]") + S)
    assert f"{S},{Y.replace('y', 'b-y')}," in copied
    assert copied.endswith(
        '], "note":"\\u0041",\n"heads":[[3,0,0],[7,0,0]] , "attrs":{"mxnet_version":["int",10901]} }\n'
    )
