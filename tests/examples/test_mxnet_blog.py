"""The siamese experiment, authored and by rewriting what was authored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples import mxnet_blog
from graphshare.analysis.name_lists import NameLists
from graphshare.ir.graph import Graph
from tests.cli.test_nin import ARGUMENTS, ATTRIBUTES
from tests.cli.test_training import COPIED, TIED


def attributes(graph: Graph, name: str) -> dict[str, str]:
    return next(dict(node.attrs) for node in graph.nodes if node.name == name)


def test_forward_is_42() -> None:
    assert mxnet_blog.forward_alone() == 42.0


@pytest.mark.parametrize("mode", ["copy", "tie"])
def test_forward_of_both_branches_is_42(mode: str, tmp_path: Path) -> None:
    assert mxnet_blog.forward_siamese(mode, tmp_path) == {
        "loss_output": 42.0,
        "sha-loss_output": 42.0,
    }  # type: ignore[arg-type]


def test_forward_of_both_authored_branches_is_42() -> None:
    assert mxnet_blog.forward_authored() == [42.0, 42.0]


def test_forward_of_two_pictures_in_one_batch_is_42() -> None:
    assert mxnet_blog.forward_batched() == [42.0, 42.0]


@pytest.mark.parametrize(("mode", "wanted"), [("copy", COPIED), ("tie", TIED)])
def test_one_step_of_both_authored_branches(mode: str, wanted: float) -> None:
    before, after = mxnet_blog.trained_authored(mode)  # type: ignore[arg-type]
    assert before == [42.0, 42.0]
    assert after == pytest.approx([wanted, wanted], rel=1e-6)


def test_one_step_of_two_pictures_in_one_batch_is_that_of_the_tied_net() -> None:
    assert mxnet_blog.trained_batched() == pytest.approx([TIED, TIED], rel=1e-6)


def test_one_step_of_one_branch_on_a_batch_of_two_reaches_both() -> None:
    assert mxnet_blog.trained_on_two() == pytest.approx([COPIED, COPIED], rel=1e-6)


def test_the_tied_gradient_is_the_sum_of_both_branches() -> None:
    session, losses = mxnet_blog.siamese_net("tie")
    feed = {"data": mxnet_blog.ROWS, "sha-data": mxnet_blog.ROWS}
    session.step(losses, feed)
    (weight,) = session.params
    assert list(session.param_to_grad) == [weight]
    assert session.param_to_grad[weight].tolist() == (2 * np.array(mxnet_blog.ROWS)).tolist()
    session, losses = mxnet_blog.siamese_net("copy")
    session.step(losses, feed)
    assert [gradient.tolist() for gradient in session.param_to_grad.values()] == [
        mxnet_blog.ROWS
    ] * 2


def test_two_copies_of_one_set_of_names_are_refused() -> None:
    assert mxnet_blog.twice_with_one_set_of_names() == "'data' already exists, disallowed"


def test_renaming_the_operator_alone_leaves_its_parameters() -> None:
    graph = mxnet_blog.named_net()
    assert NameLists(graph).arguments == ["data", "kw"]
    assert attributes(graph, "conv1") == {"kernel": "(3, 3)", "no_bias": "True", "num_filter": "1"}
    renamed = mxnet_blog.renamed_alone(graph)
    assert NameLists(renamed).outputs == ["yy_output"]
    assert NameLists(renamed).arguments == ["data", "kw"]
    assert attributes(renamed, "yy") == attributes(graph, "conv1")
    assert NameLists(mxnet_blog.renamed_whole(graph)).arguments == ["sha-data", "sha-kw"]


def test_nin_has_the_21_arguments_and_its_attributes() -> None:
    graph = mxnet_blog.second_nin_branch()
    assert NameLists(graph).arguments == ARGUMENTS
    assert len(ARGUMENTS) == 21
    assert NameLists(graph).outputs == ["sha-conv4_1024_output"]
    for name, wanted in ATTRIBUTES.items():
        found = {key: value.replace(" ", "") for key, value in attributes(graph, name).items()}
        assert {key: found[key] for key in wanted} == wanted
