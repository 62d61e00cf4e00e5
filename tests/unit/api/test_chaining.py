"""Rewrites take a model and return one: they chain without touching a disk, and their result is
verified and saved as it is.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import RefusedError
from graphshare.formats.mxnet.symbol import read_symbol
from tests.processes import done, files_in
from tests.processes import graphshare as command
from tests.surroundings import ROOT
from tests.symbols import document, mxnet_text, old_batch_norm, operator, variable

LENET = ROOT / "fixtures" / "lenet"


@pytest.fixture
def lenet() -> gs.Checkpoint:
    return gs.load(LENET)


@pytest.mark.parametrize("mode", ["copy", "tie"])
def test_a_duplicate_is_verified_without_prefixes_and_saved_as_the_command_saves_it(
    lenet: gs.Checkpoint, mode: str, tmp_path: Path
) -> None:
    siamese = gs.duplicate(lenet, "sha-", mode=mode)  # type: ignore[arg-type]
    assert gs.verify(siamese).verdict == "EQUAL: sha- and the original, bit for bit"
    gs.save(siamese, tmp_path / "ours", map=tmp_path / "ours.map")
    arguments = ["--prefix", "sha-", "--mode", mode, "-o", "theirs", "--map-out", "theirs.map"]
    done(command("duplicate", LENET, *arguments, cwd=tmp_path))
    for end in ("-symbol.json", "-0000.params", ".map"):
        assert (tmp_path / f"ours{end}").read_bytes() == (tmp_path / f"theirs{end}").read_bytes()
    assert gs.verify(tmp_path / "ours", map=tmp_path / "ours.map")


def test_nothing_is_written_before_save(
    lenet: gs.Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = gs.rename(
        gs.extract(gs.upgrade(gs.duplicate(lenet, ["a-", "b-"])), "a-fc1_output"), prefix="x/"
    )
    assert set(model.params) == {
        f"x/a-{name}" for name in lenet.params if not name.startswith("fc2")
    }
    np.testing.assert_array_equal(model.params["x/a-conv1_weight"], lenet.params["conv1_weight"])
    assert files_in(tmp_path) == []
    gs.save(model, "part")
    assert files_in(tmp_path) == ["part-0000.params", "part-symbol.json"]
    again = gs.load("part")
    assert list(again.params) == list(model.params)
    assert not gs.diff(model, again)


def test_a_chain_gives_the_same_files_as_its_steps(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    gs.save(gs.rename(gs.duplicate(lenet, "sha-"), prefix="n_"), tmp_path / "chained")
    gs.save(gs.duplicate(lenet, "sha-"), tmp_path / "first")
    gs.save(gs.rename(tmp_path / "first", prefix="n_"), tmp_path / "second")
    for end in ("-symbol.json", "-0000.params"):
        assert (tmp_path / f"chained{end}").read_bytes() == (tmp_path / f"second{end}").read_bytes()


def test_the_map_of_a_chain_leads_from_the_file_to_the_result(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    model = gs.rename(gs.duplicate(lenet, "sha-"), prefix="n_")
    assert model.sources == (lenet,)
    assert model.rewrite is not None
    node = lenet.graph.nodes[0]
    assert [image.name for _, image in model.rewrite.images(lenet.graph, node)] == [
        "n_data",
        "n_sha-data",
    ]
    gs.save(model, tmp_path / "n", map=tmp_path / "n.map")
    text = (tmp_path / "n.map").read_text()
    assert hashlib.sha256(Path(f"{LENET}-symbol.json").read_bytes()).hexdigest() in text


def test_branches_of_two_duplicates_are_all_compared_and_fed(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    """The second duplicate copies the first one's branch too: each of the four has a label of its
    own, here and in the map.
    """
    model = gs.duplicate(gs.duplicate(lenet, "a-", mode="tie"), "b-", mode="tie")
    fed = gs.verify(model, feeds={"b-data": np.zeros((3, 1, 28, 28), np.float32)})
    assert [branch.branch for branch in fed.branches] == ["b-", "a-", "b-a-"]
    assert {values.outputs[0].shape[0] for branch in fed.branches for values in branch.rounds} == {
        3
    }
    gs.save(model, tmp_path / "four", map=tmp_path / "four.map")
    report = gs.verify(tmp_path / "four", map=tmp_path / "four.map")
    assert report.verdict == "EQUAL: b-, a-, b-a- and the original, bit for bit"


def test_models_of_several_files_are_grouped_in_memory(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    trunk = gs.extract(lenet, "pool2")
    head = gs.rename(gs.extract(gs.load(LENET), "softmax", cuts="pool2"), prefix="h_")
    both = gs.group([trunk, head], connect={"pool2_output": "h_pool2_output"})
    picture = np.random.default_rng(0).random((2, 1, 28, 28), "float32")
    feeds = {"data": picture}
    expected = gs.run(lenet, feeds=feeds).outputs["softmax_output"]
    np.testing.assert_array_equal(gs.run(both, feeds=feeds).outputs["h_softmax_output"], expected)
    gs.save(both, tmp_path / "both")
    np.testing.assert_allclose(
        gs.bind(tmp_path / "both")(feeds)["h_softmax_output"], expected, rtol=1e-5
    )


def test_models_in_memory_are_numbered_in_the_errors_of_a_group() -> None:
    texts = (
        mxnet_text(document([variable("x")], [0], version=version)) for version in (10700, 10901)
    )
    with pytest.raises(
        RefusedError, match="mxnet_version is 10700 in graph 1 and 10901 in graph 2"
    ):
        gs.group(
            [gs.Checkpoint(read_symbol(text.encode())) for text in texts], prefixes=["a_", "b_"]
        )


def test_parameters_implied_by_an_old_file_follow_through_an_upgrade(tmp_path: Path) -> None:
    graph = read_symbol(mxnet_text(old_batch_norm()).encode())
    model = gs.Checkpoint(graph)
    implied = gs.inspect(model).implied
    assert implied
    with_states = model.with_params(
        {name: np.full(3, i, "float32") for i, name in enumerate(implied)}
    )
    copied = gs.duplicate(gs.upgrade(with_states), "sha-")
    for i, name in enumerate(implied):
        assert copied.params[f"sha-{name}"].tolist() == [i] * 3


def test_the_library_assigns_roles_with_the_parameter_file(tmp_path: Path) -> None:
    """A variable of an unknown operator is a parameter if the file holds it, as for the command."""
    from tests.processes import write_json, write_params
    from tests.symbols import document, operator, variable

    found = document([variable("x"), variable("secret"), operator("Nobody", "n", [0, 1])], [2])
    write_json(tmp_path / "g-symbol.json", found)
    write_params(tmp_path / "g-0000.params", ["arg:secret", "arg:x"])
    tied = gs.duplicate(tmp_path / "g", "sha-", mode="tie")
    assert [node.name for node in tied.graph.variables()] == ["x", "secret"]


def test_every_function_takes_a_path_as_str_and_as_path(tmp_path: Path) -> None:
    for path in (str(LENET), LENET):
        assert gs.load(path).graph.nodes
        assert gs.duplicate(path, "x-").graph.nodes
        assert gs.inspect(path).nodes == 31
        assert gs.draw(path, to="mermaid").text
        assert not gs.check(path).findings
        assert not gs.diff(path, Path(path))
        assert gs.bind(path).inputs == ["data", "softmax_label"]
    for out in (str(tmp_path / "a"), tmp_path / "b"):
        gs.save(gs.load(LENET), out)
    for file in (f"{LENET}-0000.params", Path(f"{LENET}-0000.params")):
        assert gs.load(f"{LENET}-symbol.json", params=file).parameter_file is not None
        assert (
            len(gs.list_params(file).arrays)
            == len(gs.show_params(file).arrays)
            == len(gs.measure_params(file).arrays)
        )
        assert not gs.diff_params(file, os.fspath(file))
        gs.convert(file, tmp_path / "c.npz")


def test_shapes_and_feeds_mean_the_same_everywhere(lenet: gs.Checkpoint) -> None:
    shapes = {"data": (2, 1, 28, 28)}
    outputs = {output.name: output.shape for output in gs.infer_shapes(lenet, shapes).outputs}
    assert outputs["softmax_output"] == (2, 10)
    assert gs.run(lenet, shapes=shapes, seed=0).outputs["softmax_output"].shape == (2, 10)
    assert "2×" in gs.draw(lenet, shapes=shapes).text
    assert not gs.check(lenet, shapes=shapes).findings
    twice = gs.duplicate(lenet, "sha-")
    assert gs.verify(twice, shapes=shapes)
    for use in (gs.infer_shapes, gs.draw, gs.verify, gs.run):
        with pytest.raises(gs.GraphshareError, match="dada"):
            use(twice, shapes={"dada": (1,)})  # type: ignore[operator]


def test_a_branch_of_unequal_values_fails(lenet: gs.Checkpoint) -> None:
    siamese = gs.duplicate(lenet, "sha-")
    changed = siamese.with_params({"sha-fc2_bias": np.ones(10, "float32")})
    report = gs.verify(changed)
    assert not report
    assert report.verdict.startswith("NOT EQUAL")


def test_a_model_in_memory_is_checked(lenet: gs.Checkpoint) -> None:
    assert (
        gs.check(lenet.with_params({"fc2_bias": np.full(10, np.nan, "float32")})).findings[0].code
        == "GS408"
    )
    assert not gs.check([lenet, gs.duplicate(lenet, "b-")]).findings


def test_sharing_by_alias_reports_its_ties(lenet: gs.Checkpoint) -> None:
    shared = gs.share(gs.duplicate(lenet, "sha-"), aliases={"sha-*": "*"})
    assert len(shared.report.ties.tied) == 16
    assert list(shared.params) == list(lenet.params)
    assert gs.detect(gs.duplicate(lenet, "sha-"))[0].options == [
        "--alias sha-conv1_weight=conv1_weight"
    ]


def test_formats_and_inverse_renames_give_the_bytes_of_the_source(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    gs.save(
        gs.rename(lenet, names={"conv1": "first"}), tmp_path / "there", map=tmp_path / "there.map"
    )
    gs.save(
        gs.rename(tmp_path / "there", map=tmp_path / "there.map", inverse=True), tmp_path / "back"
    )
    assert (tmp_path / "back-symbol.json").read_bytes() == lenet.data
    gs.save(gs.format(gs.format(lenet, "indent:4"), "mxnet"), tmp_path / "laid-symbol.json")
    assert (tmp_path / "laid-symbol.json").read_bytes() == lenet.data


def test_extract_needs_a_target_where_no_branch_is_taken(lenet: gs.Checkpoint) -> None:
    with pytest.raises(gs.GraphshareError):
        gs.extract(lenet)
    assert gs.extract(lenet, "fc1").graph.heads[0].node.name == "fc1"


def test_fold_says_that_there_was_nothing_and_proves_only_models_of_onnx(
    lenet: gs.Checkpoint,
) -> None:
    folded = gs.fold(lenet)
    assert (folded.report.count > 0, folded.report.proof) == (True, None)
    assert "no BatchNorm was folded" not in folded.notes
    again = gs.fold(folded)
    assert (again.report.count, again.notes) == (0, ("no BatchNorm was folded",))


def test_the_escapes_of_a_source_are_found_again(tmp_path: Path) -> None:
    text = mxnet_text(document([variable("data"), operator("relu", "caf\u00e9", [0])], [1]))
    for spelling in (text.replace("\u00e9", "\\u00e9"), text.replace("\\u00e9", "\u00e9")):
        (tmp_path / "a.json").write_text(spelling, encoding="utf-8")
        gs.save(
            gs.rename(tmp_path / "a.json", prefix="x_"), tmp_path / "b.json", map=tmp_path / "map"
        )
        back = gs.rename(tmp_path / "b.json", map=tmp_path / "map", inverse=True)
        gs.save(back, tmp_path / "c.json")
        assert (tmp_path / "c.json").read_text(encoding="utf-8") == spelling


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"untie": "conv1_weight", "reuse": "forbid"}, "`reuse` has no effect without rules"),
        ({"transposed": True, "reuse": "forbid"}, "`reuse` has no effect with `transposed`"),
        ({"transposed": True, "as_input": "data"}, "`as_input` has no effect with `transposed`"),
    ],
)
def test_options_that_sharing_would_not_use_are_refused(
    lenet: gs.Checkpoint, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(gs.GraphshareError, match=message):
        gs.share(lenet, **options)


def test_help_shows_signatures_options_and_errors() -> None:
    functions = [name for name in gs.__all__ if name[0].islower() and not name.startswith("_")]
    assert len(functions) > 20
    for name in functions:
        function = getattr(gs, name)
        signature = inspect.signature(function)
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}, name
        assert "Raises" in (inspect.getdoc(function) or ""), name
    assert "mode" in inspect.signature(gs.duplicate).parameters


def test_a_run_of_many_models_has_the_folder_and_the_manifest_of_the_caller(tmp_path: Path) -> None:
    with gs.foreach(f"{LENET}-symbol.json", ["check", "{}"]) as fleet:
        assert (fleet.out, fleet.total) == ("", 1)
    places = {"out": tmp_path / "out", "manifest": tmp_path / "run.jsonl"}
    with gs.foreach([LENET], ["rename", "{}", "--prefix", "a-"], **places) as fleet:  # type: ignore[arg-type]
        assert (fleet.out, fleet.total) == (str(tmp_path / "out"), 1)
    assert files_in(tmp_path) == ["run.jsonl"]
