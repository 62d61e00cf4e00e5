"""The losses of training, step by step: what each output layer's training lowers, from its definition."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.ops.loss.value import measure_loss
from graphshare.ops.registry import lookup
from tests.surroundings import ROOT
from tests.symbols import document, mxnet_text, operator, variable

FEEDS = {
    "data": np.random.default_rng(0).normal(size=(4, 1, 28, 28)).astype("f"),
    "softmax_label": np.arange(4.0, dtype="f"),
}


def parse(op: str, **attrs: str) -> Any:
    signature = lookup(op)
    assert signature is not None
    return signature.parse(attrs)[0]


def test_the_loss_of_each_step_is_that_of_its_forward_pass() -> None:
    told: list[tuple[int, float]] = []
    lenet = gs.load(ROOT / "fixtures" / "lenet")
    settings = gs.Sgd(learning_rate=0.05)
    trained = gs.train(
        lenet,
        steps=4,
        settings=settings,
        feeds=FEEDS,
        on_step=lambda n, of: told.append((n, of[0].values[-1])),
    )
    assert trained.notes == ["gradients are divided by 4, the batch of 'data'"]
    (history,) = trained.losses
    assert (history.name, history.measure) == ("softmax_output", "cross entropy")
    assert told == list(enumerate(history.values, start=1))
    assert history.values == sorted(history.values, reverse=True)
    assert history.values[0] > 1.5 * history.values[-1]
    later = gs.train(
        lenet.with_params(gs.train(lenet, steps=2, settings=settings, feeds=FEEDS).updated),
        steps=1,
        feeds=FEEDS,
    )
    assert later.losses[0].values[0] == pytest.approx(history.values[2], rel=1e-6)


@pytest.mark.parametrize(
    ("attrs", "shape", "label", "expected"),
    [
        ({}, (2, 4), [1, 3], [(0, 1), (1, 3)]),
        ({"use_ignore": "True", "ignore_label": "3"}, (2, 4), [1, 3], [(0, 1)]),
        ({"multi_output": "True"}, (1, 3, 2), [[2, 0]], [(0, 2, 0), (0, 0, 1)]),
        ({"preserve_shape": "True"}, (1, 2, 3), [[2, 0]], [(0, 0, 2), (0, 1, 0)]),
        ({}, (2, 4), [1, 9], [(0, 1)]),
    ],
)
def test_cross_entropy_of_classes(
    attrs: dict[str, str], shape: Any, label: Any, expected: list[tuple[int, ...]]
) -> None:
    p = np.random.default_rng(1).uniform(0.1, 1, shape).astype("f")
    found = measure_loss("SoftmaxOutput", parse("SoftmaxOutput", **attrs), p, np.array(label, "f"))
    assert found.measure == "cross entropy"
    assert found.value == pytest.approx(
        -np.mean([np.log(p[place]) for place in expected]), rel=1e-6
    )


def test_cross_entropy_of_probabilities_and_of_what_is_impossible() -> None:
    p, y = np.array([[0.25, 0.75], [0.5, 0.5]], "f"), np.array([[0, 1], [0.5, 0.5]], "f")
    attrs = parse("SoftmaxOutput")
    assert measure_loss("SoftmaxOutput", attrs, p, y).value == pytest.approx(
        -(np.log(0.75) + np.log(0.5)) / 2
    )
    assert (
        80
        < measure_loss("SoftmaxOutput", attrs, np.array([[1, 0]], "f"), np.array([1], "f")).value
        < 100
    )
    assert np.isnan(measure_loss("SoftmaxOutput", attrs, p, np.array([-1, -1], "f")).value)


@pytest.mark.parametrize(
    ("op", "measure", "value"),
    [
        ("LinearRegressionOutput", "squared error", np.mean([0.2**2, 0.3**2])),
        ("MAERegressionOutput", "absolute error", 0.25),
        ("LogisticRegressionOutput", "cross entropy", -np.mean([np.log(0.8), np.log(0.7)])),
        ("MakeLoss", "mean", 0.55),
    ],
)
def test_other_losses(op: str, measure: str, value: float) -> None:
    label = None if op == "MakeLoss" else np.array([1, 0], "f")
    found = measure_loss(op, parse(op), np.array([[0.8], [0.3]], "f"), label)
    assert found.measure == measure
    assert found.value == pytest.approx(value, rel=1e-6)


def test_what_is_no_loss_has_the_mean_of_its_output() -> None:
    trained = gs.train(
        ROOT / "fixtures" / "lenet", steps=1, feeds={"data": FEEDS["data"]}, targets="conv1"
    )
    assert trained.losses[0].measure == "mean"
    assert trained.losses[0].values[0] == pytest.approx(
        float(trained.before["conv1_output"].mean()), rel=1e-3
    )


def test_training_without_a_seed_draws_from_seed_0_and_counts_its_own_seconds(
    tmp_path: Path,
) -> None:
    nodes = [variable("data"), variable("weight"), operator("elemwise_mul", "m", [0, 1])]
    nodes += [operator("Dropout", "d", [2]), operator("MakeLoss", "loss", [3])]
    (tmp_path / "net.json").write_text(mxnet_text(document(nodes, [4])))
    model = gs.load(tmp_path / "net.json")
    results = []
    for seed in (None, 0, 1):
        started = perf_counter()
        trained = gs.train(
            model,
            steps=1,
            feeds={"data": np.ones((4, 20), "f"), "weight": np.ones((4, 20), "f")},
            seed=seed,
        )
        assert 0 < trained.seconds < perf_counter() - started
        results.append(trained.updated["arg:weight"].tolist())
    assert results[0] == results[1] != results[2]


def test_parameters_without_a_gradient_are_listed_and_names_must_differ(tmp_path: Path) -> None:
    names = [f"w{i}_weight" for i in range(8)]
    nodes = [
        variable("data"),
        *map(variable, names),
        operator("add_n", "idle", range(2, 9), attrs={"num_args": "7"}),
    ]
    nodes += [
        operator("BlockGrad", "stop", [9]),
        operator("add_n", "sum", [0, 1, 10], attrs={"num_args": "3"}),
    ]
    nodes.append(operator("MakeLoss", "loss", [11]))
    (tmp_path / "net.json").write_text(mxnet_text(document(nodes, [12])))
    feeds = {"data": np.ones((2, 3), "f"), **{name: np.ones((2, 3), "f") for name in names}}
    told: list[int] = []
    trained = gs.train(
        gs.load(tmp_path / "net.json"),
        feeds=feeds,
        on_step=lambda number, _: told.append(number),
        steps=2,
    )
    assert told == [1, 2]
    assert trained.notes[-1] == f"no gradient reaches {', '.join(names[1:7])} and 1 more"
    nodes[2]["name"] = names[0]
    del feeds[names[1]]
    (tmp_path / "twice.json").write_text(mxnet_text(document(nodes, [12])))
    with pytest.raises(gs.GraphshareError) as caught:
        gs.train(gs.load(tmp_path / "twice.json"), feeds=feeds, steps=1)
    assert [fault.message for fault in caught.value.faults] == [
        f"several variables have the name {names[0]!r}"
    ]
