"""What a step of training may be told, and what training mode changes, against MXNet's Module: all
by the command line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Context
from graphshare.ops.registry import find_gradient, find_kernel
from tests.kernels.rounding import sum_rounding
from tests.oracle.commands import in_process
from tests.oracle.conversation import Oracle
from tests.symbols import document, operator, variable
from tests.training.repeated_heads import CASES as CASES_OF_HEADS
from tests.training.repeated_heads import VALUES, graph_of

pytestmark = pytest.mark.oracle

SHAPES = {
    "data": (4, 5),
    "fc1_weight": (3, 5),
    "fc1_bias": (3,),
    "bn_gamma": (3,),
    "bn_beta": (3,),
    "bn_moving_mean": (3,),
    "bn_moving_var": (3,),
    "fc2_weight": (2, 3),
}
LABEL = [0.0, 1.0, 1.0, 0.0]
STEPS = 3


class Case(NamedTuple):
    """Attributes of BatchNorm and of variables, options of the command, and the same for Module."""

    norm: dict[str, str]
    hints: dict[str, dict[str, str]]
    options: tuple[str, ...]
    optimizer: dict[str, float]


FREE = {"fix_gamma": "False"}
FASTER = ("--learning-rate", "0.5")
FAST = {"learning_rate": 0.5}
CASES = {
    "defaults": Case({}, {}, (), {}),
    "batch statistics, gamma trained": Case(FREE, {}, FASTER, FAST),
    "gathered statistics": Case({**FREE, "use_global_stats": "True"}, {}, FASTER, FAST),
    "gathered statistics, gamma overwritten": Case({"use_global_stats": "True"}, {}, FASTER, FAST),
    "gamma overwritten": Case({"fix_gamma": "True"}, {}, FASTER, FAST),
    "gamma overwritten, and decays": Case(
        {"fix_gamma": "True"}, {}, (*FASTER, "--wd", "0.1"), {**FAST, "wd": 0.1}
    ),
    "momentum of statistics": Case({**FREE, "momentum": "0.5"}, {}, FASTER, FAST),
    "momentum": Case(FREE, {}, (*FASTER, "--momentum", "0.9"), {**FAST, "momentum": 0.9}),
    "decay by endings": Case(FREE, {}, (*FASTER, "--wd", "0.1"), {**FAST, "wd": 0.1}),
    "clipped": Case(
        FREE, {}, (*FASTER, "--clip-gradient", "0.01"), {**FAST, "clip_gradient": 0.01}
    ),
    "bound of 0": Case(FREE, {}, (*FASTER, "--clip-gradient", "0"), {**FAST, "clip_gradient": 0.0}),
    "clipped before decay": Case(
        FREE,
        {},
        (*FASTER, "--clip-gradient", "0.01", "--wd", "0.2"),
        {**FAST, "clip_gradient": 0.01, "wd": 0.2},
    ),
    "rescaled": Case(FREE, {}, ("--rescale-grad", "0.7"), {"rescale_grad": 0.7}),
    "rates and decays of variables": Case(
        FREE,
        {
            "fc1_weight": {"__lr_mult__": "2", "__wd_mult__": "3"},
            "fc1_bias": {"__lr_mult__": "0.5", "__wd_mult__": "1"},
            "bn_gamma": {"__wd_mult__": "0"},
            "fc2_weight": {"__lr_mult__": "0"},
        },
        (*FASTER, "--wd", "0.1", "--momentum", "0.5"),
        {**FAST, "wd": 0.1, "momentum": 0.5},
    ),
}


def net(case: Case, *, loss: bool = True) -> dict[str, Any]:
    """Two layers with BatchNorm between them; both ends are heads unless they end in a loss."""

    def named(name: str) -> dict[str, Any]:
        return variable(name, attrs=case.hints[name]) if name in case.hints else variable(name)

    nodes = [named(name) for name in list(SHAPES)[:3]]
    nodes += [operator("FullyConnected", "fc1", [0, 1, 2], attrs={"num_hidden": "3"})]
    nodes += [named(name) for name in list(SHAPES)[3:7]]
    nodes += [operator("BatchNorm", "bn", [3, 4, 5, 6, 7], attrs=case.norm), named("fc2_weight")]
    nodes += [
        operator("FullyConnected", "fc2", [8, 9], attrs={"num_hidden": "2", "no_bias": "True"})
    ]
    if not loss:
        return document(nodes, [8, 10], row_ptr=False)
    return document(
        [*nodes, variable("softmax_label"), operator("SoftmaxOutput", "softmax", [10, 11])],
        [12],
        row_ptr=False,
    )


def trained(
    oracle: Oracle, folder: Path, graph: dict[str, Any], options: tuple[str, ...], **asked: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Outputs and new values after some steps: ours, and those of Module."""
    stream = np.random.RandomState(5)
    drawn = {
        name: stream.standard_normal(shape).astype("float32") for name, shape in SHAPES.items()
    }
    drawn["bn_moving_var"] = 1 + np.abs(drawn["bn_moving_var"])
    feed = {"data": drawn.pop("data")}
    labels = (
        ["softmax_label"] if any(node["name"] == "softmax_label" for node in graph["nodes"]) else []
    )
    feed.update({name: np.array(LABEL, "float32") for name in labels})
    (folder / "net.json").write_text(json.dumps(graph))
    np.savez(folder / "feed.npz", **feed)
    np.savez(
        folder / "p.npz", **{("aux:" if "moving" in n else "arg:") + n: x for n, x in drawn.items()}
    )
    in_process("params", "convert", folder / "p.npz", folder / "p.params")
    params = ("--params", folder / "p.params", "--feed", folder / "feed.npz")
    more = ("--sgd-steps", str(STEPS), "--params-out", folder / "new.npz", "-o", folder / "out.npz")
    in_process("run", folder / "net.json", *params, *more, *options)
    theirs = oracle.known(
        "module",
        path=str(folder / "net.json"),
        params=str(folder / "p.params"),
        feed={name: array.tolist() for name, array in feed.items()},
        data_names=["data"],
        label_names=labels,
        steps=STEPS,
        **asked,
    )
    with np.load(folder / "new.npz") as new, np.load(folder / "out.npz") as out:
        values = {key.partition(":")[2]: new[key].ravel().tolist() for key in new.files}
        return {
            "values": values,
            "after": [out[name].ravel().tolist() for name in theirs["outputs"]],
        }, theirs


def assert_same(ours: dict[str, Any], theirs: dict[str, Any], rounding: float = 1e-6) -> None:
    """Compare outputs and trained values; ``rounding`` is the absolute difference that outputs may have."""
    assert ours["after"] == [
        pytest.approx(output, rel=1e-5, abs=rounding) for output in theirs["after"]
    ]
    assert set(ours["values"]) == set(theirs["values"])
    for name, values in theirs["values"].items():
        assert ours["values"][name] == pytest.approx(values, rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_module(name: str, oracle: Oracle, tmp_path: Path) -> None:
    case = CASES[name]
    ours, theirs = trained(oracle, tmp_path, net(case), case.options, optimizer=case.optimizer)
    assert_same(ours, theirs)
    if "overwritten" in name:  # by 1 in each pass forward; a decay comes after it
        assert ours["values"]["bn_gamma"] == pytest.approx([0.95 if "decays" in name else 1.0] * 3)


def test_other_settings_give_other_values(oracle: Oracle, tmp_path: Path) -> None:
    """No case passes because its setting does nothing; a bound of 0 alone is none."""
    found = {}
    for number, (name, case) in enumerate(CASES.items()):
        (tmp_path / str(number)).mkdir()
        ours, _ = trained(
            oracle, tmp_path / str(number), net(case), case.options, optimizer=case.optimizer
        )
        found[name] = json.dumps(ours["values"])
    assert found.pop("bound of 0") == found["batch statistics, gamma trained"]
    assert len(set(found.values())) == len(found)


def test_head_gradients(oracle: Oracle, tmp_path: Path) -> None:
    stream = np.random.RandomState(6)
    heads = {
        "bn_output": stream.standard_normal((4, 3)),
        "fc2_output": stream.standard_normal((4, 2)),
    }
    options = list(FASTER)
    for name, head in heads.items():
        np.save(tmp_path / f"{name}.npy", head.astype("float32"))
        options += ["--head-gradient", f"{name}={tmp_path / name}.npy"]
    graph = net(Case(FREE, {}, (), {}), loss=False)
    given = [head.astype("float32").tolist() for head in heads.values()]
    ours, theirs = trained(oracle, tmp_path, graph, tuple(options), optimizer=FAST, heads=given)
    # Some outputs are differences of numbers about 9, which MXNet rounds in another way with AVX2 than with AVX-512.
    assert_same(ours, theirs, rounding=sum_rounding(2, 9.0))
    ones = [np.ones_like(head).tolist() for head in heads.values()]
    ours_of_ones, theirs_of_ones = trained(
        oracle, tmp_path, graph, FASTER, optimizer=FAST, heads=ones
    )
    assert_same(ours_of_ones, theirs_of_ones)
    assert ours != ours_of_ones


def test_a_loss_ignores_its_head_gradient(oracle: Oracle, tmp_path: Path) -> None:
    head = np.random.RandomState(7).standard_normal((4, 2)).astype("float32")
    np.save(tmp_path / "h.npy", head)
    options = (*FASTER, "--head-gradient", f"softmax_output={tmp_path / 'h.npy'}")
    assert_same(
        *trained(
            oracle,
            tmp_path,
            net(Case(FREE, {}, (), {})),
            options,
            optimizer=FAST,
            heads=[head.tolist()],
        )
    )


DROPOUT = """
x, dy = mx.nd.arange(1, 241).reshape((4, 3, 20)), mx.nd.arange(240).reshape((4, 3, 20))
x.attach_grad()
with mx.autograd.record():
    y = mx.nd.Dropout(x, p=P, axes=AXES)
y.backward(dy)
result = [a.asnumpy().ravel().tolist() for a in (x, dy, y, x.grad)]
"""


class Drawn:
    """A generator that draws what leaves alone the elements that MXNet left alone."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def random(self, shape: tuple[int, ...], dtype: Any) -> Any:
        assert shape == self._kept.shape
        return np.where(self._kept, 0, 1).astype(dtype)


@pytest.mark.parametrize(("p", "axes"), [(0.3, ()), (0.5, (1,)), (0.9, ())])
def test_dropout_with_the_mask_that_mxnet_drew(
    p: float, axes: tuple[int, ...], oracle: Oracle
) -> None:
    answer = oracle.known("author", code=DROPOUT.replace("P,", f"{p},").replace("AXES", str(axes)))[
        "result"
    ]
    x, dy, y, dx = (np.array(part, "float32").reshape(4, 3, 20) for part in answer)
    kept = (y != 0).any(axis=axes, keepdims=True) if axes else y != 0
    assert 0 < kept.mean() < 1
    kernel, gradient, attrs = (
        find_kernel("Dropout"),
        find_gradient("Dropout"),
        {"p": p, "axes": axes, "mode": "training"},
    )
    assert kernel is not None
    assert isinstance(gradient, Gradient)
    context: Any = Context(training=True, rng=Drawn(kept))  # type: ignore[arg-type]
    out, mask = kernel.forward(context, attrs, x).outputs  # type: ignore[union-attr]
    np.testing.assert_allclose(out, y, rtol=1e-6)
    found: Any = gradient.vjp(TapeEntry(attrs, (x,), (out, mask), requested=(True,)), dy)
    np.testing.assert_allclose(found, dx, rtol=1e-6)


REPEATED = """
sym = mx.sym.load_json(GRAPH)
values = {name: mx.nd.array(VALUES[name]) for name in sym.list_arguments()}
kept = {name: mx.nd.zeros(value.shape) for name, value in values.items()}
bound = sym.bind(mx.cpu(), values, args_grad=kept)
bound.forward(is_train=True)
bound.backward([mx.nd.full(out.shape, 10**i) for i, out in enumerate(bound.outputs)])
result = [kept[name].asnumpy().ravel().tolist() for name in sorted(kept) if name != "label"]
"""


@pytest.mark.parametrize("name", CASES_OF_HEADS)
def test_a_repeated_head_has_the_gradient_of_its_last_listing(name: str, oracle: Oracle) -> None:
    """``tests/training/test_repeated_heads.py`` compares these with ours."""
    case = CASES_OF_HEADS[name]
    code = f"GRAPH, VALUES = {json.dumps(graph_of(case))!r}, {VALUES!r}\n{REPEATED}"
    data, w = oracle.known("author", code=code)["result"]
    assert data == pytest.approx(case.data, rel=1e-6)
    assert w == pytest.approx(case.w, rel=1e-6)
