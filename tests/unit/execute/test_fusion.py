"""Chains of operators that run as one, and BatchNorm folded into weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from graphshare.execute.bound import fold_batch_norm
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import ExecutionPlan, make_plan
from graphshare.execute.train.tape import Tape
from graphshare.ir.graph import Entry, Node
from graphshare.ops.convolution import fused
from graphshare.ops.convolution.fused import CHAIN
from graphshare.ops.registry import KERNELS, find_kernel, known_kernels

CONVOLUTION = {"kernel": "(3, 3)", "num_filter": "6", "pad": "(1, 1)"}


def variable(name: str) -> Node:
    return Node("", name)


def node(op: str, inputs: Sequence[Node], **attrs: str) -> Node:
    return Node(op, op.lower(), attrs, tuple(Entry(source) for source in inputs))


class Net:
    """Variables with numbers, so that a graph of them runs."""

    def __init__(self, dtype: str = "float32") -> None:
        self.values: dict[Node, Any] = {}
        self._rng, self._dtype = np.random.default_rng(3), dtype

    def variable(self, *shape: int, positive: bool = False) -> Node:
        made = variable(f"v{len(self.values)}")
        numbers = self._rng.standard_normal(shape)
        self.values[made] = (np.abs(numbers) + 0.5 if positive else numbers).astype(self._dtype)
        return made

    def convolution(self, source: Node, channels: int = 4, **attrs: str) -> Node:
        groups = int(attrs.get("num_group", 1))
        inputs = [source, self.variable(6, channels // groups, 3, 3)]
        if attrs.get("no_bias") != "True":
            inputs.append(self.variable(6))
        return node("Convolution", inputs, **{**CONVOLUTION, **attrs})

    def normalized(self, source: Node, **attrs: str) -> Node:
        vectors = [
            self.variable(6),
            self.variable(6),
            self.variable(6),
            self.variable(6, positive=True),
        ]
        return node("BatchNorm", [source, *vectors], **attrs)

    def check(self, *heads: Node, chains: int, steps: int) -> ExecutionPlan:
        """The heads' values by fused steps, by folded ones and one by one agree; the number of steps is as expected."""
        plan = make_plan([Entry(head) for head in heads])
        joined = [step for step in plan.fused if step.kernel is CHAIN]
        assert (len(joined), len(plan.fused)) == (chains, steps)
        alone = run_plan(plan, self.values, watch=lambda *_: None).outputs
        for one in (plan, fold_batch_norm(plan, self.values)):
            for wanted, found in zip(alone, run_plan(one, self.values).outputs, strict=True):
                assert found.dtype == wanted.dtype
                tolerance = 1e-2 if wanted.dtype == np.float16 else 2e-5
                np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
        return plan


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("no_bias", ["True", "False"])
@pytest.mark.parametrize("fix_gamma", ["True", "False"])
@pytest.mark.parametrize("size", [5, 8])
def test_a_residual_block_is_two_steps(dtype: str, no_bias: str, fix_gamma: str, size: int) -> None:
    net = Net(dtype)
    x = net.variable(2, 6, size, size)
    inner = node(
        "Activation",
        [net.normalized(net.convolution(x, 6, no_bias=no_bias), fix_gamma=fix_gamma)],
        act_type="relu",
    )
    body = net.normalized(net.convolution(inner, 6, no_bias=no_bias), fix_gamma=fix_gamma)
    net.check(node("relu", [node("elemwise_add", [body, x])]), chains=2, steps=2)


@pytest.mark.parametrize(
    "attrs", [{"stride": "(2, 2)"}, {"num_group": "2"}, {"num_group": "6"}, {"dilate": "(2, 2)"}]
)
def test_every_way_of_convolving_is_finished(attrs: dict[str, str]) -> None:
    net = Net()
    out = net.normalized(net.convolution(net.variable(2, 6, 9, 9), 6, **attrs))
    net.check(node("clip", [out], a_min="0", a_max="0.5"), chains=1, steps=1)
    net.check(node("clip", [out], a_min="0.5", a_max="0"), chains=1, steps=2)  # the wrong way round


def test_a_pointwise_convolution_is_finished() -> None:
    net = Net()
    x, weight = net.variable(2, 4, 7, 7), net.variable(6, 4, 1, 1)
    out = node(
        "Convolution", [x, weight], kernel="(1, 1)", num_filter="6", no_bias="True", stride="(2, 2)"
    )
    net.check(node("relu", [net.normalized(out)]), chains=1, steps=1)


def test_two_convolutions_that_are_added_stay_two() -> None:
    net = Net()
    x = net.variable(2, 4, 6, 6)
    net.check(node("elemwise_add", [net.convolution(x), net.convolution(x)]), chains=2, steps=2)


def test_a_value_that_somebody_else_reads_is_made() -> None:
    net = Net()
    out = net.convolution(net.variable(2, 4, 6, 6))
    net.check(node("relu", [out]), node("tanh", [out]), chains=1, steps=3)
    net.check(out, node("relu", [out]), chains=1, steps=2)
    net.check(node("elemwise_add", [out, out]), chains=1, steps=2)


def test_what_does_not_follow_by_channel_is_left_alone() -> None:
    net = Net()
    out = net.convolution(net.variable(2, 4, 6, 6))
    vectors = [net.variable(6), net.variable(6), net.variable(6), net.variable(6, positive=True)]
    net.check(node("BatchNorm", [out, *vectors], axis="-1"), chains=1, steps=2)
    relu = node("relu", [net.convolution(net.variable(2, 4, 6, 6))])
    net.check(net.normalized(relu), chains=1, steps=2)


def test_a_normalization_by_itself_is_rectified_in_one_step() -> None:
    net = Net()
    x = net.variable(2, 6, 40, 40)
    net.check(node("relu", [net.normalized(node("tanh", [x]))]), chains=0, steps=2)
    seen = net.normalized(x)
    net.check(node("relu", [seen]), node("tanh", [seen]), chains=0, steps=3)


def test_few_filters_on_many_channels() -> None:
    net = Net()
    out = net.convolution(net.variable(2, 24, 9, 9), 24, stride="(2, 1)", dilate="(1, 2)")
    net.check(node("relu", [net.normalized(out)]), chains=1, steps=1)


def test_statistics_far_from_zero_are_not_folded() -> None:
    net = Net()
    out = net.normalized(net.convolution(net.variable(2, 4, 6, 6)))
    mean = out.inputs[3].node
    net.values[mean] = net.values[mean] + 1000
    plan = net.check(out, chains=1, steps=1)
    assert not fold_batch_norm(plan, net.values).constants


def test_one_by_one_in_training() -> None:
    net = Net()
    plan = net.check(
        net.normalized(net.convolution(net.variable(2, 4, 6, 6)), fix_gamma="False"),
        chains=1,
        steps=1,
    )
    tape = Tape(plan, net.values, list(net.values))
    assert tape.backward([np.ones_like(output) for output in tape.outputs]).updates


def test_the_operators_that_are_listed_as_fused_are() -> None:
    settings = {"Activation": {"act_type": "relu"}, "clip": {"a_min": "0", "a_max": "6"}}
    fused = {name for name, kernel in known_kernels().items() if kernel.epilogue is not None}
    assert fused == {"BatchNorm", "elemwise_add", "_grad_add", "relu", "Activation", "clip"}
    for op in (*sorted(fused), "sigmoid", "Flatten", "elemwise_mul"):
        net = Net()
        convolved = net.convolution(net.variable(1, 4, 5, 5))
        others = {"BatchNorm": 4, "elemwise_add": 1, "_grad_add": 1, "elemwise_mul": 1}.get(op, 0)
        inputs = [
            net.variable(6, positive=True) if op == "BatchNorm" else net.variable(1, 6, 5, 5)
            for _ in range(others)
        ]
        steps = 1 if op in fused else 2
        net.check(node(op, [convolved, *inputs], **settings.get(op, {})), chains=1, steps=steps)


def test_a_registered_kernel_is_not_replaced_by_a_chain() -> None:
    """What fuses is declared with a kernel, so that another kernel of the same operator runs as it is."""
    own = find_kernel("Convolution")
    assert own is not None
    twice = replace(own, forward=lambda *args: 2 * own.forward(*args), begin=None)
    net = Net()
    out = node("relu", [net.convolution(net.variable(1, 4, 5, 5))])
    (wanted,) = run_plan(make_plan([Entry(out)]), net.values).outputs
    KERNELS.register(twice)
    try:
        (found,) = run_plan(make_plan([Entry(out)]), net.values).outputs
    finally:
        del KERNELS.registered["Convolution"]
    np.testing.assert_allclose(found, 2 * wanted, rtol=1e-5)


def test_a_chain_runs_as_one_where_all_dtypes_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    run_separately = fused._run_separately
    monkeypatch.setattr(
        fused,
        "_run_separately",
        lambda *given: (calls.append("separately"), run_separately(*given))[1],
    )
    for dtypes, dtype, count in (
        (("float32", "float32", "float32"), "float32", 0),
        (("float64", "float64", "float64"), "float64", 0),
        (("float32", "float32", "float64"), "float64", 1),
        (("float16", "float16", "float16"), "float16", 1),
    ):
        net = Net()
        data, weight, other = (
            net.variable(2, 4, 5, 5),
            net.variable(6, 4, 3, 3),
            net.variable(2, 6, 5, 5),
        )
        made = node(
            "elemwise_add",
            [node("Convolution", [data, weight], **CONVOLUTION, no_bias="True"), other],
        )
        net.values = {
            key: net.values[key].astype(d)
            for key, d in zip((data, weight, other), dtypes, strict=True)
        }
        calls.clear()
        (output,) = run_plan(make_plan([Entry(made)]), net.values).outputs
        assert (output.dtype, len(calls)) == (dtype, count)
