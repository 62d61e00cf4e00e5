"""Names of values in ONNX models and their bodies, drawn from a few so that they clash wherever they may.

A value may have the name of one around its body or in a sibling body, or one that a rewrite makes
by a prefix or a number. Entries on values may be repeated, of no value, and without a name.
Whatever is drawn, a rewrite keeps all messages and numbers.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from tests.fuzz.message_rewrites import REWRITES
from tests.fuzz.messages import try_rewrite
from tests.onnx_files.invariants import CHECKS, Subject
from tests.onnx_files.sources import Source

# Names that clash with those that rewrites make, whose prefixes are p_, a_ and b_.
NAMES = ("a", "b", "c", "a_1", "a_1_1", "p_a", "b_a", "a_a", "p_p_a")
DEPTH = 2
REFUSALS = (
    *(
        "nothing would be tied",
        "a name that the graph already has",
        "two values would be called",
        "two outputs would be",
    ),
    "outputs would be written without a type",
)
"""What a rewrite may answer: a prefix makes a name that another value has, all weights are outputs,
or no type is known.
"""
_SHAPE = [16]


def describe(name: str, text: str = "") -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, _SHAPE, text)


class Writer:
    """Draws a model: which values exist, and what they are called, in each graph."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.count = 0
        self.labels: set[str] = set()

    def choose(self, names: list[str]) -> str:
        """Return one of some names."""
        return self.draw(st.sampled_from(names))

    def name(self, taken: set[str]) -> str:
        """Return a name that a value may have beside those of ``taken``."""
        free = [name for name in NAMES if name not in taken]
        if free and self.draw(st.sampled_from((True, True, True, False))):
            return self.choose(free)
        self.count += 1
        return f"v{self.count}"

    def weight(self, name: str) -> TensorProto:
        # That of a body is a parameter of the model if it is large
        size = self.draw(st.sampled_from((1, 16)))
        self.count += 1
        return numpy_helper.from_array(np.full(size, self.count / 8, np.float32), name)

    def body(self, around: list[str], depth: int, inputs: list[str]) -> onnx.GraphProto:
        """Return a body that gives one value; its inputs and weights may have names around it, its nodes may not."""
        own = dict.fromkeys(inputs)
        weights = []
        for _ in range(self.draw(st.integers(0, 1))):
            name = self.name(set(own))
            own[name] = None
            weights.append(self.weight(name))
        nodes, outputs = self.nodes([*dict.fromkeys((*around, *own))], set(own), {*around}, depth)
        ends = [describe(name) for name in inputs], [describe(outputs[-1], "of a body")]
        graph = helper.make_graph(nodes, "body", *ends, weights)
        self.add_entries(graph, [*own, *outputs, *around])
        return graph

    def nodes(
        self, visible: list[str], own: set[str], around: set[str], depth: int
    ) -> tuple[list[onnx.NodeProto], list[str]]:
        nodes, outputs = [], []
        for _ in range(self.draw(st.integers(1, 3))):
            name = self.name(own | around)
            kinds = ["Add", "Neg", "If", "Loop"] if depth < DEPTH else ["Add", "Neg"]
            kind = self.choose(kinds)
            if kind == "If":
                bodies = {
                    key: self.body(visible, depth + 1, []) for key in ("then_branch", "else_branch")
                }
                nodes.append(helper.make_node("If", ["flag"], [name], **bodies))
            elif kind == "Loop":
                state = self.name(set())
                body = self.body(visible, depth + 1, [state])
                for at, each in enumerate(("i", "go")):
                    kind_of = TensorProto.BOOL if at else TensorProto.INT64
                    body.input.insert(
                        at, helper.make_tensor_value_info(f"{each}{depth}", kind_of, [])
                    )
                body.output.insert(
                    0, helper.make_tensor_value_info(f"go{depth}", TensorProto.BOOL, [])
                )
                nodes.append(
                    helper.make_node("Loop", ["trips", "", self.choose(visible)], [name], body=body)
                )
            else:
                inputs = [self.choose(visible) for _ in range(2 if kind == "Add" else 1)]
                nodes.append(helper.make_node(kind, inputs, [name]))
            if label := self.choose(["", *(name for name in NAMES if name not in self.labels)]):
                nodes[-1].name = label
                self.labels.add(label)
            own.add(name)
            visible = [*visible, name]
            outputs.append(name)
        return nodes, outputs

    def add_entries(self, graph: onnx.GraphProto, names: list[str]) -> None:
        for name in self.draw(
            st.lists(st.sampled_from([*names, *NAMES, "", "nothing"]), max_size=3)
        ):
            self.count += 1
            if self.draw(st.booleans()):
                graph.value_info.append(describe(name, f"entry {self.count}"))
            else:
                note = graph.quantization_annotation.add(tensor_name=name)
                note.quant_parameter_tensor_names.add(
                    key=f"entry {self.count}", value=self.choose(names)
                )


@st.composite
def models(draw: st.DrawFn) -> bytes:
    """Return a model of a few values, some in bodies, which onnxruntime may or may not compute."""
    writer = Writer(draw)
    taken = {"flag", "trips"}
    names = []
    for _ in range(2):
        names.append(writer.name(taken))
        taken.add(names[-1])
    weights = [numpy_helper.from_array(np.array(2, np.int64), "trips"), writer.weight(names[1])]
    nodes, outputs = writer.nodes(names, taken, set(), 0)
    ends = (
        [describe(names[0]), helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [describe(outputs[-1])],
    )
    graph = helper.make_graph(nodes, "main", *ends, weights)
    writer.add_entries(graph, [*names, *outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("rewrite", REWRITES)
@given(data=models())
def test_a_rewrite_keeps_every_message(rewrite: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        status, what = try_rewrite(rewrite, data, Path(folder))
    assert status != "failed", what
    assert status != "refused" or any(reason in what for reason in REFUSALS), what


def hides_by_initializer(graph: onnx.GraphProto, around: frozenset[str]) -> bool:
    """Return whether an initializer, or a Constant, of a body has the name of a value around it."""
    constants = {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    own = {tensor.name for tensor in graph.initializer} | constants
    names = (
        own
        | {value.name for value in graph.input}
        | {name for node in graph.node for name in node.output}
    )
    bodies = [
        attribute.g
        for node in graph.node
        for attribute in node.attribute
        if attribute.HasField("g")
    ]
    return bool(own & around) or any(hides_by_initializer(body, around | names) for body in bodies)


@pytest.mark.parametrize("check", ["tie", "copy", "share", "group", "pool", "outputs", "extract"])
@given(data=models())
def test_a_rewrite_computes_the_same(check: str, data: bytes) -> None:
    # onnxruntime takes an input around a body for an initializer of the body that has its name.
    assume(not hides_by_initializer(onnx.load_from_string(data).graph, frozenset()))
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(Source("drawn", data), Path(folder))
        try:
            CHECKS[check](subject, random.Random(0))
        except gs.RefusedError as error:
            assert any(reason in str(error) for reason in REFUSALS), error
