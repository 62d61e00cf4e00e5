"""``fold``: the outputs stay, in every layout and dtype; what cannot be folded is left and named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import DisprovedError, RefusedError, UsageError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.rewrite.folding import weights
from graphshare.rewrite.folding.fold_graph import Folded, _bias_names
from graphshare.rewrite.folding.plan import find_foldable
from tests.symbols import Record, document, operator, variable

NORM = {"eps": "0.01", "fix_gamma": "False"}
CONV = {"kernel": "(3, 2)", "num_filter": "4"}
FORMALS = ("gamma", "beta", "moving_mean", "moving_var")


class Net:
    """A graph under construction: nodes by name, and values for its parameters."""

    def __init__(self) -> None:
        self.nodes: list[Record] = []
        self.ids: dict[str, int] = {}
        self.values: dict[str, Any] = {}
        self.random = np.random.default_rng(7)

    def add(self, record: Record) -> str:
        self.ids[record["name"]] = len(self.nodes)
        self.nodes.append(record)
        return str(record["name"])

    def var(self, name: str, shape: tuple[int, ...] | None = None, dtype: str = "f4") -> str:
        if shape is not None:
            positive = name.endswith(("var", "gamma"))
            self.values[name] = (
                self.random.random(shape) + 0.5 if positive else self.random.standard_normal(shape)
            ).astype(dtype)
        return self.add(variable(name))

    def op(self, op: str, name: str, *inputs: str | tuple[str, int], **attrs: str) -> str:
        edges = [self.ids[i] if isinstance(i, str) else (self.ids[i[0]], i[1], 0) for i in inputs]
        return self.add(operator(op, name, edges, attrs=attrs))

    def norm(
        self,
        source: str | tuple[str, int],
        name: str = "bn",
        channels: int = 4,
        op: str = "BatchNorm",
        **attrs: str,
    ) -> str:
        formals = [self.var(f"{name}_{formal}", (channels,)) for formal in FORMALS]
        return self.op(op, name, source, *formals, **{**NORM, **attrs})

    def model(self, *heads: str, version: int | None = 10901) -> gs.Checkpoint:
        data = document(
            self.nodes, [self.ids[head] for head in heads], version=version, row_ptr=False
        )
        graph = read_symbol(json.dumps(data).encode(), where="net.json")
        return gs.Checkpoint(graph).with_params(self.values)


def layer(
    net: Net,
    weight: tuple[int, ...],
    op: str,
    name: str = "l",
    *,
    bias: int = 0,
    dtype: str = "f4",
    **attrs: str,
) -> str:
    parts = [net.var(f"{name}_weight", weight, dtype)] + (
        [net.var(f"{name}_bias", (bias,), dtype)] if bias else []
    )
    return net.op(op, name, "data", *parts, **attrs, no_bias=str(not bias))


def outputs(model: gs.Checkpoint, shape: tuple[int, ...], dtype: str = "f4") -> dict[str, Any]:
    data = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    found: Mapping[str, Any] = gs.run(model, feeds={"data": data}).outputs
    return dict(found)


def assert_same(
    model: gs.Checkpoint,
    folded: gs.Checkpoint,
    shape: tuple[int, ...],
    dtype: str = "f4",
    limit: float = 1e-5,
) -> None:
    before, after = outputs(model, shape, dtype), outputs(folded, shape, dtype)
    assert list(after) == list(before)
    for name, wanted in before.items():
        assert after[name].dtype == wanted.dtype
        assert np.abs(after[name] - wanted).max() <= limit * np.abs(wanted).max()


def read_back(model: gs.Checkpoint, folder: Path) -> gs.Checkpoint:
    gs.save(model, folder / "folded")
    return gs.load(folder / "folded")


LAYERS = {
    "convolution": ("Convolution", (4, 3, 3, 2), (2, 3, 5, 6), CONV, {}),
    "groups": ("Convolution", (4, 2, 3, 2), (2, 4, 5, 6), {**CONV, "num_group": "2"}, {}),
    "depthwise": ("Convolution", (4, 1, 3, 2), (2, 4, 5, 6), {**CONV, "num_group": "4"}, {}),
    "channels last": (
        "Convolution",
        (4, 3, 2, 3),
        (2, 5, 6, 3),
        {**CONV, "layout": "NHWC"},
        {"axis": "3"},
    ),
    "negative axis": ("Convolution", (4, 3, 3, 2), (2, 3, 5, 6), CONV, {"axis": "-3"}),
    "one axis": ("Convolution", (4, 3, 3), (2, 3, 5), {"kernel": "(3,)", "num_filter": "4"}, {}),
    "three axes": (
        "Convolution",
        (4, 3, 1, 2, 2),
        (1, 3, 3, 3, 3),
        {"kernel": "(1, 2, 2)", "num_filter": "4"},
        {},
    ),
    "convolution of 2015": ("Convolution_v1", (4, 3, 3, 2), (2, 3, 5, 6), CONV, {}),
    "deconvolution": ("Deconvolution", (3, 4, 3, 2), (2, 3, 5, 6), CONV, {}),
    "deconvolution in groups": (
        "Deconvolution",
        (6, 2, 3, 2),
        (2, 6, 5, 6),
        {**CONV, "num_group": "2"},
        {},
    ),
    "fully connected": ("FullyConnected", (4, 30), (2, 5, 6), {"num_hidden": "4"}, {}),
    "fully connected, not flat": (
        "FullyConnected",
        (4, 6),
        (2, 5, 6),
        {"num_hidden": "4", "flatten": "False"},
        {"axis": "-1"},
    ),
}


@pytest.mark.parametrize("bias", [0, 4], ids=["no_bias", "bias"])
@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_takes_in_the_norm_behind_it(case: str, bias: int, tmp_path: Path) -> None:
    op, weight, shape, attrs, norm = LAYERS[case]
    net = Net()
    net.var("data")
    layer(net, weight, op, bias=bias, **attrs)
    net.norm("l", **norm)
    net.op("Activation", "out", "bn", act_type="tanh")
    model = net.model("out", "bn")
    assert_by_weights(gs.fold(model))
    folded = read_back(gs.fold(model), tmp_path)
    assert [node.name for node in folded.graph.nodes] == ["data", "l_weight", "l_bias", "bn", "out"]
    assert sorted(folded.params) == ["l_bias", "l_weight"]
    assert_same(model, folded, shape)


@pytest.mark.parametrize("name", ["l_weight", "l_bias"])
@pytest.mark.parametrize("case", LAYERS)
def test_a_wrong_fold_is_refused(case: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, weight, shape, attrs, norm = LAYERS[case]
    net = Net()
    net.var("data")
    layer(net, weight, op, bias=4, **attrs)
    net.norm("l", **norm)
    model = net.model(net.op("Activation", "out", "bn", act_type="relu"))

    def fold_wrongly(*arguments: Any) -> tuple[Any, Any]:
        arrays = dict(zip(("l_weight", "l_bias"), correct(*arguments), strict=True))
        number = arrays[name].reshape(-1)[-1:]
        number *= np.float32(1 + 1e-4)
        return arrays["l_weight"], arrays["l_bias"]

    correct = weights.fold_scaling
    monkeypatch.setattr(weights, "fold_scaling", fold_wrongly)
    with pytest.raises(
        DisprovedError,
        match=f"bn_output: (weight|bias) '{name}' is .* steps of float32 from that of the original at",
    ):
        gs.fold(model)
    unproved = gs.fold(model, verify=False)
    assert unproved.report.by_weights is None
    assert gs.compare(model, unproved, shapes={"data": shape}).outcome == "not equal"


def assert_by_weights(folded: gs.Checkpoint) -> None:
    """The weights of a fold are rounded once."""
    assert folded.report is not None
    assert 0 <= folded.report.by_weights <= 1
    assert folded.notes == ()


def test_a_deconvolution_has_no_bias_unless_it_says_so() -> None:
    net = Net()
    net.var("data")
    net.var("l_weight", (3, 4, 3, 2))
    net.op("Deconvolution", "l", "data", "l_weight", num_filter="4", kernel="(3, 2)")
    model = net.model(net.norm("l"))
    folded = gs.fold(model)
    attrs = next(node.attrs for node in folded.graph.nodes if node.op)
    assert list(attrs.items()) == [("num_filter", "4"), ("kernel", "(3, 2)"), ("no_bias", "False")]
    assert_same(model, folded, (2, 3, 5, 6))


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("BatchNorm", {"fix_gamma": "True"}),
        ("BatchNorm", {"eps": "1e-05", "use_global_stats": "True"}),
        ("BatchNorm", {"output_mean_var": "True"}),
        ("BatchNorm_v1", {}),
        ("_contrib_SyncBatchNorm", {"key": "bn"}),
    ],
)
def test_every_form_of_batch_norm(op: str, attrs: dict[str, str]) -> None:
    net = Net()
    net.var("data")
    layer(net, (4, 3, 3, 2), "Convolution", **CONV)
    net.norm("l", op=op, **attrs)
    model = net.model(net.op("Activation", "out", "bn", act_type="relu"))
    folded = gs.fold(model)
    assert folded.report.count == 1
    assert_by_weights(folded)
    assert_same(model, folded, (2, 3, 5, 6))


def test_float16_is_computed_in_float64() -> None:
    net = Net()
    net.var("data")
    layer(net, (4, 300), "FullyConnected", dtype="f2", bias=4, num_hidden="4")
    model = net.model(net.norm("l"))
    folded = gs.fold(model)
    factor = net.values["bn_gamma"].astype("f8") / np.sqrt(
        net.values["bn_moving_var"].astype("f8") + 0.01
    )
    wanted = net.values["l_weight"].astype("f8") * factor[:, None]
    assert folded.params["l_weight"].dtype == folded.params["l_bias"].dtype == np.float16
    assert np.array_equal(folded.params["l_weight"], wanted.astype("f2"))
    assert_by_weights(folded)
    assert_same(model, folded, (2, 300), "f2", limit=3e-3)


def test_float64_keeps_its_digits() -> None:
    net = Net()
    net.var("data")
    layer(net, (4, 30), "FullyConnected", dtype="f8", num_hidden="4")
    net.norm("l")
    net.values = {name: value.astype("f8") for name, value in net.values.items()}
    model = net.model("bn")
    assert_same(model, gs.fold(model), (2, 30), "f8", limit=1e-14)


def two_branches(*, norms: int) -> Net:
    """Two convolutions on one weight and one bias, with one set of BatchNorm parameters or two."""
    net = Net()
    net.var("data")
    net.var("w", (4, 3, 3, 2))
    net.var("b", (4,))
    for branch in ("a", "b"):
        net.op(
            "Convolution",
            f"{branch}_conv",
            "data",
            "w",
            "b",
            **CONV,
            stride="(1, 1)" if branch == "a" else "(2, 2)",
        )
    net.norm("a_conv", "a")
    if norms == 1:
        net.op("BatchNorm", "bb", "b_conv", *[f"a_{formal}" for formal in FORMALS], **NORM)
    else:
        net.norm("b_conv", "bb")
    return net


def test_layers_that_share_weight_and_norm_are_folded_once(tmp_path: Path) -> None:
    model = two_branches(norms=1).model("a", "bb")
    folded = gs.fold(model)
    assert folded.report.folded == (Folded("w", "b", ("a_conv", "b_conv"), ("a", "bb")),)
    assert_by_weights(folded)
    assert [node.name for node in folded.graph.nodes] == ["data", "w", "b", "a", "bb"]
    assert_same(model, read_back(folded, tmp_path), (2, 3, 5, 6))


def test_norms_of_equal_numbers_are_equal() -> None:
    net = two_branches(norms=2)
    for formal in FORMALS:
        net.values[f"bb_{formal}"] = net.values[f"a_{formal}"]
    model = net.model("a", "bb")
    folded = gs.fold(model)
    assert (folded.report.count, folded.report.left) == (2, ())
    assert_by_weights(folded)
    assert_same(model, folded, (2, 3, 5, 6))


def test_a_weight_shared_by_layers_with_different_norms_is_left() -> None:
    model = two_branches(norms=2).model("a", "bb")
    folded = gs.fold(model)
    assert folded.report.folded == ()
    assert [(one.norm, one.reason) for one in folded.report.left] == [
        (name, "is after a layer that shares its weight 'w': 'a' and 'bb' differ")
        for name in ("a", "bb")
    ]
    assert b"".join(write_symbol(folded.graph)) == b"".join(write_symbol(model.graph))
    assert folded.notes == ("no BatchNorm was folded",)
    assert_same(model, folded, (2, 3, 5, 6), limit=0)


def test_branches_of_a_siamese_network(tmp_path: Path) -> None:
    net = Net()
    net.var("data")
    layer(net, (4, 3, 3, 2), "Convolution", bias=4, **CONV)
    model = net.model(net.norm("l"))
    for mode, count in (("tie", 1), ("copy", 2)):
        siamese = gs.duplicate(model, "sha-", mode=mode)
        folded = read_back(gs.fold(siamese), tmp_path)
        assert len(gs.fold(siamese).report.folded) == count
        assert gs.verify(folded, prefixes="sha-", shapes={"data": (1, 3, 5, 6)})
        feed = np.random.default_rng(2).standard_normal((2, 3, 5, 6)).astype("f4")
        before, after = (
            gs.run(m, feeds={"data": feed, "sha-data": -feed}).outputs for m in (siamese, folded)
        )
        assert all(np.abs(after[name] - before[name]).max() < 1e-5 for name in before)


LEFT = {
    "another use": ("l", {}, "is not the only use of the output of 'l'"),
    "an output": ("", {}, "is not the only use of the output of 'l'"),
    "another axis": (
        "",
        {"axis": "2"},
        "works on axis 2, which is not the axis of the output channels of 'l'",
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_has_to_stay(case: str) -> None:
    use, attrs, reason = LEFT[case]
    net = Net()
    net.var("data")
    layer(net, (4, 3, 3, 2), "Convolution", **CONV)
    net.norm("l", channels=5 if attrs else 4, **attrs)
    heads = ["bn"] + (
        [net.op("Activation", "more", use, act_type="relu")]
        if use
        else ["l"]
        if case == "an output"
        else []
    )
    model = net.model(*heads)
    folded = gs.fold(model)
    assert [(one.norm, one.reason) for one in folded.report.left] == [("bn", reason)]
    shape = (1, 3, 7, 6)
    assert_same(model, folded, shape, limit=0)


def reasons(model: gs.Checkpoint) -> list[str]:
    folded = gs.fold(model)
    assert folded.report.folded == ()
    assert [node.name for node in folded.graph.nodes] == [node.name for node in model.graph.nodes]
    return [one.reason for one in folded.report.left]


def single() -> Net:
    net = Net()
    net.var("data")
    layer(net, (4, 30), "FullyConnected", bias=4, num_hidden="4")
    net.norm("l")
    return net


def test_used_statistics_stay() -> None:
    net = single()
    net.nodes[net.ids["bn"]]["attrs"]["output_mean_var"] = "True"
    net.op("Activation", "mean", ("bn", 1), act_type="relu")
    assert reasons(net.model("bn", "mean")) == ["has a mean or variance that is used"]


def test_what_is_before_it_is_named() -> None:
    net = Net()
    net.var("data")
    net.norm("data", "first", 3)
    net.op("Activation", "act", "first", act_type="relu")
    net.norm("act", "second", 3)
    assert reasons(net.model("second")) == ["is after a variable", "is after Activation"]


def test_weights_with_other_uses_stay() -> None:
    net = single()
    net.op("FullyConnected", "decoder", "bn", "l_weight", num_hidden="4", no_bias="True")
    assert reasons(net.model("bn", "decoder")) == [
        "is after a layer whose weight 'l_weight' is also used by 'decoder', which cannot be folded"
    ]
    net = single()
    net.op("negative", "penalty", "l_bias")
    assert reasons(net.model("bn", "penalty")) == [
        "is after a layer whose bias 'l_bias' is also used by 'penalty', which cannot be folded"
    ]
    assert reasons(single().model("bn", "l_weight")) == [
        "is after a layer whose weight 'l_weight' is an output of the graph"
    ]


def test_a_bias_of_two_weights_stays() -> None:
    net = single()
    net.var("m_weight", (4, 30))
    net.op("FullyConnected", "m", "data", "m_weight", "l_bias", num_hidden="4")
    net.norm("m", "bm")
    assert reasons(net.model("bn", "bm")) == [
        "is after a layer whose bias 'l_bias' is also that of 'm'",
        "is after a layer whose bias 'l_bias' is also that of 'l'",
    ]


def test_computed_weights_and_variables_of_one_name_stay() -> None:
    net = Net()
    net.var("data")
    net.var("raw", (4, 30))
    net.op("negative", "weight", "raw")
    net.op("FullyConnected", "l", "data", "weight", num_hidden="4", no_bias="True")
    net.norm("l")
    assert reasons(net.model("bn")) == ["depends on 'weight', which is computed"]
    net = single()
    net.add(variable("l_weight"))
    net.op("negative", "other", "l_weight")
    assert reasons(net.model("bn", "other")) == [
        "depends on 'l_weight', a name that 2 variables have"
    ]


def test_parameters_that_do_not_fit_are_named() -> None:
    for name, value, reason in (
        ("bn_gamma", np.ones(3, "f4"), "has parameters of different shapes: (3), (4), (4), (4)"),
        (
            "bn_moving_var",
            np.full(4, -1, "f4"),
            "would make the weight or bias before it infinite or NaN in float32",
        ),
        ("l_weight", np.ones((4, 30), "i4"), "needs 'l_weight', which is int32"),
        (
            "l_weight",
            np.ones((5, 30), "f4"),
            "has 4 channels, which a weight of shape (5,30) does not have",
        ),
        ("l_bias", np.ones(5, "f4"), "has 4 channels, and the bias before it has shape (5)"),
    ):
        net = single()
        net.values[name] = value
        found = reasons(net.model("bn"))
        assert len(found) == 1
        assert found[0].startswith(reason)
    net = single()
    del net.values["bn_beta"]
    assert reasons(net.model("bn")) == ["needs 'bn_beta', which the parameter file does not hold"]


def test_float16_that_would_overflow_is_left() -> None:
    net = Net()
    net.var("data")
    layer(net, (4, 30), "FullyConnected", dtype="f2", num_hidden="4")
    net.norm("l")
    net.values["bn_gamma"] *= 1e5
    assert reasons(net.model("bn")) == [
        "would make the weight or bias before it infinite or NaN in float16"
    ]


def test_implied_statistics_go_with_their_norm(tmp_path: Path) -> None:
    net = Net()
    net.var("data")
    layer(net, (4, 30), "FullyConnected", num_hidden="4")
    formals = [net.var(f"bn_{formal}", (4,)) for formal in FORMALS[:2]]
    net.op("BatchNorm", "bn", "l", *formals, **NORM)
    net.values["bn_moving_mean"] = np.ones(4, "f4")
    net.values["bn_moving_var"] = np.full(4, 2, "f4")
    model = net.model("bn", version=None)
    folded = read_back(gs.fold(model), tmp_path)
    assert sorted(folded.params) == ["l_bias", "l_weight"]
    assert_same(gs.upgrade(model), folded, (2, 30))


@pytest.mark.parametrize("version", [(), (0,)], ids=["2015", "1.0"])
def test_the_entry_of_a_new_bias_has_as_many_numbers_as_the_others(
    version: tuple[int, ...], tmp_path: Path
) -> None:
    net = single()
    for record in net.nodes:
        record["inputs"] = [[*entry[:2], *version] for entry in record["inputs"]]
    gs.save(gs.fold(net.model("bn")), tmp_path / "folded")
    nodes = json.loads((tmp_path / "folded-symbol.json").read_text())["nodes"]
    assert [entry[2:] for node in nodes for entry in node["inputs"]] == [list(version)] * 3


def test_a_new_bias_has_a_name_that_nothing_else_has() -> None:
    net = Net()
    net.var("data")
    layer(net, (4, 30), "FullyConnected", num_hidden="4")
    net.norm("l")
    net.var("l_bias", (4,))
    net.op("broadcast_add", "out", "bn", "l_bias")
    model = net.model("out")
    folded = gs.fold(model)
    assert folded.report.folded[0].bias == "l_folded_bias"
    assert_same(model, folded, (2, 30))


def test_keys_without_prefixes_stay_without(tmp_path: Path) -> None:
    net = Net()
    net.var("data")
    layer(net, (4, 30), "FullyConnected", num_hidden="4")
    net.norm("l")
    np.savez(tmp_path / "gluon.npz", **net.values)
    (tmp_path / "net.json").write_bytes(b"".join(write_symbol(net.model("bn").graph)))
    folded = gs.fold(gs.load(tmp_path / "net.json", params=tmp_path / "gluon.npz"))
    assert folded.parameter_file is not None
    assert sorted(record.key or "" for record in folded.parameter_file.records) == [
        "l_bias",
        "l_weight",
    ]


def test_without_parameters_there_is_nothing_to_fold_into() -> None:
    with pytest.raises(UsageError, match="no parameters to fold into"):
        gs.fold(single().model("bn").graph)


def test_weights_that_take_more_than_the_limit_are_not_folded() -> None:
    """Each counts with its copies of eight bytes for a number, and with the results before it."""
    net = Net()
    names = ["x"]
    net.var("x")
    for number in range(2):
        fc = net.op(
            "FullyConnected",
            f"fc{number}",
            names[-1],
            net.var(f"w{number}", (100, 100)),
            num_hidden="100",
            no_bias="1",
        )
        names.append(net.norm(fc, f"bn{number}", 100, axis="1"))
    model = net.model(names[-1])
    assert gs.fold(model, max_memory=300_000).report.count == 2
    message = r"\(node \"w1\"\): folding the weight \(100,100\) takes 280\.0 kB, and the limit is 270\.0 kB"
    with pytest.raises(RefusedError, match=message):
        gs.fold(model, max_memory="270K")
    with pytest.raises(RefusedError, match=r"\(node \"w0\"\).* takes 240\.0 kB"):
        gs.fold(model, max_memory=200_000)


def test_folding_ends_at_its_time_limit() -> None:
    net = Net()
    net.op("Convolution", "conv", net.var("x"), net.var("w", (4, 3, 3, 2)), **CONV, no_bias="1")
    model = net.model(net.norm("conv"))
    with pytest.raises(RefusedError, match="the time limit of 1e-06 s has passed"):
        gs.fold(model, time_limit=1e-6)
    assert gs.fold(model, time_limit=600).report.count == 1


def test_names_of_new_biases() -> None:
    assert list(islice(_bias_names("conv1_weight"), 4)) == [
        "conv1_bias",
        "conv1_folded_bias",
        "conv1_folded_bias2",
        "conv1_folded_bias3",
    ]
    assert list(islice(_bias_names("k"), 2)) == ["k_bias", "k_folded_bias"]


_TRAINING = "is in training mode: it normalizes by the mean and variance of the batch"


@pytest.mark.parametrize(
    ("outputs", "attrs", "opset", "fault"),
    [
        ("y", "", 15, ""),
        ("y", "<training_mode = 1>", 15, _TRAINING),
        ("y, mean", "", 9, _TRAINING),
        ("y, mean, var", "", 15, _TRAINING),
        ("y", "", 7, ""),
        ("y", "", 6, _TRAINING),
        ("y", "<is_test = 1>", 6, ""),
        ("y", "<is_test = 0>", 6, _TRAINING),
        ("y", "<spatial = 1>", 7, ""),
        ("y", "<spatial = 0>", 7, "has spatial 0: a mean and a variance of each position"),
    ],
)
def test_the_modes_of_a_batch_normalization_of_onnx(
    outputs: str, attrs: str, opset: int, fault: str, tmp_path: Path
) -> None:
    onnx = pytest.importorskip("onnx")
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[2,4] x) => (float[2,4] y)
        <float[4] s = {{1.0, 1.0, 1.0, 1.0}}> {{ {outputs} = BatchNormalization {attrs} (x, s, s, s, s) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    (node,) = (
        node for node in gs.load(tmp_path / "m.onnx").graph.nodes if node.op == "BatchNormalization"
    )
    foldable = find_foldable(node, opset)
    assert foldable is not None
    assert foldable.fault == fault
    assert foldable.attrs == {"axis": 1, "eps": pytest.approx(1e-5), "fix_gamma": False}
