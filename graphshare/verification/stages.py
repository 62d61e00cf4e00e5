"""The first three stages of ``verify`` in words: what was found, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from graphshare.formats.params.lookup import ParameterPair
from graphshare.ir.compare import Pairing
from graphshare.verification.compare import Comparison
from graphshare.verification.values import Values

Verdict = Literal["holds", "fails", "skipped"]


class Stage(msgspec.Struct, frozen=True):
    """One stage's answer in a line, with what it rests on."""

    name: str
    verdict: Verdict
    summary: str
    details: tuple[str, ...] = ()


def structure_stage(pairing: Pairing) -> Stage:
    """Stage 1: the branches are one graph."""
    if pairing:
        operators = sum(not a.is_variable for a, _ in pairing.pairs)
        return Stage(
            "structure", "holds", f"{len(pairing.pairs)} pairs of nodes, {operators} operators, the same but for names"
        )
    details = tuple(f"{d.left.name!r} and {d.right.name!r}: {d.what}" for d in pairing.differences)
    return Stage("structure", "fails", f"{len(details)} differences", details)


def parameter_stage(found: Sequence[ParameterPair], no_file: bool) -> Stage:
    """Stage 2: each pair of parameters; ``no_file`` where nothing tells their values."""
    count = {how: sum(pair.how == how for pair in found) for how in ("tied", "equal", "different", "missing")}
    wrong = tuple(f"{p.left.name!r} and {p.right.name!r}: {p.detail}" for p in found if p.how in ("different", "missing"))
    summary = f"{count['tied']} tied, {count['equal']} equal byte for byte"
    if not wrong:
        return Stage("parameters", "holds", summary)
    if no_file and not count["different"]:
        return Stage("parameters", "skipped", f"{summary}, {count['missing']} not compared: no parameter file is given")
    return Stage("parameters", "fails", f"{summary}, {count['different']} different, {count['missing']} missing", wrong)


def value_stage(rounds: Sequence[Values]) -> Stage:
    """Stage 3: all outputs of all rounds."""
    outputs = [output for values in rounds for output in values.outputs]
    details = [
        f"{o.output} and {o.reference}: {o.comparison.reason}, {_apart(o.comparison)}" for o in outputs if not o.comparison
    ]
    first = next((values.first for values in rounds if values.first is not None), None)
    if first is not None:
        where = f"first at {first.op} {first.node!r} and {first.reference!r}, output {first.output}"
        details.append(f"{where}: {_apart(first.comparison)}")
    if not outputs or details:
        return Stage("values", "fails", f"{len(details)} differences in {len(outputs)} outputs", tuple(details))
    identical = sum(output.comparison.identical for output in outputs)
    worst = max(output.comparison.max_abs for output in outputs)
    return Stage("values", "holds", f"{len(outputs)} outputs compared, {identical} bit for bit, max abs {worst:.3g}")


def _apart(comparison: Comparison) -> str:
    return f"max abs {comparison.max_abs:.3g}, max rel {comparison.max_rel:.3g}"
