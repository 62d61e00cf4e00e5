"""What is written: normal files, both or neither, in MXNet's own form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphshare
from graphshare.analysis.roles import Kind, assign_roles
from graphshare.builder import (
    BREW,
    CAFFE2,
    MXNET,
    PADDLE,
    PADDLE_NUMBERED,
    TENSORFLOW,
    Naming,
    Session,
    placeholder,
    save,
    variable,
)
from graphshare.builder import operators as op
from graphshare.errors import GraphshareError, OutputError, RefusedError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.params.arrays import ArrayReader
from tests.processes import files_in
from tests.processes import graphshare as command
from tests.validate import validate


def net(naming: Naming = MXNET) -> Session:
    with Session(naming) as session:
        x = op.Convolution(
            placeholder("data", (2, 3, 8, 8)), kernel=(3, 3), num_filter=4, name="conv"
        )
        x = op.BatchNorm(x, fix_gamma=False, name="bn")
        op.SoftmaxOutput(op.FullyConnected(x, num_hidden=5, name="fc"), name="softmax")
        variable("unused", (2,))
    return session


def test_saved_files_read_back_and_run(tmp_path: Path) -> None:
    session = net()
    paths = save(session, "softmax", str(tmp_path / "net"), epoch=7)
    assert files_in(tmp_path) == ["net-0007.params", "net-symbol.json"]
    assert [Path(path).name for path in paths] == ["net-symbol.json", "net-0007.params"]
    source = graphshare.load(str(tmp_path / "net"))
    assert source.parameter_file is not None
    assert {record.key for record in source.parameter_file.records} == {
        "arg:conv_weight", "arg:conv_bias", "arg:bn_gamma", "arg:bn_beta", "aux:bn_moving_mean", "aux:bn_moving_var",
        "arg:fc_weight", "arg:fc_bias",
    }  # fmt: skip
    feed = {
        "data": np.random.default_rng(0).random((2, 3, 8, 8), "float32"),
        "softmax_label": np.zeros(2, "float32"),
    }
    theirs = graphshare.run(source, feeds=feed).outputs["softmax_output"]
    assert theirs.tobytes() == session.run("softmax", feed).tobytes()
    with ArrayReader(source.parameter_file) as reader:
        for record in source.parameter_file.records:
            assert reader.read(record).tobytes() == session.value((record.key or "")[4:]).tobytes()


def test_the_saved_graph_is_valid_and_in_mxnets_form(tmp_path: Path) -> None:
    session = net()
    graph = session.graph("softmax")
    assert validate(graph) == []
    path = save(session, "softmax", str(tmp_path / "net"))[0]
    assert command("format", path, "--layout", "mxnet", "--check").returncode == 0
    assert command("upgrade", path).stdout == Path(path).read_bytes()
    assert b"".join(write_symbol(graphshare.load(path).graph)) == Path(path).read_bytes()


@pytest.mark.parametrize("naming", [MXNET, TENSORFLOW, PADDLE, PADDLE_NUMBERED, CAFFE2, BREW])
def test_roles_in_the_saved_file_are_those_of_the_session(naming: Naming) -> None:
    session = net(naming)
    with session:
        scaled = op.broadcast_mul(session.var("softmax"), variable("scale", (1, 5)))
    graph = session.graph(scaled)
    for node, role in assign_roles(graph).items():
        assert role.kind is session.registry.variables[node.name].kind, node.name
    assert session.registry.variables["data"].kind is Kind.INPUT


def test_only_what_the_targets_need_is_written(tmp_path: Path) -> None:
    save(net(), "conv", str(tmp_path / "net"))
    source = graphshare.load(str(tmp_path / "net"))
    assert [node.name for node in source.graph.nodes] == [
        "data",
        "conv_weight",
        "conv_bias",
        "conv",
    ]
    assert source.parameter_file is not None
    assert [record.key for record in source.parameter_file.records] == [
        "arg:conv_weight",
        "arg:conv_bias",
    ]


def test_nothing_is_written_when_something_is_refused(tmp_path: Path) -> None:
    with Session() as session:
        y = op.relu(variable("free"), name="y")
        wide = variable("wide", (1,))
        session.set_value("wide", [1.0])
    stem = str(tmp_path / "net")
    for attempt in (lambda: save(session, y, stem), lambda: save(session, wide, stem, epoch=-1)):
        with pytest.raises(RefusedError):
            attempt()
    with pytest.raises(OutputError):
        save(session, wide, str(tmp_path / "missing" / "net"))
    assert files_in(tmp_path) == []
    save(session, wide, stem)
    before = Path(f"{stem}-symbol.json").read_bytes()
    Path(f"{stem}-0001.params").mkdir()
    with pytest.raises(GraphshareError):
        save(session, [wide, wide], stem, epoch=1)
    assert Path(f"{stem}-symbol.json").read_bytes() == before


def test_a_directory_needs_a_name_in_it(tmp_path: Path) -> None:
    for stem in (str(tmp_path), f"{tmp_path}/none/"):
        with pytest.raises(GraphshareError, match="is a directory") as caught:
            save(net(), "softmax", stem)
        assert caught.value.faults[0].hint.endswith("/NAME")
    assert files_in(tmp_path) == []


def test_a_scalar_parameter_cannot_be_saved(tmp_path: Path) -> None:
    with Session() as session:
        variable("w")
        session.set_value("w", np.float32(1.0))
        assert session.var("w").shape == ()
        with pytest.raises(RefusedError, match="is a scalar"):
            save(session, "w", str(tmp_path / "net"))
    assert files_in(tmp_path) == []
