"""Identities of MXNet's operators: of each what is exact bit for bit in the executor, and what
looks alike and is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphshare as gs
from tests.symbols import document, operator, variable

_RNG = np.random.default_rng(7)
_ARRAYS = {
    "w": _RNG.standard_normal((2, 2, 3, 3)),
    "v": _RNG.standard_normal((2, 2, 3, 3)),
    "b": _RNG.standard_normal(2),
    "gamma": np.array([0.5, 2.0]),
    "beta": np.array([1.0, -1.0]),
    "mean": np.array([0.25, -0.5]),
    "var": np.array([1.5, 0.5]),
    "share": np.full(72, 0.1),
}
_FEED = _RNG.standard_normal((2, 2, 6, 6)).astype("float32")


class Step(NamedTuple):
    """An operator on the value before it, or on the values of ``others`` steps before, and on parameters."""

    op: str
    attrs: Mapping[str, str] = {}
    params: tuple[str, ...] = ()
    others: tuple[int, ...] = (-1,)


class Pair(NamedTuple):
    left: tuple[Step, ...]
    right: tuple[Step, ...]
    version: int | None = 10901


def build(
    steps: tuple[Step, ...], folder: Path, version: int | None, renames: Mapping[str, str] = {}
) -> gs.Checkpoint:
    """Return a model of the steps, the last of which is the only output."""
    nodes, places, params = [variable("data")], [0], dict[str, int]()
    for number, step in enumerate(steps):
        inputs = [places[other] for other in step.others]
        for name in step.params:
            if name not in params:
                params[name] = len(nodes)
                nodes.append(variable(renames.get(name, name)))
            inputs.append(params[name])
        places.append(len(nodes))
        key = "attr" if version is None else "attrs"
        last = "y" if number == len(steps) - 1 else f"n{number}"
        nodes.append(
            operator(step.op, last, inputs, **({key: dict(step.attrs)} if step.attrs else {}))
        )
    path = folder / "model-symbol.json"
    path.write_text(json.dumps(document(nodes, [len(nodes) - 1], version=version, row_ptr=False)))
    return gs.load(path).with_params(
        {renames.get(name, name): _ARRAYS[name].astype("float32") for name in params}
    )


_CONV = {"kernel": "(3, 3)", "num_filter": "2"}
_POOL = {"kernel": "(2, 2)", "pool_type": "avg"}
_NORM = ("gamma", "beta", "mean", "var")
_TANH, _SIGMOID = Step("tanh"), Step("sigmoid")


def conv(
    params: tuple[str, ...] = ("w", "b"), op: str = "Convolution", **attrs: str
) -> tuple[Step, ...]:
    return (Step(op, {**_CONV, **attrs}, params),)


def between(*steps: Step) -> tuple[Step, ...]:
    return (_SIGMOID, *steps, _TANH)


def sum_of(op: str, *dropped: Step) -> tuple[Step, ...]:
    return (*dropped, Step(op, {}, (), (-1, -len(dropped))))


_DRAW = Step("Dropout", {"mode": "always"}, (), (0,))
EXACT = {
    **{
        op: Pair(between(Step(op)), between())
        for op in (
            "BlockGrad",
            "stop_gradient",
            "_copy",
            "identity",
            "make_loss",
            "MakeLoss",
            "_np_copy",
        )
    },
    "gradient multiplier": Pair(
        between(Step("_contrib_gradientmultiplier", {"scalar": "-2"})), between()
    ),
    "sparse regularization": Pair(
        (Step("Flatten"), Step("IdentityAttachKLSparseReg", {}, ("share",))),
        (Step("Flatten"), Step("identity")),
    ),
    "Dropout": Pair(between(Step("Dropout", {"p": "0.9"})), between()),
    "Dropout in training": Pair(
        between(Step("Dropout", {"mode": "training"}), Step("BlockGrad")), between()
    ),
    "defaults of a convolution": Pair(
        conv(), conv(stride="(1, 1)", dilate="(1,1)", pad="(0, 0)", num_group="1", no_bias="False")
    ),
    "the device of a convolution": Pair(
        conv(workspace="256", cudnn_tune="off"), conv(cudnn_off="True")
    ),
    "spelling": Pair(conv(stride="(2,2)"), conv(stride="[2, 2]")),
    "defaults of a deconvolution": Pair(
        conv(("w",), "Deconvolution"), conv(("w",), "Deconvolution", adj="(0, 0)", no_bias="True")
    ),
    "defaults of a pooling": Pair(
        (Step("Pooling", _POOL),),
        (Step("Pooling", {**_POOL, "stride": "(1, 1)", "pad": "(0, 0)"}),),
    ),
    "momentum": Pair(
        (Step("BatchNorm", {}, _NORM),),
        (Step("BatchNorm", {"momentum": "0.5", "fix_gamma": "True"}, _NORM),),
    ),
    "scalars": Pair(
        (Step("_plus_scalar", {"scalar": "2"}),), (Step("_PlusScalar", {"scalar": "2.0"}),)
    ),
    "_Plus": Pair(sum_of("_Plus", _TANH, _SIGMOID), sum_of("elemwise_add", _TANH, _SIGMOID)),
    "one value computed twice": Pair(
        (
            Step("tanh", {}, (), (0,)),
            Step("tanh", {}, (), (0,)),
            Step("elemwise_mul", {}, (), (-1, -2)),
        ),
        (_TANH, Step("elemwise_mul", {}, (), (-1, -1))),
    ),
}
UNLIKE = {
    "Dropout at any time": Pair(between(Step("Dropout", {"mode": "always"})), between()),
    "two draws": Pair(
        (_DRAW, _DRAW, Step("elemwise_sub", {}, (), (-1, -2))),
        (_DRAW, Step("elemwise_sub", {}, (), (-1, -1))),
    ),
    "an operator that rounds": Pair(between(Step("round")), between()),
    "casts there and back": Pair(
        between(Step("Cast", {"dtype": "float16"}), Step("Cast", {"dtype": "float32"})),
        between(Step("Cast", {"dtype": "float32"})),
    ),
    **{
        f"{name} of a convolution": Pair(conv(), conv(**{name: value}))
        for name, value in (("stride", "(2, 2)"), ("pad", "(1, 1)"), ("dilate", "(2, 2)"))
    },
    "no bias": Pair(conv(), conv(("w",), no_bias="True")),
    "another weight": Pair(conv(), conv(("v", "b"))),
    "a stride of a pooling": Pair(
        (Step("Pooling", _POOL),), (Step("Pooling", {**_POOL, "stride": "(2, 2)"}),)
    ),
    "a pad that counts": Pair(
        (Step("Pooling", {**_POOL, "pad": "(1, 1)"}),),
        (Step("Pooling", {**_POOL, "pad": "(1, 1)", "count_include_pad": "False"}),),
    ),
    "a fixed gamma": Pair(
        (Step("BatchNorm", {}, _NORM),), (Step("BatchNorm", {"fix_gamma": "False"}, _NORM),)
    ),
    "eps": Pair((Step("BatchNorm", {}, _NORM),), (Step("BatchNorm", {"eps": "0.1"}, _NORM),)),
    "another scalar": Pair(
        (Step("_plus_scalar", {"scalar": "2"}),), (Step("_plus_scalar", {"scalar": "2.5"}),)
    ),
    "the order of operands": Pair(
        (_TANH, _SIGMOID, Step("elemwise_sub", {}, (), (-1, -2))),
        (_TANH, _SIGMOID, Step("elemwise_sub", {}, (), (-2, -1))),
    ),
}


_PASS, _ALIAS = "operators that pass their input on", "aliases of operators"
_DEFAULT, _IDLE = "defaults of attributes", "attributes that change no value"
USED: dict[str, dict[str, int]] = {
    **{
        op: {_PASS: 1}
        for op in ("BlockGrad", "_copy", "make_loss", "MakeLoss", "_np_copy", "gradient multiplier")
    },
    **{op: {_ALIAS: 1, _PASS: 1} for op in ("stop_gradient", "identity")},
    "sparse regularization": {_PASS: 2, _ALIAS: 1},
    "Dropout": {"Dropout in inference": 1},
    # Training is the default
    "Dropout in training": {_DEFAULT: 1, "Dropout in inference": 1, _PASS: 1},
    **{
        f"defaults of a {window}": {_DEFAULT: 1}
        for window in ("convolution", "deconvolution", "pooling")
    },
    "the device of a convolution": {_IDLE: 2},
    "momentum": {_IDLE: 1, _DEFAULT: 1},
    **{name: {_ALIAS: 1} for name in ("scalars", "_Plus")},
    **{name: {} for name in ("spelling", "one value computed twice")},
}
"""The identities that a report counts, each as often as an operator needs it."""


def build_pair(pair: Pair, folder: Path) -> tuple[gs.Checkpoint, gs.Checkpoint]:
    return build(pair.left, folder, pair.version), build(pair.right, folder, pair.version)


def run(model: gs.Checkpoint) -> np.ndarray[Any, Any]:
    (output,) = gs.run(model, feeds={"data": _FEED}).outputs.values()
    return output


def verify(left: gs.Checkpoint, right: gs.Checkpoint, **options: Any) -> Any:
    return gs.compare(left, right, feeds={"data": _FEED}, **options)


@pytest.mark.parametrize("name", EXACT)
def test_an_identity_is_exact(name: str, tmp_path: Path) -> None:
    left, right = build_pair(EXACT[name], tmp_path)
    report = verify(left, right)
    assert report, report.verdict
    (regions,) = report.branches[0].regions
    assert regions.exact == regions.operators
    assert regions.identities == USED[name]
    np.testing.assert_array_equal(run(left), run(right))


@pytest.mark.parametrize("name", UNLIKE)
def test_what_looks_alike_is_not_exact(name: str, tmp_path: Path) -> None:
    left, right = build_pair(UNLIKE[name], tmp_path)
    report = verify(left, right)
    assert report.outcome == "not equal"
    (regions,) = report.branches[0].regions
    assert regions.exact < regions.operators
    assert not all(regions.regions)
    a, b = run(left), run(right)
    assert a.shape != b.shape or not np.array_equal(a, b), (
        "both compute the same, which shows nothing"
    )


def test_weights_are_their_content(tmp_path: Path) -> None:
    """Whatever they are called; as one of two, other weights are not exact."""
    left = build(conv(), tmp_path, 10901)
    right = build(conv(stride="(1, 1)"), tmp_path, 10901, {"w": "kernel", "b": "shift"})
    assert verify(left, right)
    assert not verify(left, right.with_params({"shift": np.ones(2, "float32")}))


@pytest.mark.parametrize("version", [None, 800, 904])
def test_an_old_file_is_its_upgrade(version: int | None, tmp_path: Path) -> None:
    """Before 0.9.5 the axis -1 of argmax meant all; its loader also adds what BatchNorm implies."""
    old = build((*conv(stride="(1, 1)"), Step("argmax", {"axis": "-1"})), tmp_path, version)
    report = verify(old, gs.upgrade(old))
    assert report, report.verdict
    plain = build((*conv(), Step("argmax")), tmp_path, 10901)
    assert verify(old, plain), "the structure is exact by identities"
    assert not verify(old, build((*conv(), Step("argmax", {"axis": "-1"})), tmp_path, 10901))


@pytest.mark.parametrize(
    ("attrs", "count"),
    [
        ({}, 0),
        ({"num_group": "1"}, 1),
        ({"num_group": "1", "no_bias": "0", "stride": "(1, 1)"}, 1),
        ({"layout": "None"}, 1),
        ({"stride": "(2, 2)"}, 0),
        ({"__lr_mult__": "1"}, 0),
        ({"stride": "(2, 2)", "pad": "(0, 0)"}, 1),
    ],
)
def test_an_operator_that_states_defaults_is_counted_once(
    attrs: dict[str, str], count: int, tmp_path: Path
) -> None:
    """The other side has the attributes as well, apart from a gradient that nothing stops."""
    left, right = (
        build(conv(**attrs), tmp_path, 10901),
        build((*conv(**attrs), Step("BlockGrad")), tmp_path, 10901),
    )
    (regions,) = verify(left, right).branches[0].regions
    assert regions.identities == {_PASS: 1, **({_DEFAULT: 2 * count} if count else {})}


def test_rounds_are_those_of_the_options(tmp_path: Path) -> None:
    left, right = build_pair(EXACT["defaults of a convolution"], tmp_path)
    report = gs.compare(left, right, shapes={"data": (1, 2, 6, 6)}, inputs=gs.Inputs(rounds=3))
    assert report
    assert len(report.branches[0].rounds) == 3


@pytest.mark.parametrize("value", [["int", 1], ["int", 0], None])
def test_operators_under_np_shape_are_not_those_without(
    value: list[Any] | None, tmp_path: Path
) -> None:
    """A size of 0 is a size there, and unknown elsewhere."""
    left, _ = build_pair(EXACT["defaults of a pooling"], tmp_path)
    content = json.loads((tmp_path / "model-symbol.json").read_text())
    content["attrs"].update({} if value is None else {"is_np_shape": value})
    (tmp_path / "other-symbol.json").write_text(json.dumps(content))
    report = verify(left, gs.load(tmp_path / "other-symbol.json"))
    assert report.branches[0].is_exact is (value != ["int", 1]), report.verdict
