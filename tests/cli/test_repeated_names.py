"""A block that is used twice, as Gluon exports it: every operator has its name twice, and ``NAME#1`` is the second."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.cli.main import cli
from graphshare.errors import InputError, RefusedError
from graphshare.text.names import find_numbered, unique_names
from tests.cli.test_passed_options import list_commands
from tests.processes import graphshare, write_params
from tests.symbols import Document, document, operator, variable

SHAPES = {"a": (2, 3), "b": (2, 3)}
DRAWN = {"shapes": {"b": (2, 3)}, "inputs": gs.Inputs(params_seed=0)}


def two_towers(
    *, heads: list[int] | None = None, act: str = "relu", same_input: bool = False
) -> Document:
    """Two towers, fc and act, on one weight; the outputs are their difference, or ``heads``."""
    nodes = [
        variable("a"),
        variable("w"),
        operator("FullyConnected", "fc", [0, 1], attrs={"num_hidden": "4", "no_bias": "True"}),
        operator("Activation", "act", [2], attrs={"act_type": "relu"}),
        variable("b"),
        operator(
            "FullyConnected",
            "fc",
            [0 if same_input else 4, 1],
            attrs={"num_hidden": "4", "no_bias": "True"},
        ),
        operator("Activation", "act", [5], attrs={"act_type": act}),
        operator("elemwise_sub", "minus", [3, 6]),
    ]
    return document(nodes, heads or [7])


def write(folder: Path, graph: Document) -> str:
    (folder / "towers-symbol.json").write_text(json.dumps(graph))
    return str(folder / "towers-symbol.json")


@pytest.mark.parametrize(
    "names", [["a", "b"], ["a", "a"], ["a", "a", "a#1", "a"], ["b", "a", "b", "b"]]
)
def test_a_number_that_is_printed_means_the_thing_that_has_it(names: list[str]) -> None:
    printed = unique_names(names)
    things: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        things.setdefault(name, []).append(place)
    for place, name in enumerate(printed):
        if name != names[place] and "a#1" not in names:
            assert find_numbered(name, things) == place
    assert find_numbered("a#9", things) is None
    assert find_numbered("a#x", things) is None


def test_a_repeated_name_with_its_number_is_a_target_a_cut_and_an_output(tmp_path: Path) -> None:
    graph = write(tmp_path, two_towers())
    with pytest.raises(RefusedError, match="means 2 nodes"):
        gs.extract(graph, "act")
    assert next(gs.extract(graph, "act#0").graph.variables()).name == "a"
    assert {node.name for node in gs.extract(graph, "act#1").graph.variables()} == {"b", "w"}
    assert {node.name for node in gs.extract(graph, "act_output#1").graph.variables()} == {"b", "w"}
    with pytest.raises(RefusedError, match="names no output"):
        gs.extract(graph, "act#2")
    cut = gs.extract(graph, "minus", cuts=["act_output#0", "act_output#1"]).graph
    assert [node.name for node in cut.nodes] == ["act_output", "act_output#1", "minus"]
    outputs = gs.run(
        graph, shapes=SHAPES, seed=0, params_seed=0, targets=["act#1", "act#0"]
    ).outputs
    assert list(outputs) == ["act_output#1", "act_output"]
    whole = gs.run(graph, shapes=SHAPES, seed=0, params_seed=0, all_outputs=True).outputs
    assert all((outputs[name] == whole[name]).all() for name in outputs)


def test_heads_are_numbered_as_they_are_listed(tmp_path: Path) -> None:
    graph = write(tmp_path, two_towers(heads=[6, 3]))
    listed = gs.run(graph, shapes=SHAPES, seed=0, params_seed=0).outputs
    for name in listed:
        target = name if "#" in name else f"{name}#0"
        (chosen,) = gs.run(
            graph, shapes=SHAPES, seed=0, params_seed=0, targets=[target]
        ).outputs.values()
        assert (chosen == listed[name]).all()
    # MXNet of b, which the heads list first
    assert next(gs.extract(graph, "act#0").graph.variables()).name == "w"
    twice = write(tmp_path, two_towers(heads=[7, 7]))
    assert gs.extract(twice, ["minus"]).graph.heads[1:] == ()
    assert len(gs.extract(twice, "minus_output#1").graph.heads) == 1


def test_a_repeated_name_with_its_number_is_renamed_copied_and_connected(tmp_path: Path) -> None:
    graph = write(tmp_path, two_towers())
    for renamed in (gs.rename(graph, match={"act#1": "x"}), gs.rename(graph, names={"act#1": "x"})):
        assert [node.name for node in renamed.graph.nodes if node.op] == [
            "fc",
            "act",
            "fc",
            "x",
            "minus",
        ]
    both = gs.rename(graph, names={"act": "y", "act#1": "x"}).graph
    assert [node.name for node in both.nodes if node.op] == ["fc", "y", "fc", "x", "minus"]
    with pytest.raises(InputError, match="no node named 'act#2'"):
        gs.rename(graph, names={"act#2": "x"})
    copied = gs.duplicate(graph, prefixes=["c-"], upto=["act#1"]).graph
    assert [node.name for node in copied.nodes if node.name.startswith("c-")] == [
        "c-w",
        "c-b",
        "c-fc",
        "c-act",
    ]
    gs.save(gs.duplicate(graph, prefixes=["c-"], upto=["act#1"]), tmp_path / "copied-symbol.json")
    assert gs.verify(tmp_path / "copied-symbol.json", prefixes="c-", **DRAWN)
    (tmp_path / "top-symbol.json").write_text(
        json.dumps(document([variable("x"), operator("relu", "top", [0])], [1]))
    )
    joined = gs.group([graph, str(tmp_path / "top-symbol.json")], connect={"act#1": "x"}).graph
    top = next(node for node in joined.nodes if node.name == "top")
    assert top.inputs[0].node.inputs[0].node.inputs[0].node.name == "b"


def test_the_second_of_two_variables_of_one_name_is_fed_by_its_number(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        document([variable("x"), variable("x"), operator("elemwise_sub", "y", [0, 1])], [2]),
    )
    outputs = gs.run(path, feeds={"x": [3.0, 3.0], "x#1": [1.0, 2.0]}).outputs
    assert outputs["y_output"].tolist() == [2.0, 1.0]


def test_the_towers_of_a_block_are_told_by_their_inputs(tmp_path: Path) -> None:
    graph = write(tmp_path, two_towers())
    report = gs.verify(graph, shapes=SHAPES, inputs=gs.Inputs(params_seed=0), train_step=True)
    assert [(branch.reference, branch.branch) for branch in report.branches] == [("a", "b")]
    assert report
    assert gs.verify(
        write(tmp_path, two_towers(heads=[6, 3])), shapes=SHAPES, inputs=gs.Inputs(params_seed=0)
    )
    same = gs.verify(
        write(tmp_path, two_towers(same_input=True)),
        shapes={"a": (2, 3)},
        inputs=gs.Inputs(params_seed=0),
    )
    assert same.branches[0].branch == "act_output#1"


def test_towers_of_unlike_structure_are_not_branches(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="do not show which branches") as refused:
        gs.verify(
            write(tmp_path, two_towers(act="tanh")), shapes=SHAPES, inputs=gs.Inputs(params_seed=0)
        )
    assert "`gs.extract`" in str(refused.value.faults[0].hint)


@pytest.mark.parametrize(
    ("heads", "labels"),
    [
        (["flat_x1", "flat_x2"], [("x1", "x2")]),
        (["flat", "flat_b"], [("", "_b")]),
        (["p_left_q", "p_right_q", "p_mid_q"], [("left", "right"), ("left", "mid")]),
        (["u_x1", "v_x1", "u_x2", "v_x2"], [("x1", "x2")]),
        (["u_x1", "u_x2", "v_x1", "v_x2"], [("u", "v")]),
    ],
)
def test_branches_are_told_by_another_part_of_their_outputs_names(
    tmp_path: Path, heads: list[str], labels: list[tuple[str, str]]
) -> None:
    nodes = [variable("x"), *(operator("relu", name, [0]) for name in heads)]
    graph = write(tmp_path, document(nodes, range(1, len(nodes))))
    report = gs.verify(graph, shapes={"x": (2, 3)})
    assert report
    assert [(branch.reference, branch.branch) for branch in report.branches] == labels
    told = gs.verify(
        graph,
        prefixes=[part for part in dict.fromkeys(sum(labels, ())) if part],
        shapes={"x": (2, 3)},
    )
    assert told == report


@pytest.mark.parametrize("second", ["sigmoid", "relu6"])
def test_a_part_of_names_is_no_branch_where_the_structure_differs_unless_it_is_told(
    tmp_path: Path, second: str
) -> None:
    nodes = [variable("x"), operator("relu", "flat_x1", [0]), operator(second, "flat_x2", [0])]
    graph = write(tmp_path, document(nodes, [1, 2]))
    with pytest.raises(RefusedError, match="do not show which branches"):
        gs.verify(graph, shapes={"x": (2, 3)})
    assert not gs.verify(graph, prefixes=["x1", "x2"], shapes={"x": (2, 3)})


def two_of_all(*, heads: list[int] | None = None) -> Document:
    """Two towers of fc and act that have all names in common; the outputs are their difference, or ``heads``."""
    tower = [
        variable("x"),
        variable("w"),
        operator("FullyConnected", "fc", [0, 1], attrs={"num_hidden": "3", "no_bias": "True"}),
        operator("relu", "act", [2]),
    ]
    again = [
        {**node, "inputs": [[source + 4, *rest] for source, *rest in node["inputs"]]}
        for node in tower
    ]
    nodes = [
        *tower,
        *again,
        operator("elemwise_sub", "minus", [3, 7]),
        operator("relu", "again", [5]),
    ]
    return document(nodes, heads or [8, 9])


SIZES = "--shape x=2,3"
DRAWN_AT = f"{SIZES} --random-params 0"
VALUE = "[[1,2,3],[4,5,6]]"
ACCEPTED = {
    "duplicate --tie": "duplicate two -p b- --tie {w} -o made/",
    "duplicate --copy": "duplicate two -p b- --mode tie --copy {w} -o made/",
    "duplicate --share-input": "duplicate two -p b- --share-input {x} -o made/",
    "duplicate --upto": "duplicate two -p b- --upto {act} -o made/",
    "share --untie": "share two --untie {w} -o made/",
    "extract --target": "extract two --target {act} -o made/",
    "extract --cut": "extract two --target minus --cut {act} -o made/",
    "rename --match": "rename two --match {act} --to one -o made/",
    "group --connect": "group up two --connect up={x} -o made/",
    "group --connect OUT": "group two up --connect {act}=z -o made/",
    "export --shape": f"export held {SIZES} --shape {{x}}=2,3 -o made/e.onnx",
    "export --feed": f"export held {SIZES} --feed {{x}}={VALUE} -o made/e.onnx",
    "export --upto": f"export held {SIZES} --upto {{act}} -o made/e.onnx",
    "inspect --shape": "inspect two --shape {x}=2,3",
    "run --feed": f"run two {DRAWN_AT} --feed {{x}}={VALUE} --seed 0",
    "run --shape": f"run two {DRAWN_AT} --shape {{x}}=2,3 --seed 0",
    "run --target": f"run two {DRAWN_AT} --target {{act}} --seed 0",
    "run --head-gradient": f"run ends {SIZES} --head-gradient {{act_output}}={VALUE} --seed 0 --random-params 0 --sgd-steps 1",
    "verify --feed": f"verify heads {DRAWN_AT} --feed {{x}}={VALUE}",
    "verify --shape": f"verify heads {DRAWN_AT} --shape {{x}}=4,3",
    "verify --as-input": f"verify heads {DRAWN_AT} --as-input {{w}}",
    "compare --feed": f"compare two two {DRAWN_AT} --feed {{x}}={VALUE}",
    "compare --shape": f"compare two two {DRAWN_AT} --shape {{x}}=2,3",
    "compare --target": f"compare two two {DRAWN_AT} --target {{act}}",
    "compare --as-input": f"compare two two {DRAWN_AT} --as-input {{w}}",
    "check --shape": "check two --shape x=2,3 --shape {x}=2,3 --select GS309",
    "draw --shape": "draw two --shape {x}=2,3",
}
"""A line for each option that takes the name of one of several nodes."""
REFUSED = {
    "duplicate --batch-axis": (
        "duplicate two -p b- --mode batch --batch-axis {x}=0 -o made/",
        "means all 2 of that name",
    ),
    "duplicate --as-input": (
        "duplicate two -p b- --as-input {w} -o made/",
        "means all 2 of that name",
    ),
    "duplicate --as-parameter": (
        "duplicate two -p b- --as-parameter {x} -o made/",
        "means all 2 of that name",
    ),
    "share --alias": ("share two --alias {w}=w -o made/", "means all 2 of that name"),
    "share --as-input": ("share two --untie w --as-input {w} -o made/", "means all 2 of that name"),
    "share --as-parameter": (
        "share two --untie w --as-parameter {x} -o made/",
        "means all 2 of that name",
    ),
    "split --at": ("split two --at {act} -o made/", "several nodes have this name"),
    "group --share-input": (
        "group two up -p a- -p b- --share-input {x} -o made/",
        "no input that two graphs have",
    ),
    "group --as-input": (
        "group two up -p a- -p b- --as-input {w} -o made/",
        "means all 2 of that name",
    ),
    "group --as-parameter": (
        "group two up -p a- -p b- --as-parameter {x} -o made/",
        "means all 2 of that name",
    ),
    "export --as-input": (
        f"export held {SIZES} --as-input {{w}} -o made/e.onnx",
        "means all 2 of that name",
    ),
    "export --input-dtype": (
        f"export held {SIZES} --input-dtype {{x}}=float64 -o made/e.onnx",
        "means all 2 of that name",
    ),
    "inspect --as-input": ("inspect two --as-input {w}", "means all 2 of that name"),
    "inspect --as-parameter": ("inspect two --as-parameter {x}", "means all 2 of that name"),
    "rules explain NAME": (
        "rules explain {act} --graph two --match x --to y",
        "means all 2 of that name",
    ),
}
"""A line for each option that means all nodes of a name, or needs names that are unlike, and what the refusal says."""
OTHER_NAMES = {
    **dict.fromkeys(
        ("extract --branch", "extract --type", "group --type", "share --type", "split --type"),
        "ONNX models, which repeat none",
    ),
    **dict.fromkeys(("reshape --shape", "reshape --feed"), "ONNX models, which repeat none"),
    **dict.fromkeys(
        ("group --shape", "group --switch", "export --dynamic"),
        "ONNX models, or a name that is new",
    ),
    **dict.fromkeys(("share --override", "rules explain --override"), "scopes"),
    **dict.fromkeys(("rename --to", "rules explain --to"), "the new name"),
    **dict.fromkeys(
        ("rules explain --alias", "rules explain --match"), "what is explained is NAME"
    ),
    **dict.fromkeys(("verify --engine", "compare --engine"), "programs"),
    **dict.fromkeys(
        (
            "pool --data",
            "pool --exclude",
            "inspect --exclude",
            "check --exclude",
            "foreach --exclude",
        ),
        "files",
    ),
    **dict.fromkeys(
        (
            *(
                f"params {name} --{word}"
                for name in "show stats diff convert rename".split()
                for word in ("select", "except")
            ),
            *(
                "params convert --keep",
                "params tie --keep",
                "params rename --match",
                "params rename --to",
            ),
        ),
        "records, whose names are unlike",
    ),
}
"""Options whose names are not those of nodes of a graph that may repeat names, by what they are."""


def test_every_option_that_takes_a_name_is_in_a_table() -> None:
    named = re.compile(r"NAME\b|PATTERN|A=B|SRC=DST|OUT=IN")
    found = {
        f"{path} {option.opts[0]}"
        for path, command in list_commands(cli)
        for option in command.params
        if option.opts[0].startswith("--") and option.metavar and named.match(option.metavar)
    }
    assert found <= ACCEPTED.keys() | REFUSED.keys() | OTHER_NAMES.keys()
    assert {
        each for each in (*ACCEPTED, *REFUSED) if each.rpartition(" ")[2].startswith("--")
    } <= found


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repeated")
    nodes = two_of_all()["nodes"]
    ends = document([*nodes[:4], operator("sigmoid", "act", [2])], [3, 4])
    top = document([variable("z"), operator("relu", "up", [0])], [1])
    graphs = {
        "two": two_of_all(),
        "heads": two_of_all(heads=[3, 7]),
        "held": two_of_all(),
        "up": top,
        "ends": ends,
    }
    for name, graph in graphs.items():
        (folder / f"{name}-symbol.json").write_text(json.dumps(graph))
    write_params(folder / "held-0000.params", ["arg:w"], (3, 3))
    return folder


def run_line(models: Path, tmp_path: Path, line: str, number: int) -> tuple[int, str]:
    words = shlex.split(
        re.sub(r"\{(\w+)\}", rf"'\1#{number}'", line).replace("made/", f"{tmp_path}/")
    )
    done = graphshare(*words, cwd=models)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("option", ACCEPTED)
def test_a_number_that_no_node_has_is_refused_and_one_that_a_node_has_is_not(
    option: str, models: Path, tmp_path: Path
) -> None:
    code, output = run_line(models, tmp_path, ACCEPTED[option], 9)
    assert code in (1, 2), output
    assert "#9" in output
    code, output = run_line(models, tmp_path, ACCEPTED[option], 1)
    assert code == 0, output


@pytest.mark.parametrize("option", REFUSED)
def test_a_number_is_refused_by_a_sentence_where_all_of_a_name_are_meant(
    option: str, models: Path, tmp_path: Path
) -> None:
    line, sentence = REFUSED[option]
    code, output = run_line(models, tmp_path, line, 1)
    assert code == 2, output
    assert sentence in output
    assert "#1" in output


def test_a_value_for_the_second_of_two_inputs_is_its_own(tmp_path: Path) -> None:
    graph = write(tmp_path, two_of_all(heads=[3, 7]))
    options = {"shapes": {"x": (2, 3)}, "inputs": gs.Inputs(params_seed=0)}
    report = gs.verify(graph, feeds={"x#1": np.ones((4, 3), "float32")}, **options)
    assert any("'x#1' (act_output#1)" in note or "(4, 3)" in note for note in report.notes)
    with pytest.raises(RefusedError, match="names no variable"):
        gs.verify(graph, feeds={"x#2": np.ones((4, 3), "float32")}, **options)


def test_what_holds_for_a_name_holds_for_a_variable_that_another_option_means_by_its_number(
    tmp_path: Path,
) -> None:
    graph = write(tmp_path, two_of_all())
    ones = np.ones((2, 3), "float32")
    for options in (
        {"shapes": {"x#1": (2, 3)}},
        {"inputs": gs.Inputs(params_seed=0, as_input=["x#1"])},
    ):
        more = {"inputs": gs.Inputs(params_seed=0), **options}
        assert not any(
            "seeded" in note and "'x" in note
            for note in gs.compare(graph, graph, feeds={"x": ones}, **more).notes
        )
    mixed = gs.compare(
        graph, graph, feeds={"x#1": ones}, shapes={"x": (2, 3)}, inputs=gs.Inputs(params_seed=0)
    )
    assert any("'x' is seeded" in note for note in mixed.notes)


def test_targets_of_one_name_are_compared_by_their_numbers(tmp_path: Path) -> None:
    nodes = [
        variable("x"),
        operator("relu", "act", [0]),
        operator("sigmoid", "act", [0]),
        operator("elemwise_add", "y", [1, 2]),
    ]
    graph = write(tmp_path, document(nodes, [3]))
    nodes[2] = operator("tanh", "act", [0])
    (tmp_path / "other-symbol.json").write_text(json.dumps(document(nodes, [3])))
    other = str(tmp_path / "other-symbol.json")
    assert gs.compare(graph, other, targets="act#0", shapes={"x": (2, 3)})
    assert not gs.compare(graph, other, targets="act#1", shapes={"x": (2, 3)})
    (tmp_path / "one-symbol.json").write_text(json.dumps(document(nodes[:2], [1])))
    with pytest.raises(RefusedError, match="1 value named 'act_output', and `targets` compares 2"):
        gs.compare(graph, str(tmp_path / "one-symbol.json"), targets="act#1", shapes={"x": (2, 3)})


def test_one_of_two_inputs_of_a_name_is_connected_by_its_number(tmp_path: Path) -> None:
    graph = write(tmp_path, two_of_all())
    (tmp_path / "up-symbol.json").write_text(
        json.dumps(document([variable("z"), operator("relu", "up", [0])], [1]))
    )
    up = str(tmp_path / "up-symbol.json")
    joined = gs.group([up, graph], connect={"up": "x#1"}).graph
    layers = [node for node in joined.nodes if node.name == "fc"]
    assert [layer.inputs[0].node.name for layer in layers] == ["x", "up"]
    both = gs.group([up, graph], connect={"up": "x#1", "z": "x"}).graph
    assert [node.inputs[0].node.name for node in both.nodes if node.name == "fc"] == ["z", "up"]
