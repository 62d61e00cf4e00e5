"""A head that is listed several times starts from the gradient of its last listing, as in MXNet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare
from graphshare.builder import Session, placeholder, variable
from graphshare.builder import operators as op
from graphshare.execute.train.sgd import Sgd
from graphshare.execute.train.trainer import Trainer
from graphshare.formats.mxnet.symbol import read_symbol
from tests.processes import done
from tests.processes import graphshare as command
from tests.training.repeated_heads import CASES, VALUES, Y, graph_of


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_that_mxnet_gave(name: str) -> None:
    case = CASES[name]
    graph = read_symbol(json.dumps(graph_of(case)).encode())
    variables = {node.name: node for node in graph.variables()}
    values = {node: np.array(VALUES[name], "float32") for name, node in variables.items()}
    trainer = Trainer(graph.heads, values, [variables["data"], variables["w"]], Sgd())
    shapes = [output.shape for output in trainer.outputs()]
    heads = [np.full(shape, 10.0**i) for i, shape in enumerate(shapes)]
    found = (
        Trainer(graph.heads, values, list(variables.values()), Sgd(), heads=heads)
        .gradients()
        .gradients
    )
    for name, wanted in (("data", case.data), ("w", case.w)):
        assert found[variables[name]].ravel().tolist() == pytest.approx(wanted, rel=1e-6)


def trained(heads: list[Any], tmp_path: Path, **more: Any) -> Any:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(graph_of(CASES["twice"]._replace(heads=heads))))
    values = {
        "feeds": {name: VALUES[name] for name in ("data", "w")},
        "settings": Sgd(learning_rate=1.0),
        "rescale": 1.0,
    }
    model = graphshare.load(str(path)).with_params({"arg:w": np.array(VALUES["w"], "float32")})
    del values["feeds"]["w"]  # type: ignore[attr-defined]
    return graphshare.train(model, steps=1, **values, **more)


def test_a_step_counts_a_repeated_head_once(tmp_path: Path) -> None:
    once, twice = trained([Y], tmp_path), trained([Y, Y], tmp_path)
    assert once.updated["arg:w"].tolist() == twice.updated["arg:w"].tolist() == [[0.0, -1.0, -2.0]]
    assert (
        "outputs that are not losses get a gradient of ones: y_output#1 (`head_gradients` sets another)"
        in twice.notes
    )


def test_the_gradient_of_an_earlier_listing_is_ignored_and_that_is_said(tmp_path: Path) -> None:
    heads = {"y_output": [[7.0, 7.0, 7.0]], "y_output#1": [[2.0, 2.0, 2.0]]}
    result = trained([Y, Y], tmp_path, head_gradients=heads)
    assert result.updated["arg:w"].tolist() == [[-1.0, -3.0, -5.0]]
    assert (
        "ignored head gradients, of losses or of outputs that are listed again: y_output"
        in result.notes
    )


def test_the_command_line_counts_a_repeated_head_once(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(json.dumps(graph_of(CASES["twice"])))
    np.savez(tmp_path / "p.npz", **{"arg:w": np.array(VALUES["w"], "float32")})
    np.save(tmp_path / "x.npy", np.array(VALUES["data"], "float32"))
    given = (
        "--params",
        "p.npz",
        "--feed",
        "data=x.npy",
        "--sgd-steps",
        "1",
        "--rescale-grad",
        "1",
        "--learning-rate",
        "1",
    )
    done(command("run", "net.json", *given, "--params-out", "new.npz", cwd=tmp_path))
    assert np.load(tmp_path / "new.npz")["arg:w"].tolist() == [[0.0, -1.0, -2.0]]


def test_a_session_counts_a_repeated_target_once() -> None:
    with Session() as session:
        x, w = placeholder("x", (1, 2)), variable("w", (1, 2))
        y = op.broadcast_mul(x, w, name="y")
    session.set_value(w, [[5.0, 6.0]])
    assert session.gradients([y, w, y], {x: [[2.0, 3.0]]})[w].tolist() == [[3.0, 4.0]]
    assert session.gradients([y, y], {x: [[2.0, 3.0]]}, head_gradients={y: [[1.0, 10.0]]})[
        w
    ].tolist() == [[2.0, 30.0]]


def test_a_training_step_of_verify_counts_a_repeated_head_once(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(graph_of(CASES["twice"])))
    model = graphshare.load(str(path)).with_params({"arg:w": np.array(VALUES["w"], "float32")})
    tied = graphshare.duplicate(model, "sha-", mode="tie")
    report = graphshare.verify(
        tied, train_step=True, feeds=dict.fromkeys(("data", "sha-data"), VALUES["data"])
    )
    training = report.branches[0].training
    assert training is not None
    # The mean of w * data before and after a step of -0.01 * (2 * data): each branch counts once.
    assert training.outputs[0].after == pytest.approx(2 - 0.02 * (1 + 4 + 9) / 3)
