"""The options that prepare images for an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from graphshare.cli.command import option
from graphshare.cli.options import feeds, gather
from graphshare.errors import Fault, UsageError
from graphshare.execute.prepare.feeds import load_feeds, parse_feeds
from graphshare.formats.images.settings import (
    INTERPOLATIONS,
    LAYOUTS,
    PRESETS,
    ImageSettings,
    make_settings,
)

_OPTIONS = (
    option(
        "--preset", type=click.Choice(list(PRESETS)), help="Prepare images as this model zoo does."
    ),
    option(
        "--resize",
        metavar="N|H,W",
        help="Length of an image's shorter side, or its height and width.",
    ),
    option("--crop", metavar="N|H,W", help="Size to cut out of the centre, after --resize."),
    option(
        "--mean",
        metavar="R,G,B",
        help="Subtract from pixels (0 to 255), in this order even with --bgr [0].",
    ),
    option(
        "--scale",
        metavar="S",
        help="After --mean, multiply by this number or fraction, such as 1/255 [1].",
    ),
    option("--std", metavar="R,G,B", help="After --scale, divide by this [1]."),
    option(
        "--rgb", "color", flag_value="rgb", help="Channels in the order red, green, blue [default]."
    ),
    option("--bgr", "color", flag_value="bgr", help="Channels in the order blue, green, red."),
    option("--gray", "color", flag_value="gray", help="A single gray channel."),
    option("--layout", type=click.Choice(LAYOUTS), help="Order of the axes of the input [NCHW]."),
    option(
        "--interpolation",
        type=click.Choice(INTERPOLATIONS),
        help="Method of resizing; all but mxnet are Pillow's [mxnet].",
    ),
)
_NAMES = ("preset", "resize", "crop", "mean", "scale", "std", "color", "layout", "interpolation")


def parse_settings(options: Mapping[str, Any]) -> ImageSettings | None:
    """Return the settings given by the options, or None without any.

    Raises:
        UsageError: texts are not numbers, or numbers do not make sense; all are listed.
    """
    if not any(options.values()):
        return None
    faults: list[Fault] = []
    parsed: dict[str, Any] = {name: options[name] for name in ("color", "layout", "interpolation")}
    for name in ("resize", "crop", "mean", "scale", "std"):
        if options[name] is None:
            continue
        parse = int if name in ("resize", "crop") else _parse_fraction
        numbers = _parse_numbers(options[name], parse)
        is_one = len(numbers) == 1
        if not numbers or len(numbers) > _MOST[name]:
            faults.append(Fault(f"--{name} {options[name]!r} cannot be read", hint=_HINTS[name]))
        elif name == "crop" and is_one:
            parsed[name] = numbers * 2
        elif name in ("resize", "scale") and is_one:
            parsed[name] = numbers[0]
        else:
            parsed[name] = numbers
    if faults:
        raise UsageError(faults)
    return make_settings(options["preset"], parsed)


def format_options(settings: Mapping[str, Any]) -> str:
    """Return the options for fields of ``ImageSettings``."""
    words = []
    for name, value in settings.items():
        if name == "color":
            words.append(f"--{value}")
            continue
        numbers = value if isinstance(value, tuple) else (value,)
        if name == "crop" and len(set(numbers)) == 1:
            numbers = numbers[:1]
        words.append(f"--{name} {','.join(map(str, numbers))}")
    return " ".join(words)


_MOST = {"resize": 2, "crop": 2, "mean": 3, "std": 3, "scale": 1}
_HINTS = {
    "resize": "write the length of the shorter side, as in 256, or height and width, as in 112,96",
    "crop": "write one length, as in 224, or height and width, as in 112,96",
    "mean": "write one number, or three, as in 123.68,116.28,103.53",
    "std": "write one number, or three, as in 58.4,57.1,57.4",
    "scale": "write a number, as in 0.0078125 or 1/255",
}


def _parse_numbers(text: str, parse: Callable[[str], float]) -> tuple[float, ...]:
    """Return the numbers of a text, none if it is not a list of numbers."""
    try:
        return tuple(parse(part) for part in text.split(","))
    except (ValueError, ZeroDivisionError, OverflowError):
        return ()


def _parse_fraction(text: str) -> float:
    above, slash, below = text.partition("/")
    return float(above) / float(below) if slash else float(above)


options = gather("images", _NAMES, _OPTIONS, parse_settings)
"""Adds the options to a command; it gets the settings as ``images``, or None if no option is given.
"""
feeding = gather(
    "feeds",
    ("feeds", "images"),
    (feeds, options),
    lambda values: load_feeds(parse_feeds(values["feeds"]), values["images"]),
)
"""Adds ``--feed`` and the options of images; a command gets the loaded values as ``feeds``."""
