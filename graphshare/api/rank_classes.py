"""``rank_classes``: the largest scores of a classifier's outputs, with their labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from graphshare.arguments import Positive
from graphshare.execute.classes import Ranking, find_best, read_labels, select_scores


def rank_classes(
    outputs: Mapping[str, Any],
    top: Positive = 5,
    *,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
    images: Sequence[str] = (),
) -> list[Ranking]:
    """Return the ``top`` classes of each sample in each of ``outputs`` (N, classes) or (N, classes,
    1, 1); ties by number.

    ``labels`` are the names of the classes, or a file with one per line; outputs with another
    number of classes are left out then. ``images`` are the files of the samples.

    Raises:
        RefusedError: no output has that form, or as many classes as there are labels.
        InputError: the file of labels cannot be read.
    """
    names = read_labels(labels) if isinstance(labels, (str, os.PathLike)) else labels
    return [
        Ranking(
            name,
            number,
            images[number] if len(images) == len(rows) else None,
            find_best(row, top, names),
        )
        for name, rows in select_scores(outputs, names).items()
        for number, row in enumerate(rows)
    ]
