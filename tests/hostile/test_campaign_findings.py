"""What campaigns of hostile graphs have found: each is refused before work starts, or computed, and never a bug."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.checks.config import read_config
from graphshare.errors import GraphshareError
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from tests import params_bytes
from tests.fuzz.graphs import call, judge
from tests.surroundings import ROOT
from tests.symbols import Document, document, operator, variable

RANDOM = ("--seed", "1", "--random-params", "1")


def one(op: str, attrs: dict[str, str], inputs: int = 1, head: int = 0) -> Document:
    """A graph of one operator ``n`` on variables ``data``, ``w1``, ``w2``..."""
    nodes = [variable(f"w{i}" if i else "data") for i in range(inputs)]
    return document(
        [*nodes, operator(op, "n", range(inputs), attrs=attrs)], [(inputs, head, 0)], row_ptr=False
    )


def ask(folder: Path, found: Document, *words: str) -> tuple[object, str]:
    """Run a command on a graph; it must answer or refuse."""
    path = folder / "graph.json"
    path.write_text(json.dumps(found))
    code, errors = call([words[0], str(path), *words[1:]])
    status, what = judge(list(words), code, errors)
    assert status != "failed", what
    return code, errors


@pytest.mark.parametrize("index", [1, 7, 2**32 - 1])
def test_outputs_that_are_not_there_are_refused_before_the_run(index: int, tmp_path: Path) -> None:
    code, errors = ask(tmp_path, one("relu", {}, head=index), "run", *RANDOM, "--shape", "data=2")
    assert code == 2
    assert f"relu has 1 output, and output {index} is used" in errors
    found = one("relu", {})
    found["nodes"][1]["inputs"] = [[0, index, 0]]
    code, errors = ask(tmp_path, found, "run", *RANDOM, "--shape", "data=2")
    assert code == 2
    assert f"a variable has 1 output, and output {index} is used" in errors


@pytest.mark.parametrize("index", [1, 2**32 - 1])
def test_outputs_that_are_not_there_are_refused_before_models_of_other_operators_are_compared(
    index: int, tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text(json.dumps(one("tanh", {}, head=index)))
    code, errors = ask(
        tmp_path, one("relu", {}, head=index), "compare", str(tmp_path / "other.json")
    )
    assert code == 2
    assert f'graph.json (node "n"): relu has 1 output, and output {index} is used' in errors
    assert f'other.json (node "n"): tanh has 1 output, and output {index} is used' in errors


def test_outputs_of_an_unknown_operator_are_those_that_are_used(tmp_path: Path) -> None:
    documents = [document([variable("x"), operator("Mine", "m", [0]), operator(op, "n", [(1, 2, 0)])], [2], row_ptr=False)
                 for op in ("relu", "tanh")]  # fmt: skip
    (tmp_path / "other.json").write_text(json.dumps(documents[1]))
    code, errors = ask(tmp_path, documents[0], "compare", str(tmp_path / "other.json"))
    assert code == 2
    assert "operator Mine cannot be run" in errors
    report = gs.compare(tmp_path / "graph.json", tmp_path / "other.json", allow_unsupported=True)
    assert (report.outcome, report.rung) == ("not proved", "not judged")
    assert "relu and tanh" in report.branches[0].stages[0].details[0]


@pytest.mark.parametrize(
    "words",
    [("run", *RANDOM), ("export", "--no-verify", "-o", "out.onnx"), ("export", "-o", "out.onnx")],
)
def test_a_graph_without_outputs_has_nothing_to_compute(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, errors = ask(tmp_path, document([variable("x"), operator("relu", "n", [0])], []), *words)
    assert code == 2
    assert "the graph has no outputs, so there is nothing to compute" in errors


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(-5, 3)", "the shape (-5,3)"),
        (f"({'1, ' * 65})", "65 axes"),
        (f"({'1, ' * 33})", "33 axes"),
        (f"({10**30},)", str(10**30)),
    ],
)
def test_shapes_that_no_array_has(shape: str, message: str, tmp_path: Path) -> None:
    found = one("relu", {})
    found["nodes"][0]["attrs"] = {"__shape__": shape}
    for command in (["run", *RANDOM], ["compare", str(tmp_path / "graph.json")]):
        code, errors = ask(tmp_path, found, *command)
        assert code == 2
        assert message in errors
    assert ask(tmp_path, found, "check", "--isolated")[0] == 1
    ask(tmp_path, found, "inspect")
    ask(tmp_path, found, "draw", "--to", "svg")


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "shape"),
    [
        ("Convolution", {"kernel": "(3, 3)", "num_filter": "-4"}, 3, "1,3,8,8"),
        ("Deconvolution", {"kernel": "(3, 3)", "num_filter": "-4"}, 2, "1,3,8,8"),
        ("Deconvolution", {"kernel": "(3, 3)", "num_filter": "2", "adj": "(5, 5)"}, 2, "1,3,8,8"),
        ("tile", {"reps": "(-1,)"}, 1, "2,3"),
        ("batch_dot", {}, 2, "2,3"),
        ("expand_dims", {"axis": "0"}, 1, ",".join("1" * 32)),
    ],
)
def test_shapes_that_contradict_are_seen_by_every_command(
    op: str, attrs: dict[str, str], inputs: int, shape: str, tmp_path: Path
) -> None:
    found = one(op, attrs, inputs)
    assert ask(tmp_path, found, "check", "--isolated", "--shape", f"data={shape}")[0] == 1
    assert ask(tmp_path, found, "inspect", "--shape", f"data={shape}")[0] == 2
    code, errors = ask(tmp_path, found, "run", *RANDOM, "--shape", f"data={shape}")
    assert code == 2
    assert '(node "n")' in errors


@pytest.mark.parametrize(
    ("op", "attrs", "inputs"),
    [
        ("_npi_insert_scalar", {"val": "x"}, 1),
        ("_npi_delete", {"int_ind": "q"}, 1),
        ("_contrib_quantized_rnn", {"mode": "x"}, 4),
    ],
)
def test_attributes_that_cannot_be_read(
    op: str, attrs: dict[str, str], inputs: int, tmp_path: Path
) -> None:
    code, errors = ask(tmp_path, one(op, attrs, inputs), "run", *RANDOM, "--shape", "data=2")
    assert code == 2
    assert f"attribute {next(iter(attrs))!r} is" in errors


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "shapes"),
    [
        ("_histogram", {"bin_cnt": "5", "range": "()"}, 1, ("data=4",)),
        ("_image_adjust_lighting", {"alpha": "(1, 1)"}, 1, ("data=4,5,3",)),
        ("_contrib_MultiBoxPrior", {"steps": "(0.5,)"}, 1, ("data=1,2,3,5",)),
        ("_contrib_MultiBoxPrior", {"ratios": "(0,)"}, 1, ("data=1,2,3,5",)),
        ("_contrib_MultiBoxPrior", {"ratios": "()"}, 1, ("data=1,2,3,5",)),
        ("_npi_eigh", {"UPLO": "0"}, 1, ("data=3,3",)),
        ("_npi_tensordot_int_axes", {"axes": "2147483647"}, 2, ("data=2,3", "w1=3,2")),
        ("_npi_pad", {"pad_width": "None", "mode": "edge"}, 1, ("data=2,3",)),
        ("_npi_broadcast_to", {"shape": "None"}, 1, ("data=3,1",)),
        ("tile", {"reps": "None"}, 1, ("data=3,1",)),
        ("_np_moveaxis", {"source": "4294967296", "destination": "(2,)"}, 1, ("data=2,3,4",)),
        (
            "ROIPooling",
            {"pooled_size": "(2, 2)", "spatial_scale": "nan"},
            2,
            ("data=2,3,6,7", "w1=4,5"),
        ),
    ],
)
def test_attributes_that_nothing_can_be_computed_with(
    op: str, attrs: dict[str, str], inputs: int, shapes: tuple[str, ...], tmp_path: Path
) -> None:
    words = [word for shape in shapes for word in ("--shape", shape)]
    code, errors = ask(tmp_path, one(op, attrs, inputs), "run", *RANDOM, *words)
    assert code == 2
    assert '(node "n")' in errors


@pytest.mark.parametrize("offset", ["-2147483648", "2147483647"])
def test_a_diagonal_far_outside_is_empty(offset: str, tmp_path: Path) -> None:
    assert (
        ask(tmp_path, one("_np_trace", {"offset": offset}), "run", *RANDOM, "--shape", "data=2,3")[
            0
        ]
        == 0
    )


@pytest.mark.parametrize(
    "op", ["LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"]
)
def test_a_factor_that_is_is_text_ends_training(op: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", **{"arg:data": np.ones((2, 3), "f4")})
    words = (
        "run",
        "--params",
        str(tmp_path / "w.npz"),
        "--seed",
        "1",
        "--shape",
        "w1=2,3",
        "--sgd-steps",
        "1",
    )
    code, errors = ask(tmp_path, one(op, {"grad_scale": "x"}, 2), *words)
    assert code == 2
    assert "grad_scale" in errors


@pytest.mark.parametrize(("count", "inputs"), [("3", 2), ("2", 3)])
def test_add_n_adds_the_inputs_that_it_has_as_in_mxnet(
    count: str, inputs: int, tmp_path: Path
) -> None:
    found = one("add_n", {"num_args": count}, inputs)
    shapes = [word for i in range(inputs) for word in ("--shape", f"{f'w{i}' if i else 'data'}=2")]
    assert ask(tmp_path, found, "check", "--isolated")[0] == 0
    assert ask(tmp_path, found, "run", *RANDOM, *shapes)[0] == 0


def odd_variables() -> list[Document]:
    """A variable with an input, with a control dependency, and the data waiting for a weight."""
    graphs = [one("FullyConnected", {"num_hidden": "2"}, 3) for _ in range(3)]
    graphs[0]["nodes"][1]["inputs"] = [[0, 0, 0]]
    graphs[1]["nodes"][1]["control_deps"] = [0]
    graphs[2]["nodes"][0]["control_deps"] = [1]
    return graphs


@pytest.mark.parametrize("number", [0, 1, 2])
def test_variables_with_inputs_or_dependencies(number: int, tmp_path: Path) -> None:
    found = odd_variables()[number]
    for form in ("svg", "dot", "mermaid", "html"):
        assert ask(tmp_path, found, "draw", "--to", form)[0] == 0
    assert ask(tmp_path, found, "draw", "--to", "dot", "--parameters")[0] == 0
    for mode in ("tie", "batch"):
        code, errors = ask(
            tmp_path,
            found,
            "duplicate",
            "--prefix",
            "x-",
            "--mode",
            mode,
            "-o",
            str(tmp_path / "out.json"),
        )
        if mode == "batch" or number < 2:
            assert code == 2
            assert "is a variable with inputs or control dependencies" in errors


@pytest.mark.parametrize("form", ["svg", "html", "dot", "mermaid"])
@pytest.mark.parametrize(("node", "source"), [(9, 15), (5, 1)])
def test_shared_parameters_with_inputs_are_drawn(
    form: str, node: int, source: int, tmp_path: Path
) -> None:
    """A weight of two branches that an operator feeds, and one that another shared weight feeds."""
    found = json.loads((ROOT / "fixtures/cases/draw/dot/in/net.json").read_text())
    found["nodes"][node]["inputs"] = [[source, 0, 0]]
    assert ask(tmp_path, found, "draw", "--to", form)[0] == 0


def test_a_batch_refuses_operators_that_wait_for_its_inputs(tmp_path: Path) -> None:
    found = one("relu", {})
    found["nodes"][1]["control_deps"] = [0]
    code, errors = ask(
        tmp_path,
        found,
        "duplicate",
        "--prefix",
        "x-",
        "--mode",
        "batch",
        "-o",
        str(tmp_path / "out.json"),
    )
    assert code == 2
    assert "has a control dependency on 'data', an input that would be joined" in errors


def test_a_batch_joins_inputs_that_no_head_needs(tmp_path: Path) -> None:
    found = document(
        [variable("data"), operator("relu", "n", [0]), variable("x"), operator("relu", "m", [2])],
        [3],
        row_ptr=False,
    )
    words = ("duplicate", "--prefix", "x-", "--mode", "batch", "-o", str(tmp_path / "out.json"))
    assert ask(tmp_path, found, *words)[0] == 0
    found["nodes"][3] = operator("_ones", "m", [], attrs={"shape": "(2,)"})
    ask(tmp_path, found, *words)


def test_boolean_parameters_are_not_trained(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", **{"arg:w1": np.ones((2, 3), bool)})
    words = (
        "run",
        "--params",
        str(tmp_path / "w.npz"),
        "--seed",
        "1",
        "--shape",
        "data=2,3",
        "--sgd-steps",
        "1",
    )
    code, errors = ask(tmp_path, one("elemwise_add", {}, 2), *words)
    assert code == 2
    assert "is boolean" in errors


def test_the_shape_of_a_transpose_that_names_an_axis_twice_is_known_and_its_values_are_not(
    tmp_path: Path,
) -> None:
    """MXNet infers the shape, and leaves most of the result unwritten."""
    found = one("transpose", {"axes": "(0, 0)"})
    assert ask(tmp_path, found, "check", "--isolated", "--shape", "data=3,5")[0] == 0
    assert ask(tmp_path, found, "inspect", "--shape", "data=3,5")[0] == 0
    code, errors = ask(tmp_path, found, "run", *RANDOM, "--shape", "data=3,5")
    assert code == 2
    assert "axes (0, 0) name an axis twice" in errors


@pytest.mark.parametrize(
    ("op", "attrs", "inputs"),
    [
        ("relu", {}, 2),
        ("FullyConnected", {"num_hidden": "2"}, 5),
        ("im2col", {"kernel": "(2, 2)"}, 3),
    ],
)
def test_inputs_that_an_operator_does_not_have(
    op: str, attrs: dict[str, str], inputs: int, tmp_path: Path
) -> None:
    shapes = [
        word for i in range(inputs) for word in ("--shape", f"{f'w{i}' if i else 'data'}=2,3,4,5")
    ]
    found = one(op, attrs, inputs)
    assert ask(tmp_path, found, "check", "--isolated", *shapes)[0] == 1
    code, errors = ask(tmp_path, found, "run", *RANDOM, *shapes)
    assert code == 2
    assert '(node "n")' in errors
    ask(tmp_path, found, "inspect", *shapes)


def test_hidden_outputs_are_computed_and_those_behind_them_refused(tmp_path: Path) -> None:
    for head, expected in ((1, 0), (2, 0), (3, 2)):
        code, errors = ask(
            tmp_path, one("BatchNorm", {}, 5, head=head), "run", *RANDOM, "--shape", "data=2,3"
        )
        assert code == expected
        assert code == 0 or "BatchNorm has 3 outputs, and output 3 is used" in errors


@pytest.mark.parametrize("last", [2**32, 2**40, 2**63, 10**30])
def test_row_pointers_beyond_32_bits(last: int, tmp_path: Path) -> None:
    found = one("relu", {})
    found["node_row_ptr"] = [0, 1, last]
    for command in (
        ["check"],
        ["inspect"],
        ["run", *RANDOM, "--shape", "data=2"],
        ["rename", "--prefix", "x-", "-o", "-"],
    ):
        ask(tmp_path, found, *command)


def test_no_warning_of_numpy_reaches_the_terminal(tmp_path: Path) -> None:
    """The logarithms of negative numbers, and quotients of 0."""
    for op, inputs in (("log", 1), ("elemwise_div", 2), ("sqrt", 1)):
        shapes = [
            word for i in range(inputs) for word in ("--shape", f"{f'w{i}' if i else 'data'}=20")
        ]
        code, errors = ask(tmp_path, one(op, {}, inputs), "run", *RANDOM, *shapes)
        assert code == 0
        assert "Warning" not in errors


@pytest.mark.parametrize("length", [65_535, 65_536, 200_000])
def test_names_that_an_archive_cannot_hold(length: int, tmp_path: Path) -> None:
    """The length of a member's name has 16 bits in an npz."""
    record = params_bytes.dense((1,), "float32", bytes(4))
    (tmp_path / "w.params").write_bytes(params_bytes.container([record], ["arg:" + "x" * length]))
    code, errors = call(["params", "convert", str(tmp_path / "w.params"), str(tmp_path / "w.npz")])
    assert code == 2
    assert "bug in graphshare" not in errors
    assert not (tmp_path / "w.npz").exists()


def sparse_record(index_shape: tuple[int, ...]) -> bytes:
    """A csr record of shape (3, 4) whose row pointers have another shape."""
    whole = params_bytes.csr((3, 4), [0, 0, 0, 0], [], b"")
    return whole.replace(params_bytes.shape64((4,)), params_bytes.shape64(index_shape), 1)


@pytest.mark.parametrize("shape", [(2**62, 0), (2**40, 2**40, 0)])
def test_index_arrays_that_numpy_cannot_hold(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "w.params"
    path.write_bytes(params_bytes.container([sparse_record(shape) + bytes(64)], ["arg:w"]))
    with pytest.raises(GraphshareError):
        read_all(path)


def read_all(path: Path) -> Any:
    """Read each record of a file as stored."""
    index = read_index(path)
    with ArrayReader(index) as reader:
        return [reader.read_sparse(record) for record in index.records]


def test_a_model_without_inputs_has_no_batch_to_leave_open(tmp_path: Path) -> None:
    found = document([operator("_ones", "n", [], attrs={"shape": "(2, 3)"})], [0], row_ptr=False)
    words = ("export", "--dynamic-batch", "--no-verify", "-o", str(tmp_path / "out.onnx"))
    code, errors = ask(tmp_path, found, *words)
    assert code == 2
    assert "--dynamic-batch leaves nothing open: the model has no inputs" in errors


def test_a_date_in_a_configuration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "input.toml"
    path.write_text("[check]\nselect = [1979-05-27]\ns = 07:32:00\n")
    with pytest.raises(GraphshareError, match="1979-05-27"):
        read_config(str(path))
