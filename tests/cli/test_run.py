"""``run`` as a user runs it: feeds, targets, made-up values, refusals, profiles, pipes."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.cli.commands import run as run_command
from graphshare.execute.classes import ClassScore, Ranking
from graphshare.execute.outputs import NodeCost, OperatorCost, Profile
from graphshare.execute.train.run_training import LossHistory
from graphshare.files.schema import find_violations
from tests import params_bytes
from tests.processes import (
    ROOT,
    done,
    files_in,
    graphshare,
    on_terminal,
    refused,
    write_json,
    write_params,
)
from tests.symbols import document, old_batch_norm, operator, siamese, two_layers, variable

IMAGE = np.array([[1, 2, 3]] * 3, "float32").reshape(1, 1, 3, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(tmp_path / "siamese.json", siamese())
    np.save(tmp_path / "data.npy", IMAGE)
    (tmp_path / "siamese.params").write_bytes(
        params_bytes.container(
            [params_bytes.dense((1, 1, 3, 3), "float32", IMAGE.tobytes())], ["arg:conv_weight"]
        )
    )
    write_json(tmp_path / "layers.json", two_layers())
    write_json(tmp_path / "old.json", old_batch_norm())
    foreign = document(
        [
            variable("data"),
            operator("Nobody", "a", [0]),
            operator("Knows", "b", [1]),
            operator("relu", "c", [0]),
        ],
        [2, 3],
    )
    write_json(tmp_path / "foreign.json", foreign)
    return tmp_path


def written(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def test_the_blogs_forward(folder: Path) -> None:
    arguments = ["run", "siamese.json", "--params", "siamese.params", "--feed", "data=data.npy"]
    run = done(graphshare(*arguments, "-o", "out.npz", cwd=folder))
    assert run.stdout == b""
    assert b"wrote out.npz: loss_output" in run.stderr
    assert b"at most" in run.stderr
    first = (folder / "out.npz").read_bytes()
    assert {name: array.tolist() for name, array in written(folder / "out.npz").items()} == {
        "loss_output": [[[[42.0]]]]
    }
    done(graphshare(*arguments, "-o", "out.npz", cwd=folder))
    assert (folder / "out.npz").read_bytes() == first
    piped = done(graphshare(*arguments, "-o", "-", cwd=folder)).stdout
    assert piped == first
    assert np.load(io.BytesIO(piped))["loss_output"].item() == 42


def test_a_table_without_an_output(folder: Path) -> None:
    run = done(
        graphshare(
            "run",
            "siamese.json",
            "--params",
            "siamese.params",
            "--feed",
            "data=data.npy",
            cwd=folder,
        )
    )
    title, row = run.stdout.decode().splitlines()
    assert title.split() == ["output", "shape", "dtype", "min", "max", "mean"]
    assert row.split() == ["loss_output", "1x1x1x1", "float32", "42", "42", "42"]


def test_the_branches_of_a_duplicate_from_a_pipe(folder: Path) -> None:
    both = done(
        graphshare("duplicate", "siamese.json", "--prefix", "sha-", "--mode", "tie", cwd=folder)
    ).stdout
    np.savez(folder / "feeds.npz", **{"data": IMAGE, "sha-data": IMAGE * 2})
    arguments = ["run", "-", "--params", "siamese.params", "--feed", "feeds.npz", "-o", "out.npz"]
    done(graphshare(*arguments, data=both, cwd=folder))
    found = {name: array.item() for name, array in written(folder / "out.npz").items()}
    assert found == {"loss_output": 42, "sha-loss_output": 84}


def test_feeds_of_another_type_are_converted_and_override_parameters(folder: Path) -> None:
    np.save(folder / "double.npy", IMAGE.astype("float64"))
    np.savez(
        folder / "both.npz",
        conv_weight=np.ones((1, 1, 3, 3), "float32"),
        data=np.asfortranarray(IMAGE.astype(">f4")),
    )
    arguments = ["run", "siamese.json", "--params", "siamese.params", "-o", "out.npz"]
    run = done(graphshare(*arguments, "--feed", "data=double.npy", cwd=folder))
    assert b"'data' is fed as float64 and was converted to float32" in run.stderr
    assert written(folder / "out.npz")["loss_output"].dtype == "float32"
    done(graphshare(*arguments, "--feed", "both.npz", cwd=folder))
    assert written(folder / "out.npz")["loss_output"].item() == 18
    done(graphshare(*arguments, "--feed", "data=both.npz", cwd=folder))
    assert written(folder / "out.npz")["loss_output"].item() == 42


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_the_type_follows_the_parameters(dtype: str, folder: Path) -> None:
    np.savez(folder / "w.npz", **{"arg:conv_weight": IMAGE.astype(dtype)})
    arguments = [
        "run",
        "siamese.json",
        "--params",
        "w.npz",
        "--feed",
        "data=data.npy",
        "-o",
        "out.npz",
    ]
    done(graphshare(*arguments, cwd=folder))
    assert str(written(folder / "out.npz")["loss_output"].dtype) == dtype


def test_only_what_a_target_needs_is_computed(folder: Path) -> None:
    arguments = [
        "run",
        "layers.json",
        "--seed",
        "1",
        "--random-params",
        "2",
        "--shape",
        "data=2,3",
        "-o",
        "out.npz",
    ]
    done(graphshare(*arguments, "--target", "fc1_output", "--target", "bn", cwd=folder))
    assert {k: v.shape for k, v in written(folder / "out.npz").items()} == {
        "fc1_output": (2, 4),
        "bn_output": (2, 4),
    }
    partial = written(folder / "out.npz")["bn_output"]
    run = done(graphshare(*arguments, "--target", "bn", "--target", "softmax", cwd=folder))
    assert b"zeros: softmax_label" in run.stderr
    assert b"parameters drawn from seed 2" in run.stderr
    assert b"inputs drawn from seed 1: data (2, 3)" in run.stderr
    found = written(folder / "out.npz")
    assert np.array_equal(found["bn_output"], partial)
    assert np.allclose(found["softmax_output"].sum(axis=1), 1)
    done(graphshare(*arguments[:3], "2", *arguments[4:], "--target", "bn", cwd=folder))
    assert not np.array_equal(written(folder / "out.npz")["bn_output"], partial)


def test_an_operator_nobody_knows_does_not_stop_what_needs_none(folder: Path) -> None:
    arguments = ["run", "foreign.json", "--feed", "data=data.npy", "-o", "out.npz"]
    said = refused(
        graphshare(*arguments, cwd=folder),
        '"a"): operator Nobody cannot',
        '"b"): operator Knows cannot',
        "register",
    )
    assert "relu" not in said
    assert "out.npz" not in files_in(folder)
    done(graphshare(*arguments, "--target", "c", cwd=folder))
    assert list(written(folder / "out.npz")) == ["c_output"]


def test_what_is_missing_is_listed(folder: Path) -> None:
    said = refused(
        graphshare("run", "layers.json", cwd=folder),
        "--random-params SEED",
        "--seed SEED",
        "input 'data'",
    )
    assert (
        "7 parameters have no value: no parameter file is given "
        "('fc1_weight', 'fc1_bias', 'bn_gamma', 'bn_beta' and 3 more)"
    ) in said
    write_params(folder / "some.params", ["arg:fc1_bias"], (4,))
    run = graphshare(
        "run", "layers.json", "--params", "some.params", "--feed", "data=data.npy", cwd=folder
    )
    assert run.returncode == 2
    [fault] = [line for line in run.stderr.splitlines() if b"have no value" in line]
    assert b"6 parameters have no value: some.params does not contain them (" in fault
    for name in (b"'fc1_weight'", b"'bn_gamma'", b"'bn_moving_mean'", b"'fc2_weight'"):
        assert name in fault
    assert b"'fc1_bias'" not in fault
    refused(
        graphshare("run", "layers.json", "--seed", "1", "--random-params", "1", cwd=folder),
        "--shape data=",
    )


def test_sizes_that_nothing_determines_are_chosen_where_inputs_are_made_up(folder: Path) -> None:
    base = ["run", "siamese.json", "--params", "siamese.params", "-o", "out.npz"]
    run = done(graphshare(*base, "--seed", "1", cwd=folder))
    assert b"'data' could have other sizes; --shape data=... sets them" in run.stderr
    assert written(folder / "out.npz")["loss_output"].shape == (1, 1, 222, 222)
    done(graphshare(*base, "--seed", "1", "--shape", "data=2,?,9,?", cwd=folder))
    assert written(folder / "out.npz")["loss_output"].shape == (2, 1, 7, 222)
    refused(graphshare(*base, cwd=folder), "input 'data' has no value")


@pytest.mark.parametrize(
    "command",
    [("run", "--seed", "0"), ("export", "-o", "x.onnx"), ("inspect",), ("draw", "-o", "x.svg")],
)
@pytest.mark.parametrize(("shape", "cause"), [
    (
        "1,3,28,28",
        "error: lenet-symbol.json (node \"conv1\"): 'data' has the shape (1,3,28,28), which does not fit (?,1,?,?): ",
    ),
    ("1,1,32,32", "error: lenet-symbol.json (node \"fc1\"): at 'data' (1,1,32,32): FullyConnected cannot take flatten"),
])  # fmt: skip
def test_a_wrong_shape_is_the_cause_and_not_the_weight(
    command: tuple[str, ...], shape: str, cause: str, tmp_path: Path
) -> None:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    name, *options = command
    said = refused(graphshare(name, "lenet", *options, "--shape", f"data={shape}", cwd=tmp_path))
    assert said.startswith(cause)
    (hint,) = [line for line in said.splitlines() if "hint" in line]
    done(
        graphshare(
            name, "lenet", *options, *hint.partition("sizes that fit: ")[2].split(), cwd=tmp_path
        )
    )


def test_a_hint_on_sizes_can_be_typed(tmp_path: Path) -> None:
    out = ("-o", tmp_path / "x.onnx")
    said = refused(graphshare("export", "lenet", *out, cwd=ROOT / "fixtures"), "cannot be inferred")
    done(
        graphshare(
            "export", "lenet", *out, *said.partition("as in ")[2].split(), cwd=ROOT / "fixtures"
        )
    )
    unknown = done(
        graphshare("inspect", "lenet", "--shape", "data=?,1,?,?", cwd=ROOT / "fixtures")
    ).stdout
    assert b"unknown: give --shape data=?,1,?,? with a size for each ?" in unknown


@pytest.mark.parametrize(
    "command",
    [("run", "--seed", "0"), ("verify",), ("export", "-o", "x.onnx"), ("inspect",), ("check",)],
)
def test_a_shape_holds_for_a_pattern(command: tuple[str, ...], tmp_path: Path) -> None:
    done(
        graphshare(
            "duplicate",
            ROOT / "fixtures/lenet",
            "--prefix",
            "b_",
            "--prefix",
            "c_",
            "-o",
            "siam",
            cwd=tmp_path,
        )
    )
    name, *options = command
    run = done(graphshare(name, "siam", *options, "--shape", "*data=2,1,28,28", cwd=tmp_path))
    assert name == "check" or b"other sizes" not in run.stderr
    wrong = graphshare(name, "siam", *options, "--shape", "*dat=2,1,28,28", cwd=tmp_path)
    assert "did you mean 'data' or " in (wrong.stdout if name == "check" else wrong.stderr).decode()
    assert wrong.returncode == (1 if name == "check" else 2)


def test_a_number_is_a_feed(folder: Path) -> None:
    base = ("run", "lenet", "--seed", "0", "--shape", "data=1,1,28,28")
    run = done(graphshare(*base, "--feed", "softmax_label=[3]", cwd=ROOT / "fixtures"))
    assert b"'softmax_label' is fed as int64 and was converted to float32" in run.stderr
    refused(
        graphshare(*base, "--feed", "softmax_label=3", cwd=ROOT / "fixtures"),
        "has the shape (), which does not fit (1)",
    )
    refused(
        graphshare(*base, "--feed", 'softmax_label=["a"]', cwd=ROOT / "fixtures"),
        "is not an array of numbers",
    )
    refused(
        graphshare(*base, "--feed", "softmax_label=three", cwd=ROOT / "fixtures"),
        "three: does not exist",
    )
    np.save(folder / "7.npy", np.ones((1,), "float32"))
    (folder / "7.npy").rename(folder / "7")  # a file of that name is still the file
    done(
        graphshare(
            "run", ROOT / "fixtures/lenet", *base[2:], "--feed", "softmax_label=7", cwd=folder
        )
    )


def test_names_and_shapes_that_do_not_fit(folder: Path) -> None:
    np.savez(
        folder / "wrong.npz",
        data=np.ones((1, 2, 5, 5), "float32"),
        conv_weight=np.ones((2, 1, 3, 3), "float32"),
    )
    base = ["run", "siamese.json", "--params", "siamese.params"]
    refused(
        graphshare(*base, "--feed", "dat=data.npy", "--feed", "wait=data.npy", cwd=folder),
        "'data'?",
        "'wait' names no",
    )
    refused(
        graphshare(*base, "--feed", "wrong.npz", cwd=folder),
        "'conv_weight' has the shape (2,1,3,3), which does not fit (1,?,3,3)",
    )
    said = refused(
        graphshare(*base, "--shape", "data=1,1,9,9", "--feed", "data=wrong.npz", cwd=folder),
        "(1,2,5,5)",
    )
    assert "which does not fit (1,1,9,9)" in said
    refused(
        graphshare(*base, "--seed", "1", "--shape", "data=1,7,9,9", cwd=folder),
        'node "conv"',
        "(1,7,9,9)",
        "(1,1,3,3)",
    )
    done = graphshare(*base, "--shape", "data=1,x", "--shape", "3", cwd=folder)
    refused(done, "'data=1,x' is not a shape", "'3' is not a shape")
    refused(graphshare(*base, "--feed", "data=data.npy", "--target", "los", cwd=folder), "'loss'")
    refused(
        graphshare(*base, "--feed", "data=data.npy", "--feed", "data=data.npy", cwd=folder), "twice"
    )
    refused(graphshare(*base, "--feed", "data.npy", cwd=folder), "--feed NAME=data.npy")


def test_scores_for_proposals_come_in_pairs(tmp_path: Path) -> None:
    inputs = [variable("scores"), variable("deltas"), variable("info")]
    attrs = {"rpn_post_nms_top_n": "2", "scales": "(8,)", "ratios": "(1,)"}
    write_json(
        tmp_path / "rpn.json",
        document([*inputs, operator("_contrib_Proposal", "rpn", [0, 1, 2], attrs=attrs)], [3]),
    )
    shapes = ("--shape", "scores=1,3,4,4", "--shape", "deltas=1,6,4,4", "--shape", "info=1,3")
    reason = "expected a background and a foreground score for each anchor, not 3 scores"
    refused(
        graphshare("run", "rpn.json", *shapes, "--seed", "0", cwd=tmp_path), 'node "rpn"', reason
    )
    shown = done(
        graphshare("inspect", "rpn.json", "--shape", "info=1,3", cwd=tmp_path)
    ).stdout.decode()  # of no known scores
    assert "\noutputs           rpn_output ?x5\n" in shown


def test_files_that_are_no_arrays(folder: Path) -> None:
    np.save(folder / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(folder / "objects.npz", data=np.array([{}], dtype=object))
    (folder / "cut.npy").write_bytes((folder / "data.npy").read_bytes()[:-1])
    base = ["run", "siamese.json", "--params", "siamese.params"]
    for name, word in (("objects.npy", "pickled"), ("objects.npz", "pickled"), ("cut.npy", "needs"), ("no.npy", "not exist"),
                       ("siamese.json", "is a symbol file (a graph), not a file of arrays")):  # fmt: skip
        refused(
            graphshare(*base, "--feed", f"data={name}", "-o", "out.npz", cwd=folder), word, name
        )
    assert "out.npz" not in files_in(folder)


def test_a_file_of_2015_is_upgraded_in_memory(folder: Path) -> None:
    keys = ["arg:bn_gamma", "arg:bn_beta", "aux:bn_moving_mean", "aux:bn_moving_var"]
    write_params(folder / "old.params", keys, (2,))
    arguments = [
        "run",
        "old.json",
        "--params",
        "old.params",
        "--seed",
        "1",
        "--random-params",
        "1",
        "--shape",
        "data=3,2",
    ]
    run = done(graphshare(*arguments, "-o", "out.npz", cwd=folder))
    assert b"upgraded in memory; added: 2 variables that it implies" in run.stderr
    assert written(folder / "out.npz")["fc_output"].shape == (3, 3)
    np.save(folder / "mean.npy", np.zeros(2, "float32"))
    before = written(folder / "out.npz")["fc_output"]
    done(graphshare(*arguments, "--feed", "bn_moving_mean=mean.npy", "-o", "out.npz", cwd=folder))
    assert written(folder / "out.npz")["fc_output"].shape == before.shape


def test_a_profile(folder: Path) -> None:
    base = [
        "run",
        "siamese.json",
        "--params",
        "siamese.params",
        "--feed",
        "data=data.npy",
        "--profile",
    ]
    text = done(graphshare(*base, cwd=folder))
    assert b"Convolution" not in text.stdout
    assert b"conv" in text.stderr
    assert b"operator" in text.stderr
    run = done(graphshare(*base, "--format", "json", "-o", "out.npz", cwd=folder))
    found = json.loads(run.stdout)
    assert find_violations(found, "run") == []
    assert [(n["name"], n["op"]) for n in found["profile"]["nodes"]] == [
        ("conv", "Convolution"),
        ("loss", "MakeLoss"),
    ]
    assert {of["op"]: of["nodes"] for of in found["profile"]["operators"]} == {
        "Convolution": 1,
        "MakeLoss": 1,
    }
    assert found["outputs"][0]["mean"] == 42
    plain = json.loads(done(graphshare(*base[:-1], "--format", "json", cwd=folder)).stdout)
    assert find_violations(plain, "run") == []
    assert plain["profile"] is None


def test_outputs_of_one_name_get_numbers(folder: Path) -> None:
    nodes = [
        variable("data"),
        *(operator(op, "a", [0]) for op in ("relu", "negative", "abs")),
        operator("tanh", "a_output#1", [0]),
    ]
    write_json(folder / "same.json", document(nodes, [1, 2, 3]))
    done(graphshare("run", "same.json", "--feed", "data=data.npy", "-o", "out.npz", cwd=folder))
    found = written(folder / "out.npz")
    assert list(found) == ["a_output", "a_output#1", "a_output#2"]
    assert np.array_equal(found["a_output#1"], -IMAGE)


def test_what_cannot_go_out(folder: Path) -> None:
    base = ["run", "siamese.json", "--params", "siamese.params", "--feed", "data=data.npy"]
    refused(graphshare(*base, "-o", "-", "--format", "json", cwd=folder), "both go to stdout")
    refused(graphshare(*base, "-o", "out.npy", cwd=folder), "writes .npz")
    (folder / "out.npz").write_bytes(b"old")
    assert graphshare(*base, "-o", "none/out.npz", cwd=folder).returncode == 2
    assert (folder / "out.npz").read_bytes() == b"old"


def test_terminals(folder: Path) -> None:
    base = ["run", "siamese.json", "--params", "siamese.params", "--feed", "data=data.npy"]
    code, out, err = on_terminal(*base, "-o", "-", cwd=folder)
    assert (code, out) == (2, "")
    assert "terminal" in err
    code, out, _ = on_terminal(*base, cwd=folder)
    assert code == 0
    assert "loss_output" in out
    assert "42" in out
    assert "\x1b[" not in on_terminal(*base, cwd=folder, NO_COLOR="1")[1]


def test_a_stem_and_its_epoch() -> None:
    run = done(
        graphshare(
            "run",
            "fixtures/lenet",
            "--epoch",
            "0",
            "--seed",
            "1",
            "--shape",
            "data=1,1,28,28",
            cwd=ROOT,
        )
    )
    assert b"softmax_output  1x10   float32" in run.stdout


def test_shapes_in_an_inspection(folder: Path) -> None:
    run = done(
        graphshare("inspect", "layers.json", "--shape", "data=5,3", "--format", "json", cwd=folder)
    )
    found = json.loads(run.stdout)
    assert find_violations(found, "inspect") == []
    shaped = found["shaped"]
    assert {o["name"]: o["shape"] for o in shaped["outputs"]} | {
        "bn_output": [5, 4],
        "softmax_label": [5],
    } == {o["name"]: o["shape"] for o in shaped["outputs"]}
    totals = shaped["totals"]
    assert (totals["parameters"], totals["auxiliary"], totals["multiply_adds"]) == (
        4 * 3 + 4 + 8 + 8,
        8,
        5 * 4 * 3 + 5 * 2 * 4,
    )
    assert totals["operators"]["FullyConnected"] == {
        "nodes": 2,
        "parameters": 24,
        "multiply_adds": 100,
    }
    text = done(
        graphshare("inspect", "layers.json", "--shape", "data=5,3", cwd=folder)
    ).stdout.decode()
    assert "multiply-adds     100" in text
    assert "parameters        40 in 7 arrays, 8 of them in 2 auxiliary states" in text
    tied = done(
        graphshare("duplicate", "layers.json", "--prefix", "b-", "--mode", "tie", cwd=folder)
    ).stdout
    run = done(
        graphshare(
            "inspect",
            "-",
            "--shape",
            "data=5,3",
            "--shape",
            "b-data=1,3",
            "--format",
            "json",
            data=tied,
        )
    )
    totals = json.loads(run.stdout)["shaped"]["totals"]
    assert (totals["parameters"], totals["multiply_adds"]) == (32, 120)
    partly = json.loads(
        done(
            graphshare(
                "inspect", "layers.json", "--shape", "data=?,3", "--format", "json", cwd=folder
            )
        ).stdout
    )
    assert find_violations(partly, "inspect") == []
    assert partly["shaped"]["totals"]["multiply_adds"] is None
    foreign = done(
        graphshare("inspect", "foreign.json", "--shape", "data=5,3", "--format", "json", cwd=folder)
    ).stdout
    assert json.loads(foreign)["shaped"]["unsupported"] == ["Nobody", "Knows"]
    refused(graphshare("inspect", "layers.json", "--shape", "dada=5,3", cwd=folder), "'data'?")
    old = json.loads(
        done(
            graphshare("inspect", "old.json", "--shape", "data=5,3", "--format", "json", cwd=folder)
        ).stdout
    )
    assert old["shaped"]["totals"]["auxiliary"] == 6


def test_another_engine_computes_the_same(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    arguments = [
        "run",
        "siamese.json",
        "--params",
        "siamese.params",
        "--feed",
        "data=data.npy",
        "--engine",
        "onnxruntime",
    ]
    found = json.loads(done(graphshare(*arguments, "--format", "json", cwd=folder)).stdout)
    assert find_violations(found, "run") == []
    assert (found["outputs"][0]["name"], found["outputs"][0]["mean"], found["notes"]) == (
        "loss_output",
        42.0,
        [],
    )
    auto = done(graphshare(*arguments[:-1], "auto", cwd=folder))
    assert (
        b"auto: numpy computes; onnxruntime would take longer to open than it saves" in auto.stderr
    )
    refused(graphshare(*arguments, "--profile", cwd=folder), "--profile measures numpy's kernels")
    refused(
        graphshare(*arguments[:-1], "openvino", cwd=folder),
        "unknown engine 'openvino'",
        "numpy, onnxruntime, auto",
    )
    write_json(folder / "mask.json", document(
        [variable("data"), variable("index"), operator("_contrib_boolean_mask", "mask", [0, 1])], [2]
    ))  # fmt: skip
    np.save(folder / "index.npy", np.ones(1, "float32"))
    arguments = [
        "run",
        "mask.json",
        "--feed",
        "data=data.npy",
        "--feed",
        "index=index.npy",
        "--engine",
        "onnxruntime",
    ]
    note = b"numpy computes 1 node that onnxruntime cannot compute: mask (_contrib_boolean_mask)"
    assert note in done(graphshare(*arguments, cwd=folder)).stderr
    message = (
        "cannot compute operator _contrib_boolean_mask: the shape of its output depends on values"
    )
    refused(
        graphshare(*arguments, "--strict-engine", cwd=folder),
        message,
        "mask",
        "leave --strict-engine out",
    )


def test_training_stays_with_numpy(folder: Path) -> None:
    arguments = [
        "run",
        "siamese.json",
        "--params",
        "siamese.params",
        "--feed",
        "data=data.npy",
        "--sgd-steps",
        "1",
    ]
    run = done(graphshare(*arguments, "--engine", "onnxruntime", cwd=folder))
    assert b"training is computed with numpy, not with onnxruntime" in run.stderr


def test_a_profile_lists_operators_and_the_thirty_slowest_nodes() -> None:
    operators = [OperatorCost("conv", 2, 0.003, 1500), OperatorCost("relu", 1, 0.001, 10)]
    for count in (30, 31):
        nodes = [NodeCost(f"n{i:02}", "relu", 0.001 * (i + 1), 2000) for i in range(count)]
        lines = list(run_command._profile_lines(Profile(nodes, operators)))
        assert lines[:4] == [
            "operator  nodes  ms     %     output",
            "conv      2      3.000  75.0  1.5 kB",
            "relu      1      1.000  25.0  10 B",
            "",
        ]
        rows = [line.split() for line in lines[4:]]
        assert rows[:31] == [
            ["node", "operator", "ms", "%", "output"],
            *(
                [f"n{i:02}", "relu", f"{i + 1}.000", f"{25 * (i + 1)}.0", "2.0", "kB"]
                for i in range(count - 1, count - 31, -1)
            ),
        ]
        assert lines[35:] == (
            ["and 1 faster node (--format json lists all)"] if count == 31 else []
        )
    (row,) = list(run_command._profile_lines(Profile([], [OperatorCost("relu", 1, 0.0, 0)])))[1:2]
    assert row.split() == ["relu", "1", "0.000", "0.0", "0", "B"]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, [1]), (9, list(range(1, 10))), (100, list(range(1, 101))), (101, [1, *range(10, 101, 10), 101]),
        (1000, [1, *range(10, 1001, 10)]), (1001, [1, *range(100, 1001, 100), 1001]),
    ],
)  # fmt: skip
def test_of_many_steps_some_are_printed(
    steps: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(run_command, "is_shown", lambda: True)
    monkeypatch.setattr(run_command, "say", said.append)
    report = run_command._step_reporter(steps)
    assert report is not None
    losses = [LossHistory(f"l{i}", "mean", [2.0, 0.5]) for i in range(9)]
    for number in range(1, steps + 1):
        report(number, losses)
    assert said[0] == "step 1: " + ", ".join(f"l{i} mean 0.5" for i in range(8))
    assert [int(text.partition(":")[0].removeprefix("step ")) for text in said] == expected
    monkeypatch.setattr(run_command, "is_shown", lambda: False)
    assert run_command._step_reporter(steps) is None
    monkeypatch.setattr(run_command, "is_shown", lambda: True)
    monkeypatch.setattr(run_command, "is_quiet", lambda: True)
    assert run_command._step_reporter(steps) is None


@pytest.mark.parametrize(
    ("rankings", "titles", "rows"),
    [
        ([("y", 0, None, None)], ["sample", "class", "score"], [["0", "3", "0.25"]]),
        (
            [("y", 0, "a.png", "cat")],
            ["image", "class", "label", "score"],
            [["a.png", "3", "cat", "0.25"]],
        ),
        (
            [("y", 0, "a.png", None), ("y", 1, None, "dog")],
            ["sample", "class", "label", "score"],
            [["0", "3", "", "0.25"], ["1", "3", "dog", "0.25"]],
        ),
        (
            [("y", 0, None, None), ("z", 0, None, None)],
            ["output", "sample", "class", "score"],
            [["y", "0", "3", "0.25"], ["z", "0", "3", "0.25"]],
        ),
    ],
)
def test_the_table_of_classes_has_the_columns_that_are_not_empty(
    rankings: list[tuple[str, int, str | None, str | None]],
    titles: list[str],
    rows: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables: list[tuple[object, object]] = []
    monkeypatch.setattr(
        run_command, "put_table", lambda titles, rows, *, right: tables.append((titles, rows))
    )
    run_command._put_classes(
        [
            Ranking(output, sample, image, (ClassScore(3, label, 0.25),))
            for output, sample, image, label in rankings
        ]
    )
    assert tables == [(titles, rows)]
