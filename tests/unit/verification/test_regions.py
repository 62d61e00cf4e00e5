"""The regions of small ONNX models: which operators are exact, where each region begins and ends,
and how it is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphshare as gs
from graphshare.verification.comparison import BY_ELEMENT
from graphshare.verification.model_comparison import make_judge
from graphshare.verification.pairing import pair_models
from graphshare.verification.region import Region
from graphshare.verification.regions import tolerate_region

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

X = np.array([1, 2, 3, 4], np.float32)
FEEDS: Mapping[str, Any] = {
    "x": X,
    "z": X,
    "f": np.array(True),
    "g": np.array(True),
    "n": np.array(2),
    "k": np.array([3]),
}


def describe(region: Region) -> str:
    """Return a region in a line: the ends, the operators of both sides, the verdict, the body, and
    what equal values hide.
    """
    ends = " ".join(f"{a}={b}" for a, b in region.ends)
    sides = " / ".join(
        " ".join(node.op for node in side) for side in (region.nodes, region.other_nodes)
    )
    comparison = region.comparison
    if comparison is None:
        verdict = "unknown, " + region.reason.split(":")[0]
    elif comparison.identical:
        verdict = "same"
    else:
        verdict = ("near" if comparison else "apart") + (
            "" if region.of_largest is None else f" {region.of_largest:.2g}"
        )
    hidden = {"": "", "attributes, constants, functions or bodies differ": ", differ"}.get(
        region.hidden, f", {region.hidden}"
    )
    place = f" in {region.place}" if region.place else ""
    return f"{ends}: {sides}: {verdict}{place}{hidden}" + "".join(
        f" ?{name}" for name in region.switches
    )


class Case(NamedTuple):
    """Two models, how many of the operators are exact and how many there are, and the regions."""

    head: str
    left: str
    right: str
    exact: str
    regions: tuple[str, ...]
    opset: int = 21
    other: int = 21


def switch(then: str, other: str, output: str = "y") -> str:
    """Return an If on ``f`` of two bodies of one operator, whose results are ``a`` and ``b`` before
    the name of its output.
    """
    bodies = (
        f"{name} = {output}{name} () => (float[4] {end}{output}) {{ {end}{output} = {body} }}"
        for name, end, body in (("then_branch", "a", then), ("else_branch", "b", other))
    )
    return f"{output} = If(f) <{', '.join(bodies)}>"


def turn(
    body: str,
    condition: str = "Identity(c)",
    operands: str = "n, g, x",
    outputs: str = "y",
    results: str = "",
) -> str:
    """Return a Loop whose body makes ``p`` of ``s``, and ``results`` beside it."""
    inner = (
        f"(int64 i, bool c, float[4] s) => (bool d, float[4] p{results}) {{d = {condition} {body}}}"
    )
    return f"{outputs} = Loop({operands}) <body = b {inner}>"


_X = "(float[4] x) => (float[4] y)"
_IF = "(bool f, float[4] x) => (float[4] y)"
_LOOP = "(int64 n, bool g, float[4] x) => (float[4] y)"
_NESTED = """y = If(f) <then_branch = t () => (float[4] a) {{ a = If(g) <then_branch = u () => (float[4] c) {{ c = Neg(x) }},
    else_branch = v () => (float[4] d) {{ d = {}(x) }}> }}, else_branch = e () => (float[4] b) {{ b = Exp(x) }}>"""
_TWO = """y, z = If(f) <then_branch = t () => (float[4] a, float[4] p) {{ a = Neg(x) p = Abs(x) }},
    else_branch = e () => (float[4] b, float[4] q) {{ b = Exp(x) q = {}(x) }}>"""
_SCAN = """y, z = Scan <num_scan_inputs = 1, body = b (float[4] s, float[4] e) => (float[4] t, float[4] o)
    {{ t = Add(s, e) o = {}(t) }}>(x, x2)"""

CASES = {
    # Where regions begin and end.
    "one operator": Case(
        _X,
        "a = Exp(x) b = Neg(a) c = Sqrt(a) y = Add(b, c)",
        "a = Exp(x) b = Abs(a) c = Sqrt(a) y = Add(b, c)",
        "3 of 4",
        ("b=b: Neg / Abs: apart 2",),
    ),
    "two outputs that share an operator": Case(
        "(float[4] x) => (float[4] y, float[4] z)",
        "y = Exp(x) a = Neg(x) z = Abs(a)",
        "y = Sqrt(x) z = Neg(x)",
        "0 of 3",
        ("y=y: Exp / Sqrt: apart 0.96", "z=z: Neg Abs / Neg: apart 2"),
    ),
    "two outputs of one operator": Case(
        "(float[4] x) => (float[2] y, float[2] z)",
        "y, z = Split <num_outputs = 2> (x)",
        "z, y = Split <num_outputs = 2> (x)",
        "0 of 1",
        ("y=y z=z: Split / Split: apart 1",),
    ),
    "names that two operators exchange": Case(
        _X, "a = Exp(x) b = Neg(a) y = Relu(b)", "b = Exp(x) a = Neg(b) y = Relu(a)", "3 of 3", ()
    ),
    # Two of six names stay in order by chance, and the values of one are equal here.
    "names that were given anew": Case(
        "(float[N] x) => (float[S] y)",
        "<float one = {1.0}> {a = Relu(x) b = Abs(a) c = Abs(a) d = Neg(b) e = Abs(c) "
        "f = Concat <axis = 0> (c, d, e) g = Exp(f) h = Add(g, one) y = Log(h)}",
        "f = Relu(x) d = Abs(f) e = Abs(f) b = Neg(d) a = Abs(e) c = Concat <axis = 0> (e, b, a) y = Softplus(c)",
        "6 of 9",
        ("y=y: Exp Add Log / Softplus: near 3e-08",),
        17,
        17,
    ),
    "outputs that are exchanged": Case(
        "(float[4] x) => (float[4] y, float[4] z)",
        "y = Exp(x) z = Neg(y)",
        "z = Exp(x) y = Neg(z)",
        "0 of 2",
        ("y=y: Exp / Neg: apart 2", "z=z: Exp Neg / Exp: apart 2"),
    ),
    "a name of another dtype": Case(
        _X, "a = Exp(x) y = Neg(a)", "a = Cast <to = 6> (x) b = Exp(x) y = Neg(b)", "2 of 2", ()
    ),
    "a name of another shape": Case(
        "(float[4] x) => (float[S] y)",
        "a = Concat <axis = 0> (x, x) y = Neg(a)",
        "a = Concat <axis = 0> (x, x, x) y = Neg(a)",
        "0 of 2",
        ("y=y: Concat Neg / Concat Neg: apart",),
    ),
    "a name that stands for a later value": Case(
        _X,
        "a = Exp(x) b = Neg(a) y = Relu(b)",
        "t = Exp(x) a = Neg(t) y = Abs(a)",
        "2 of 3",
        ("y=y: Relu / Abs: apart 55",),
    ),
    "a value in between in another dtype": Case(
        _X,
        "a = Exp(x) y = Neg(a)",
        "h = Cast <to = 10> (x) a = Exp(h) b = Neg(a) y = Cast <to = 1> (b)",
        "0 of 2",
        ("a=a: Exp / Cast Exp: near 0.00014", "y=y: Neg / Neg Cast: apart 0.00014"),
    ),
    "values of another dtype that are the same": Case(
        _X,
        "h = Cast <to = 10> (x) a = Neg(h) y = Cast <to = 1> (a)",
        "a = Neg(x) y = Identity(a)",
        "0 of 3",
        ("a=a: Cast Neg / Neg: near 0", "y=y: Cast / Identity: same"),
    ),
    "before a sequence": Case(
        _X,
        "s = SequenceConstruct(x, x) a = ConcatFromSequence <axis = 0, new_axis = 1> (s) "
        "y = ReduceMax <axes = [0], keepdims = 0> (a)",
        "s = SequenceConstruct(x, x) b = ConcatFromSequence <axis = 1, new_axis = 1> (s) "
        "y = ReduceMin <axes = [1], keepdims = 0> (b)",
        "0 of 3",
        (
            (
                "y=y: SequenceConstruct ConcatFromSequence ReduceMax / SequenceConstruct "
                "ConcatFromSequence ReduceMin: same"
            ),
        ),
        17,
        17,
    ),
    "a sequence of another length": Case(
        "(float[4] x) => (float[S] y)",
        "s = SequenceConstruct(x, x) y = ConcatFromSequence <axis = 0> (s)",
        "s = SequenceConstruct(x, x, x) y = ConcatFromSequence <axis = 0> (s)",
        "0 of 2",
        (
            "y=y: SequenceConstruct ConcatFromSequence / SequenceConstruct ConcatFromSequence: apart",
        ),
    ),
    "other versions": Case(
        "(float[2,2] x2) => (float[2,2] y)",
        "a = Neg(x2) y = Softmax <axis = 0> (a)",
        "a = Abs(x2) y = Softmax <axis = 0> (a)",
        "0 of 2",
        ("a=a: Neg / Abs: apart 2", "y=y: Softmax / Softmax: apart 1"),
        11,
        13,
    ),
    # How they are judged.
    "zeros": Case(
        _X,
        "<float z = {0.0}> {a = Mul(x, z) y = Relu(a)}",
        "<float z = {0.0}> {a = Mul(x, z) y = Cos(a)}",
        "1 of 2",
        ("y=y: Relu / Cos: apart 1",),
    ),
    "what fails, and what needs it": Case(
        "(float[4] x, int64[1] k) => (float[K] y, float[4] z)",
        "a = Exp(x) y = Reshape(a, k) z = Neg(a)",
        "a = Exp(x) t = Neg(a) u = Reshape(t, k) y = Neg(u) z = Abs(a)",
        "1 of 3",
        (
            "y=y: Reshape / Neg Reshape Neg: unknown, onnxruntime {version} fails",
            "z=z: Neg / Abs: unknown, value 'a' was not computed",
        ),
    ),
    "another order of like operators": Case(
        _X,
        "a = Abs(x) y = Relu(a)",
        "b = Relu(x) y = Abs(b)",
        "0 of 2",
        ("y=y: Abs Relu / Relu Abs: same, different inputs give different values",),
    ),
    "another order that changes nothing": Case(
        _X,
        "a = Sign(x) y = Relu(a)",
        "b = Relu(x) y = Sign(b)",
        "0 of 2",
        ("y=y: Sign Relu / Relu Sign: same",),
    ),
    "unlike operators": Case(
        _X,
        "a = Relu(x) y = Neg(a)",
        "a = Abs(x) y = Neg(a)",
        "1 of 2",
        ("a=a: Relu / Abs: same, different inputs give different values",),
    ),
    "another attribute": Case(
        _X,
        "a = LeakyRelu <alpha = 0.5> (x) y = Neg(a)",
        "a = LeakyRelu <alpha = 0.25> (x) y = Neg(a)",
        "1 of 2",
        ("a=a: LeakyRelu / LeakyRelu: same, differ",),
    ),
    "another constant": Case(
        _X,
        "<float c = {0.5}> {y = Max(x, c)}",
        "<float c = {0.25}> {y = Max(x, c)}",
        "0 of 1",
        ("y=y: Max / Max: same, differ",),
    ),
    "what a region starts from on one side only": Case(
        "(float[4] x) => (float[4] a, float[4] y)",
        "a = Abs(x) b = Relu(a) y = Sign(b)",
        "a = Abs(x) c = Sign(x) y = Relu(c)",
        "1 of 3",
        ("y=y: Relu Sign / Sign Relu: same, different inputs give different values",),
    ),
    "an input that lies between": Case(
        "(float[4] x, float[4] z) => (float[4] a, float[4] y)",
        "a = Max(x, z) b = Relu(a) y = Sign(b)",
        "a = Max(x, z) c = Sign(x) y = Relu(c)",
        "1 of 3",
        ("y=y: Relu Sign / Sign Relu: same, different inputs give different values",),
    ),
    "an input that one side alone reads": Case(
        "(float[4] x, float[4] z) => (float[4] y)",
        "a = Max(x, x) b = Relu(a) y = Sign(b)",
        "a = Max(z, x) c = Sign(a) y = Relu(c)",
        "0 of 3",
        (
            "a=a: Max / Max: same, different inputs give different values",
            "y=y: Relu Sign / Sign Relu: same",
        ),
    ),
    "attributes behind values that are not the same": Case(
        "(float[4] x) => (float[4] a, float[4] b, float[4] y)",
        "a = Abs(x) b = Relu(x) y = LeakyRelu <alpha = 0.5> (a)",
        "a = Abs(x) b = Relu(x) y = LeakyRelu <alpha = 0.25> (b)",
        "2 of 3",
        ("y=y: LeakyRelu / LeakyRelu: same, different inputs give different values",),
    ),
    "inputs that one side refuses": Case(
        "(float[4] x, int64[1] k) => (float[1] y)",
        "<int64 zero = {0}, int64 last = {3}> {a = Min(k, last) b = Max(a, zero) y = Gather(x, b)}",
        "<int64 zero = {0}, int64 last = {9}> {p = Max(k, zero) q = Min(p, last) y = Gather(x, q)}",
        "0 of 3",
        ("y=y: Min Max Gather / Max Min Gather: same",),
    ),
    # Bodies.
    "a body that is not taken": Case(
        _IF,
        switch("Neg(x)", "Exp(x)"),
        switch("Neg(x)", "Abs(x)"),
        "1 of 3",
        ("by=by: Exp / Abs: apart 0.93 in else_branch of 'y'", "y=y: If / If: same"),
    ),
    "a body that is taken": Case(
        _IF,
        switch("Neg(x)", "Exp(x)"),
        switch("Abs(x)", "Exp(x)"),
        "1 of 3",
        ("ay=ay: Neg / Abs: apart 2 in then_branch of 'y'", "y=y: If / If: apart 2"),
    ),
    "a body that captures another value": Case(
        _IF,
        f"c = Exp(x) d = Neg(c) {switch('Neg(c)', 'Sin(d)')}",
        f"c = Exp(x) d = Neg(c) {switch('Neg(c)', 'Sin(c)')}",
        "2 of 5",
        ("by=by: Sin / Sin: apart 2 in else_branch of 'y'", "y=y: Neg If / If: same"),
    ),
    "bodies that capture a value of the original": Case(
        _IF,
        f"c = Exp(x) {switch('Neg(c)', 'Exp(c)')}",
        f"c = Exp(x) {switch('Neg(c)', 'Abs(c)')}",
        "2 of 4",
        ("by=by: Exp / Abs: apart 1 in else_branch of 'y'", "y=y: If / If: same"),
    ),
    "bodies that capture a constant": Case(
        _IF,
        f"<float[4] w = {{1.0, 2.0, 3.0, 4.0}}> {{{switch('Neg(x)', 'Add(x, w)')}}}",
        f"<float[4] w = {{1.0, 2.0, 3.0, 4.0}}> {{{switch('Neg(x)', 'Sub(x, w)')}}}",
        "1 of 3",
        ("by=by: Add / Sub: apart 1 in else_branch of 'y'", "y=y: If / If: same"),
    ),
    "a body in a body": Case(
        "(bool f, bool g, float[4] x) => (float[4] y)",
        _NESTED.format("Exp"),
        _NESTED.format("Sqrt"),
        "2 of 5",
        (
            "d=d: Exp / Sqrt: apart 0.96 in else_branch of 'a' in then_branch of 'y'",
            "a=a: If / If: same in then_branch of 'y'",
            "y=y: If / If: same",
        ),
    ),
    "two Ifs, each in its region": Case(
        _IF,
        f"{switch('Neg(x)', 'Exp(x)', 'u')} {switch('Neg(u)', 'Exp(u)')}",
        f"{switch('Neg(x)', 'Abs(x)', 'u')} {switch('Abs(u)', 'Exp(u)')}",
        "2 of 6",
        (
            "bu=bu: Exp / Abs: apart 0.93 in else_branch of 'u'",
            "u=u: If / If: same",
            "ay=ay: Neg / Abs: same in then_branch of 'y', different inputs give different values",
            "y=y: If / If: same",
        ),
    ),
    "two Ifs in one region": Case(
        _IF,
        f"{switch('Neg(x)', 'Exp(x)', 'u')} {switch('Neg(u)', 'Exp(u)')}",
        f"{switch('Neg(x)', 'Abs(x)', 'w')} {switch('Abs(w)', 'Exp(w)')}",
        "2 of 6",
        (
            "bu=bw: Exp / Abs: apart 0.93 in else_branch of 'u'",
            "u=w: If / If: same",
            "ay=ay: Neg / Abs: same in then_branch of 'y', different inputs give different values",
            "y=y: If / If: same",
        ),
    ),
    "an If and one behind another": Case(
        _IF,
        switch("Neg(x)", "Exp(x)"),
        f"{switch('Neg(x)', 'Exp(x)', 'u')} {switch('Identity(u)', 'Exp(u)')}",
        "0 of 1",
        ("y=y: If / If If: same ?y ?u",),
    ),
    "an If with another condition": Case(
        _IF,
        f"c = Not(f) {switch('Neg(x)', 'Exp(x)')}".replace("If(f)", "If(c)"),
        switch("Neg(x)", "Exp(x)"),
        "0 of 2",
        ("y=y: Not If / If: apart 1.1 ?y",),
    ),
    "an If and none": Case(
        _IF,
        switch("Neg(x)", "Exp(x)"),
        "z = Not(f) y = Neg(x)",
        "0 of 1",
        ("y=y: If / Neg: same ?y",),
    ),
    "an If of two outputs": Case(
        "(bool f, float[4] x) => (float[4] y, float[4] z)",
        _TWO.format("Sqrt"),
        _TWO.format("Sin"),
        "3 of 5",
        ("q=q: Sqrt / Sin: apart 1.4 in else_branch of 'y'", "y=y z=z: If / If: same"),
    ),
    "an If behind an Identity": Case(
        _IF,
        switch("Neg(x)", "Exp(x)"),
        f"{switch('Neg(x)', 'Abs(x)', 'w')} y = Identity(w)",
        "1 of 3",
        ("by=bw: Exp / Abs: apart 0.93 in else_branch of 'y'", "y=y: If / If Identity: same"),
    ),
    "an If behind another operator": Case(
        _IF,
        f"{switch('Neg(x)', 'Exp(x)', 'w')} y = Relu(w)",
        f"{switch('Neg(x)', 'Abs(x)', 'v')} y = Relu(v)",
        "2 of 4",
        ("bw=bv: Exp / Abs: apart 0.93 in else_branch of 'w'", "w=v: If / If: same"),
    ),
    "an If of a constant": Case(
        _IF,
        f"<bool c = {{1}}> {{z = Not(f) {switch('Neg(x)', 'Exp(x)')}}}".replace("If(f)", "If(c)"),
        "z = Not(f) y = Neg(x)",
        "1 of 1",
        (),
    ),
    "an If of a constant, the other body": Case(
        _IF,
        f"<bool c = {{0}}> {{z = Not(f) {switch('Neg(x)', 'Exp(x)')}}}".replace("If(f)", "If(c)"),
        "z = Not(f) y = Neg(x)",
        "0 of 1",
        ("by=y: Exp / Neg: apart 1.1",),
    ),
    "Ifs of constants whose bodies share names": Case(
        _IF,
        "<bool c = {1}> {"
        f"z = Not(f) {switch('Neg(x)', 'Exp(x)', 'u')} {switch('Sin(u)', 'Exp(u)').replace('ay', 'au')}".replace(
            "If(f)", "If(c)"
        )
        + "}",
        "z = Not(f) u = Neg(x) y = Sin(u)",
        "0 of 2",
        ("u=u: If / Neg: same ?u", "y=y: If / Sin: same ?y"),
    ),
    "a constant that is captured, and one inside": Case(
        _IF,
        f"<float[4] w = {{1.0, 2.0, 3.0, 4.0}}> {{{switch('Add(x, w)', 'Exp(x)')}}}",
        switch("Add(x, w)", "Abs(x)").replace(
            "{ ay", "{ w = Constant <value = float[4] {1.0, 2.0, 3.0, 4.0}> () ay"
        ),
        "1 of 3",
        ("by=by: Exp / Abs: apart 0.93 in else_branch of 'y'", "y=y: If / If: same"),
    ),
    "an If and a Relu behind one": Case(
        _IF,
        f"{switch('Neg(x)', 'Exp(x)', 'w')} y = Relu(w)",
        switch("Neg(x)", "Exp(x)"),
        "0 of 2",
        ("y=y: If Relu / If: apart 4 ?w ?y",),
    ),
    "a Scan in the other direction": Case(
        "(float[4] x, float[2,4] x2) => (float[4] y, float[2,4] z)",
        _SCAN.format("Neg"),
        _SCAN.format("Neg").replace(
            "num_scan_inputs = 1", "num_scan_inputs = 1, scan_input_directions = [1]"
        ),
        "0 of 1",
        ("y=y z=z: Scan / Scan: apart 0.077",),
    ),
    "a Loop": Case(
        _LOOP,
        turn("p = Neg(s)"),
        turn("p = Abs(s)"),
        "1 of 3",
        ("p=p: Neg / Abs: apart 2 in body of 'y'", "y=y: Loop / Loop: same"),
    ),
    "the counter of a Loop": Case(
        _LOOP,
        turn("q = Cast <to = 1> (i) p = Add(s, q)"),
        turn("q = Cast <to = 1> (i) p = Sub(s, q)"),
        "2 of 4",
        (
            "p=p: Add / Sub: same in body of 'y', different inputs give different values",
            "y=y: Loop / Loop: apart 0.4",
        ),
    ),
    "the condition of a Loop": Case(
        _LOOP,
        turn("p = Neg(s)"),
        turn("p = Neg(s)", "Not(c)"),
        "1 of 3",
        ("d=d: Identity / Not: apart 1 in body of 'y'", "y=y: Loop / Loop: apart 2"),
    ),
    "a Loop of two outputs": Case(
        "(int64 n, bool g, float[4] x) => (float[4] y, float[N,4] z)",
        turn("p = Neg(s) q = Exp(s)", outputs="y, z", results=", float[4] q"),
        turn("p = Neg(s) q = Abs(s)", outputs="y, z", results=", float[4] q"),
        "2 of 4",
        ("q=q: Exp / Abs: apart 0.93 in body of 'y'", "y=y z=z: Loop / Loop: apart 0.93"),
    ),
    "a Loop without a condition": Case(
        _LOOP,
        turn("p = Neg(s)"),
        turn("p = Neg(s)", operands="n, , x"),
        "0 of 1",
        ("y=y: Loop / Loop: same, different inputs give different values",),
    ),
    "a Scan": Case(
        "(float[4] x, float[2,4] x2) => (float[4] y, float[2,4] z)",
        _SCAN.format("Exp"),
        _SCAN.format("Neg"),
        "1 of 3",
        ("o=o: Exp / Neg: apart 1 in body of 'y'", "y=y z=z: Scan / Scan: apart 1"),
    ),
}


def judge(case: Case, folder: Path) -> tuple[str, tuple[str, ...]]:
    models: list[gs.Checkpoint] = []
    for name, text, opset in (("left", case.left, case.opset), ("right", case.right, case.other)):
        body = text if text.startswith("<") else f"{{ {text} }}"
        header = f'<ir_version: 8, opset_import: ["" : {opset}]>'
        onnx.save(
            onnx.parser.parse_model(f"{header} g {case.head} {body}"), folder / f"{name}.onnx"
        )
        models.append(gs.load(folder / f"{name}.onnx"))
    declared = case.head.partition(" =>")[0].strip("()").split(", ")
    feeds = {name: FEEDS[name] for name in (each.split()[-1] for each in declared) if name in FEEDS}
    if "x2" in case.head:
        feeds = {
            **feeds,
            "x2": np.stack([X, X + 1]) if "float[2,4]" in case.head else X.reshape(2, 2),
        }
    left, right = models
    report = make_judge(pair_models(left, right, (), {})).judge(
        [(feeds, feeds)], tolerate_region("", BY_ELEMENT)
    )
    assert report is not None
    return f"{report.exact} of {report.operators}", tuple(map(describe, report.regions))


@pytest.mark.parametrize("name", CASES)
def test_regions_are_found_and_judged(name: str, tmp_path: Path) -> None:
    import onnxruntime

    case = CASES[name]
    wanted = tuple(line.replace("{version}", onnxruntime.__version__) for line in case.regions)
    assert judge(case, tmp_path) == (case.exact, wanted)
