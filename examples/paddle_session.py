"""Paddle's session: one graph of typed variables, from which every run takes what its targets need.

    python -m examples.paddle_session

A small net for pictures of digits with two heads, which are two sub-models of one graph: one tells
the digit, one whether a digit is even. Only the costs need labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from graphshare.builder import PADDLE_PER_KIND, Session, Sgd, Var, placeholder
from graphshare.builder import operators as op
from graphshare.builder.parameter_values import operators


class Net(NamedTuple):
    """The inputs and outputs of the net."""

    image: Var
    label: Var
    parity: Var
    features: Var
    digit: Var
    even: Var
    digit_cost: Var
    even_cost: Var


def digits() -> Net:
    """The net, authored in the session that holds where it is called."""
    image = placeholder("image", (None, 1, 28, 28))
    label, parity = placeholder("label", (None,)), placeholder("parity", (None,))
    x = op.Convolution(image, kernel=(5, 5), num_filter=8, name="conv1")
    x = op.Activation(x, act_type="tanh", name="tanh1")
    x = op.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool1")
    features = op.Activation(
        op.FullyConnected(x, num_hidden=32, name="hidden"), act_type="tanh", name="features"
    )
    scores = op.FullyConnected(features, num_hidden=10, name="digit_scores")
    even_scores = op.FullyConnected(features, num_hidden=2, name="even_scores")
    return Net(
        image,
        label,
        parity,
        features,
        op.softmax(scores, name="digit"),
        op.softmax(even_scores, name="even"),
        op.softmax_cross_entropy(scores, label, name="digit_cost"),
        op.softmax_cross_entropy(even_scores, parity, name="even_cost"),
    )


def changed(session: Session, cost: Var, feed: dict[Var, Any], steps: int = 1) -> list[str]:
    """The parameters that are other ones after training one sub-model, by its cost."""
    before = {parameter: session.value(parameter) for parameter in session.params}
    for _ in range(steps):
        session.step(cost, feed, Sgd(learning_rate=0.1))
    return [
        parameter.name
        for parameter, value in before.items()
        if (session.value(parameter) != value).any()
    ]


def main() -> None:
    """Runs the sub-models apart and together."""
    import numpy as np

    pictures = np.random.default_rng(0).random((3, 1, 28, 28), "float32")
    with Session(PADDLE_PER_KIND) as session:
        net = digits()
        print("params:", *(x.name for x in session.params))
        for target in (net.digit, net.even, net.digit_cost):
            print(f"{target.name} needs", *(node.name for node in operators([target])))
        print("digit:", session.run(net.digit, {net.image: pictures}).argmax(axis=1))
        print("even:", session.run(net.even, {net.image: pictures}).argmax(axis=1))
        feed = {net.image: pictures, net.label: [3, 1, 4], net.parity: [0, 0, 1]}
        print("costs:", *session.run([net.digit_cost, net.even_cost], feed))
        print(
            "training the digits changes",
            *changed(session, net.digit_cost, {net.image: pictures, net.label: [3, 1, 4]}),
        )
        print(
            "training the rest changes",
            *changed(session, net.even_cost, {net.image: pictures, net.parity: [0, 0, 1]}),
        )
        print("costs:", *session.run([net.digit_cost, net.even_cost], feed))


if __name__ == "__main__":
    main()
