"""What is authored here and what MXNet authors: the same text gives the same bytes, and files give the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import caffe2_sharing, mxnet_blog, paddle_session, paddle_shared_fc, tensornets_scopes
from graphshare.builder import (
    BREW,
    PADDLE_PER_KIND,
    TENSORFLOW,
    Session,
    Var,
    constant,
    initializers,
    operators,
    parameter_sharing,
    placeholder,
    save,
    unique_names,
    variable,
    variable_scope,
)
from graphshare.builder import operators as op
from graphshare.formats.mxnet.layout import write_symbol
from tests.oracle.conversation import Oracle

pytestmark = pytest.mark.oracle

# Run twice: by MXNet, where `op` is mx.sym, and here.
NETS = {
    "automatic names": """
x = op.Convolution(var("data"), kernel=(3, 3), num_filter=8)
x = op.BatchNorm(x, fix_gamma=False)
x = op.Activation(x, act_type="relu")
x = op.LeakyReLU(x, act_type="prelu")
x = op.Pooling(op.Convolution(x, kernel=(1, 1), num_filter=4, no_bias=True), kernel=(2, 2), pool_type="max", stride=(2, 2))
result = [op.SoftmaxOutput(op.FullyConnected(op.Flatten(x), num_hidden=10))]
""",
    "given names": """
x = op.Deconvolution(var("data"), kernel=(2, 2), num_filter=3, no_bias=False, name="up")
x = op.UpSampling(x, scale=2, sample_type="bilinear", num_filter=3, num_args=1, name="larger")
x = op.BatchNorm(x, name="bn")
result = [op.LinearRegressionOutput(op.FullyConnected(x, num_hidden=2, name="fc"), name="out")]
""",
    "arithmetic": """
x, y = var("x", shape=(2, 3)), var("y", shape=(2, 3))
z = x * 2 + 1 - y * 0.5
z = (1 - z) / 3 + 2 / z - (-x)
result = [z, op.broadcast_add(z, y), x + y]
""",
    "one weight for two": """
w = var("w")
a = op.FullyConnected(var("a"), weight=w, num_hidden=3, name="one")
b = op.FullyConnected(var("b"), weight=w, num_hidden=3, no_bias=True, name="two")
result = [a, b]
""",
    "one mean for two": """
mean, variance = var("mean", init='["zero", {}]'), var("variance", init='["one", {}]')
x = op.BatchNorm(var("data"), moving_mean=mean, moving_var=variance, name="bn1")
x = op.BatchNorm(x, moving_mean=mean, moving_var=variance, name="bn2")
x = op.broadcast_add(x, mean)
result = [op.BatchNorm(x, moving_mean=mean, name="bn3")]
""",
    "several outputs": """
parts = op.SliceChannel(var("data"), num_outputs=3)
x = op.concat(parts[2], parts[0], dim=1)
result = [op.add_n(x, x, x), op.stack(parts[0], parts[1], num_args=2), parts[1]]
""",
    "recurrent": """
x = op.Embedding(var("data"), input_dim=20, output_dim=8, name="embed")
result = [op.RNN(op.swapaxes(x, dim1=0, dim2=1), mode="lstm", state_size=16, num_layers=1, name="lstm")]
""",
    "normalizations": """
x = op.InstanceNorm(op.LayerNorm(var("data"), axis=1))
result = [op.GroupNorm(x, num_groups=2), op.L2Normalization(x), op.LRN(x, nsize=3)]
""",
    "losses": """
x = op.FullyConnected(var("data"), num_hidden=4)
y = [op.SVMOutput(x), op.LogisticRegressionOutput(x), op.MAERegressionOutput(x), op.MakeLoss(x), op.BlockGrad(x)]
result = y + [op.softmax(x), op.log_softmax(x)]
""",
    "variables": """
w = var("w", shape=(4, 3), dtype="float32")
result = [op.FullyConnected(var("data", shape=(2, 3)), weight=w, num_hidden=4), op.zeros_like(w)]
""",
    "a prefix": """
with Prefix("net_"):
    x = op.FullyConnected(var("data"), num_hidden=4, name="fc")
    x = op.Activation(op.FullyConnected(x, num_hidden=3), act_type="tanh")
result = [op.FullyConnected(x, num_hidden=2)]
""",
    "nothing to compute": 'result = [var("x"), constant(shape=(2,), val=3.0)]',
}


def here(code: str) -> bytes:
    """The file of the graph that ``code`` authors with the builder."""

    def full(shape: tuple[int, ...], val: float) -> Var:
        return constant(val, shape)

    def var(name: str, init: str | None = None, **given: Any) -> Var:
        return placeholder(name, **given) if init is None else variable(name, initializer=init)

    names: dict[str, Any] = {"op": operators, "var": var, "constant": full}
    names["Prefix"] = lambda prefix: unique_names(prefix=prefix)
    with Session() as session:
        exec(code, names)
        return b"".join(write_symbol(session.graph(names["result"])))


@pytest.mark.parametrize("net", NETS)
def test_one_text_gives_the_same_bytes(oracle: Oracle, net: str) -> None:
    assert here(NETS[net]).decode() == oracle.known("author", code=NETS[net])["text"]


def test_another_text_does_not(oracle: Oracle) -> None:
    assert (
        here(NETS["a prefix"]).decode()
        != oracle.known("author", code=NETS["automatic names"])["text"]
    )


def test_settings_are_written_as_mxnet_writes_them(oracle: Oracle) -> None:
    code = """
w = var("w", shape=(0, 3), lr_mult=0.0, wd_mult=0.5, dtype="float64", init=mx.init.Normal(0.1))
v = var("v", init=mx.init.Xavier(), shape=(2, 2))
result = [w, v, var("z", init=mx.init.Zero()), var("c", init=mx.init.Constant(3.0)), var("u", init=mx.init.Uniform())]
"""
    with Session() as session:
        w = variable(
            "w",
            (None, 3),
            trainable=False,
            regularizer=0.5,
            dtype="float64",
            initializer=initializers.normal(0.1),
        )
        v = variable("v", (2, 2), initializer=initializers.xavier())
        z = variable("z", initializer=initializers.zeros())
        c = variable("c", initializer=initializers.constant(3.0))
        u = variable("u", initializer=initializers.uniform())
        text = b"".join(write_symbol(session.graph([w, v, z, c, u]))).decode()
    assert text == oracle.known("author", code=code)["text"]


def test_an_operator_renamed_alone_keeps_its_parameters_names(oracle: Oracle) -> None:
    code = """
d = var("data")
conv1 = op.Convolution(data=d, weight=var("kw"), kernel=(3, 3), num_filter=1, no_bias=True, name="conv1")
plain = [conv1.list_attr(), conv1.name, conv1.list_arguments()]
try:
    conv1._set_attr(conv1="yy")
    foreign = "taken"
except mx.MXNetError:
    foreign = "refused"
conv2 = op.Convolution(data=d, kernel=(3, 3), num_filter=1, no_bias=True, name="conv1")
conv2._set_attr(name="yy")
result = [plain, foreign, [conv2.name, conv2.list_arguments(), conv2.list_outputs()]]
"""
    plain, foreign, renamed = oracle.known("author", code=code)["result"]
    graph = mxnet_blog.named_net()
    attributes = next(dict(node.attrs) for node in graph.nodes if node.name == "conv1")
    assert plain == [attributes, "conv1", ["data", "kw"]]
    assert foreign == "refused"  # in 2017 it was taken, as one more attribute
    assert renamed == ["yy", ["data", "conv1_weight"], ["yy_output"]]


def blog() -> tuple[list[Var], dict[str, Any]]:
    with Session() as session:
        loss = mxnet_blog.single_net()
        session.set_value("conv1_weight", mxnet_blog.ROWS)
    return [loss], {"data": np.array(mxnet_blog.ROWS, "float32")}


def brew() -> tuple[list[Var], dict[str, Any]]:
    with Session(BREW):
        x = placeholder("data", (4, 16))
        with parameter_sharing({"b": "a"}), variable_scope("a"):
            one = caffe2_sharing.brew_fc(x, "fc")
        with parameter_sharing({"b": "a"}), variable_scope("b"):
            two = caffe2_sharing.brew_fc(x * 2, "fc")
    return [one, two], {"data": np.random.default_rng(0).random((4, 16), "float32")}


def clones() -> tuple[list[Var], dict[str, Any]]:
    one, two = tensornets_scopes.clones(size=32, classes=10)
    rng = np.random.default_rng(0)
    return [one.output, two.output], {
        name: rng.random((2, 3, 32, 32), "float32") for name in ("x1", "x2")
    }


def layers() -> tuple[list[Var], dict[str, Any]]:
    _, hidden1, hidden2 = paddle_shared_fc.share_weight()
    return [hidden1, hidden2], {"data": np.random.default_rng(0).random((3, 20), "float32")}


def blocks() -> tuple[list[Var], dict[str, Any]]:
    _, found = paddle_shared_fc.two_level_blocks()
    rng = np.random.default_rng(0)
    return found, {f"a{i}": rng.random((2, 20), "float32") for i in range(1, 5)}


def digits() -> tuple[list[Var], dict[str, Any]]:
    with Session(PADDLE_PER_KIND):
        net = paddle_session.digits()
    rng = np.random.default_rng(0)
    feed = {"image": rng.random((3, 1, 28, 28), "float32"), "label": np.array([3, 1, 4], "float32")}
    return [net.digit, net.even, net.digit_cost], feed


@pytest.mark.parametrize("made", [blog, brew, clones, layers, blocks, digits])
def test_mxnet_loads_and_computes_what_the_session_computes(
    oracle: Oracle, tmp_path: Path, made: Callable[[], tuple[list[Var], dict[str, Any]]]
) -> None:
    targets, feed = made()
    session = targets[0].session
    mine = session.run(targets, feed)
    symbol, params = save(session, targets, str(tmp_path / "net"))
    np.savez(tmp_path / "feed.npz", **feed)
    values = [params, str(tmp_path / "feed.npz")]
    answer = oracle.known("forward", path=symbol, values=values, keep=str(tmp_path / "out.npz"))
    assert answer["names"] == [target.name for target in targets]
    with np.load(tmp_path / "out.npz") as theirs:
        for target, value in zip(targets, mine, strict=True):
            np.testing.assert_allclose(theirs[target.name], value, rtol=2e-5, atol=1e-6)
    assert oracle.known("tojson", path=symbol)["text"] == Path(symbol).read_text()


def blog_twice() -> tuple[list[Var], dict[str, Any]]:
    _, losses = mxnet_blog.siamese_net()
    return losses, {name: np.array(mxnet_blog.ROWS, "float32") for name in ("data", "sha-data")}


def blog_of_two() -> tuple[list[Var], dict[str, Any]]:
    _, losses = mxnet_blog.siamese_net()
    return losses[:1], {"data": np.array(mxnet_blog.ROWS * 2, "float32")}


def blog_batched() -> tuple[list[Var], dict[str, Any]]:
    session, parts = mxnet_blog.batched_net()
    with session:
        return [op.MakeLoss(part) for part in parts], blog_twice()[1]


def two_uses() -> tuple[list[Var], dict[str, Any]]:
    session, cost = caffe2_sharing.two_uses()
    with session:
        return [op.MakeLoss(cost)], {
            "float_features": np.random.default_rng(0).random((4, 2), "float32")
        }


def sub_model(which: str, label: str) -> tuple[list[Var], dict[str, Any]]:
    with Session(PADDLE_PER_KIND):
        cost = getattr(paddle_session.digits(), which)
        rng = np.random.default_rng(0)
        feed = {
            "image": rng.random((3, 1, 28, 28), "float32"),
            label: np.array([1, 0, 1], "float32"),
        }
        return [op.MakeLoss(cost)], feed


def trained_clones() -> tuple[list[Var], dict[str, Any]]:
    session, costs = tensornets_scopes.training_clones()
    rng = np.random.default_rng(0)
    feed = {f"clone{i}/x": rng.random((2, 3, 6, 6), "float32") for i in (0, 1)}
    with session:
        losses = [op.MakeLoss(cost) for cost in costs]
    return losses, feed | {f"clone{i}/label": np.array([i, 2], "float32") for i in (0, 1)}


TRAINED: dict[str, Callable[[], tuple[list[Var], dict[str, Any]]]] = {
    "the blog's net": blog,
    "its tied net": blog_twice,
    "one branch on a batch of two": blog_of_two,
    "both pictures in one batch": blog_batched,
    "a layer used twice": two_uses,
    "one sub-model": lambda: sub_model("digit_cost", "label"),
    "the other sub-model": lambda: sub_model("even_cost", "parity"),
    "clones": trained_clones,
}


@pytest.mark.parametrize("net", TRAINED)
def test_a_step_is_that_of_module(oracle: Oracle, tmp_path: Path, net: str) -> None:
    targets, feed = TRAINED[net]()
    session = targets[0].session
    before = session.run(targets, feed)
    symbol, params = save(session, targets, str(tmp_path / "net"))
    session.step(targets, feed)
    after = session.run(targets, feed)
    data = [name for name in feed if not name.endswith(("label", "parity"))]
    names = {"data_names": data, "label_names": [name for name in feed if name not in data]}
    fed = {name: value.tolist() for name, value in feed.items()}
    answer = oracle.known("module", path=symbol, params=params, feed=fed, **names)
    for mine, theirs in ((before, answer["before"]), (after, answer["after"])):
        for output, wanted in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(output.ravel(), wanted, rtol=1e-5, atol=1e-6)
    needed = {node.name for node in session.graph(targets).variables()}
    assert set(answer["values"]) == {
        name for name in session.registry.parameters() if name in needed
    }
    for name, wanted in answer["values"].items():
        # A bias before a BatchNorm has no gradient but rounding
        largest = max(float(np.abs(wanted).max()), 1e-4)
        assert float(np.abs(session.value(name).ravel() - wanted).max()) <= 1e-5 * largest, name
    moved = [
        parameter for parameter in session.param_to_grad if session.param_to_grad[parameter].any()
    ]
    assert moved


SHARED = [
    "",
    "w_weight",
    "g_gamma",
    "b_beta",
    "v_weight",
    "w_weight v_weight",
    "w_weight g_gamma b_beta v_weight",
]


def three_with_one_mean(shared: list[str], *, chained: bool) -> tuple[list[Var], dict[str, Any]]:
    """Three branches, or one chain of three parts, with one set of moving statistics and more ``shared`` or not."""
    rng = np.random.default_rng(0)
    with Session() as session:
        made: dict[str, Var] = {}

        def parameter(name: str, number: int) -> Var:
            name = name if name in shared else f"{name[:1]}{number}{name[1:]}"
            return made.setdefault(name, made.get(name) or variable(name))

        states = {"moving_mean": variable("moving_mean"), "moving_var": variable("moving_var")}
        losses, x = [], placeholder("x0", (None, 3))
        for i in range(3):
            if i and not chained:
                x = placeholder(f"x{i}", (None, 3))
            h = op.FullyConnected(x, weight=parameter("w_weight", i), num_hidden=3, no_bias=True)
            scale = {"gamma": parameter("g_gamma", i), "beta": parameter("b_beta", i)}
            h = op.BatchNorm(h, **scale, **states, fix_gamma=False)
            x = op.FullyConnected(h, weight=parameter("v_weight", i), num_hidden=3, no_bias=True)
            if not chained or i == 2:
                losses.append(
                    op.LinearRegressionOutput(x, label=placeholder(f"y{i}_label", (None, 3)))
                )
        feed = {
            var.name: rng.random((4, 3), "float32") + 3 * i for i, var in enumerate(session.inputs)
        }
        for var in session.params:
            session.set_value(var, rng.random((3, 3) if "weight" in var.name else (3,)))
    return losses, feed


@pytest.mark.parametrize("chained", [False, True], ids=["branches", "a chain"])
@pytest.mark.parametrize("shared", SHARED, ids=lambda shared: shared or "statistics alone")
def test_shared_statistics_are_updated_in_modules_order(
    oracle: Oracle, tmp_path: Path, shared: str, chained: bool
) -> None:
    losses, feed = three_with_one_mean(shared.split(), chained=chained)
    session = losses[0].session
    session.run(losses, feed)
    symbol, params = save(session, losses, str(tmp_path / "net"))
    session.step(losses, feed)
    data = [name for name in feed if not name.endswith("label")]
    fed = {name: value.tolist() for name, value in feed.items()}
    names = {"data_names": data, "label_names": [name for name in feed if name not in data]}
    answer = oracle.known("module", path=symbol, params=params, feed=fed, **names)
    for name in ("moving_mean", "moving_var"):
        np.testing.assert_allclose(
            session.value(name), answer["values"][name], rtol=1e-5, err_msg=name
        )


def test_module_gives_the_same_first_values(oracle: Oracle, tmp_path: Path) -> None:
    with Session(TENSORFLOW, seed=1) as session:
        x = placeholder("data", (2, 3, 8, 8))
        with variable_scope("net", initializer=initializers.xavier(magnitude=2)):
            x = operators.BatchNorm(
                operators.Convolution(x, kernel=(3, 3), num_filter=64, name="conv"), name="bn"
            )
            x = operators.LeakyReLU(x, act_type="prelu", name="prelu")
        x = operators.UpSampling(
            x, scale=2, sample_type="bilinear", num_filter=64, num_args=1, name="up"
        )
        x = operators.FullyConnected(x, num_hidden=4, name="fc")
        x = operators.broadcast_add(
            x, variable("c", (1, 4), initializer=initializers.constant(2.5))
        )
        x = operators.broadcast_add(x, variable("n", (1, 4), initializer=initializers.normal(0.25)))
        session.run(x, {"data": np.zeros((2, 3, 8, 8), "float32")})
        symbol, _ = save(session, x, str(tmp_path / "net"))
        mine = {name: session.value(name) for name in session.registry.parameters()}
    theirs = oracle.known("first_values", path=symbol, shapes={"data": [2, 3, 8, 8]})
    assert sorted(theirs) == sorted(mine)
    drawn = {"net/conv/weights", "fc/weights", "n"}
    for name, value in mine.items():
        other = np.array(theirs[name], "float32")
        if name in drawn:
            assert other.std() == pytest.approx(value.std(), rel=0.1 if value.size > 4 else 2), name
        else:
            np.testing.assert_allclose(value.ravel(), other, rtol=1e-6, err_msg=name)
