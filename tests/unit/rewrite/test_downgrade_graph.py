"""Graphs and parameters for older versions of MXNet: what these lack is left out if it has no
effect, else refused by name.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import RefusedError, UsageError
from graphshare.formats.params.format import read_index
from graphshare.ops.index import FAMILY_OF
from graphshare.ops.registry import lookup
from graphshare.rewrite.downgrade_graph import OldVersion
from tests.symbols import document, old_batch_norm, operator, two_layers, variable

FIXTURES = Path(__file__).parents[3] / "fixtures"
DENSE = {"no_bias": "True", "num_hidden": "2"}
VERSIONS = ("0.9.5", "0.10.0", "0.12.1", "1.2.1", "1.4.1", "1.6.0")


def write(folder: Path, graph: dict[str, Any], name: str = "m") -> str:
    (folder / f"{name}-symbol.json").write_text(json.dumps(graph))
    return str(folder / f"{name}-symbol.json")


def one(folder: Path, op: str, attrs: dict[str, str], inputs: int = 1, version: int = 10901) -> str:
    nodes = [variable(f"x{i}") for i in range(inputs)]
    nodes.append(operator(op, "n", list(range(inputs)), attrs=attrs))
    return write(folder, document(nodes, [inputs], version=version))


def attributes(path: str, version: str) -> dict[str, str]:
    return dict(gs.downgrade(path, version).graph.nodes[-1].attrs)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_graph_goes_down_and_comes_back(tmp_path: Path, version: str) -> None:
    model = gs.load(FIXTURES / "lenet")
    old = gs.downgrade(model, version)
    gs.save(old, tmp_path / "old")
    text = json.loads((tmp_path / "old-symbol.json").read_text())
    keys = {key for node in text["nodes"] for key in node}
    assert ("attr" in keys, "attrs" in keys) == (
        (True, False) if version.startswith("0") else (False, True)
    )
    assert gs.load(tmp_path / "old").graph.version == OldVersion(version).number
    feeds = {"data": np.random.default_rng(0).normal(size=(2, 1, 28, 28)).astype(np.float32)}
    outputs = [
        gs.run(each, feeds=feeds).outputs["softmax_output"]
        for each in (model, gs.load(tmp_path / "old"))
    ]
    assert (outputs[0] == outputs[1]).all()
    assert gs.compare(model, gs.upgrade(tmp_path / "old"), inputs=gs.Inputs(sets=[feeds]))


@pytest.mark.parametrize(
    ("version", "layout"),
    [
        ("0.9.5", "V0"),
        ("0.10.1", "V0"),
        ("0.11", "V1"),
        ("0.12", "V2"),
        ("1.4.1", "V2"),
        ("1.8", "V2"),
    ],
)
def test_parameters_take_the_form_that_the_version_reads(
    tmp_path: Path, version: str, layout: str
) -> None:
    gs.save(gs.downgrade(FIXTURES / "lenet", version), tmp_path / "old")
    file = read_index(tmp_path / "old-0000.params")
    assert {record.layout for record in file.records} == {layout}
    assert not gs.diff_params(FIXTURES / "lenet-0000.params", tmp_path / "old-0000.params")
    again = gs.downgrade(tmp_path / "old", "1.6.0")  # older forms are read by all
    gs.save(again, tmp_path / "new")
    assert (tmp_path / "new-0000.params").read_bytes() == (
        tmp_path / "old-0000.params"
    ).read_bytes()


def test_records_of_the_oldest_form_have_the_bytes_of_its_writer(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", x0=np.array([[1, 2]], np.float32))
    model = gs.load(one(tmp_path, "relu", {}), params=str(tmp_path / "w.npz"))
    gs.save(
        gs.downgrade(model, "0.10.0"), tmp_path / "old-symbol.json", params=tmp_path / "old.params"
    )
    numbers = bytes.fromhex("0000803f00000040")
    assert (
        struct.pack("<IIIiii", 2, 1, 2, 1, 0, 0) + numbers in (tmp_path / "old.params").read_bytes()
    )
    gs.save(
        gs.downgrade(model, "0.11.0"), tmp_path / "old-symbol.json", params=tmp_path / "old.params"
    )
    head = (
        (0xF993FAC8).to_bytes(4, "little")
        + (2).to_bytes(4, "little")
        + (1).to_bytes(8, "little")
        + (2).to_bytes(8, "little")
    )
    assert (
        head + b"".join(n.to_bytes(4, "little") for n in (1, 0, 0)) + numbers
        in (tmp_path / "old.params").read_bytes()
    )


@pytest.mark.parametrize(
    ("dtype", "version"), [("int64", "0.12.1"), ("int8", "0.10.0"), ("bool", "1.4.1")]
)
def test_arrays_of_a_dtype_that_came_later_are_refused_by_name(
    tmp_path: Path, dtype: str, version: str
) -> None:
    np.savez(tmp_path / "w.npz", x0=np.zeros((2, 2), dtype))
    model = gs.load(one(tmp_path, "relu", {}), params=str(tmp_path / "w.npz"))
    with pytest.raises(RefusedError, match=f"lacks {dtype}, the type of 'x0'"):
        gs.downgrade(model, version)


@pytest.mark.parametrize(
    ("op", "attrs", "version", "lacks"),
    [
        ("_np_sum", {}, "1.4.1", "the operator _np_sum"),
        (
            "FullyConnected",
            {"num_hidden": "2", "no_bias": "True", "flatten": "False"},
            "0.10.0",
            "flatten=False",
        ),
        ("Pooling", {"kernel": "(2, 2)", "layout": "NHWC"}, "1.4.1", "layout=NHWC"),
        (
            "Pooling",
            {"kernel": "(2, 2)", "pool_type": "lp", "p_value": "2"},
            "1.2.1",
            "pool_type=lp",
        ),
        ("expand_dims", {"axis": "-1"}, "0.10.0", "axis=-1"),
        (
            "Pooling",
            {"kernel": "(2, 2)", "count_include_pad": "False"},
            "1.2.1",
            "count_include_pad=False",
        ),
        ("Cast", {"dtype": "int64"}, "0.12.1", "dtype=int64"),
        ("amp_cast", {"dtype": "float16"}, "1.4.1", "the operator amp_cast"),
    ],
)
def test_what_a_version_lacks_is_refused_by_name(
    tmp_path: Path, op: str, attrs: dict[str, str], version: str, lacks: str
) -> None:
    inputs = 2 if op == "FullyConnected" else 1
    with pytest.raises(RefusedError, match=f"MXNet {version} lacks {lacks}") as refused:
        gs.downgrade(one(tmp_path, op, attrs, inputs), version)
    assert {fault.node for fault in refused.value.faults} == {"n"}


@pytest.mark.parametrize(
    ("op", "attrs", "version", "written"),
    [
        (
            "FullyConnected",
            {"num_hidden": "2", "no_bias": "True", "flatten": "True"},
            "0.10.0",
            {"num_hidden": "2", "no_bias": "True"},
        ),
        ("Pooling", {"kernel": "(2, 2)", "layout": "NCHW"}, "1.4.1", {"kernel": "(2, 2)"}),
        (
            "Pooling",
            {"global_pool": "True"},
            "0.12.1",
            {"global_pool": "True", "kernel": "(1, 1)", "pool_type": "max"},
        ),
        (
            "Pooling",
            {"kernel": "(2, 2)", "count_include_pad": "True"},
            "1.2.1",
            {"kernel": "(2, 2)"},
        ),
        ("sum", {"axis": "None"}, "0.12.1", {}),
        ("expand_dims", {"axis": "1"}, "0.10.0", {"axis": "1"}),
        ("relu", {"__mood__": "x"}, "0.9.5", {"__mood__": "x"}),
    ],
)
def test_what_has_no_effect_is_left_out_and_what_is_required_is_written(
    tmp_path: Path, op: str, attrs: dict[str, str], version: str, written: dict[str, str]
) -> None:
    assert (
        attributes(one(tmp_path, op, attrs, 2 if op == "FullyConnected" else 1), version) == written
    )


def test_an_operator_of_another_name_gets_it_back(tmp_path: Path) -> None:
    path = one(tmp_path, "elemwise_sub", {}, 2)
    assert gs.downgrade(path, "0.10.0").graph.nodes[-1].op == "_Minus"
    assert gs.downgrade(path, "0.12.1").graph.nodes[-1].op == "elemwise_sub"


def test_a_file_of_2015_is_upgraded_first(tmp_path: Path) -> None:
    graph = gs.downgrade(write(tmp_path, old_batch_norm()), "0.9.5").graph
    assert {"bn_moving_mean", "bn_moving_var"} <= {node.name for node in graph.variables()}


def test_bodies_go_down_too(tmp_path: Path) -> None:
    pooling = operator("Pooling", "p", [0], attrs={"kernel": "(2, 2)", "layout": "NHWC"})
    body = document([variable("s"), pooling], [1], version=None)
    counts = {"num_args": "2", "num_outputs": "1", "num_out_data": "1"}
    attrs = {**counts, "in_state_locs": "()", "in_data_locs": "(0,)", "remain_locs": "()"}
    nodes = [variable("x"), {**operator("_foreach", "f", [0], attrs=attrs), "subgraphs": [body]}]
    with pytest.raises(RefusedError, match="lacks layout=NHWC of Pooling"):
        gs.downgrade(write(tmp_path, document(nodes, [1])), "1.4.1")


@pytest.mark.parametrize("version", ["0.9.4", "0.8", "1.9", "1.9.1", "2.0", "new", "1", "1.2.3.4"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(UsageError, match="there is no downgrade"):
        gs.downgrade(FIXTURES / "lenet", version)


def test_a_version_between_is_judged_by_the_one_before_and_that_is_said() -> None:
    assert any(
        "judged by MXNet 1.2.1" in note for note in gs.downgrade(FIXTURES / "lenet", "1.3").notes
    )
    assert (
        gs.downgrade(FIXTURES / "lenet", "0.10").notes
        == gs.downgrade(FIXTURES / "lenet", "0.10.0").notes
    )
    assert not gs.downgrade(FIXTURES / "lenet", "1.2.1").notes


def test_numpy_shapes_and_tabs_are_refused_where_no_reader_has_them(tmp_path: Path) -> None:
    graph = document([variable("x"), operator("relu", "r", [0])], [1])
    graph["attrs"]["is_np_shape"] = ["int", 1]
    path = write(tmp_path, graph)
    with pytest.raises(RefusedError, match="NumPy shapes"):
        gs.downgrade(path, "1.4.1")
    assert gs.downgrade(path, "1.6.0").graph.attrs["is_np_shape"]
    tab = one(tmp_path, "relu", {"__note__": "a\tb"})
    with pytest.raises(RefusedError, match="tabs"):
        gs.downgrade(tab, "0.10.0")
    assert gs.downgrade(tab, "0.12.1")


def test_the_tables_name_what_there_is() -> None:
    tables = OldVersion("0.9.5").tables
    names = [
        name
        for texts in (tables.operators, tables.attributes, tables.choices)
        for text in texts
        for name in text.split()
    ]
    names += [
        name
        for table in (tables.aliases, tables.explicit, tables.nonnegative, tables.not_none)
        for name in table
    ]
    assert len(tables.operators) == len(tables.versions) == 6
    for name in names:
        op, _, key = name.partition(".")
        assert op in FAMILY_OF
        signature = lookup(op)
        parameter = (
            None if signature is None or not key else signature.parameter(key.partition("=")[0])
        )
        assert not key or parameter is not None


def test_two_layers_in_every_version(tmp_path: Path) -> None:
    path = write(tmp_path, two_layers())
    assert [len(gs.downgrade(path, version).graph.nodes) for version in VERSIONS] == [13] * 6


@pytest.mark.parametrize(
    ("op", "attrs", "last", "first", "what"),
    [
        ("BatchNorm", {"output_mean_var": "True"}, "0.9.5", "0.10.0", "output_mean_var=True"),
        (
            "Convolution",
            {"kernel": "(3, 3)", "num_filter": "2", "dilate": "(1, 2)"},
            "0.10.0",
            "0.12.1",
            "unlike numbers in dilate",
        ),
        (
            "Deconvolution",
            {"kernel": "(3, 3)", "num_filter": "2", "dilate": "(1, 2)"},
            "1.8",
            "",
            "unlike numbers in dilate",
        ),
        (
            "Pooling",
            {
                "kernel": "(1, 1)",
                "stride": "(2, 2)",
                "pooling_convention": "full",
                "pool_type": "avg",
            },
            "1.2.1",
            "1.4.1",
            "beyond the edge",
        ),
        ("_contrib_MultiBoxPrior", {"ratios": "(2, 0.5)"}, "1.4.1", "1.6.0", "begin with 1"),
        ("_contrib_MultiBoxDetection", {"nms_topk": "4"}, "1.2.1", "1.4.1", "nms_topk"),
        ("take", {"axis": "1"}, "1.2.1", "1.4.1", "an axis other than 0"),
        ("take", {"mode": "wrap"}, "1.2.1", "1.4.1", "a mode other than clip"),
        ("argmax", {}, "1.4.1", "1.6.0", "all axes at once"),
        ("sum", {"axis": "(0, -1)"}, "0.10.0", "0.12.1", "a negative axis"),
        ("pick", {"keepdims": "True"}, "0.9.5", "0.10.0", "keepdims=True"),
        ("LRN", {"nsize": "4"}, "1.8", "", "an even nsize"),
    ],
)
def test_what_a_version_computes_otherwise_is_refused(
    tmp_path: Path, op: str, attrs: dict[str, str], last: str, first: str, what: str
) -> None:
    path = one(tmp_path, op, attrs, inputs=len(lookup(op).input_names(attrs) or ("x",)))
    with pytest.raises(RefusedError, match=f"{op} otherwise with .*{what}"):
        gs.downgrade(path, last)
    assert not first or gs.downgrade(path, first)


def test_what_depends_on_inputs_or_on_the_device_is_a_note(tmp_path: Path) -> None:
    lrn = one(tmp_path, "LRN", {"nsize": "5"})
    assert any(
        "LRN of MXNet 0.9.5 sums other channels" in note
        for note in gs.downgrade(lrn, "0.9.5").notes
    )
    assert not gs.downgrade(lrn, "0.12.1").notes
    softmax = one(tmp_path, "SoftmaxOutput", {}, inputs=2)
    assert any(
        "normalizes data of four axes" in note for note in gs.downgrade(softmax, "1.4.1").notes
    )
    assert not gs.downgrade(
        one(tmp_path, "SoftmaxOutput", {"multi_output": "True"}, inputs=2), "1.4.1"
    ).notes
    assert not gs.downgrade(write(tmp_path, two_layers()), "1.4.1").notes


def test_forms_that_older_versions_do_not_read_or_read_otherwise_are_written_so_that_they_mean_the_same(
    tmp_path: Path,
) -> None:
    window = {
        "global_pool": "True",
        "kernel": "(2, 2)",
        "pad": "(1, 1)",
        "stride": "(2, 2)",
        "pool_type": "avg",
    }
    assert {"pad", "stride"}.isdisjoint(attributes(one(tmp_path, "Pooling", window), "0.12.1"))
    deconvolution = {"kernel": "(2, 2)", "num_filter": "4", "target_shape": "(0, 0)"}
    assert "target_shape" not in attributes(
        one(tmp_path, "Deconvolution", deconvolution, inputs=2), "0.9.5"
    )
    assert attributes(one(tmp_path, "Reshape", {"shape": "-1"}), "0.9.5")["shape"] == "(-1,)"
    assert (
        attributes(one(tmp_path, "Pooling_v1", {"global_pool": "True"}), "0.9.5")["kernel"]
        == "(1, 1)"
    )
