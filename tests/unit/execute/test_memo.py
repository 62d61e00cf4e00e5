"""What kernels compute from parameters alone is computed once in a bound graph."""

from __future__ import annotations

from graphshare.execute.interpreter import Memo
from graphshare.execute.plan import make_plan
from graphshare.formats.mxnet.symbol import read_symbol
from tests.surroundings import ROOT


def test_only_what_depends_on_parameters_is_kept() -> None:
    plan = make_plan(
        read_symbol((ROOT / "fixtures" / "lenet-symbol.json").read_bytes(), where="lenet").heads
    )
    layer = next(step for step in plan.steps if step.node.op == "Convolution")
    memo, calls = Memo({layer.inputs[1]}), list[str]()

    def once(positions: tuple[int, ...], key: str) -> int:
        def compute() -> int:
            calls.append(key)
            return len(calls)

        result: int = memo.of(layer)(positions, key, compute)
        return result

    assert [once((1,), "a"), once((1,), "a"), once((1,), "b"), once((1,), "a")] == [1, 1, 2, 3]
    assert [once((0, 1), "a"), once((0, 1), "a")] == [4, 5]
