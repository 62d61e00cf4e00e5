"""The same tables on files: a net authored without sharing, then rewritten by the same rules, is
the net authored with it.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import graphshare
from examples import caffe2_sharing, paddle_session, paddle_shared_fc, tensornets_scopes
from graphshare.analysis.name_lists import NameLists
from graphshare.builder import (
    BREW,
    CAFFE2,
    MXNET,
    PADDLE_PER_KIND,
    Session,
    Var,
    parameter_sharing,
    placeholder,
    save,
    variable,
    variable_scope,
)
from graphshare.builder import operators as op
from graphshare.ir.graph import Graph
from tests.processes import done, refused
from tests.processes import graphshare as command
from tests.unit.rewrite.rules.test_scopes import CASES

Blocks = tuple[tuple[str, dict[str, str]], ...]
Rules = list[dict[str, object]]


def rules_of(blocks: Blocks) -> Rules:
    """Blocks that begin at a scope each, as a rules file says them."""
    rules: Rules = []
    for begin, overrides in blocks:
        inner: Rules = [{"scope": key, "to": target} for key, target in overrides.items()]
        rules += [{"within": begin, "rules": inner}] if begin else inner
    return rules


def shared(stem: Path, rules: Rules) -> Graph:
    """What ``share`` makes of the files at ``stem``."""
    path = stem.with_name("rules.json")
    path.write_text(json.dumps({"version": 1, "rules": rules}))
    out = stem.with_name("shared")
    done(command("share", str(stem), "--rules", str(path), "-o", str(out)))
    return graphshare.load(str(out)).graph


def parameters_of(graph: Graph) -> dict[str, list[str]]:
    """The parameters of each operator, by its name; parameters of one name are shown to be one node."""
    nodes = {node.name: node for node in graph.variables()}
    assert len(nodes) == sum(1 for _ in graph.variables())
    return {
        node.name: [entry.node.name for entry in node.inputs if entry.node.is_variable]
        for node in graph.nodes
        if not node.is_variable
    }


def users(names: list[str]) -> tuple[Session, list[Var]]:
    """A net in which operator ``user0``, ``user1``... uses the parameter of each name, and nothing is shared."""
    with Session(MXNET) as session:
        x = placeholder("data", (2, 3))
        made = []
        for number, name in enumerate(names):
            weight = variable(name, (3, 3), absolute=True)
            made.append(
                op.FullyConnected(
                    x, weight=weight, num_hidden=3, no_bias=True, name=f"user{number}"
                )
            )
        return session, made


@pytest.mark.parametrize(
    ("blocks", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_every_case_of_the_rules_holds_on_a_file(
    blocks: Blocks, expected: str, tmp_path: Path
) -> None:
    words = expected.split()
    old, new = words[::2], words[1::2]
    session, made = users(list(dict.fromkeys(old)))
    save(session, made, str(tmp_path / "net"))
    if old == new:
        assert parameters_of(graphshare.load(str(tmp_path / "net")).graph)["user0"][1:] == old[:1]
        return
    found = parameters_of(shared(tmp_path / "net", rules_of(blocks)))
    wanted = dict(zip(old, new, strict=True))
    assert [found[f"user{i}"][1] for i in range(len(wanted))] == list(wanted.values())


def brew(*, sharing: bool) -> tuple[Session, list[Var]]:
    """The net of Caffe2's brew test, with its sharing or without."""
    with Session(BREW) as session, ExitStack() as stack:
        x = caffe2_sharing.brew_fc(placeholder("data", (4, 16)), "fc1")
        stack.enter_context(variable_scope("some_global_scope"))
        with variable_scope("model_a"):
            made = [caffe2_sharing.brew_fc(x, "output")]
        if sharing:
            stack.enter_context(parameter_sharing({"model_b": "model_a"}))
        stack.enter_context(variable_scope("model_b"))
        if sharing:
            stack.enter_context(parameter_sharing({"shared_1": "", "shared_2": ""}))
        for scope in ("shared_1", "shared_2", "unshared"):
            with variable_scope(scope):
                made.append(caffe2_sharing.brew_fc(x, "output"))
    return session, made


def layers(*, sharing: bool) -> tuple[Session, list[Var]]:
    """Layers of two scopes, and layers of one scope under automatic and given names."""
    with Session(CAFFE2) as session, variable_scope("global_scope"), ExitStack() as stack:
        if sharing:
            overrides = {"scope_1": "scope_0", "fc_auto_0": "fc", "new_fc": "shared_fc"}
            stack.enter_context(parameter_sharing(overrides))
        x = placeholder("float_features", (4, 2))
        made = []
        for scope in ("scope_0", "scope_1"):
            with variable_scope(scope):
                made.append(op.FullyConnected(x, num_hidden=2))
        made += [
            op.FullyConnected(x, num_hidden=2, name=name)
            for name in (None, None, "shared_fc", "new_fc")
        ]
        return session, made


NETS = {
    "brew": (
        brew,
        [
            {"within": "some_global_scope", "rules": [{"scope": "model_b", "to": "model_a"}]},
            {
                "within": "some_global_scope/model_b",
                "rules": [{"scope": "shared_1", "to": ""}, {"scope": "shared_2", "to": ""}],
            },
        ],
    ),
    "layers": (
        layers,
        [
            {"scope": "global_scope/scope_1", "to": "global_scope/scope_0"},
            {"scope": "global_scope/fc_auto_0", "to": "global_scope/fc"},
            {"scope": "global_scope/new_fc", "to": "global_scope/shared_fc"},
        ],
    ),
}


@pytest.mark.parametrize("net", NETS)
def test_sharing_a_file_and_authoring_with_sharing_agree(net: str, tmp_path: Path) -> None:
    authored, rules = NETS[net]
    session, made = authored(sharing=True)
    plain, plain_made = authored(sharing=False)
    save(plain, plain_made, str(tmp_path / "plain"))
    before = graphshare.load(str(tmp_path / "plain")).graph
    after = shared(tmp_path / "plain", rules)
    assert parameters_of(after) == parameters_of(session.graph(made)) != parameters_of(before)
    assert NameLists(after).outputs == NameLists(before).outputs == [x.name for x in made]
    assert sorted(NameLists(after).arguments) == sorted(NameLists(session.graph(made)).arguments)


def test_other_shapes_are_refused_on_a_file_too(tmp_path: Path) -> None:
    with Session(CAFFE2) as session, variable_scope("global_scope"):
        x = placeholder("float_features", (4, 2))
        made = [op.FullyConnected(x, num_hidden=size) for size in (2, 3)]
        save(session, made, str(tmp_path / "net"))
    override = "global_scope/fc_auto_0=global_scope/fc"
    refused(
        command(
            "share", str(tmp_path / "net"), "--override", override, "-o", str(tmp_path / "out")
        ),
        "shape",
    )
    assert not list(tmp_path.glob("out*"))


def test_clones_of_one_file_are_tensornets_clones(tmp_path: Path) -> None:
    """Two copies of a net that was authored alone, tied, under name scopes: parameters keep their names."""
    size = (None, 3, 32, 32)
    with Session(tensornets_scopes.TENSORFLOW) as session:
        alone = tensornets_scopes.resnet50(placeholder("x", size), 10)
        save(session, alone.output, str(tmp_path / "one"))
    clones = ("--prefix", "clone0/", "--prefix", "clone1/", "--mode", "tie", "--drop-original")
    done(command("duplicate", str(tmp_path / "one"), *clones, "-o", str(tmp_path / "two")))
    source = graphshare.load(str(tmp_path / "two"))
    one, two = tensornets_scopes.clones(size=32, classes=10)
    assert NameLists(source.graph).outputs == [one.name, two.name]
    found = [v.name for v in source.graph.variables() if not v.name.startswith("clone")]
    assert (
        found
        == [weight.name for weight in alone.get_weights()]
        == [weight.name for weight in two.get_weights()]
    )
    picture = np.random.default_rng(0).random((1, 3, 32, 32), "float32")
    feeds = {"clone0/x": picture, "clone1/x": picture}
    outputs = graphshare.run(source, feeds=feeds).outputs
    assert outputs[one.name].tobytes() == outputs[two.name].tobytes()
    np.testing.assert_allclose(
        outputs[one.name], session.run(alone.output, {"x": picture}), rtol=1e-5, atol=1e-7
    )


def test_paddles_layers_shared_by_name_on_a_file(tmp_path: Path) -> None:
    """Two layers that were authored apart, tied by aliases: one weight and one bias, two outputs."""
    session, *hidden = paddle_shared_fc.not_share_weight(PADDLE_PER_KIND)
    save(session, hidden, str(tmp_path / "net"))
    aliases = ("--alias", "fc_1.w_0=fc_0.w_0", "--alias", "fc_1.b_0=fc_0.b_0")
    done(command("share", str(tmp_path / "net"), *aliases, "-o", str(tmp_path / "out")))
    found = graphshare.load(str(tmp_path / "out")).graph
    assert NameLists(found).arguments == ["data", "fc_0.w_0", "fc_0.b_0"]
    assert NameLists(found).outputs == ["fc_0_output", "fc_1_output"]


def test_a_sub_model_of_a_file_is_the_sub_model_of_the_session(tmp_path: Path) -> None:
    with Session(PADDLE_PER_KIND) as session:
        net = paddle_session.digits()
    save(session, list(net[4:]), str(tmp_path / "net"))
    pictures = np.random.default_rng(0).random((2, 1, 28, 28), "float32")
    for target in (net.digit, net.even):
        done(
            command(
                "extract",
                str(tmp_path / "net"),
                "--target",
                target.name,
                "-o",
                str(tmp_path / "part"),
            )
        )
        part = graphshare.load(str(tmp_path / "part"))
        assert [n.name for n in part.graph.nodes] == [n.name for n in session.graph(target).nodes]
        outputs = graphshare.run(part, feeds={"image": pictures}).outputs
        assert outputs[target.name].tobytes() == session.run(target, {"image": pictures}).tobytes()
