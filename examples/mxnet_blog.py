"""MXNet by hand: one trained net becomes a siamese one, and why renaming an operator alone does not do it.

    python -m examples.mxnet_blog

The net is ``data -> Convolution (3x3, no bias, one filter) -> MakeLoss``, its kernel three rows of 1 2 3.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

import graphshare
from graphshare.analysis.name_lists import NameLists
from graphshare.builder import Session, Var, initializers, placeholder, save, unique_names, variable
from graphshare.builder import operators as op
from graphshare.errors import RefusedError
from graphshare.ir.graph import Graph

ROWS = [[[[1.0, 2.0, 3.0]] * 3]]  # one picture of one channel: (1, 1, 3, 3)


def single_net() -> Var:
    """The net that was trained. Its weight is made with the convolution and named after it."""
    data = placeholder("data", (1, 1, 3, 3))
    conv = op.Convolution(data, kernel=(3, 3), num_filter=1, no_bias=True, name="conv1")
    return op.MakeLoss(conv, name="loss")


def forward_alone() -> float:
    """What the net says of a picture that equals its kernel: 42."""
    with Session() as session:
        loss = single_net()
        session.set_value("conv1_weight", ROWS)
        return session.run(loss, {"data": ROWS}).item()


def forward_siamese(mode: Literal["copy", "tie"], folder: Path) -> dict[str, float]:
    """Both branches' outputs after the written net was duplicated with ``sha-``, by ``copy`` or by ``tie``."""
    with Session() as session:
        loss = single_net()
        session.set_value("conv1_weight", ROWS)
        save(session, loss, str(folder / "one"))
    source = graphshare.load(folder / "one")
    siamese = graphshare.duplicate(source, "sha-", mode=mode)
    graphshare.save(siamese, folder / mode)
    import numpy as np

    picture = np.array(ROWS, "float32")
    done = graphshare.run(siamese, feeds={"data": picture, "sha-data": picture})
    return {name: value.item() for name, value in done.outputs.items()}


def siamese_net(mode: Literal["copy", "tie"] = "tie") -> tuple[Session, list[Var]]:
    """The siamese net, authored: both convolutions take one variable, or each its own, which begin equal.

    MXNet's prefix names the second branch. Returns the session and both losses.
    """
    with Session() as session:
        losses = []
        tied = variable("conv1_weight", (1, 1, 3, 3), initializer=initializers.constant(0.0))
        for prefix in ("", "sha-"):
            own = prefix and mode == "copy"
            weight = variable(f"{prefix}conv1_weight", (1, 1, 3, 3)) if own else tied
            with unique_names(prefix=prefix):
                data = placeholder(f"{prefix}data", (None, 1, 3, 3))
                conv = op.Convolution(
                    data, weight=weight, kernel=(3, 3), num_filter=1, no_bias=True, name="conv1"
                )
                losses.append(op.MakeLoss(conv, name="loss"))
        for parameter in session.params:
            session.set_value(parameter, ROWS)
        return session, losses


def forward_authored() -> list[float]:
    """What both branches of the authored net say of the picture."""
    session, losses = siamese_net()
    return [value.item() for value in session.run(losses, {"data": ROWS, "sha-data": ROWS})]


def trained_authored(mode: Literal["copy", "tie"]) -> tuple[list[float], list[float]]:
    """Both branches' outputs before and after one step: each kernel learns from its branch, or one kernel from both."""
    session, losses = siamese_net(mode)
    feed = {"data": ROWS, "sha-data": ROWS}
    before = session.step(losses, feed)
    return [value.item() for value in before], [value.item() for value in session.run(losses, feed)]


def trained_on_two() -> list[float]:
    """Both branches after one alone was trained, on two pictures in one batch: gradients are divided by the batch."""
    session, losses = siamese_net()
    session.step(losses[0], {"data": ROWS * 2})
    return [value.item() for value in session.run(losses, {"data": ROWS, "sha-data": ROWS})]


def batched_net() -> tuple[Session, list[Var]]:
    """What the experiment's author thought of later: one net, fed with both pictures in one batch
    that is parted afterwards.
    """
    with Session() as session:
        both = op.concat(
            placeholder("data", (1, 1, 3, 3)), placeholder("sha-data", (1, 1, 3, 3)), dim=0
        )
        conv = op.Convolution(both, kernel=(3, 3), num_filter=1, no_bias=True, name="conv1")
        parts = op.SliceChannel(op.MakeLoss(conv, name="loss"), num_outputs=2, axis=0)
        session.set_value("conv1_weight", ROWS)
        return session, list(parts)


def forward_batched() -> list[float]:
    """What that net says of both pictures."""
    session, parts = batched_net()
    return [value.item() for value in session.run(parts, {"data": ROWS, "sha-data": ROWS})]


def trained_batched() -> list[float]:
    """What it says after a step: as the tied net, for Module divides by the batch of its first
    input, not of what it joins.
    """
    session, parts = batched_net()
    session.step(parts, {"data": ROWS, "sha-data": ROWS})
    return [value.item() for value in session.run(parts, {"data": ROWS, "sha-data": ROWS})]


def twice_with_one_set_of_names() -> str:
    """Why two copies of the net cannot simply stand in one graph: their inputs and parameters have one name each."""
    with Session():
        single_net()
        try:
            single_net()
        except RefusedError as error:
            return error.faults[0].message
    raise AssertionError("two nodes of one name were not refused")


def named_net() -> Graph:
    """The convolution alone, with its weight called ``kw``, as one looks for a way to rename."""
    with Session() as session:
        data = placeholder("data")
        weight = variable("kw")
        conv = op.Convolution(
            data, weight=weight, kernel=(3, 3), num_filter=1, no_bias=True, name="conv1"
        )
        return session.graph(conv)


def renamed_alone(graph: Graph) -> Graph:
    """What ``_set_attr(name="yy")`` does to ``conv1``: the operator has another name, and nothing else has.

    A name is a label of one node. A parameter is a node of its own, so it keeps its name, and of
    two nets that were told apart in this way the parameters still bear the same names. What tells
    the branches apart is to rename every node.
    """
    names = {node: "yy" for node in graph.nodes if node.name == "conv1"}
    return graphshare.rename(graph, names=names).graph


def renamed_whole(graph: Graph) -> Graph:
    """Every node renamed, as the experiment did it in the text of the file, and as ``rename --prefix sha-`` does it."""
    return graphshare.rename(graph, prefix="sha-").graph


def nin() -> Graph:
    """Network in Network up to ``drop`` and the layer that was taken as features, then its classifier."""

    def conv(x: Var, name: str, filters: int, kernel: int, stride: int = 1, pad: int = 0) -> Var:
        options: dict[str, Any] = {
            "kernel": (kernel, kernel),
            "stride": (stride, stride),
            "pad": (pad, pad),
        }
        options |= {
            "dilate": (1, 1),
            "num_filter": filters,
            "num_group": 1,
            "no_bias": False,
            "workspace": 1024,
        }
        x = op.Convolution(x, cudnn_off=False, cudnn_tune="off", name=name, **options)
        return op.Activation(x, act_type="relu", name=f"relu_{name}")

    with Session() as session:
        x = placeholder("data")
        for i, (filters, kernel, stride, pad) in enumerate(
            ((96, 11, 4, 0), (256, 5, 1, 2), (384, 3, 1, 1)), start=1
        ):
            x = conv(x, f"conv{i}", filters, kernel, stride, pad)
            x = conv(x, f"cccp{2 * i - 1}", filters, 1)
            x = conv(x, f"cccp{2 * i}", filters, 1)
            x = op.Pooling(
                x,
                kernel=(3, 3),
                stride=(2, 2),
                pool_type="max",
                pooling_convention="full",
                name=f"pool{i}",
            )
        x = op.Dropout(x, p=0.5, name="drop")
        x = conv(x, "conv4_1024", 1024, 3, pad=1)
        x = conv(conv(x, "cccp7_1024", 1024, 1), "cccp8_1024", 1000, 1)
        x = op.Pooling(x, kernel=(6, 6), pool_type="avg", pooling_convention="full", name="pool4")
        return session.graph(op.SoftmaxOutput(op.Flatten(x, name="flatten"), name="softmax"))


def second_nin_branch() -> Graph:
    """NiN cut at ``conv4_1024_output`` and renamed with ``sha-``: 21 arguments, every attribute kept."""
    cut = graphshare.extract(nin(), ["conv4_1024_output"])
    return graphshare.rename(cut.graph, prefix="sha-").graph


def main() -> None:
    """Shows all of it."""
    print("the net alone:", forward_alone())
    with tempfile.TemporaryDirectory() as folder:
        print("two branches by copy:", forward_siamese("copy", Path(folder)))
        print("two branches by tie:", forward_siamese("tie", Path(folder)))
    print("two branches, authored:", forward_authored())
    print("two pictures in one batch:", forward_batched())
    for mode in ("copy", "tie"):
        before, after = trained_authored(mode)  # type: ignore[arg-type]
        print(f"one step, by {mode}:", *before, "->", *after)
    print("one step, in one batch:", *trained_batched())
    print("one step of one branch on two pictures:", *trained_on_two())
    print("two copies in one graph:", twice_with_one_set_of_names())
    graph = named_net()
    print("arguments:", NameLists(graph).arguments)
    print("after renaming the operator alone:", NameLists(renamed_alone(graph)).arguments)
    print("after renaming every node:", NameLists(renamed_whole(graph)).arguments)
    print("NiN's second branch:", *NameLists(second_nin_branch()).arguments)


if __name__ == "__main__":
    main()
