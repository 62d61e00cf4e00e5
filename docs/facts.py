"""The figures that several pages state, in every language; a part of ``docs/generate.py``.

A figure has a mark behind it: ``611<!-- fact: operators -->``. It is a fact of the program
(``count_facts``), or was measured: then one page states it, as ``2.7<!-- measured: time of numpy
-->``, and the others copy it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"

_MARK = re.compile(
    r"(?P<value>\d[\d.,]*|GS\d+|\?)(?P<tick>`?)<!-- (?P<kind>fact|measured): (?P<name>.+?) -->"
)
_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")
_UNIT = r" (?:[KkMGT]i?B|m?s|bytes|pixels|seconds)\b"


def count_facts() -> dict[str, str]:
    """Return the figures that follow from the program, as pages show them, by name."""
    from graphshare.checks.engine import RULES
    from graphshare.export_onnx.opsets import DEFAULT, IR_VERSIONS
    from graphshare.files.open_source import MAX_UNPACKED
    from graphshare.formats.images.header import MAX_PIXELS
    from graphshare.formats.images.images import MAX_RESIZED
    from graphshare.formats.onnx.inference import SECONDS
    from graphshare.formats.onnx.pool import LEAST
    from graphshare.ops import registry
    from graphshare.ops.translation import NoTranslation

    registered, kernels = registry.load_registered_signatures(), registry.known_kernels()
    translated = [
        name
        for name, entry in registry.known_translations().items()
        if not isinstance(entry, NoTranslation)
    ]
    codes = {
        kind: sorted(code for code in RULES if code.startswith(kind)) for kind in ("GS6", "GS8")
    }
    numbers = {
        "operators": len(registered),
        "operators computed": len(registered.keys() & kernels.keys()),
        "kernels": len(kernels),
        "kernels translated": len(kernels.keys() & set(translated)),
        "lowest opset": min(IR_VERSIONS),
        "highest opset": max(IR_VERSIONS),
        "default opset": DEFAULT,
        "pixels": MAX_PIXELS,
        "pixels resized": MAX_RESIZED,
        "bytes pooled": LEAST,
        "MiB unpacked": MAX_UNPACKED >> 20,
        "seconds of inference": round(SECONDS),
    }
    rules = {
        f"{place} {kind} rule": codes[kind][index]
        for kind in codes
        for place, index in (("first", 0), ("last", -1))
    }
    bounds = re.findall(
        r'^requires-python = ">=(.*)"$', PYPROJECT.read_text(encoding="utf-8"), re.M
    )
    return {
        **{name: f"{number:,}" for name, number in numbers.items()},
        **rules,
        "lowest Python": "".join(bounds),
    }


def read_measured(pages: Iterable[str]) -> dict[str, str]:
    """Return the measured figures of the pages by name.

    Raises:
        ValueError: two places state one figure.
    """
    measured: dict[str, str] = {}
    for match in (
        match for page in pages for match in _MARK.finditer(page) if match["kind"] == "measured"
    ):
        if match["name"] in measured:
            raise ValueError(
                f"two places state the measured figure {match['name']!r}; let one of them be a fact"
            )
        measured[match["name"]] = match["value"]
    return measured


def fill_facts(page: str, facts: Mapping[str, str]) -> str:
    """Return a page with the figures of ``facts`` before their marks.

    Raises:
        ValueError: no fact has the name of a mark.
    """

    def fill(match: re.Match[str]) -> str:
        if match["name"] not in facts:
            raise ValueError(f"no fact is called {match['name']!r}")
        return (
            f"{facts[match['name']]}{match['tick']}{match[0][match.end('tick') - match.start() :]}"
        )

    return _MARK.sub(fill, page)


def list_facts(page: str) -> list[str]:
    """Return the names of the facts that a page takes from elsewhere."""
    return [match["name"] for match in _MARK.finditer(page) if match["kind"] == "fact"]


def find_unmarked(page: str, facts: Mapping[str, str]) -> list[str]:
    """Return the lines of a page, outside of code, in which an integer of ``facts`` has no mark, of
    three or more digits.

    A number that is followed by another unit than the figure, whose name may begin with one, is another figure.
    """
    bare = []
    for name, value in facts.items():
        if re.fullmatch(r"\d{3,}|[\d,]{5,}", value):
            unit = name.partition(" ")[0]
            ending = f" {unit}\\b" if re.fullmatch(_UNIT, f" {unit}") else f"(?!,?\\d|{_UNIT})"
            bare.append(f"{value}{ending}")
    pattern = re.compile(rf"(?<![\w.,-])(?:{'|'.join(bare)})")
    prose = _CODE.sub("", _MARK.sub("", _BLOCK.sub("", page)))
    return [line for line in prose.splitlines() if pattern.search(line)]


def list_figures(page: str) -> set[str]:
    """Return the numbers of a page outside of its blocks, as they are written."""
    prose = re.sub(r"\]\([^)]*\)", "", _BLOCK.sub("", page))
    return {number.rstrip(".,") for number in re.findall(r"(?<![\w.])\d[\d.,]*", prose)}
