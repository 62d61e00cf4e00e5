"""A bound graph gives what ``run`` gives, call after call, and says what it lacks."""

from __future__ import annotations

import gc
import os
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.api.bind import _ARRAYS
from graphshare.errors import RefusedError
from graphshare.execute import bound, interpreter
from tests import params_bytes
from tests.processes import ROOT
from tests.symbols import document, mxnet_text, operator, variable

LENET = str(ROOT / "fixtures" / "lenet")


def picture(samples: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((samples, 1, 28, 28)).astype(np.float32)


def test_it_gives_what_run_gives_for_every_shape() -> None:
    source = gs.load(LENET)
    net = gs.bind(source)
    assert net.inputs == ["data", "softmax_label"]
    for samples in (1, 3, 1, 2):
        data = picture(samples, samples)
        wanted = gs.run(source, feeds={"data": data}).outputs
        found = net(data=data)
        assert list(found) == list(wanted) == net.outputs
        for name, array in wanted.items():
            assert np.abs(found[name] - array).max() <= 1e-6


def test_outputs_stay_as_they_were() -> None:
    """Buffers are used again, but none that somebody holds."""
    source = gs.load(LENET)
    net = gs.bind(source, targets=["conv1", "pool1"])
    found = [net({"data": picture(4, seed)}) for seed in range(5)]
    kept = [{name: array.copy() for name, array in outputs.items()} for outputs in found]
    for seed in range(9):
        net(data=picture(4, seed + 5))
    for outputs, copies in zip(found, kept, strict=True):
        assert all(np.array_equal(outputs[name], copies[name]) for name in copies)


def test_lists_and_other_types_are_taken() -> None:
    source = gs.load(LENET)
    net = gs.bind(source)
    data = picture(1)
    assert np.allclose(
        net(data=data.tolist())["softmax_output"],
        net(data=data.astype(np.float64))["softmax_output"],
    )


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "input 'data' has no value"),
        ({"dat": picture(1)}, "'dat' names no variable"),
        ({"data": picture(1)[:, :, :5]}, "Pooling cannot take"),
        ({"data": picture(1), "softmax_label": [1, 2]}, "softmax_label"),
        ({"data": picture(1), "conv1_weight": 1}, "'conv1_weight' names no variable"),
        ({"data": "text"}, "not an array"),
    ],
)
def test_what_does_not_fit_is_refused(feeds: dict[str, Any], message: str) -> None:
    source = gs.load(LENET)
    net = gs.bind(source)
    with pytest.raises(RefusedError, match=message):
        net(feeds)
    assert net(data=picture(1))["softmax_output"].shape == (1, 10)


def test_an_array_without_a_name_is_for_the_only_input(tmp_path: Path) -> None:
    # A label is not an input
    assert gs.bind(gs.load(LENET))(picture(1))["softmax_output"].shape == (1, 10)
    for count, example in ((2, "{'x0': ..., 'x1': ...}"), (4, "{'x0': ..., 'x1': ..., 'x2': ...}")):
        nodes = [variable(f"x{i}") for i in range(count)]
        nodes.append(operator("add_n", "sum", range(count), attrs={"num_args": str(count)}))
        (tmp_path / "g.json").write_text(mxnet_text(document(nodes, [count])))
        with pytest.raises(RefusedError, match=f"there are {count} inputs") as caught:
            gs.bind(gs.load(tmp_path / "g.json"))(np.zeros(2, np.float32))
        assert caught.value.faults[0].hint == f"name them: net({example})"


def test_parameters_without_a_file_are_counted_in_one_fault() -> None:
    source = gs.load(LENET)
    with pytest.raises(RefusedError) as caught:
        gs.bind(source.graph)
    (fault,) = caught.value.faults
    assert fault.message == (
        "16 parameters have no value: no parameter file is given "
        "('conv1_weight', 'conv1_bias', 'bn1_gamma', 'bn1_beta' and 12 more)"
    )


def test_draws_follow_the_seed(tmp_path: Path) -> None:
    nodes = [
        variable("data"),
        operator("_random_uniform_like", "u", [0]),
        operator("elemwise_add", "sum", [0, 1]),
    ]
    (tmp_path / "g.json").write_text(mxnet_text(document(nodes, [2])))
    graph = gs.load(str(tmp_path / "g.json")).graph
    data = np.zeros(5, np.float32)
    first, again, other = (gs.bind(graph, seed=seed) for seed in (1, 1, 2))
    one = first(data=data)["sum_output"]
    assert np.array_equal(one, again(data=data)["sum_output"])
    assert not np.array_equal(one, other(data=data)["sum_output"])
    assert not np.array_equal(one, first(data=data)["sum_output"])
    runs = [
        gs.run(graph, feeds={"data": data}, seed=seed).outputs["sum_output"].tolist()
        for seed in (None, 0, 1)
    ]
    assert runs[0] == runs[1] != runs[2] == one.tolist()


def load(graph: Any, path: Path) -> Any:
    (path / "net-symbol.json").write_text(mxnet_text(graph))
    return gs.load(str(path / "net-symbol.json"))


def small_steps(count: int, path: Path) -> Any:
    """A chain of small operators, through a view that is used beside the array that it is a view of."""
    nodes = [
        variable("data"),
        operator("exp", "a", [0]),
        operator("Reshape", "view", [1], attrs={"shape": "(6,)"}),
    ]
    nodes += [
        operator("relu", "b", [2]),
        operator("Reshape", "back", [3], attrs={"shape": "(2, 3)"}),
    ]
    nodes += [operator("elemwise_add", "sum", [4, 1])]
    nodes += [operator("tanh", f"n{i}", [5 + i]) for i in range(count)]
    return load(document(nodes, [len(nodes) - 1, 2]), path)


def test_small_results_are_computed_without_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = small_steps(20, tmp_path)
    net = gs.bind(source)
    called: list[str] = []
    original = interpreter.run_kernel
    monkeypatch.setattr(
        interpreter,
        "run_kernel",
        lambda step, *rest: called.append(step.node.op) or original(step, *rest),
    )
    for seed in range(3):
        data = np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32)
        called.clear()
        found = net(data=data)
        assert called == ["Reshape", "Reshape"]
        wanted = gs.run(source, feeds={"data": data}).outputs
        assert {name: array.tobytes() for name, array in found.items()} == {
            n: x.tobytes() for n, x in wanted.items()
        }


def test_large_results_and_those_without_axes_are_computed_by_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    called: list[str] = []
    original = interpreter.run_kernel
    monkeypatch.setattr(
        interpreter,
        "run_kernel",
        lambda step, *rest: called.append(step.node.op) or original(step, *rest),
    )
    nodes = [variable("data"), operator("exp", "a", [0])]
    graph = document(nodes, [1])
    graph["attrs"]["is_np_shape"] = ["int", 1]
    net = gs.bind(load(graph, tmp_path))
    bounds = ((8191,), False), ((8192,), True)  # 32 kB
    for shape, by_kernel in (
        ((64,), False),
        ((), True),
        *bounds,
        ((300, 300), True),
        ((0, 3), False),
    ):
        called.clear()
        found = net(data=np.ones(shape, np.float32))["a_output"]
        assert isinstance(found, np.ndarray)
        assert found.shape == shape
        assert bool(called) == by_kernel


def test_subgraphs_are_planned_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = document([variable("x"), operator("exp", "inner", [0])], [1])
    attrs = {
        "num_args": "2",
        "num_outputs": "1",
        "num_out_data": "1",
        "in_data_locs": "(0,)",
        "in_state_locs": "()",
    }
    attrs["remain_locs"] = "()"
    nodes = [variable("data"), operator("_foreach", "loop", [0], attrs=attrs, subgraphs=[body])]
    net = gs.bind(load(document(nodes, [1]), tmp_path))
    planned: list[Any] = []
    original = interpreter.make_plan
    monkeypatch.setattr(
        interpreter, "make_plan", lambda heads: planned.append(heads) or original(heads)
    )
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = [net(data=data), net(data=data + 1), net(data=data[:2])]
    assert len(planned) == 1
    for x, outputs in zip((data, data + 1, data[:2]), found, strict=True):
        assert np.array_equal(outputs["loop_output"], np.exp(x))


def copy_lenet(folder: Path) -> Path:
    for ending in ("-symbol.json", "-0000.params"):
        shutil.copy(LENET + ending, folder)
    return folder / "lenet"


def test_graphs_bound_to_one_file_share_its_arrays(tmp_path: Path) -> None:
    nodes = [
        variable("data"),
        variable("w"),
        operator("dot", "y", [0, 1]),
        operator("relu", "z", [2]),
    ]
    weight = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    records = [params_bytes.dense(weight.shape, "float32", weight.tobytes())]
    (tmp_path / "net-0000.params").write_bytes(params_bytes.container(records, ["arg:w"]))
    load(document(nodes, [3]), tmp_path)
    net, x = str(tmp_path / "net"), np.ones((2, 1024), np.float32)
    nets = [gs.bind(net, engine="numpy")]
    wanted = nets[0](x)["z_output"]
    tracemalloc.start()
    nets += [gs.bind(net, engine="numpy"), gs.bind(net, targets="y", engine="numpy")]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < weight.nbytes / 2
    del nets[0]
    gc.collect()
    assert nets[0](x)["z_output"].tobytes() == wanted.tobytes()
    np.testing.assert_allclose(nets[1](x)["y_output"], x @ weight, rtol=1e-4, atol=1e-4)


def test_arrays_are_gone_with_the_last_graph_and_new_where_the_file_is(tmp_path: Path) -> None:
    lenet = copy_lenet(tmp_path)
    params = lenet.with_name("lenet-0000.params")
    gc.collect()
    before = len(_ARRAYS)
    net, x = gs.bind(lenet, engine="numpy"), picture(1)
    old = net(x)["softmax_output"].copy()
    assert len(_ARRAYS) > before
    content = bytearray(params.read_bytes())
    start = content.index(gs.load(lenet).params["fc1_weight"].tobytes())
    content[start : start + 4000] = bytes(4000)
    status = params.stat()
    (tmp_path / "new").write_bytes(content)
    # The size and the time of the old file
    os.utime(tmp_path / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "new").replace(params)
    other = gs.bind(lenet, engine="numpy")
    assert not np.array_equal(other(x)["softmax_output"], old)
    assert np.array_equal(net(x)["softmax_output"], old)
    del net, other
    gc.collect()
    assert len(_ARRAYS) == before


def test_arrays_of_memory_and_those_that_are_decoded_are_not_shared(tmp_path: Path) -> None:
    lenet = copy_lenet(tmp_path)
    gs.convert(lenet.with_name("lenet-0000.params"), tmp_path / "lenet.npz")
    gc.collect()
    before, x = len(_ARRAYS), picture(1)
    nets = [
        gs.bind(gs.load(f"{lenet}-symbol.json", params=tmp_path / "lenet.npz"), engine="numpy")
        for _ in range(2)
    ]
    nets.append(gs.bind(gs.load(lenet).with_params(dict(gs.load(lenet).params)), engine="numpy"))
    assert len(_ARRAYS) == before
    results = [net(x)["softmax_output"].tobytes() for net in nets]
    assert len(set(results)) == 1


def test_the_latest_combinations_of_shapes_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bound, "_KEPT", 2)
    net = gs.bind(load(document([variable("x"), operator("tanh", "y", [0])], [1]), tmp_path))
    for size in (1, 2, 3):
        net(x=np.zeros(size, np.float32))
    assert [key[0][1] for key in net._known] == [(2,), (3,)]


def test_a_bound_graph_is_shown_by_its_size_and_first_inputs(tmp_path: Path) -> None:
    for count, names in ((2, "x0, x1"), (3, "x0, x1, x2"), (5, "x0, x1, x2 and 2 more")):
        nodes = [variable(f"x{i}") for i in range(count)]
        nodes.append(operator("add_n", "sum", range(count), attrs={"num_args": str(count)}))
        assert (
            repr(gs.bind(load(document(nodes, [count]), tmp_path)))
            == f"<Bound: {count + 1} nodes, inputs {names}>"
        )
