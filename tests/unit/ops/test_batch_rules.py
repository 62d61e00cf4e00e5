"""Where every operator with a rule of its own has the samples, for attributes of its recorded cases.

``python -m tests.unit.ops.test_batch_rules`` records it in ``batch_rules.txt``: an operator with
its attributes, and for samples on these axes of its inputs (``1/3`` is axis 1 of 3, ``1+`` axis 1
of an unknown number, ``.`` an input without samples) where its outputs have them, or why it mixes
them. Attributes that change no answer of the operator are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path

import pytest

from graphshare.analysis.batch_axis import follow_batch
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.walk import reachable
from graphshare.ops.batch_axis import At
from graphshare.ops.index import FAMILY_OF
from graphshare.ops.registry import canonical
from tests.kernels.recordings import FAMILIES, cases_of
from tests.symbols import document, mxnet_text, operator, variable

RECORDED = Path(__file__).with_name("batch_rules.txt")
MANY = 12
"""Attributes of an operator that are tried; those of its first cases."""


_CALIBRATED = {"min_calib_range": "-1", "max_calib_range": "1"}
FUSED: dict[str, tuple[tuple[int, ...], tuple[dict[str, str], ...]]] = {
    "MultiBoxPrior": ((4,), ({"sizes": "(0.5,)"},)),
    "_sg_mkldnn_conv": (
        (4, 4, 1),
        ({}, {"quantized": "true"}, {"quantized": "true", **_CALIBRATED}),
    ),
    "_sg_mkldnn_fully_connected": (
        (2, 2, 1),
        (
            {"num_hidden": "2"},
            {"num_hidden": "2", "quantized": "true"},
            {"num_hidden": "2", "quantized": "true", **_CALIBRATED},
        ),
    ),
    "_sg_mkldnn_selfatt_qk": ((3,), ({"heads": "2"}, {"heads": "2", "quantized": "true"})),
    "_sg_mkldnn_selfatt_valatt": ((3, 3), ({"heads": "2"}, {"heads": "2", "quantized": "true"})),
}
"""Operators without recorded cases of their own: the axes of their inputs, and attributes."""
MORE: dict[str, tuple[tuple[int, ...], tuple[dict[str, str], ...]]] = {
    "Concat": ((3, 3), ({"num_args": "2", "dim": "0"}, {"num_args": "2", "dim": "-3"})),
    "stack": ((3, 3), tuple({"num_args": "2", "axis": axis} for axis in ("0", "1", "-1", "-3"))),
    **{name: ((3,), tuple({"num_outputs": "2", "axis": axis, "squeeze_axis": "1"} for axis in ("0", "1", "-1", "-3")))
       for name in ("SliceChannel", "_split_v2")},
    **{name: ((3,), ({"axis": "0"}, {"axis": "()"}, {"axis": "(0, 2)"}, {"axis": "0", "exclude": "1"}, {"axis": "-3"},
                     {"axis": "0", "keepdims": "1"}, {}, {"exclude": "1"}))
       for name in ("sum", "mean", "max", "norm", "argmax", "_np_sum", "_npi_mean")},
    "SwapAxis": ((3,), ({"dim1": "0", "dim2": "-1"}, {"dim1": "-1", "dim2": "0"}, {"dim1": "0", "dim2": "1"}, {})),
    "squeeze": ((3,), ({"axis": "0"}, {"axis": "(0, 2)"}, {"axis": "-1"}, {})),
    "expand_dims": ((3,), tuple({"axis": axis} for axis in ("0", "1", "-1", "-4"))),
    "tile": ((3,), tuple({"reps": reps} for reps in ("(2,)", "(2, 1)", "(1, 2, 1)", "(1, 1, 2, 1)", "()"))),
    "repeat": ((3,), ({"repeats": "2"}, {"repeats": "2", "axis": "0"}, {"repeats": "2", "axis": "-1"})),
    "take": ((3, 2), tuple({"axis": axis} for axis in ("0", "1", "2", "-1"))),
    "pick": ((3, 2), tuple({"axis": axis, "keepdims": keep} for axis in ("0", "1", "-1") for keep in ("0", "1"))),
    "SequenceMask": ((3, 1), ({"use_sequence_length": "1"}, {"use_sequence_length": "1", "axis": "1"})),
    "RNN": ((3, 1, 3, 3, 1), ({"mode": "lstm", "state_size": "2", "num_layers": "1", "use_sequence_length": "1"},)),
    "slice_axis": ((3,), tuple({"axis": axis, "begin": "0", "end": "1"} for axis in ("0", "1", "-1"))),
    "reverse": ((3,), ({"axis": "0"}, {"axis": "(1, 2)"}, {"axis": "-1"})),
    "transpose": ((3,), ({}, {"axes": "(2, 0, 1)"}, {"axes": "(0, 2, 1)"}, {"axes": "(-1, 0, 1)"})),
}  # fmt: skip
"""Attributes beside those of the recorded cases: axis 0, negative axes, several, none."""


class Setting:
    """An operator with attributes, and the numbers of axes of its inputs in a recorded case."""

    def __init__(self, op: str, attrs: dict[str, str], ranks: tuple[int, ...]) -> None:
        self.op, self.attrs, self.ranks = op, attrs, ranks

    @property
    def title(self) -> str:
        return f"{self.op} {json.dumps(self.attrs, sort_keys=True)} {json.dumps(self.ranks)}"

    @staticmethod
    def read(title: str) -> Setting:
        op, _, rest = title.partition(" ")
        attrs, _, ranks = rest.rpartition(" [")
        return Setting(op, json.loads(attrs), tuple(json.loads(f"[{ranks}")))


def list_operators() -> list[str]:
    rules = (
        getattr(import_module(f"graphshare.ops.{f}.signature"), "RULES", {})
        for f in dict.fromkeys(FAMILY_OF.values())
    )
    return sorted(name for table in rules for name in table)


@cache
def find_settings() -> dict[str, list[Setting]]:
    """The settings of the recorded cases, by operator."""
    settings: dict[str, dict[str, Setting]] = {}
    for family in FAMILIES:
        for case in cases_of(family):
            ranks = tuple(len(each.get("shape") or ()) for each in case["inputs"])
            setting = Setting(canonical(case["op"]), case.get("attrs", {}), ranks)
            settings.setdefault(setting.op, {}).setdefault(setting.title, setting)
    few = {op: [*found.values()][:MANY] for op, found in settings.items()}
    for op, (ranks, choices) in (*FUSED.items(), *MORE.items()):
        few.setdefault(op, []).extend(Setting(op, attrs, ranks) for attrs in choices)
    return few


def list_places(ranks: Sequence[int]) -> Iterator[list[tuple[int, int | None] | None]]:
    """Samples in the first, the second, the last, all inputs, and on unlike axes of two; with and
    without a known rank.
    """
    count = len(ranks)
    chosen = {(0,), (count - 1,), (min(1, count - 1),), tuple(range(count))}
    for slots in sorted(chosen, key=lambda slots: (len(slots), slots)):
        for axis in range(4):
            for knows_rank in (False, True):
                if not knows_rank or all(axis < ranks[slot] for slot in slots):
                    yield [
                        (axis, ranks[i] if knows_rank else None) if i in slots else None
                        for i in range(count)
                    ]
    if count > 1:
        yield [(0, None), (1, None), *[None] * (count - 2)]
        yield [(1, None), (0, None), *[None] * (count - 2)]


def find_outcome(setting: Setting, places: Sequence[tuple[int, int | None] | None]) -> str:
    """Where the outputs have the samples, and why they are mixed, in words."""
    shapes = [
        {"attrs": {"__shape__": str((2,) * place[1])}} if place and place[1] else {}
        for place in places
    ]
    nodes = [variable(f"x{i}", **shape) for i, shape in enumerate(shapes)]
    nodes.append(operator(setting.op, "op", range(len(places)), attrs=setting.attrs))
    graph = read_symbol(mxnet_text(document(nodes, [len(places)], row_ptr=False)).encode())
    inputs = {graph.nodes[i]: place[0] for i, place in enumerate(places) if place is not None}
    found, couplings = follow_batch(reachable(graph), inputs)
    outputs = [format_place(found.get((graph.nodes[-1], i))) for i in range(4)]
    while len(outputs) > 1 and outputs[-1] == ".":
        outputs.pop()
    why = "".join(
        f" {each.why}" + (" (in training)" if each.only_training else "") for each in couplings
    )
    return " ".join(outputs) + why


def format_place(at: At | None) -> str:
    if at is None:
        return "."
    return (
        f"{at.axis}/{at.rank}"
        if at.rank is not None
        else f"{at.axis}{at.more:+}"
        if at.more
        else f"{at.axis}+"
    )


def list_outcomes(setting: Setting) -> list[str]:
    """A line for each outcome: the places of samples that lead to it, then the outcome."""
    answers = []
    for places in list_places(setting.ranks):
        words = " ".join(format_place(At(*place)) if place is not None else "." for place in places)
        answers.append((find_outcome(setting, places), words))
    return [
        f"{', '.join(words for _, words in group)} -> {outcome}"
        for outcome, group in groupby(answers, key=lambda a: a[0])
    ]


def record() -> str:
    blocks = []
    for op in list_operators():
        seen = set()
        for setting in find_settings().get(op, ()):
            lines = list_outcomes(setting)
            if "\n".join(lines) not in seen:
                blocks.append("\n".join([f"= {setting.title}", *lines]) + "\n")
            seen.add("\n".join(lines))
    return "\n".join(blocks)


def read_recorded() -> dict[str, list[str]]:
    blocks = RECORDED.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return {
        lines[0].removeprefix("= "): lines[1:] for lines in (block.split("\n") for block in blocks)
    }


EXPECTED = read_recorded()


@pytest.mark.parametrize("op", list_operators())
def test_samples_are_where_they_were(op: str) -> None:
    blocks = {title: lines for title, lines in EXPECTED.items() if title.startswith(f"{op} ")}
    assert blocks, "not recorded: run python -m tests.unit.ops.test_batch_rules"
    for title, lines in blocks.items():
        assert list_outcomes(Setting.read(title)) == lines


if __name__ == "__main__":
    RECORDED.write_text(record(), encoding="utf-8")
