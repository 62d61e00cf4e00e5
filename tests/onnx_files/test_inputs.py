"""Inputs that both models of a proof accept: fixed sizes of either, sets from files, and bodies that were computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphshare as gs
from graphshare.execute.backends.backend import open_computation
from graphshare.formats.params.array_files import read_value
from graphshare.verification.inputs import Drawer, Inputs
from graphshare.verification.pairing import pair_models
from tests.onnx_files.test_run import build, rates
from tests.onnx_files.test_verify import write
from tests.processes import ROOT, done, in_process, refused

FLOAT, INT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
Sizes = list[int | str]


def draw(path: Path, name: str, seed: int = 0) -> np.ndarray:
    """Return what is drawn for an input."""
    return gs.run(path, seed=seed, all_outputs=True).outputs[name]


def negate(folder: Path, name: str, sizes: Sizes, op: str = "Neg") -> Path:
    """Write a model whose input has these sizes."""
    return write(
        folder,
        name,
        build([helper.make_node(op, ["x"], ["y"])], {"x": (FLOAT, sizes)}, {"y": FLOAT}),
    )


@pytest.mark.parametrize("options", [{}, {"layers": True}, {"exact": True}])
@pytest.mark.parametrize("is_turned", [False, True])
def test_sizes_that_either_model_fixes_are_drawn(
    options: dict[str, bool], is_turned: bool, tmp_path: Path
) -> None:
    pair = negate(tmp_path, "open", ["N", 3, "H", 5]), negate(tmp_path, "fixed", [4, 3, 7, "W"])
    path, other = reversed(pair) if is_turned else pair
    report = gs.compare(path, other, **options)
    assert report
    assert {output.shape for output in report.branches[0].rounds[0].outputs} == {(4, 3, 7, 5)}


@pytest.mark.parametrize("options", [{}, {"layers": True}, {"exact": True}])
@pytest.mark.parametrize("sizes", [[1, 3, 256], [1, 3, 224, 224]])
def test_sizes_that_contradict_each_other_are_named(
    options: dict[str, bool], sizes: Sizes, tmp_path: Path
) -> None:
    path, other = negate(tmp_path, "small", [1, 3, 224]), negate(tmp_path, "large", sizes)
    with pytest.raises(
        gs.GraphshareError, match=r"input 'x' is 1x3x[0-9x]+ in .*\.onnx, and 1x3x[0-9x]+ in "
    ) as raised:
        gs.compare(path, other, **options)
    assert all(
        name in str(raised.value)
        for name in ("small.onnx", "large.onnx", "1x3x224 ", "x".join(map(str, sizes)))
    )


def test_sizes_that_are_given_fit_both_models(tmp_path: Path) -> None:
    path, other = negate(tmp_path, "open", ["N", 3]), negate(tmp_path, "fixed", [4, 3])
    assert gs.compare(path, other, shapes={"x": (4, None)})
    for one, two in ((path, other), (other, path)):
        for given in ({"shapes": {"x": (2, 3)}}, {"feeds": {"x": np.ones((2, 3), np.float32)}}):
            with pytest.raises(
                gs.RefusedError, match=r"'x' is (given as )?\(2,3\), but .* 4x3"
            ) as raised:
                gs.compare(one, two, **given)
            assert "fixed.onnx" in str(raised.value)


def mask(dtype: int = INT, name: str = "x", *, op: str = "Cast") -> onnx.ModelProto:
    """Return a model that masks ones by an input of 2 x 6, after a cast to bool or, if ``op`` is Not, by itself."""
    turned = helper.make_node(op, [name], ["m"], **({"to": BOOL} if op == "Cast" else {}))
    nodes = [turned, helper.make_node("Where", ["m", "one", "zero"], ["y"])]
    return build(
        nodes, {name: (dtype, [2, 6])}, {"y": FLOAT}, {"one": np.float32(1), "zero": np.float32(0)}
    )


def named_mask() -> onnx.ModelProto:
    """Return a model that multiplies an input that is called a mask."""
    nodes = [helper.make_node("Mul", ["attention_mask", "attention_mask"], ["y"])]
    return build(nodes, {"attention_mask": (INT, [2, 6])}, {"y": INT})


def float_mask() -> onnx.ModelProto:
    """Return a model that subtracts an input, cast to float, from 1."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
        helper.make_node("Cast", ["u"], ["m"], to=FLOAT),
        helper.make_node("Sub", ["one", "m"], ["y"]),
    ]
    return build(
        nodes, {"x": (INT, [2, 6])}, {"y": FLOAT}, {"one": np.float32(1), "axes": np.array([1])}
    )


@pytest.mark.parametrize("model", [mask(), mask(BOOL, op="Not"), named_mask(), float_mask()])
def test_a_mask_has_a_one_in_every_row(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = write(tmp_path, "mask", model)
    name = model.graph.input[0].name
    rows = np.concatenate([draw(path, name, seed) for seed in range(20)])
    assert set(rows.ravel().tolist()) == {0, 1}
    assert rows.any(axis=-1).all()


def test_ids_that_are_masked_by_their_padding_are_indices(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "x"], ["rows"]),
        helper.make_node("Cast", ["x"], ["m"], to=BOOL),
        helper.make_node("Not", ["m"], ["y"]),
    ]
    model = build(
        nodes,
        {"x": (INT, [2, 40])},
        {"rows": FLOAT, "y": BOOL},
        {"table": np.ones((30, 2), np.float32)},
    )
    assert len(np.unique(draw(write(tmp_path, "ids", model), "x"))) > 20


def sized(
    op: str, nodes: list[onnx.NodeProto], initializers: dict[str, object], sizes: Sizes
) -> object:
    model = build(
        [*nodes, helper.make_node("Shape", ["v"], ["y"])],
        {"x": (INT, sizes)},
        {"y": INT},
        initializers,
    )
    return pytest.param(model, id=op)


ONE = np.float32(1)
SIZED = [
    sized("ConstantOfShape", [helper.make_node("ConstantOfShape", ["x"], ["v"])], {}, [2]),
    sized("Expand", [helper.make_node("Expand", ["one", "x"], ["v"])], {"one": ONE}, [2]),
    sized(
        "Tile",
        [helper.make_node("Tile", ["one", "x"], ["v"])],
        {"one": np.ones((2, 2), np.float32)},
        [2],
    ),
    sized(
        "Range",
        [helper.make_node("Range", ["zero", "x", "step"], ["v"])],
        {"zero": np.int64(0), "step": np.int64(1)},
        [],
    ),
    sized(
        "Concat to Reshape",
        [
            helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
            helper.make_node("Concat", ["rest", "u"], ["s"], axis=0),
            helper.make_node("Reshape", ["data", "s"], ["v"]),
        ],
        {"axes": np.array([0]), "rest": np.array([3, -1]), "data": np.ones((3, 7), np.float32)},
        [],
    ),
    sized(
        "OneHot",
        [helper.make_node("OneHot", ["ids", "x", "values"], ["v"])],
        {"ids": np.array([0, 0]), "values": np.array([0, 1])},
        [],
    ),
]


@pytest.mark.parametrize("model", SIZED)
def test_sizes_and_lengths_are_small_and_more_than_0(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    path = write(tmp_path, "sized", model)
    drawn = np.concatenate([draw(path, "x", seed).ravel() for seed in range(12)])
    assert drawn.min() >= 1
    assert drawn.max() < 9
    assert gs.run(path, seed=0).outputs["y"].all()


def test_a_loop_makes_a_few_trips(tmp_path: Path) -> None:
    ends = [
        helper.make_tensor_value_info(name, dtype, [])
        for name, dtype in (("i", INT), ("on", BOOL), ("v", INT))
    ]
    results = [
        helper.make_tensor_value_info(name, dtype, []) for name, dtype in (("go", BOOL), ("w", INT))
    ]
    steps = [
        helper.make_node("Identity", ["on"], ["go"]),
        helper.make_node("Add", ["v", "i"], ["w"]),
    ]
    loop = helper.make_node(
        "Loop", ["x", "", "zero"], ["y"], body=helper.make_graph(steps, "body", ends, results)
    )
    path = write(
        tmp_path, "loop", build([loop], {"x": (INT, [])}, {"y": INT}, {"zero": np.int64(0)})
    )
    trips = {int(draw(path, "x", seed)) for seed in range(20)}
    assert trips <= set(range(1, 9))
    assert len(trips) > 3


def test_an_index_of_one_hot_is_below_its_depth(tmp_path: Path) -> None:
    constants = {"depth": np.int64(5), "values": np.array([0, 1])}
    model = build(
        [helper.make_node("OneHot", ["x", "depth", "values"], ["y"])],
        {"x": (INT, [30])},
        {"y": INT},
        constants,
    )
    assert set(draw(write(tmp_path, "hot", model), "x").tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("op", ["Less", "GreaterOrEqual"])
def test_numbers_on_both_sides_of_a_bound_are_drawn_in_turn(op: str, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "bound",
        build([helper.make_node(op, ["x", "c"], ["y"])], {"x": (INT, [])}, {"y": BOOL}, {"c": 7}),
    )
    assert [int(draw(path, "x", seed)) for seed in range(4)] == [6, 7, 8, 6]
    report = gs.compare(path, path, inputs=gs.Inputs(rounds=3))
    assert report


def adder(folder: Path, name: str = "add", **changes: str) -> Path:
    """Write a model of two inputs whose output is their sum, or what another operator makes of them."""
    inputs = {"a": (FLOAT, ["N", 3]), "b": (FLOAT, [1, 3])}
    return write(
        folder,
        name,
        build(
            [helper.make_node(changes.get("op", "Add"), ["a", "b"], ["y"])], inputs, {"y": FLOAT}
        ),
    )


def write_tensor(path: Path, array: np.ndarray, name: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def ones(rows: int, value: float = 1) -> np.ndarray:
    return np.full((rows, 3), value, np.float32)


def list_shapes(report: gs.Report) -> list[tuple[int, ...]]:
    return [output.shape for values in report.branches[0].rounds for output in values.outputs]


def test_every_set_of_a_folder_is_a_round(tmp_path: Path) -> None:
    path, folder = adder(tmp_path), tmp_path / "sets"
    # The name, the place and both orders of the files are those of ONNX's own sets
    for number in (
        0,
        2,
        10,
    ):
        write_tensor(folder / f"test_data_set_{number}" / "input_1.pb", ones(1))
        write_tensor(
            folder / f"test_data_set_{number}" / "input_0.pb",
            ones(number + 3),
            "a" if number else "unheard",
        )
        write_tensor(folder / f"test_data_set_{number}" / "output_0.pb", ones(7), "y")
    np.savez(folder / "large.npz", a=ones(20))
    np.save(folder / "a.npy", ones(30))
    (folder / "notes.txt").write_text("no array")
    report = gs.compare(path, path, inputs=gs.Inputs(sets=folder))
    assert report
    assert list_shapes(report) == [(20, 3), (30, 3), (3, 3), (5, 3), (13, 3)]
    assert [stage.summary for stage in report.branches[0].stages if stage.name == "values"] == [
        "1 output compared in 5 runs, 1 bit for bit, max abs 0"
    ]
    assert [
        note
        for note in report.notes
        if "(0), (1, 3) float32" in note and "'b'" in note and "'a'" not in note
    ]
    run = done(in_process("compare", path, path, "--inputs", folder))
    assert b"compared in 5 runs" in run.stdout


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.bool_, np.float64, np.uint64])
def test_tensors_are_read_as_onnx_writes_them(dtype: type, tmp_path: Path) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    write_tensor(tmp_path / "x.pb", array, "x")
    fields = helper.make_tensor(
        "", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), array.shape, array.ravel()
    )
    (tmp_path / "fields.pb").write_bytes(fields.SerializeToString())
    for name, file in (("x", "x.pb"), ("", "fields.pb")):
        read = read_value(str(tmp_path / file))
        assert (read[0], read[1].dtype) == (name, array.dtype)
        np.testing.assert_array_equal(read[1], array)


def test_a_set_shows_a_difference_that_drawn_inputs_do_not(tmp_path: Path) -> None:
    path, other = (write(tmp_path, op, build([helper.make_node(op, ["x"], ["y"])], {"x": (FLOAT, [1])}, {"y": FLOAT}))
                   for op in ("Relu", "Abs"))  # fmt: skip
    sets = [{"x": np.float32([value])} for value in (1, 2, -1)]
    # What both give for positive numbers is equal, though other inputs of the region show that the operators are not.
    report = gs.compare(path, other, inputs=gs.Inputs(sets=sets[:2]))
    assert report.outcome == "not proved"
    assert [bool(values) for values in report.branches[0].rounds] == [True, True]
    report = gs.compare(path, other, inputs=gs.Inputs(sets=sets))
    assert report.verdict == "NOT EQUAL: regions of the other model, values of the other model"
    assert [bool(values) for values in report.branches[0].rounds] == [True, True, False]
    assert not gs.compare(path, other, inputs=gs.Inputs(sets=list(reversed(sets))))


@pytest.mark.parametrize("options", [{}, {"layers": True}])
def test_sets_are_inputs_of_mxnet_graphs(options: dict[str, bool]) -> None:
    sets = [{"data": np.full((size, 1, 28, 28), size, np.float32)} for size in (1, 2)]
    report = gs.compare(
        ROOT / "fixtures/lenet",
        ROOT / "fixtures/lenet",
        inputs=gs.Inputs(params_seed=0, sets=sets),
        **options,
    )
    assert report
    assert [shape[0] for shape in list_shapes(report)] == [1, 2]


def test_what_does_not_fit_is_named_with_its_file_all_at_once(tmp_path: Path) -> None:
    path, folder = adder(tmp_path), tmp_path / "sets"
    write_tensor(folder / "test_data_set_0" / "input_0.pb", ones(2).astype(np.float64))
    write_tensor(folder / "test_data_set_0" / "input_2.pb", ones(2), "c")
    np.savez(folder / "wide.npz", a=np.ones((2, 4), np.float32), b=ones(2))
    np.save(folder / "data.npy", ones(2))
    (folder / "a.npy").write_bytes(b"cut")
    (folder / "test_data_set_0" / "input_1.pb").write_bytes(b"\x08\x01\x10")
    refused(
        in_process("compare", path, path, "--inputs", folder),
        "input_0.pb: input 'a' is float64, but the model declares float32",
        "input_2.pb: 'input_2' is not an input of the model",
        "wide.npz: input 'a' is 2x4, but the model declares Nx3",
        "wide.npz: input 'b' is 2x3, but the model declares 1x3",
        "data.npy: 'data' is not an input of the model",
        "a.npy",
        "input_1.pb: is not a tensor of numbers",
    )


def test_two_files_of_one_set_that_give_one_input_are_refused(tmp_path: Path) -> None:
    path, folder = adder(tmp_path), tmp_path / "sets"
    write_tensor(folder / "input_0.pb", ones(2))
    np.save(folder / "a.npy", 2 * ones(2))
    refused(
        in_process("compare", path, path, "--inputs", folder),
        "input_0.pb: input 'a' is in a.npy too",
    )


def test_a_folder_without_arrays_and_rounds_beside_sets_are_refused(tmp_path: Path) -> None:
    path = adder(tmp_path)
    against = ("compare", path, path, "--inputs")
    (tmp_path / "empty").mkdir()
    for name, fault in (
        ("empty", "has no arrays of inputs"),
        ("missing", "does not exist"),
        (Path(path).name, "is not a folder"),
    ):
        refused(
            in_process(*against, tmp_path / name), f"{name}: {fault}", "hint: sets are .npz files"
        )
    message = "each set of --inputs is a round: --rounds and --train-step cannot"
    refused(in_process(*against, tmp_path, "--rounds", "2"), message)
    refused(in_process("verify", path, "--inputs", tmp_path, "--train-step"), message)
    np.savez(tmp_path / "x.npz", y=ones(2))
    for option in (("--inputs", tmp_path), ("--rounds", "2")):
        run = in_process("compare", path, "x.npz", *option, cwd=tmp_path)
        refused(run, "a record has inputs of its own: leave --inputs and --rounds out")
    with pytest.raises(gs.GraphshareError, match="`sets` contains no set"):
        gs.compare(path, path, inputs=gs.Inputs(sets=[]))


def choose() -> onnx.ModelProto:
    """Return a model of two Ifs: one body or the other by the value of ``n``, and always the first."""
    bodies = [
        helper.make_graph(
            [helper.make_node(op, ["x"], [op])],
            op,
            [],
            [helper.make_tensor_value_info(op, FLOAT, [1])],
        )
        for op in ("Identity", "Neg", "Abs", "Relu")
    ]
    nodes = [
        helper.make_node("Equal", ["n", "three"], ["is_three"]),
        helper.make_node(
            "If", ["is_three"], ["a"], "choice", then_branch=bodies[0], else_branch=bodies[1]
        ),
        helper.make_node("Not", ["false"], ["true"]),
        helper.make_node(
            "If", ["true"], ["b"], "constant", then_branch=bodies[2], else_branch=bodies[3]
        ),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    inputs = {"x": (FLOAT, [1]), "n": (INT, [])}
    return build(nodes, inputs, {"y": FLOAT}, {"three": np.int64(3), "false": np.bool_(False)})


@pytest.mark.parametrize("is_pair", [False, True])
def test_bodies_that_were_computed_are_counted(is_pair: bool, tmp_path: Path) -> None:
    path = write(tmp_path, "choose", choose())
    turned = choose()
    turned.graph.node[
        -1
    ].op_type = "Sub"  # what is exact of two models needs no body to be computed
    other = write(tmp_path, "turned", turned)
    siam = gs.duplicate(gs.load(path), "b_", mode="tie")

    def count(**options: Any) -> tuple[str, ...]:
        report = gs.compare(path, other, **options) if is_pair else gs.verify(siam, **options)
        return tuple(
            note for note in report.notes if "only the" in note or "bodies computed" in note
        )

    assert count(feeds={"n": 3}) == (
        "If 'a', 'b': only the then branch was computed",
        "bodies computed: 2 of 4",
    )
    assert count(feeds={"n": 4}) == (
        "If 'b': only the then branch was computed",
        "If 'a': only the else branch was computed",
        "bodies computed: 2 of 4",
    )
    sets = gs.Inputs(sets=[{"n": 3}, {"n": 4}])
    assert count(inputs=sets) == (
        "If 'b': only the then branch was computed",
        "bodies computed: 3 of 4",
    )


def test_rounds_reach_both_bodies_of_an_if(tmp_path: Path) -> None:
    path, other = write(tmp_path, "rates", rates()), rates()
    body = other.graph
    for name in ("else_branch", "then_branch"):  # of the outer If, and of the one in it
        switch = next(node for node in body.node if node.op_type == "If")
        body = next(attribute.g for attribute in switch.attribute if attribute.name == name)
    low = body.node[0].attribute[0].t
    low.CopyFrom(numpy_helper.from_array(np.float32(-2), low.name))
    changed = write(tmp_path, "changed", other)
    assert gs.compare(path, path).rung == "exact"  # whichever body is computed
    report = gs.verify(gs.duplicate(gs.load(path), "b_", mode="tie"), inputs=gs.Inputs(rounds=2))
    assert report.notes[-1] == "bodies computed: 2 of 2"
    for seed in range(4):
        report = gs.compare(path, changed, inputs=gs.Inputs(rounds=2, seed=seed))
        assert report.verdict == "NOT EQUAL: regions of the other model, values of the other model"


@pytest.mark.parametrize(("constant", "other"), [(16000, 8000), (1, 0), (0, 1), (-1, 0)])
def test_a_number_with_one_constant_is_another_in_the_second_round(
    constant: int, other: int, tmp_path: Path
) -> None:
    model = build(
        [helper.make_node("Equal", ["x", "c"], ["y"])],
        {"x": (INT, [])},
        {"y": BOOL},
        {"c": constant},
    )
    path = write(tmp_path, "equal", model)
    assert [int(draw(path, "x", seed)) for seed in range(4)] == [constant, other, constant, other]


def test_a_condition_that_is_an_input_takes_both_values(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info("v", FLOAT, [1])
    bodies = [
        helper.make_graph([helper.make_node(op, ["x"], ["v"])], op, [], [info])
        for op in ("Neg", "Abs")
    ]
    node = helper.make_node(
        "If", ["c"], ["y"], "choice", then_branch=bodies[0], else_branch=bodies[1]
    )
    path = write(
        tmp_path, "flag", build([node], {"c": (BOOL, [1]), "x": (FLOAT, [1])}, {"y": FLOAT})
    )
    siam = gs.duplicate(gs.load(path), "b_", mode="tie")
    assert gs.verify(siam).notes[-1] == "bodies computed: 1 of 2"
    report = gs.verify(siam, inputs=gs.Inputs(rounds=2))
    assert report.notes[-1] == "bodies computed: 2 of 2"
    done(in_process("compare", path, path, "--layers", "--rounds", "2"))


@pytest.mark.parametrize("seed", range(8))
def test_both_orders_of_two_models_are_computed_on_the_same_values(
    seed: int, tmp_path: Path
) -> None:
    """Models that list inputs in other orders, one of them with one more, draw each input alike,
    whichever comes first.
    """
    rng = np.random.default_rng(seed)
    names = list("abcd")
    models = {}
    for label, more in (("left", []), ("right", ["e"] * int(rng.integers(2)))):
        own = [names[place] for place in rng.permutation(len(names))]
        at = int(rng.integers(len(own)))
        own[at:at] = more
        inputs = ", ".join(f"float[n, {2 + ord(name) % 2}] {name}" for name in own)
        outputs = ", ".join(f"float[n, m] y_{name}" for name in own)
        nodes = " ".join(f"y_{name} = Neg({name})" for name in own)
        text = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({outputs}) {{{nodes}}}'
        onnx.save(onnx.parser.parse_model(text), tmp_path / f"{label}.onnx")
        models[label] = gs.load(tmp_path / f"{label}.onnx")
    drawn = []
    for order in (["left", "right"], ["right", "left"]):
        left, right = (models[label] for label in order)
        pairs = pair_models(left, right, (), {})
        sides = [open_computation(each) for each in (pairs.left, pairs.right)]
        draws = Drawer((sides[0], sides[1]), pairs.inputs, Inputs()).draw()
        values = [
            {node.name: value.tolist() for node, value in own.items()}
            for draw in draws
            for own in draw.values
        ]
        drawn.append([{name: own[name] for name in names} for own in values])
    assert drawn[0] == drawn[1]
