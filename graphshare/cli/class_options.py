"""The options of ``run`` that name classes, and their table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

import click
import msgspec

from graphshare.cli.tables import put_table
from graphshare.errors import Fault, UsageError
from graphshare.execute.classes import Ranking, rank_classes, read_labels
from graphshare.formats.images.images import Images
from graphshare.text.format import format_number

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--top", type=click.IntRange(min=1), metavar="K", help="Print the K best classes of each sample."),
    click.option("--labels", metavar="FILE", help="With --top: the names of the classes, one a line, as in synset.txt."),
)


class ClassOptions(msgspec.Struct, frozen=True):
    """How many classes are wanted, and their names and the file of these, where they are known."""

    top: int
    file: str | None
    labels: Sequence[str] | None


def options(command: F) -> F:
    """Add the options to a command, which gets ``classes``; None without ``--top``."""

    @wraps(command)
    def with_classes(**values: Any) -> Any:
        return command(classes=_parse(values.pop("top"), values.pop("labels")), **values)

    result: Any = with_classes
    for option in reversed(_OPTIONS):
        result = option(result)
    return result  # type: ignore[no-any-return]


def _parse(top: int | None, labels: str | None) -> ClassOptions | None:
    if top is None:
        if labels is not None:
            raise UsageError(Fault("--labels needs --top", hint="add --top 5"))
        return None
    return ClassOptions(top, labels, None if labels is None else read_labels(labels))


def rank_outputs(classes: ClassOptions | None, outputs: Mapping[str, Any], feeds: Mapping[str, Any]) -> list[Ranking] | None:
    """Return the classes that are wanted, of images by their files where one input is images; None where none are wanted."""
    if classes is None:
        return None
    images = [value.paths for value in feeds.values() if isinstance(value, Images)]
    return rank_classes(outputs, classes.top, labels=classes.labels, images=images[0] if len(images) == 1 else ())


def put_classes(rankings: Sequence[Ranking]) -> None:
    """Print a row for each class of each sample, with the columns that differ or say something."""
    rows = [
        {
            "output": ranking.output,
            "image": ranking.image or "",
            "sample": str(ranking.sample),
            "class": str(score.index),
            "label": score.label or "",
            "score": format_number(score.score, 4),
        }
        for ranking in rankings
        for score in ranking.classes
    ]
    titles = ["class", "label", "score"] if any(row["label"] for row in rows) else ["class", "score"]
    titles.insert(0, "image" if all(row["image"] for row in rows) else "sample")
    if len({row["output"] for row in rows}) > 1:
        titles.insert(0, "output")
    put_table(titles, [[row[title] for title in titles] for row in rows], right=["sample", "class", "score"])
