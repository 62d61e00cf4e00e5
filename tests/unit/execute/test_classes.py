"""Classes ranked by their scores, and files of labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import InputError, RefusedError
from graphshare.execute.classes import MAX_LABEL_BYTES, read_labels

SCORES = np.array([[0.1, 0.6, 0.3], [0.5, np.nan, 0.5]], "float32")


def test_the_best_come_first_ties_by_number_and_nan_last() -> None:
    found = gs.rank_classes(
        {"out": SCORES}, 3, labels=["cat", "dog", "owl"], images=["a.png", "b.png"]
    )
    assert [(r.output, r.sample, r.image) for r in found] == [
        ("out", 0, "a.png"),
        ("out", 1, "b.png"),
    ]
    assert [c.label for c in found[0].classes] == ["dog", "owl", "cat"]
    assert [c.index for c in found[1].classes] == [0, 2, 1]
    assert [c.score for c in found[1].classes] == [0.5, 0.5, None]
    assert [len(r.classes) for r in gs.rank_classes({"out": SCORES}, 1)] == [1, 1]
    assert len(gs.rank_classes({"out": SCORES}, 10)[0].classes) == 3


def test_outputs_are_chosen_by_their_form() -> None:
    outputs = {
        "map": np.zeros((2, 3, 4, 4)),
        "row": SCORES,
        "column": np.zeros((2, 3, 1, 1)),
        "scalar": np.zeros(2),
    }
    assert {r.output for r in gs.rank_classes(outputs)} == {"row", "column"}
    assert {r.image for r in gs.rank_classes(outputs, images=["one.png"])} == {None}
    narrow = {"pair": np.zeros((3, 2)), "one": np.zeros((3, 1)), "none": np.zeros((3, 2, 0))}
    assert {r.output for r in gs.rank_classes(narrow)} == {"pair"}
    other = {"row": SCORES, "wide": np.zeros((2, 4))}
    assert {r.output for r in gs.rank_classes(other, labels=["a", "b", "c", "d"])} == {"wide"}
    with pytest.raises(
        RefusedError,
        match="no output has rows of scores, one for each class; the outputs are map 2x3x4x4",
    ):
        gs.rank_classes({"map": outputs["map"]})
    with pytest.raises(RefusedError, match="no output has rows of 1,000 scores") as with_labels:
        gs.rank_classes(other, labels=[str(i) for i in range(1000)])
    with pytest.raises(RefusedError, match="no output has rows of scores") as without:
        gs.rank_classes({"map": outputs["map"]})
    hints = [caught.value.faults[0].hint for caught in (with_labels, without)]
    assert hints == [
        "choose the output with `targets`, or the labels of this network",
        "choose the output with `targets`",
    ]


def test_files_of_labels(tmp_path: Path) -> None:
    file = tmp_path / "synset.txt"
    file.write_bytes("﻿n01 tench, Tinca\r\n\r\nn03 Göse\r\n\r\n".encode())
    assert read_labels(file) == ["n01 tench, Tinca", "", "n03 Göse"]
    assert gs.rank_classes({"out": SCORES}, 1, labels=file)[0].classes[0].label == ""
    for data, message in (
        (b"\xff\xfea\0", "not text in UTF-8"),
        (b"", "contains no labels"),
        (b"\n\n", "contains no labels"),
    ):
        file.write_bytes(data)
        with pytest.raises(InputError, match=message):
            read_labels(file)
    with file.open("wb") as large:
        large.truncate(MAX_LABEL_BYTES + 1)
    with pytest.raises(InputError, match="a file of labels may have"):
        read_labels(file)
