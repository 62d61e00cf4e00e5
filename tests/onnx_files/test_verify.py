"""``verify`` of ONNX models: branches in sessions of their own, and two files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphshare as gs
from graphshare.execute.backends import onnx_session
from graphshare.execute.backends.onnx_session import OnnxSession
from graphshare.execute.prepare.declared_inputs import InputDrawer
from graphshare.execute.prepare.feeds import load_feeds, parse_feeds
from graphshare.execute.prepare.variable_values import as_arrays
from graphshare.verification import onnx_checker
from graphshare.verification.comparison import Tolerance
from tests.onnx_files.made import MADE
from tests.processes import ROOT, done, in_process, refused


def write(folder: Path, name: str, model: onnx.ModelProto | None = None) -> Path:
    path = folder / f"{name}.onnx"
    path.write_bytes((model or MADE[name]()).SerializeToString())
    (folder / "w.bin").write_bytes(np.arange(12, dtype=np.float32).tobytes())
    return path


def siamese(folder: Path, name: str, mode: str) -> Path:
    gs.save(
        gs.duplicate(gs.load(write(folder, name)), "b_", mode=mode),
        folder / "siam.onnx",
        map=folder / "map.json",
    )  # type: ignore[arg-type]
    return folder / "siam.onnx"


@pytest.mark.parametrize("name", [name for name in MADE if name != "kinds"])
@pytest.mark.parametrize("mode", ["tie", "copy"])
def test_branches_are_equal_bit_for_bit(name: str, mode: str, tmp_path: Path) -> None:
    model = siamese(tmp_path, name, mode)
    for report in (
        gs.verify(model),
        gs.verify(model, prefixes="b_"),
        gs.verify(model, map=tmp_path / "map.json"),
    ):
        assert report
        (branch,) = report.branches
        assert [stage.verdict for stage in branch.stages] == ["holds"] * 3
        assert branch.rounds[0].engine == "onnxruntime"
        assert all(output.comparison.identical for output in branch.rounds[0].outputs)
        assert report.verdict == "EQUAL: b_ and the original, bit for bit"


def test_a_rewritten_model_is_compared_before_it_is_saved(tmp_path: Path) -> None:
    model = gs.duplicate(gs.load(write(tmp_path, "external")), ["b_", "c_"], mode="tie")
    report = gs.verify(model, inputs=gs.Inputs(rounds=2, seed=5))
    assert report
    # One more than those of open sizes
    assert [len(branch.rounds) for branch in report.branches] == [
        3,
        3,
    ]
    assert (
        "'data' (original), 'b_data' (b_), 'c_data' (c_) are seeded (5), (1, 2) float32"
        in " ".join(report.notes)
    )


def test_the_first_value_that_differs_is_named(tmp_path: Path) -> None:
    path = siamese(tmp_path, "dense", "copy")
    model = onnx.load(path)
    next(t for t in model.graph.initializer if t.name == "b_w").CopyFrom(
        numpy_helper.from_array(np.full((2, 2), -0.75, np.float32), "b_w")
    )
    report = gs.verify(write(tmp_path, "other", model), feeds={"data": np.ones((3, 2), np.float32)})
    assert not report
    stages = {stage.name: stage for stage in report.branches[0].stages}
    assert stages["parameters"].verdict == stages["values"].verdict == "fails"
    assert (
        stages["values"]
        .details[-1]
        .startswith("first at MatMul 'b_h' and 'h', output 0: values differ, max abs 2.5")
    )
    assert report.branches[0].rounds[0].outputs[0].shape == (3, 2)


def test_two_files_are_compared(tmp_path: Path) -> None:
    path = write(tmp_path, "branches")
    gs.save(gs.rename(gs.load(path), prefix="q_"), tmp_path / "renamed.onnx")
    assert (
        gs.compare(path, tmp_path / "renamed.onnx").verdict
        == "EQUAL: the other model and the original, exact for every input"
    )
    other = write(tmp_path, "dense")
    with pytest.raises(gs.GraphshareError, match="operators"):
        raise gs.GraphshareError(" ".join(gs.compare(path, other).branches[0].stages[0].details))


def test_outputs_of_different_structures_are_compared_by_name(tmp_path: Path) -> None:
    path, model = write(tmp_path, "dense"), MADE["dense"]()
    model.graph.node[1].op_type = "Identity"
    model.graph.node.insert(1, helper.make_node("Relu", ["h"], ["rectified"]))
    model.graph.node[2].input[0] = "rectified"
    other = write(tmp_path, "longer", model)
    assert gs.diff(path, other)
    for report in (
        gs.compare(path, other),
        gs.compare(other, path),
        gs.compare(path, other, exact=True),
    ):
        assert report
        assert report.rung == "exact"
        assert report.branches[0].regions[0].identities["Identity"] == 1
    model.graph.node[2].input[0] = "h"
    report = gs.compare(path, write(tmp_path, "wrong", model))
    assert report.verdict == "NOT EQUAL: regions of the other model, values of the other model"
    assert report.branches[0].regions[0].regions[0].ends == (("r", "r"),)


def test_sizes_that_are_open_are_chosen(tmp_path: Path) -> None:
    nodes = [helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[20, 20])]
    ends = [helper.make_tensor_value_info(name, 1, ["N", 3, "H", "W"]) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])  # fmt: skip
    path = write(tmp_path, "pool", model)
    siam = gs.duplicate(gs.load(path), "b_", mode="tie")
    assert "(1, 3, 64, 64)" in gs.verify(siam).notes[0]
    assert "(2, 3, 30, 64)" in gs.verify(siam, shapes={"b_x": (2, None, 30, None)}).notes[0]
    with pytest.raises(
        gs.GraphshareError, match=r"`shapes` 'x' is \(1,4\), but the model declares Nx3xHxW"
    ):
        gs.verify(siam, shapes={"x": (1, 4)})
    with pytest.raises(gs.GraphshareError, match=r"onnxruntime .* fails") as raised:
        gs.verify(siam, shapes={"x": (1, 3, 4, 4)})
    assert "`shapes=" in raised.value.faults[0].hint


def test_a_graph_of_mxnet_takes_the_sizes_that_the_model_declares(tmp_path: Path) -> None:
    lenet = gs.load(ROOT / "fixtures" / "lenet")
    gs.export(lenet, tmp_path / "lenet.onnx", shapes={"data": (2, 1, 28, 28)})
    assert gs.compare(lenet, str(tmp_path / "lenet.onnx"))


def test_without_onnxruntime_there_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_session, "find_spec", lambda name: None)
    model = siamese(tmp_path, "dense", "copy")
    hint = "hint: pip install onnx onnxruntime installs it"
    for command in (
        ("verify", model),
        ("compare", model, model),
        ("duplicate", model, "--verify", "-p", "c_", "-o", "x"),
    ):
        refused(
            in_process(*command, cwd=tmp_path),
            "onnxruntime, which computes ONNX models, is not installed",
            hint,
        )
    monkeypatch.setattr(onnx_checker, "find_spec", lambda name: None)
    refused(
        in_process("export", ROOT / "fixtures/lenet", "-o", "x.onnx", cwd=tmp_path),
        "so nothing can be proved",
        "--no-verify",
    )
    values = numpy_helper.to_array(
        next(t for t in onnx.load(model).graph.initializer if t.name == "b_w")
    )
    changed = onnx.load(model)
    next(t for t in changed.graph.initializer if t.name == "b_w").CopyFrom(
        numpy_helper.from_array(values + 1, "b_w")
    )
    report = gs.verify(write(tmp_path, "other", changed))
    assert report.verdict == "NOT EQUAL: parameters of b_"


def test_values_that_may_be_left_out_are_named_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_session, "find_spec", lambda name: None)
    model, verdict = (
        siamese(tmp_path, "dense", "tie"),
        "STRUCTURE EQUAL: b_ and the original, values not compared",
    )
    report = gs.verify(model, allow_unsupported=True)
    assert (bool(report), report.verdict) == (True, verdict)
    assert verdict in report._repr_html_()
    for format_ in ("text", "json", "junit", "sarif", "github"):
        run = done(in_process("verify", model, "--allow-unsupported", "--format", format_))
        assert verdict.replace("&", "&amp;") in run.stdout.decode()
        assert b" EQUAL: b_" not in run.stdout.replace(b"STRUCTURE EQUAL", b"")
    (skipped,) = (stage for stage in report.branches[0].stages if stage.verdict == "skipped")
    assert "pip install onnx onnxruntime" in skipped.details[0]


@pytest.mark.parametrize(("text", "value"), [("16000", 16000), ("-2.0", -2), ("true", 1)])
def test_a_number_is_fed_as_the_dtype_that_is_declared(
    text: str, value: int, tmp_path: Path
) -> None:
    ends = [helper.make_tensor_value_info(name, 7, []) for name in ("sr", "y")]
    nodes = [helper.make_node("Identity", ["sr"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])  # fmt: skip
    path = write(tmp_path, "rate", model)
    feeds = load_feeds(parse_feeds([f"sr={text}"]))
    drawn = InputDrawer(OnnxSession(str(path)), as_arrays(feeds), {}, 0).draw(1)
    assert (drawn["sr"].dtype, drawn["sr"].shape, drawn["sr"]) == (np.int64, (), value)
    assert gs.compare(path, path, feeds=feeds)
    with pytest.raises(
        gs.GraphshareError, match="'sr' is float64, and not all of its values fit into int64"
    ):
        gs.compare(path, path, feeds={"sr": 0.5})


def free(name: str, outputs: tuple[str, ...] = ("y", "z"), inputs: str = "x") -> onnx.ModelProto:
    """A model of two outputs, the negative and the square of an input whose batch is free."""
    nodes = [
        helper.make_node("Neg", [inputs], [outputs[0]]),
        helper.make_node("Mul", [inputs, inputs], [outputs[1]]),
    ]
    ends = [helper.make_tensor_value_info(end, 1, ["N", 3]) for end in (inputs, *outputs)]
    return helper.make_model(helper.make_graph(nodes, name, ends[:1], ends[1:]), ir_version=8,
                             opset_imports=[helper.make_opsetid("", 17)])  # fmt: skip


def test_names_pair_inputs_and_outputs_and_their_order_does_where_names_differ(
    tmp_path: Path,
) -> None:
    path, model = write(tmp_path, "first", free("first")), free("second")
    model.graph.output.reverse()
    swapped = write(tmp_path, "second", model)
    report = gs.compare(path, swapped)
    assert [(o.reference, o.output) for o in report.branches[0].rounds[0].outputs] == [
        ("y", "y"),
        ("z", "z"),
    ]
    assert report.verdict.endswith("exact for every input")
    renamed = write(tmp_path, "third", free("third", ("p", "q"), "data"))
    report = gs.compare(path, renamed, shapes={"data": (5, 3)})
    assert report
    assert [(o.reference, o.output, o.shape) for o in report.branches[0].rounds[0].outputs] == [
        ("y", "p", (5, 3)),
        ("z", "q", (5, 3)),
    ]


def test_what_is_not_an_input_is_not_fed(tmp_path: Path) -> None:
    model = siamese(tmp_path, "dense", "tie")
    with pytest.raises(
        gs.GraphshareError, match="`feeds` 'w' is not an input: the model contains its value"
    ):
        gs.verify(model, feeds={"w": np.zeros((2, 2), np.float32)})


@pytest.mark.parametrize(
    ("engine", "strict"), [("numpy", False), ("numpy,onnxruntime", False), ((), True)]
)
def test_engines_that_cannot_compute_it_are_refused(
    engine: str, strict: bool, tmp_path: Path
) -> None:
    model = siamese(tmp_path, "dense", "tie")
    assert gs.verify(model, engine="onnxruntime")
    option = "`strict_engine`" if strict else "`engine='numpy'`"
    with pytest.raises(
        gs.GraphshareError, match=f"{option} is for MXNet graphs, and this is an ONNX model"
    ):
        gs.verify(model, engine=engine, strict_engine=strict)


def test_the_report_has_the_tolerance(tmp_path: Path) -> None:
    path = write(tmp_path, "dense")
    (branch,) = gs.verify(
        siamese(tmp_path, "dense", "tie"), tolerance=gs.Tolerance(atol=1e-3, rtol=1e-5)
    ).branches
    assert branch.tolerance == Tolerance(1e-3, 1e-5)
    (branch,) = gs.compare(path, path).branches
    assert branch.tolerance == Tolerance(1e-8, 1e-5, of_largest=1e-5)


def test_branches_of_an_exported_model_have_one_shape(tmp_path: Path) -> None:
    """A size that has one name in an ONNX model holds for every input of that name, whichever side it is."""
    siam = gs.duplicate(gs.load(ROOT / "fixtures" / "lenet"), "b_", mode="tie")
    one = {"data": (1, 1, 28, 28), "b_data": (1, 1, 28, 28)}
    gs.export(siam, tmp_path / "siam.onnx", shapes=one, dynamic_batch=True)
    model = gs.load(tmp_path / "siam.onnx")
    for left, right in ((model, siam), (siam, model), (siam, siam), (model, model)):
        report = gs.compare(left, right, shapes={"data": (3, 1, 28, 28)})
        assert report, report.verdict
        # The exported model has one name for the batch of both inputs; a graph of MXNet leaves that
        # of the other one open.
        sizes = [
            [output.shape[0] for output in values.outputs] for values in report.branches[0].rounds
        ]
        assert sizes == ([[3, 1], [3, 2]] if left is right is siam else [[3, 3]])
    report = gs.verify(siam, shapes={"data": (3, 1, 28, 28)})
    assert [output.shape[0] for output in report.branches[0].rounds[0].outputs] == [3]
    fed = {"data": np.ones((3, 1, 28, 28), np.float32)}
    report = gs.compare(siam, model, feeds=fed)
    assert [output.shape[0] for output in report.branches[0].rounds[0].outputs] == [3, 3]
    own = {"data": (3, 1, 28, 28), "b_data": (2, 1, 28, 28)}
    report = gs.compare(siam, siam, shapes=own)
    assert [output.shape[0] for output in report.branches[0].rounds[0].outputs] == [3, 2]
    (branch,) = gs.compare(
        siam, model, shapes=one, tolerance=gs.Tolerance(atol=0, rtol=1e-4)
    ).branches
    assert branch.tolerance == Tolerance(0, 1e-4, of_largest=1e-4)
    assert branch.stages[0].summary == "an MXNet graph and an ONNX model have different nodes"
    with pytest.raises(gs.GraphshareError, match="is computed by one engine"):
        gs.compare(siam, model, shapes=one, engine="numpy,onnxruntime")
    assert gs.compare(siam, model, shapes=one, engine="onnxruntime")


@pytest.mark.parametrize(
    ("format_", "start"),
    [("text", "both models"), ("json", "{"), ("html", "<!doctype"), ("junit", "<?xml")],
)
def test_a_report_of_two_models_is_written_to_a_file(
    format_: str, start: str, tmp_path: Path
) -> None:
    path = write(tmp_path, "dense")
    gs.save(gs.rename(gs.load(path), prefix="q_"), tmp_path / "renamed.onnx")
    command = ("compare", path, tmp_path / "renamed.onnx", "--format", format_, "-o")
    run = done(in_process(*command, tmp_path / "report"))
    assert run.stdout == b""
    assert (tmp_path / "report").read_text(encoding="utf-8").startswith(start)
    before = path.read_bytes()
    run = in_process(*command, path)
    assert (run.returncode, run.stdout) == (2, b"")
    assert b"is also an input: the " in run.stderr
    assert path.read_bytes() == before


def test_branches_that_compute_no_drawn_numbers_are_judged_by_their_structure(
    tmp_path: Path,
) -> None:
    """A window that is longer than the drawn input, as in a model of spectra."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,1,n] x) => (float[1,1,m] y)
        { y = Conv (x, w) }"""
    model = onnx.parser.parse_model(text)
    del model.graph.initializer[:]
    del model.graph.value_info[:]
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.ones((1, 1, 900), "float32"), "w")
    )
    onnx.save(model, tmp_path / "m.onnx")
    for mode in ("tie", "copy"):
        gs.save(gs.duplicate(tmp_path / "m.onnx", "b_", mode=mode), tmp_path / f"{mode}.onnx")
        report = gs.verify(tmp_path / f"{mode}.onnx", prefixes="b_")
        assert report
        assert report.verdict == "STRUCTURE EQUAL: b_ and the original, values not compared"
        # Sizes that a user chose are no drawn ones
        with pytest.raises(gs.GraphshareError, match="Invalid input shape"):
            gs.verify(tmp_path / f"{mode}.onnx", prefixes="b_", shapes={"x": (1, 1, 10)})
    changed = gs.load(tmp_path / "copy.onnx").with_params({"b_w": np.zeros((1, 1, 900), "float32")})
    assert not gs.verify(changed, prefixes="b_")
