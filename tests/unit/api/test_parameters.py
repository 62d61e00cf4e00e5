"""``model.params`` is a mapping of arrays that are read on access; ``with_params`` replaces some."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import RefusedError
from graphshare.text.format import format_shape
from tests.params_bytes import V2, V3, container, dense, every_form
from tests.processes import environment
from tests.surroundings import ROOT

LENET = ROOT / "fixtures" / "lenet"


@pytest.fixture
def lenet() -> gs.Checkpoint:
    return gs.load(LENET)


def test_parameters_are_a_mapping_by_name_and_by_key(lenet: gs.Checkpoint) -> None:
    params = lenet.params
    assert isinstance(params, Mapping)
    assert len(params) == len(list(params)) == 16
    assert "conv1_weight" in params
    assert "arg:conv1_weight" in params
    assert "data" not in params
    np.testing.assert_array_equal(params["conv1_weight"], params["arg:conv1_weight"])
    with pytest.raises(KeyError):
        params["data"]
    assert gs.Checkpoint(lenet.graph).params == {}


def test_a_name_under_both_prefixes_is_found_by_key(tmp_path: Path) -> None:
    (tmp_path / "p.params").write_bytes(container([dense((1,)), dense((2,))], ["arg:w", "aux:w"]))
    params = gs.load(f"{LENET}-symbol.json", params=tmp_path / "p.params").params
    assert list(params) == ["w", "aux:w"]
    assert [array.shape for array in params.values()] == [(1,), (2,)]


def test_parameters_stay_ranges_of_their_file_until_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "lenet-0000.params"
    path.write_bytes(Path(f"{LENET}-0000.params").read_bytes())
    model = gs.duplicate(gs.load(f"{LENET}-symbol.json", params=path), "sha-")
    file = model.parameter_file
    assert file is not None
    assert all(
        record.origin is not None and record.origin.file is not None for record in file.records
    )
    path.unlink()
    with pytest.raises(gs.GraphshareError):
        model.params["sha-conv1_weight"]


def test_replaced_parameters_keep_their_place_and_the_others_their_values(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    new = lenet.with_params({"arg:conv1_bias": [1] * 8, "bn1_moving_mean": np.ones(8, "float32")})
    assert list(new.params) == list(lenet.params)
    assert new.params["conv1_bias"].tolist() == [1.0] * 8
    # A list takes the dtype that the parameter had
    assert new.params["conv1_bias"].dtype == np.float32
    assert lenet.params["conv1_bias"].tolist() != [1.0] * 8
    for out in (tmp_path / "new", tmp_path / "x.json"):
        gs.save(new, out, params=tmp_path / "x.npz" if out.suffix else None)
    for again in (
        gs.load(tmp_path / "new"),
        gs.load(tmp_path / "x.json", params=tmp_path / "x.npz"),
    ):
        assert not gs.diff(again, new)
        assert again.params["bn1_moving_mean"].tolist() == [1.0] * 8


def test_arrays_of_another_shape_or_dtype_are_refused(lenet: gs.Checkpoint) -> None:
    wrong = {
        "conv1_bias": np.ones(7, "float32"),
        "fc1_weight": [[1.0]],
        "bn1_moving_mean": np.ones(8, "float64"),
    }
    with pytest.raises(gs.RefusedError) as caught:
        lenet.with_params(wrong)
    assert [fault.message for fault in caught.value.faults] == [
        "'conv1_bias' has the shape (7), and the parameter (8)",
        f"'fc1_weight' has the shape (1,1), and the parameter {format_shape(lenet.params['fc1_weight'].shape)}",
        "'bn1_moving_mean' is float64, and the parameter float32",
    ]


def test_parameters_are_added_to_a_graph_without_a_file(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    bare = gs.Checkpoint(lenet.graph)
    full = bare.with_params(dict(lenet.params))
    assert {r.key for r in full.parameter_file.records} == {
        r.key for r in lenet.parameter_file.records
    }  # type: ignore[union-attr]
    gs.save(full, tmp_path / "full")
    assert not gs.diff(tmp_path / "full", lenet)


def test_unknown_names_and_dtypes_are_refused(lenet: gs.Checkpoint) -> None:
    with pytest.raises(gs.GraphshareError, match="conv1_wieght") as caught:
        lenet.with_params({"conv1_wieght": [1], "nothing": [2]})
    assert len(caught.value.faults) == 2
    assert "conv1_weight" in caught.value.faults[0].hint
    with pytest.raises(gs.GraphshareError, match="dtype"):
        lenet.with_params({"conv1_bias": np.array(["a"])})


def test_records_of_every_form_follow_a_rewrite(tmp_path: Path) -> None:
    from graphshare.formats.mxnet.symbol import read_symbol
    from tests.symbols import document, mxnet_text, operator, variable

    records, names = every_form()
    filled = [name.partition(":")[2] or name for name in names]
    nodes = [variable("x"), *map(variable, filled)]
    graph = read_symbol(
        mxnet_text(
            document([*nodes, operator("Nobody", "n", range(len(nodes)))], [len(nodes)])
        ).encode()
    )
    (tmp_path / "p.params").write_bytes(container(records, names))
    file = gs.load(f"{LENET}-symbol.json", params=tmp_path / "p.params").parameter_file
    assert file is not None
    renamed = gs.rename(gs.Checkpoint(graph, file), prefix="r_", only="parameters")
    assert all(name.startswith("r_") for name in renamed.params)
    gs.save(renamed, tmp_path / "r.json", params=tmp_path / "r.params")
    end = max(record.offset + record.size for record in file.records)
    assert (tmp_path / "r.params").read_bytes()[:end] == (tmp_path / "p.params").read_bytes()[:end]


def test_a_changed_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "p.params"
    path.write_bytes(Path(f"{LENET}-0000.params").read_bytes())
    model = gs.load(f"{LENET}-symbol.json", params=path)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(gs.GraphshareError, match="changed"):
        model.params["conv1_bias"]


def test_loading_and_rewriting_import_no_numpy() -> None:
    code = (
        "import sys, graphshare as gs\n"
        f"model = gs.duplicate(gs.load({str(LENET)!r}), 'sha-')\n"
        "repr(model), list(model.params), gs.inspect(model), gs.rename(model, prefix='x')\n"
        "assert not {'numpy', 'rich', 'click', 'jsonschema'} & sys.modules.keys()\n"
        "assert not [name for name in sys.modules if name.startswith(('onnx', 'graphshare.formats.onnx'))]\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_a_conversion_into_a_folder_keeps_the_name(tmp_path: Path) -> None:
    source = f"{LENET}-0000.params"
    for to, name in (
        (None, "lenet-0000.params"),
        ("npz", "lenet-0000.npz"),
        ("safetensors", "lenet-0000.safetensors"),
    ):
        (tmp_path / str(to)).mkdir()
        gs.convert(source, tmp_path / str(to), to=to)
        assert [path.name for path in (tmp_path / str(to)).iterdir()] == [name]


def test_another_dtype_keeps_the_form_of_records_that_only_v3_holds(tmp_path: Path) -> None:
    for magic in (V2, V3):
        source, target = tmp_path / f"{magic}.params", tmp_path / f"{magic}-narrow.params"
        source.write_bytes(container([dense((2,), magic=magic)], ["arg:w"]))
        gs.convert(source, target, dtype="float16")
        assert target.read_bytes()[24:28] == magic.to_bytes(4, "little")
    # A copy of records keeps theirs, and another format gets V2 unless `np_shape` asks for V3.
    gs.convert(tmp_path / f"{V3}.params", tmp_path / "w.npz")
    for np_shape, magic in ((False, V2), (True, V3)):
        gs.convert(tmp_path / "w.npz", tmp_path / "w.params", np_shape=np_shape)
        assert (tmp_path / "w.params").read_bytes()[24:28] == magic.to_bytes(4, "little")


def test_parameters_are_compared_behind_a_prefix(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    gs.save(gs.rename(lenet, prefix="sha-", only="parameters"), tmp_path / "sha")
    names = f"{LENET}-0000.params", tmp_path / "sha-0000.params"
    assert not gs.diff_params(*names, extra_prefix="sha-")
    assert gs.diff_params(*names)
    with pytest.raises(RefusedError, match="matches no parameter") as caught:
        gs.diff_params(*names, select="conv1_wieght")
    assert "conv1_weight" in str(caught.value)
