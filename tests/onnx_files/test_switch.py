"""``group --switch``: two models as the branches of one If compute what each computes alone, and come out again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.errors import RefusedError, UsageError
from graphshare.formats.facets import NestedType, TensorType
from graphshare.formats.onnx.compose import find_switch_version
from tests.onnx_files import made, odd
from tests.onnx_files.running import Session, Unrunnable, are_same, run_somehow
from tests.surroundings import ROOT

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    make.__name__: make
    for make in (made.dense, made.old, made.branches, made.loop, made.functions, made.kinds)
} | odd.ODD
WIDTH = 64
RNG = np.random.default_rng(0)
WEIGHT, HEAD = (
    RNG.standard_normal(shape).astype(np.float32) for shape in ((WIDTH, WIDTH), (WIDTH, 16))
)


def write_decoder(
    path: Path, *, past: bool, weight: str = "weight", head: np.ndarray = HEAD, **changes: Any
) -> Path:
    """A decoder step: x times a weight, plus what is cached where there is a cache, times a head."""
    size, dtype = changes.get("size", WIDTH), changes.get("dtype", TensorProto.FLOAT)
    inputs = [helper.make_tensor_value_info("x", dtype, ["batch", size])]
    nodes = [helper.make_node("MatMul", ["x", weight], ["hidden"], "product")]
    if past:
        inputs.append(helper.make_tensor_value_info("past", dtype, ["batch", size]))
        nodes.append(helper.make_node("Add", ["hidden", "past"], ["sum"], "sum"))
    nodes.append(
        helper.make_node("MatMul", ["sum" if past else "hidden", "head"], ["logits"], "head")
    )
    nodes += changes.get("nodes", ())
    outputs = [
        helper.make_tensor_value_info(name, dtype, ["batch", 16])
        for name in changes.get("outputs", ("logits",))
    ]
    as_dtype = helper.tensor_dtype_to_np_dtype(dtype)
    weights = [
        numpy_helper.from_array(WEIGHT.astype(as_dtype), weight),
        numpy_helper.from_array(head.astype(as_dtype), "head"),
    ]
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, weights)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", changes.get("opset", 17))], ir_version=8
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def compute(path: Path, **feeds: Any) -> list[np.ndarray]:
    session = Session(path.read_bytes(), str(path.parent), optimize=False)
    return list(session.run(feeds).values())


@pytest.fixture
def decoders(tmp_path: Path) -> tuple[Path, Path]:
    return write_decoder(tmp_path / "past.onnx", past=True), write_decoder(
        tmp_path / "first.onnx", past=False, weight="kernel"
    )


def test_each_value_of_the_switch_computes_its_model(
    decoders: tuple[Path, Path], tmp_path: Path
) -> None:
    """Weights of equal bytes are one, whatever their names: the file is half of both."""
    out = tmp_path / "both.onnx"
    model = gs.group(decoders, switch="use_cache")
    gs.save(model, out)
    onnx.checker.check_model(str(out), full_check=True)
    assert [value.name for value in onnx.load(out).graph.input] == ["x", "past", "use_cache"]
    assert {tensor.name for tensor in onnx.load(out).graph.initializer} == {"weight", "head"}
    assert out.stat().st_size < 0.55 * sum(path.stat().st_size for path in decoders)
    x, past = (RNG.standard_normal((3, WIDTH)).astype(np.float32) for _ in range(2))
    for value, wanted in (
        (True, compute(decoders[0], x=x, past=past)),
        (False, compute(decoders[1], x=x)),
    ):
        assert are_same(compute(out, x=x, past=past, use_cache=np.array([value])), wanted)


def test_unequal_weights_of_one_name_stay_two(tmp_path: Path) -> None:
    paths = [
        write_decoder(tmp_path / f"{i}.onnx", past=False, head=HEAD * (i + 1)) for i in range(2)
    ]
    out = tmp_path / "both.onnx"
    gs.save(gs.group(paths, switch="second"), out)
    assert {tensor.name for tensor in onnx.load(out).graph.initializer} == {
        "weight",
        "head",
        "head_1",
    }
    x = RNG.standard_normal((2, WIDTH)).astype(np.float32)
    for value, path in ((True, paths[0]), (False, paths[1])):
        assert are_same(compute(out, x=x, second=np.array([value])), compute(path, x=x))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prefix", ["", "q-"])
def test_models_of_every_kind(name: str, prefix: str, tmp_path: Path) -> None:
    """A model beside itself, and beside itself under other names: bodies, functions, Constants,
    sequences, sparse tensors.
    """
    first, second, out = (tmp_path / f"{name}.onnx" for name in ("first", "second", "both"))
    first.write_bytes(MODELS[name]().SerializeToString())
    gs.save(gs.rename(first, prefix=prefix), second) if prefix else second.write_bytes(
        first.read_bytes()
    )
    if any(head.node.is_variable for head in gs.load(first).graph.heads):
        with pytest.raises(RefusedError, match="is an input or a parameter itself"):
            gs.group([first, second], switch="which")
        return
    gs.save(gs.group([first, second], switch="which"), out)
    try:
        session = Session(first.read_bytes(), optimize=False)
        feeds = run_somehow(session)
    except Unrunnable:
        return
    wanted = [*session.run(feeds).values()]
    both = Session(out.read_bytes(), optimize=False)
    for value in (True, False):
        fed = {
            **feeds,
            **{prefix + key: array for key, array in feeds.items()},
            "which": np.array([value]),
        }
        assert name == "randomness" or are_same([*both.run(fed).values()], wanted)
    for value, source in ((True, first), (False, second)):
        taken = tmp_path / "taken.onnx"
        gs.save(gs.extract(out, branch=("which", value)), taken)
        report = gs.compare(taken, source)
        assert report.branches[0].stages[0].verdict == "holds"
        # One graph is not enough where it draws numbers without a seed.
        assert report.outcome == ("not judged" if name == "randomness" else "equal"), report.verdict


def test_the_same_bytes_on_every_run(decoders: tuple[Path, Path], tmp_path: Path) -> None:
    """Nothing depends on the order of a set: hashes of texts differ from process to process."""
    outputs = set()
    for seed in range(4):
        out = tmp_path / f"{seed}.onnx"
        command = [
            sys.executable,
            "-m",
            "graphshare",
            "group",
            *map(str, decoders),
            "--switch",
            "use_cache",
            "-o",
            str(out),
        ]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        outputs.add(out.read_bytes())
    assert len(outputs) == 1


def test_data_in_another_file(decoders: tuple[Path, Path], tmp_path: Path) -> None:
    """External data of either model is found from the result."""
    for path in decoders:
        folder = tmp_path / path.stem
        folder.mkdir()
        onnx.save(
            onnx.load(path),
            folder / path.name,
            save_as_external_data=True,
            location=f"{path.stem}.bin",
            size_threshold=0,
        )
    out = tmp_path / "both.onnx"
    gs.save(
        gs.group([tmp_path / path.stem / path.name for path in decoders], switch="use_cache"), out
    )
    x = RNG.standard_normal((2, WIDTH)).astype(np.float32)
    assert are_same(
        compute(out, x=x, past=x, use_cache=np.array([False])), compute(decoders[1], x=x)
    )
    assert are_same(
        compute(out, x=x, past=x, use_cache=np.array([True])), compute(decoders[0], x=x, past=x)
    )


def test_what_cannot_be_one_model_is_refused_with_all_reasons(tmp_path: Path) -> None:
    """Names, dtypes, sizes, numbers of outputs, opsets: each is named."""
    first = write_decoder(tmp_path / "first.onnx", past=True)
    identity = [helper.make_node("Identity", ["logits"], ["more"])]
    cases: dict[str, tuple[Path, str]] = {
        "is already the name of a value of": (
            write_decoder(tmp_path / "a.onnx", past=False),
            "past",
        ),
        "is float32 ('batch'": (
            write_decoder(tmp_path / "b.onnx", past=False, dtype=TensorProto.DOUBLE),
            "use_cache",
        ),
        "has 1 output, and": (
            write_decoder(
                tmp_path / "c.onnx", past=False, nodes=identity, outputs=("logits", "more")
            ),
            "use_cache",
        ),
        "operator set": (write_decoder(tmp_path / "d.onnx", past=False, opset=13), "use_cache"),
        "is an input of": (
            write_decoder(tmp_path / "e.onnx", past=False, weight="past"),
            "use_cache",
        ),
    }
    for reason, (second, name) in cases.items():
        with pytest.raises(RefusedError) as error:
            gs.group([first, second], switch=name)
        assert reason.replace("('batch'", "(batch") in str(error.value), (reason, str(error.value))
    with pytest.raises(RefusedError, match="takes two graphs"):
        gs.group([first, first, first], switch="use_cache")
    with pytest.raises(UsageError, match="has no effect") as wrong:
        gs.group(
            [first, first],
            switch="use_cache",
            share_inputs=["x"],
            on_collision="prefix",
            as_parameter=["weight"],
        )
    assert len(wrong.value.faults) == 3
    with pytest.raises(RefusedError, match="is for ONNX models"):
        gs.group([ROOT / "fixtures" / "lenet", ROOT / "fixtures" / "lenet"], switch="use_cache")


def test_a_branch_that_is_not_there_is_refused(decoders: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "both.onnx"
    gs.save(gs.group(decoders, switch="use_cache"), out)
    with pytest.raises(RefusedError, match="not an input that an If switches on") as error:
        gs.extract(out, branch=("x", True))
    assert error.value.faults[0].hint == "inputs that an If switches on: use_cache"
    with pytest.raises(RefusedError, match="no target is given"):
        gs.extract(out)


def test_a_changed_body_is_noticed(
    decoders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The self-check compares each body with its graph."""
    from graphshare.errors import SelfCheckError
    from graphshare.rewrite.grouping import switch

    enclose = switch._enclose

    def exchange(graph: Any, variables: Any) -> Any:
        names = list(variables)
        swapped = {**variables, names[-1]: variables[names[-2]], names[-2]: variables[names[-1]]}
        return enclose(graph, swapped)

    monkeypatch.setattr(switch, "_enclose", exchange)
    with pytest.raises(SelfCheckError):
        gs.group(decoders, switch="use_cache")


def test_a_body_that_returns_a_value_around_it(tmp_path: Path) -> None:
    """The output of an If becomes that very output of the node around it, whatever its index."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (bool flag, float[4] x) => (float[2] y) {
            a, b = Split (x)
            y = If (flag) <then_branch = t () => (float[2] b) {}, else_branch = e () => (float[2] n) { n = Neg (a) }>
        }""")
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    (head,) = gs.extract(path, branch=("flag", True)).graph.heads
    assert (head.node.op, head.index) == ("Split", 1)


def write_text(
    path: Path, text: str, *, ir: int = 8, opset: int = 13, domain: str = "", **defaults: float
) -> Path:
    """Write a model in ONNX's own text, with arrays of three equal numbers as initializers."""
    model = onnx.parser.parse_model(
        f'<ir_version: {ir}, opset_import: ["{domain}" : {opset}]> g {text}'
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(np.full(3, n, np.float32), name) for name, n in defaults.items()
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def test_outputs_of_one_name_are_one_output(tmp_path: Path) -> None:
    """As inputs are, wherever they stand."""
    first = write_text(
        tmp_path / "first.onnx",
        "(float[n,3] x) => (float[n,3] p, float[n,3] h) { h = Neg(x) p = Softmax(h) }",
    )
    second = write_text(
        tmp_path / "second.onnx",
        "(float[n,3] x) => (float[n,3] h, float[n,3] p) { h = Exp(x) p = Neg(h) }",
    )
    model = gs.group([first, second], switch="which")
    assert model.notes == ()
    out = tmp_path / "out.onnx"
    gs.save(model, out)
    onnx.checker.check_model(str(out), full_check=True)
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    for value, path in ((True, first), (False, second)):
        wanted = Session(path.read_bytes(), optimize=False).run({"x": x})
        values = Session(out.read_bytes(), optimize=False).run({"x": x, "which": np.array([value])})
        assert list(values) == ["p", "h"]
        assert all(values[name].tobytes() == wanted[name].tobytes() for name in values)
        gs.save(gs.extract(out, branch=("which", value)), tmp_path / "taken.onnx")
        assert gs.compare(tmp_path / "taken.onnx", path)


def test_outputs_of_different_names_are_paired_by_position_and_a_note_says_so(
    tmp_path: Path,
) -> None:
    first = write_text(
        tmp_path / "first.onnx",
        "(float[n,3] x) => (float[n,3] p, float[n,3] h) { h = Neg(x) p = Softmax(h) }",
    )
    same_places = "(float[n,3] x) => (float[n,3] q, float[n,3] h) { h = Exp(x) q = Relu(h) }"
    model = gs.group([first, write_text(tmp_path / "second.onnx", same_places)], switch="which")
    assert model.notes == ("outputs are paired by position: 'p' and 'q'",)
    assert [head.node.details.outputs[head.index] for head in model.graph.heads] == ["p", "h"]
    other_places = "(float[n,3] x) => (float[n,3] h, float[n,3] q) { h = Exp(x) q = Relu(h) }"
    with pytest.raises(
        RefusedError, match=r"which outputs belong together is not clear: p of .* and q of"
    ) as error:
        gs.group([first, write_text(tmp_path / "third.onnx", other_places)], switch="which")
    assert "`gs.rename`" in error.value.faults[0].hint


SCALED = "(float[n,3] x, float[3] w) => (float[n,3] y) { y = Mul(x, w) }"


def test_an_input_of_both_models_has_one_default(tmp_path: Path) -> None:
    """Where callers give no value the second body would compute with the first one's."""
    first = write_text(tmp_path / "first.onnx", SCALED, w=2)
    other = write_text(tmp_path / "other.onnx", SCALED, w=3)
    required = write_text(tmp_path / "required.onnx", SCALED)
    for pair, reason in (
        ([first, other], "has defaults of different values"),
        ([first, required], "has a default in one of them only"),
        ([required, first], "has a default in one of them only"),
    ):
        with pytest.raises(RefusedError, match=f"input 'w' of .* {reason}"):
            gs.group(pair, switch="which")
    out, x = tmp_path / "out.onnx", np.ones((1, 3), np.float32)
    gs.save(
        gs.group([first, write_text(tmp_path / "equal.onnx", SCALED, w=2)], switch="which"), out
    )
    for value in (True, False):
        assert compute(out, x=x, which=np.array([value]))[0].tolist() == [[2.0, 2.0, 2.0]]
        fed = {"x": x, "w": np.full(3, 5, np.float32), "which": np.array([value])}
        assert Session(out.read_bytes()).session.run(None, fed)[0].tolist() == [[5.0, 5.0, 5.0]]


def test_before_ir_version_4_initializers_are_no_defaults(tmp_path: Path) -> None:
    """There every initializer is an input, and none can be replaced: each body has its own."""
    paths = [write_text(tmp_path / f"{n}.onnx", SCALED, ir=3, opset=11, w=n) for n in (2, 3)]
    out = tmp_path / "out.onnx"
    gs.save(gs.group(paths, switch="which"), out)
    onnx.checker.check_model(str(out), full_check=True)
    for value, number in ((True, 2.0), (False, 3.0)):
        assert compute(out, x=np.ones((1, 3), np.float32), which=np.array([value]))[0].tolist() == [
            [number] * 3
        ]


@pytest.mark.parametrize(
    ("body", "opset", "first"),
    [
        ("(seq(float[n]) y) { y = SequenceConstruct(x) }", 11, 13),
        ("(bfloat16[n] y) { y = Cast <to: int = 16> (x) }", 13, 16),
        ("(optional(float[n]) y) { y = Optional(x) }", 15, 16),
        ("(float8e4m3fn[n] y) { y = Cast <to: int = 17> (x) }", 19, 19),
    ],
)
def test_a_type_that_no_if_of_the_opset_returns_is_refused(
    body: str, opset: int, first: int, tmp_path: Path
) -> None:
    for version in dict.fromkeys((opset, first)):
        text = f"(float[n] x) => {body}"
        paths = [write_text(tmp_path / f"{i}.onnx", text, opset=version, ir=9) for i in range(2)]
        if version < first:
            with pytest.raises(
                RefusedError,
                match=f"output 'y' of .* is .*, which no If of opset {version} returns",
            ) as error:
                gs.group(paths, switch="which")
            assert error.value.faults[0].hint == f"convert both models to opset {first} or later"
            continue
        gs.save(gs.group(paths, switch="which"), tmp_path / "out.onnx")
        onnx.checker.check_model(str(tmp_path / "out.onnx"), full_check=True)


def test_models_without_onnx_s_own_operators_are_refused(tmp_path: Path) -> None:
    """An If would be an operator of no set."""
    text = "(float[n,3] x) => (float[n,3] y) { y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x) }"
    paths = [
        write_text(tmp_path / f"{i}.onnx", text, opset=3, domain="ai.onnx.ml") for i in range(2)
    ]
    with pytest.raises(
        RefusedError, match="import no version of ONNX's own operators, to which If belongs"
    ):
        gs.group(paths, switch="which")


def test_the_types_that_if_returns_are_those_of_its_schemas() -> None:
    names = {"float": "float32", "double": "float64"}

    def parse(text: str) -> NestedType | TensorType:
        kind, _, rest = text.removesuffix(")").partition("(")
        if kind == "tensor":
            return TensorType(names.get(rest, rest), ())
        return NestedType({"seq": "sequence"}.get(kind, kind), parse(rest))

    first: dict[str, int] = {}
    schemas = [
        one
        for one in onnx.defs.get_all_schemas_with_history()
        if one.name == "If" and not one.domain
    ]
    for schema in sorted(schemas, key=lambda one: one.since_version):
        (types,) = (
            one.allowed_type_strs for one in schema.type_constraints if one.type_param_str == "V"
        )
        first = {**dict.fromkeys(types, schema.since_version), **first}
    tensors = [text for text in first if text.startswith("tensor")]
    wrapped = [f"{kind}({text})" for kind in ("seq", "optional") for text in tensors]
    texts = [
        *tensors,
        *wrapped,
        *(f"{kind}({text})" for kind in ("seq", "optional") for text in wrapped),
    ]
    assert {text: find_switch_version(parse(text)) for text in texts} == {
        text: first.get(text) for text in texts
    }
