"""Comparing detections as sets: it must find what differs."""

from __future__ import annotations

import numpy as np

from tests.corpus.tails import difference_of_sets


def detections() -> list[np.ndarray]:
    scores = np.array([0.9, 0.8, 0.8, -1.0]).reshape(1, 4, 1)
    boxes = np.arange(16.0).reshape(1, 4, 4)
    return [scores, boxes]


def test_rows_in_another_order_are_the_same_set() -> None:
    scores, boxes = detections()
    order = [0, 2, 1, 3]
    assert difference_of_sets([scores[:, order], boxes[:, order]], [scores, boxes]) == 0


def test_a_row_goes_as_a_whole() -> None:
    scores, boxes = detections()
    order = [1, 0, 2, 3]
    assert difference_of_sets([scores, boxes[:, order]], [scores, boxes]) > 0.09


def test_what_differs_is_found() -> None:
    scores, boxes = detections()
    other = boxes[:, [0, 2, 1, 3]].copy()
    other[0, 1, 2] += 0.3
    assert abs(difference_of_sets([scores, other], [scores, boxes]) - 0.02) < 1e-12
    assert difference_of_sets([scores, boxes[:, :3]], [scores, boxes]) == float("inf")
    other[0, 1, 2] = np.inf
    assert difference_of_sets([scores, other], [scores, boxes]) == float("inf")
