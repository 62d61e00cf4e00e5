"""Models whose nodes are not in topological order are written sorted, and reported by ``check``; cycles are refused."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

import graphshare as gs
from graphshare.formats.onnx.decode import decode_model, read_model
from graphshare.formats.onnx.format import FORMAT
from graphshare.formats.onnx.stored import MemoryFile
from tests.onnx_files.mutable import BOOL, SOURCES, body, build, declare, node, weight
from tests.onnx_files.running import Session
from tests.processes import done, in_process, refused

NOTE = "its nodes are not in topological order; a rewritten model has them sorted"


def late(*nodes: NodeProto) -> ModelProto:
    """A model of ``y = Relu(a)`` before ``a = Neg(x)``, and more nodes."""
    return build(
        [node("Relu", "a", "y"), node("Neg", "x", "a"), *nodes], [declare("x")], [declare("y")]
    )


def choice(nodes: list[NodeProto], *more: NodeProto) -> ModelProto:
    """A model of an If, whose branch ``nodes`` give ``t``, before other nodes."""
    yes = body("yes", nodes, [], [declare("t")])
    no = body("no", [node("Neg", "x", "e")], [], [declare("e")])
    nodes = [node("If", "flag", "y", then_branch=yes, else_branch=no), *more]
    return build(nodes, [declare("x"), declare("flag", (), BOOL)], [declare("y")])


def call(*nodes: NodeProto) -> ModelProto:
    """A model that calls a function of ``nodes`` from ``p`` to ``q``."""
    function = helper.make_function(
        "own", "F", ["p"], ["q"], list(nodes), [helper.make_opsetid("", 18)]
    )
    return build(
        [node("F", "x", "y", "own")],
        [declare("x")],
        [declare("y")],
        functions=[function],
        domains=["own"],
    )


UNSORTED: dict[str, Callable[[], ModelProto]] = {
    "main graph": late,
    "body": lambda: choice([node("Relu", "b", "t"), node("Neg", "x", "b")]),
    "captured later": lambda: choice([node("Relu", "a", "t")], node("Exp", "x", "a")),
    "captured later by a body in a body": lambda: choice([_nested()], node("Exp", "x", "a")),
    "function": lambda: call(node("Relu", "r", "q"), node("Neg", "p", "r")),
}


def _nested() -> NodeProto:
    bodies = [body(name, [node("Relu", "a", name)], [], [declare(name)]) for name in ("m", "n")]
    return node("If", "flag", "t", then_branch=bodies[0], else_branch=bodies[1])


CYCLES: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "itself": (lambda: late(node("Add", "x z", "z")), "z <- z"),
    "unused part": (lambda: late(node("Neg", "k", "j"), node("Exp", "j", "k")), "j <- k <- j"),
    "its own output in a body": (lambda: choice([node("Relu", "y", "t")]), "y <- y"),
    "captured in a body": (
        lambda: choice([node("Relu", "a", "t")], node("Exp", "y", "a")),
        "y <- a <- y",
    ),
    "in a body": (lambda: choice([node("Relu", "b", "t"), node("Neg", "t", "b")]), "t <- b <- t"),
    "in a function": (lambda: call(node("Relu", "r", "q"), node("Neg", "q", "r")), "q <- r <- q"),
}


def write(path: Path, model: ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def draw(model: ModelProto) -> dict[str, Any]:
    feeds: dict[str, Any] = {
        "x": np.array([[1, -2], [3, -0.5]], np.float32),
        "flag": np.array(True),
    }
    return {value.name: feeds[value.name] for value in model.graph.input}


def run(model: ModelProto, feeds: dict[str, Any]) -> Any:
    return Session(model.SerializeToString()).run(feeds)["y"]


@pytest.mark.parametrize("case", UNSORTED)
def test_what_is_written_is_sorted_and_says_so(case: str, tmp_path: Path) -> None:
    path, model = write(tmp_path / "late.onnx", UNSORTED[case]()), UNSORTED[case]()
    for arguments in (
        ("rename", path, "--match", "x", "--to", "data"),
        ("duplicate", path, "--prefix", "b_"),
        ("extract", path, "--target", "y"),
    ):
        out = tmp_path / f"{arguments[0]}.onnx"
        assert f"late.onnx: {NOTE}" in done(in_process(*arguments, "-o", out)).stderr.decode()
        onnx.checker.check_model(out.read_bytes(), full_check=True)
        assert not [finding for finding in gs.check([out]).findings if finding.code == "GS601"]
        assert NOTE not in done(in_process("inspect", out)).stderr.decode()
    # extract kept everything, so that only the order of the nodes differs.
    assert len(out.read_bytes()) == len(path.read_bytes())
    written = onnx.load(out)
    done(in_process("diff", path, out))
    feeds = draw(model)
    if case in ("main graph", "captured later"):  # onnxruntime sorts those itself
        assert run(model, feeds).tobytes() == run(written, feeds).tobytes()
    assert gs.run(path, feeds=feeds).outputs["y"].tobytes() == run(written, feeds).tobytes()
    assert gs.compare(path, out)


def test_every_command_reads_nodes_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path / "late.onnx", late())
    for arguments in (
        ("inspect", path),
        ("draw", path, "-o", tmp_path / "late.svg"),
        ("diff", path, path),
        ("params", "list", path),
        ("share", path, "--detect"),
    ):
        done(in_process(*arguments))
    pooled = done(in_process("pool", path, "-o", tmp_path / "pool"))
    assert f"late.onnx: {NOTE}" in pooled.stderr.decode()
    group = done(
        in_process(
            "group", path, path, "--prefix", "a_", "--prefix", "b_", "-o", tmp_path / "group.onnx"
        )
    )
    assert group.stderr.decode().count(NOTE) == 2
    switch = done(
        in_process("group", path, path, "--switch", "which", "-o", tmp_path / "switch.onnx")
    )
    assert NOTE in switch.stderr.decode()
    reshaped = done(in_process("reshape", path, "--dynamic-batch", "-o", tmp_path / "free.onnx"))
    assert NOTE in reshaped.stderr.decode()
    piped = done(in_process("extract", "-", "--target", "y", "-o", "-", data=path.read_bytes()))
    assert [step.op_type for step in onnx.load_from_string(piped.stdout).graph.node] == [
        "Neg",
        "Relu",
    ]


def test_check_names_the_cause(tmp_path: Path) -> None:
    (finding,) = gs.check([write(tmp_path / "late.onnx", late())]).findings
    assert (finding.code, finding.level.value, finding.node) == ("GS601", "error", "y")
    assert (
        "reads the value 'a', which nothing before it defines: the nodes are not in topological order"
        in finding.message
    )
    renamed = gs.rename(tmp_path / "late.onnx", match={"x": "data"})
    assert not gs.check([renamed]).findings  # it is sorted in memory already


@pytest.mark.parametrize("case", CYCLES)
def test_a_cycle_is_refused_by_its_nodes(case: str, tmp_path: Path) -> None:
    make, path = CYCLES[case]
    file = write(tmp_path / "cycle.onnx", make())
    refused(
        in_process("rename", file, "--prefix", "a_", "-o", tmp_path / "out.onnx"),
        f"needs its own output: {path}",
    )
    (finding,) = [finding for finding in gs.check([file]).findings if finding.code == "GS601"]
    assert path in finding.message


def test_values_that_nothing_defines_and_second_definitions_are_refused_by_name(
    tmp_path: Path,
) -> None:
    undefined = write(tmp_path / "undefined.onnx", late(node("Neg", "nowhere", "z")))
    assert "reads the value 'nowhere'" in refused(in_process("inspect", undefined))
    twice = write(tmp_path / "twice.onnx", late(node("Neg", "x", "a")))
    assert "value 'a' is defined twice" in refused(in_process("inspect", twice))


def test_a_value_of_a_body_is_not_taken_for_one_around_it() -> None:
    # Both are called b: the nodes around the body keep their places.
    inside = [node("Relu", "b", "t"), node("Neg", "x", "b")]
    model = choice(inside, node("Exp", "y", "b"))
    written = onnx.load_from_string(
        b"".join(FORMAT.encode(decode_model(MemoryFile(model.SerializeToString()))))
    )
    assert [step.op_type for step in written.graph.node] == ["If", "Exp"]
    assert [step.op_type for step in written.graph.node[0].attribute[1].g.node] == ["Neg", "Relu"]


def test_a_body_may_give_values_of_the_names_that_its_operator_gives() -> None:
    bodies = [body(name, [node("Exp", "a", "y")], [], [declare("y")]) for name in ("m", "n")]
    choice = node("If", "flag", "y", then_branch=bodies[0], else_branch=bodies[1])
    model = build(
        [choice, node("Neg", "x", "a")], [declare("x"), declare("flag", (), BOOL)], [declare("y")]
    )
    graph = decode_model(MemoryFile(model.SerializeToString()))
    assert [step.op for step in graph.nodes if step.op] == ["Neg", "If"]


def list_parts(part: GraphProto | FunctionProto) -> Iterator[GraphProto | FunctionProto]:
    yield part
    for step in part.node:
        for attribute in step.attribute:
            for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from list_parts(graph)


@pytest.mark.parametrize("name", SOURCES)
def test_a_model_with_all_its_nodes_in_reverse_is_the_same_model(name: str, tmp_path: Path) -> None:
    source = SOURCES[name]()
    reverse = ModelProto()
    reverse.CopyFrom(source.model)
    for each in (reverse.graph, *reverse.functions):
        for part in list_parts(each):
            nodes = [*part.node]
            del part.node[:]
            part.node.extend(reversed(nodes))
    for file, content in source.files.items():
        (tmp_path / file).write_bytes(content)
    paths = [
        write(tmp_path / name, model)
        for name, model in (("a.onnx", source.model), ("b.onnx", reverse))
    ]
    forward, backward = map(read_model, map(str, paths))
    assert len(forward.nodes) == len(backward.nodes)
    (tmp_path / "c.onnx").write_bytes(b"".join(FORMAT.encode(backward)))
    onnx.checker.check_model(str(tmp_path / "c.onnx"))
    assert not gs.diff(paths[0], paths[1]).graph.changed
    # What is sorted once stays as it is.
    assert (
        b"".join(FORMAT.encode(read_model(str(tmp_path / "c.onnx"))))
        == (tmp_path / "c.onnx").read_bytes()
    )


def test_nodes_that_are_in_their_places_stay_there() -> None:
    # One constant at the end moves before its reader; the others keep their order.
    steps = [
        node("Neg", "x", "a"),
        node("Add", "a k", "b"),
        node("Exp", "x", "c"),
        node("Add", "b c", "y"),
    ]
    model = build(
        [*steps, node("Identity", "w", "k")], [declare("x")], [declare("y")], [weight("w", 2, 2)]
    )
    graph = decode_model(MemoryFile(model.SerializeToString()))
    assert [step.name for step in graph.nodes if step.op] == ["a", "k", "b", "c", "y"]


@pytest.mark.large
def test_many_nodes_in_reverse_take_linear_time_and_no_recursion() -> None:
    def measure(count: int, step: int) -> float:
        names = [f"v{i}" for i in range(count + 1)]
        nodes = [helper.make_node("Relu", [a], [b]) for a, b in itertools.pairwise(names)][::step]
        inputs, outputs = [declare(names[0])], [declare(names[-1])]
        file = MemoryFile(build(nodes, inputs, outputs).SerializeToString())
        start = time.perf_counter()
        graph = decode_model(file)
        assert [each.name for each in graph.nodes] == names
        return time.perf_counter() - start

    assert measure(100_000, -1) < 30 * max(measure(10_000, -1), 0.05)
