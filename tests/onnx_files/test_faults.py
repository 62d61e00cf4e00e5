"""Faults planted in rewritten models: ``compare`` finds each that moves an output, and names the region that has it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest

import graphshare as gs
from graphshare.execute.backends.backend import open_computation
from graphshare.execute.backends.confined_session import ConfinedSession
from graphshare.execute.prepare.assignment import DrawOptions
from graphshare.ir.graph import Node
from graphshare.onnx_ops.identities import OnnxForm
from graphshare.verification.region_plan import Planner
from graphshare.verification.report import Report
from tests.onnx_files.faults import Fault, Rewrite, make_rewrite, plant
from tests.onnx_files.running import Session, Unrunnable

pytest.importorskip("onnxruntime")

_ROUNDS = 8
_MOVED = 1e-4  # of the range of an output
_OF_EACH = 12  # faults of a rewritten model


class Case(NamedTuple):
    """A rewritten model in files, and what the original computes of the inputs that ``compare`` draws."""

    rewrite: Rewrite
    model: gs.Checkpoint
    folder: Path
    feeds: list[Any]
    outputs: list[Any]


def make_case(seed: int, folder: Path) -> Case:
    rewrite = make_rewrite(Random(seed), folder)
    onnx.save(rewrite.original, folder / "original.onnx")
    model = gs.load(folder / "original.onnx")
    part = open_computation(model)
    drawn = [part.draw(options=DrawOptions(number)).values for number in range(_ROUNDS)]
    feeds = [{node.name: value for node, value in each.items()} for each in drawn]
    session = Session(rewrite.original.SerializeToString())
    return Case(rewrite, model, folder, feeds, [session.run(each) for each in feeds])


def find_moved(case: Case, fault: Fault) -> int | None:
    """Return the first round in which a fault moves an output; None where none does, or onnxruntime
    refuses the model.
    """
    try:
        session = Session(fault.model.SerializeToString())
    except Unrunnable:
        return None
    for number, (feeds, wanted) in enumerate(zip(case.feeds, case.outputs, strict=True)):
        for name, b in session.run(feeds).items():
            a = wanted[name]
            if a.shape != b.shape or np.abs(a - b).max() > _MOVED * max(np.ptp(a), 1e-30):
                return number
    return None


def verify(case: Case, model: onnx.ModelProto, *, number: int = 0) -> Report:
    """Verify a model in one of the rounds: of several rounds the verdict is that each holds."""
    onnx.save(model, case.folder / "faulty.onnx")
    return gs.compare(case.model, case.folder / "faulty.onnx", inputs=gs.Inputs(seed=number))


def is_named(report: Report, fault: Fault) -> bool:
    """Whether the first region that departs has the node with the fault, which has the name of its output."""
    outputs = {
        name for node in fault.model.graph.node if node.name == fault.node for name in node.output
    }
    for regions in report.branches[0].regions:
        departed = [region for region in regions.regions if not region]
        if departed:
            return bool(
                outputs
                & {
                    *(node.name for node in departed[0].other_nodes),
                    *(other for _, other in departed[0].ends),
                }
            )
    return False


def judge(count: int, folder: Path, *, first: int = 0) -> tuple[Counter[str], list[str]]:
    """Judge faults until ``count`` moved an output; return how many were found and named, and what went wrong."""
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    seed = first
    while seen["faults"] < count:
        seed += 1
        case = make_case(seed, folder)
        rng = Random(seed)
        report = verify(case, case.rewrite.rewritten)
        if not report:
            wrong.append(f"seed {seed}: without a fault: {report.verdict}")
            seen["false alarms"] += 1
            continue
        seen["rewrites"] += 1
        begun, planted = seen["faults"], set[bytes]()
        for trial in range(20 * _OF_EACH):
            if seen["faults"] >= min(count, begun + _OF_EACH):
                break
            in_fused = seen["in fused regions"] * 2 < seen["faults"] + 1
            fault = plant(case.rewrite, rng, in_fused=in_fused)
            data = b"" if fault is None else fault.model.SerializeToString()
            number = None if fault is None or data in planted else find_moved(case, fault)
            if fault is None or number is None:
                continue
            planted.add(data)
            report = verify(case, fault.model, number=number)
            seen["in the first round"] += not number
            seen["faults"] += 1
            seen["in fused regions"] += in_fused
            seen[fault.kind] += 1
            seen["found"] += not report
            seen["named"] += is_named(report, fault)
            if report or not is_named(report, fault):
                wrong.append(
                    f"seed {seed}, trial {trial}, {fault.kind} at {fault.node}: {report.verdict}"
                )
    return seen, wrong


def check(seen: Counter[str], wrong: list[str], count: int) -> None:
    assert seen["found"] == count, wrong
    assert seen["named"] >= 0.95 * count, wrong
    assert seen["in fused regions"] >= 0.4 * count, seen
    assert not seen["false alarms"], wrong
    assert all(
        seen[kind] for kind in ("pads", "axis", "constant", "inputs", "dtype", "branch", "slice")
    ), seen


def test_faults_are_found_and_named(tmp_path: Path) -> None:
    check(*judge(60, tmp_path), 60)


@pytest.mark.large
def test_many_faults_are_found_and_named(tmp_path: Path) -> None:
    check(*judge(400, tmp_path, first=1_000_000), 400)


def test_two_models_are_in_memory_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both models, or both sides of a region: no part is open beside a model, and no third one beside two parts."""
    case = make_case(1, tmp_path)
    faults = (plant(case.rewrite, Random(seed), in_fused=True) for seed in range(100))
    fault = next(fault for fault in faults if fault is not None and find_moved(case, fault) == 0)
    live, most = set[int](), [0]
    opened, closed = ConfinedSession.__init__, ConfinedSession.close

    def open_(self: ConfinedSession, *arguments: Any, **options: Any) -> None:
        opened(self, *arguments, **options)
        live.add(id(self))
        most.append(len(live))

    def close(self: ConfinedSession) -> None:
        live.discard(id(self))
        closed(self)

    monkeypatch.setattr(ConfinedSession, "__init__", open_)
    monkeypatch.setattr(ConfinedSession, "close", close)
    assert not verify(case, fault.model)
    assert len(most) > 4
    assert max(most) == 2


def test_the_content_of_a_weight_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many plans a verdict takes: a hash of all weights takes as long as a run."""
    case = make_case(1, tmp_path)
    seen, plans = Counter[Node](), list[object]()
    find, plan = OnnxForm.find_constant, Planner.make_plan

    def find_constant(self: OnnxForm, node: Node) -> Any:
        seen[node] += 1
        return find(self, node)

    def make_plan(self: Planner, **options: Any) -> Any:
        plans.append(plan(self, **options))
        return plans[-1]

    monkeypatch.setattr(OnnxForm, "find_constant", find_constant)
    monkeypatch.setattr(Planner, "make_plan", make_plan)
    assert verify(case, case.rewrite.rewritten)
    assert len(plans) > 2
    assert set(seen.values()) == {1}
