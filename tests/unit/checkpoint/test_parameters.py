"""Records of parameters: arrays that replace others, the files that they come from, and what does not fit a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import graphshare as gs
from graphshare.api.params import convert
from graphshare.checkpoint.parameters import (
    Parameters,
    check_belongs,
    check_unchanged,
    list_parameter_names,
    list_under,
    notes_on,
    replace_arrays,
    split_by_origin,
)
from graphshare.errors import InputError, RefusedError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.format import read_index
from graphshare.formats.params.records import Origin, ParameterFile
from graphshare.ir.graph import Graph
from tests import params_bytes as build
from tests.symbols import document, operator, variable

ONES = np.ones(2, "float32")


def write(path: Path, *keys: str) -> ParameterFile:
    """Vectors of two float32 numbers, the first its place in the file."""
    path.write_bytes(
        build.container(
            [build.dense((2,), data=build.floats(i, 0)) for i, _ in enumerate(keys)], keys
        )
    )
    return read_index(path)


@pytest.mark.parametrize(
    ("keys", "name", "auxiliary", "wanted"),
    [
        (("arg:w", "aux:m"), "w", set(), ["arg:w", "aux:m"]),
        (("arg:w", "aux:m"), "arg:w", set(), ["arg:w", "aux:m"]),
        (("arg:w", "aux:m"), "m", set(), ["arg:w", "aux:m"]),
        (("arg:w", "aux:m"), "b", set(), ["arg:w", "aux:m", "arg:b"]),
        (("arg:w", "aux:m"), "b", {"b"}, ["arg:w", "aux:m", "aux:b"]),
        (("arg:w", "aux:m"), "b", None, ["arg:w", "aux:m", "b"]),
        (("arg:w", "aux:m"), "aux:w", set(), ["arg:w", "aux:m", "aux:w"]),
        (("w",), "b", {"b"}, ["w", "b"]),
        (("w",), "w", set(), ["w"]),
        ((), "b", {"b"}, ["aux:b"]),
    ],
)
def test_an_array_takes_the_place_of_its_name_or_comes_last(
    keys: tuple[str, ...], name: str, auxiliary: set[str] | None, wanted: list[str], tmp_path: Path
) -> None:
    file = write(tmp_path / "a.params", *keys)
    changed = replace_arrays(file, {name: ONES}, auxiliary)
    assert [record.key for record in changed.records] == wanted
    in_memory = [
        record.key
        for record in changed.records
        if record.origin is not None and record.origin.array is not None
    ]
    assert len(in_memory) == 1
    others = [record.origin for record in changed.records if record.key not in in_memory]
    assert all(origin is not None and origin.file is file for origin in others)
    (alone,) = replace_arrays(None, {name: ONES}, auxiliary).records
    assert alone.key == (
        name
        if ":" in name or auxiliary is None
        else f"{'aux' if name in auxiliary else 'arg'}:{name}"
    )


def test_an_array_has_the_shape_and_dtype_of_the_one_that_it_replaces(tmp_path: Path) -> None:
    file = write(tmp_path / "a.params", "arg:w", "arg:v")
    assert [
        record.dtype for record in replace_arrays(file, {"w": [1, 2], "v": [0.5, 1]}, set()).records
    ] == ["float32"] * 2
    with pytest.raises(RefusedError) as caught:
        replace_arrays(
            file, {"w": np.ones(3), "v": np.ones(2, "float32")[None], "x": np.ones(9)}, set()
        )
    assert [(fault.message, fault.hint) for fault in caught.value.faults] == [
        ("'w' has the shape (3), and the parameter (2)", "give an array of that shape"),
        (
            "'w' is float64, and the parameter float32",
            "give it as float32, with array.astype('float32')",
        ),
        ("'v' has the shape (1,2), and the parameter (2)", "give an array of that shape"),
    ]


def test_a_second_name_of_an_array_that_is_replaced_keeps_the_old_one(tmp_path: Path) -> None:
    file = write(tmp_path / "a.params", "a", "b", "c")
    a, b, c = file.records
    tied = msgspec.structs.replace(
        file,
        records=(
            a,
            msgspec.structs.replace(b, tied_to="a"),
            msgspec.structs.replace(c, tied_to="b"),
        ),
    )
    assert [record.tied_to for record in replace_arrays(tied, {"a": ONES}, set()).records] == [
        None,
        None,
        "b",
    ]


def test_a_second_name_has_its_own_array_in_a_file_of_ties(tmp_path: Path) -> None:
    nodes = [variable("a"), variable("b"), operator("elemwise_add", "y", [0, 1])]
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(document(nodes, [2])))
    twins = [build.dense((2,), data=build.floats(7, 7))] * 2
    (tmp_path / "m.params").write_bytes(build.container(twins, ["a", "b"]))
    convert(tmp_path / "m.params", tmp_path / "tied.safetensors", tie=True)
    model = gs.load(tmp_path / "m.json", params=tmp_path / "tied.safetensors")
    gs.save(model.with_params({"a": ONES}), tmp_path / "n.json", params=tmp_path / "n.safetensors")
    new = gs.load(tmp_path / "n.json", params=tmp_path / "n.safetensors").params
    assert {name: array.tolist() for name, array in new.items()} == {"a": [1, 1], "b": [7, 7]}


def test_records_are_split_by_the_file_that_has_their_bytes(tmp_path: Path) -> None:
    own, other = write(tmp_path / "a.params", "a", "b"), write(tmp_path / "b.params", "x", "y")
    listed = list_under(other, [(other.records[0], "c"), (other.records[1], "d")]).records
    new = replace_arrays(None, {"e": ONES, "f": ONES}, None).records
    file = msgspec.structs.replace(
        own, records=(*own.records, *listed, *new, own.records[0], *listed[:1])
    )
    parts = split_by_origin(file)
    assert [
        (source is file, source is other, [(record.key, key) for record, key in plan])
        for source, plan in parts
    ] == [
        (True, False, [("a", "a"), ("b", "b")]),
        (False, True, [("x", "c"), ("y", "d")]),
        (True, False, [("e", "e"), ("f", "f")]),
        (True, False, [("a", "a")]),
        (False, True, [("x", "c")]),
    ]
    assert all(
        record.origin is None for source, plan in parts for record, _ in plan if source is other
    )
    empty = msgspec.structs.replace(own, records=())
    assert split_by_origin(empty) == [(empty, [])]


def test_arrays_are_found_by_name_or_key(tmp_path: Path) -> None:
    parameters = Parameters(write(tmp_path / "a.params", "arg:x", "aux:x", "w"))
    assert (list(parameters), len(parameters)) == (["x", "aux:x", "w"], 3)
    assert [parameters[name][0] for name in ("x", "arg:x", "aux:x", "w")] == [0, 0, 1, 2]
    assert [name in parameters for name in ("x", "arg:x", "aux:x", "w", "arg:w", 5)] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    assert parameters == {name: parameters[name] for name in parameters}
    assert parameters != {"x": parameters["x"]}
    assert parameters != {**{name: parameters[name] for name in parameters}, "w": [2.0, 0.0]}
    assert repr(parameters) == "<Parameters: 3 arrays>"
    assert len(Parameters(None)) == 0
    with pytest.raises(KeyError):
        parameters["v"]


def graph() -> Graph:
    nodes = [variable("data"), variable("fc_weight"), variable("fc_bias")]
    nodes += [
        operator("FullyConnected", "fc", [0, 1, 2], attrs={"num_hidden": "2"}),
        variable("bn_moving_mean"),
    ]
    nodes += [
        variable("bn_moving_var"),
        variable("bn_gamma"),
        variable("bn_beta"),
        operator("BatchNorm", "bn", [3, 6, 7, 4, 5]),
    ]
    return read_symbol(msgspec.json.encode(document(nodes, [8])))


BN = ("arg:bn_gamma", "arg:bn_beta", "aux:bn_moving_mean", "aux:bn_moving_var")


@pytest.mark.parametrize(
    ("keys", "notes"),
    [
        (("arg:fc_weight", "arg:fc_bias", *BN), []),
        (("fc_weight", "fc_bias", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"), []),
        (("arg:fc_weight", *BN), ["lacks parameters of the graph: fc_bias"]),
        (("arg:fc_weight", "arg:fc_bias", "arg:more", *BN), ["contains arrays that no variable uses: arg:more"]),
        (("aux:fc_weight", "arg:fc_bias", *BN), ["has the wrong prefix (arg: or aux:): aux:fc_weight"]),
        (("arg:fc_weight", "arg:fc_bias", *BN[:3], "arg:bn_moving_var"),
         ["has the wrong prefix (arg: or aux:): arg:bn_moving_var"]),
        (("arg:data", "arg:fc_weight", "arg:fc_bias", *BN),
         ["contains values for a graph input; treated as a parameter: data"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_graph_is_noted(
    keys: tuple[str, ...], notes: list[str], tmp_path: Path
) -> None:
    file = write(tmp_path / "a.params", *keys)
    assert notes_on(file, graph()) == [f"{file.path}: {note}" for note in notes]
    assert notes_on(file, graph(), unused=False) == [
        f"{file.path}: {note}" for note in notes if "no variable" not in note
    ]
    assert notes_on(None, graph()) == []
    check_belongs(file, graph())


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.params", "arg:x", "aux:y")
    with pytest.raises(RefusedError, match="holds no parameter of this graph") as caught:
        check_belongs(file, graph())
    names = "bn_beta, bn_gamma, bn_moving_mean, bn_moving_var"
    assert caught.value.faults[0].hint.startswith(
        f"it holds x, y; the graph's variables are {names}"
    )
    check_belongs(None, graph())
    check_belongs(write(tmp_path / "b.params"), graph())
    check_belongs(write(tmp_path / "c.params", "arg:x", "bn_beta"), graph())
    (tmp_path / "d.params").write_bytes(build.container([build.dense((2,))]))
    with pytest.raises(RefusedError, match="has no names, so its records belong to no variable"):
        check_belongs(read_index(tmp_path / "d.params"), graph())
    assert list_parameter_names(file) == {"x", "y"}
    assert list_parameter_names(None) is None
    assert list_parameter_names(write(tmp_path / "b.params")) == frozenset()


def test_files_with_the_bytes_must_be_those_that_were_indexed(tmp_path: Path) -> None:
    own, other = write(tmp_path / "a.params", "a"), write(tmp_path / "b.params", "x")
    listed = list_under(other, [(other.records[0], "c")]).records
    in_memory: Any = replace_arrays(None, {"e": ONES}, None).records
    file = msgspec.structs.replace(own, records=(*listed, *in_memory))
    check_unchanged(msgspec.structs.replace(own, records=(*own.records, *file.records)))
    (tmp_path / "a.params").unlink()
    check_unchanged(file)  # no record is in it
    (tmp_path / "b.params").write_bytes(b"other")
    with pytest.raises(InputError, match=r"b\.params: changed since it was indexed") as caught:
        check_unchanged(file)
    assert "load the model again" in caught.value.faults[0].hint
    assert Origin("x").file is None


def test_records_follow_their_variables_and_others_stay_once(tmp_path: Path) -> None:
    keys = ["arg:fc_weight", "arg:more", "arg:fc_bias", *BN]
    file = write(tmp_path / "a.params", *keys)
    model = gs.Checkpoint(graph(), file)

    def list_keys(changed: gs.Checkpoint) -> list[str | None]:
        assert changed.parameter_file is not None
        return [record.key for record in changed.parameter_file.records]

    def under(prefix: str, *names: str) -> list[str]:
        return [name.replace(":", f":{prefix}") for name in names]

    own = [keys[0], *keys[2:]]
    assert list_keys(gs.duplicate(model, ["b-"])) == [*keys, *under("b-", *own)]
    assert list_keys(gs.duplicate(model, ["b-"], mode="tie")) == keys
    only = gs.duplicate(model, ["b-", "c-"], drop_original=True)
    assert list_keys(only) == [
        *under("b-", keys[0]),
        keys[1],
        *under("b-", *keys[2:]),
        *under("c-", *own),
    ]
    assert list_keys(gs.rename(model, prefix="x-")) == [
        *under("x-", keys[0]),
        keys[1],
        *under("x-", *keys[2:]),
    ]
    assert list_keys(gs.extract(model, "fc")) == ["arg:fc_weight", "arg:fc_bias"]
    (tmp_path / "map.json").write_text('{"fc_bias": "more"}')
    with pytest.raises(RefusedError) as caught:
        gs.rename(model, map=tmp_path / "map.json")
    assert [fault.message for fault in caught.value.faults] == [
        "records 'arg:more' and 'arg:fc_bias' would both become 'arg:more'"
    ]
