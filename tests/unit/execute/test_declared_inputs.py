"""Values drawn for the inputs that a model of ONNX declares: their sizes, dtypes, integers and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from graphshare.errors import MemoryLimitError, RefusedError
from graphshare.execute.prepare import declared_inputs
from graphshare.execute.prepare.declared_inputs import (
    InputDrawer,
    draw_as,
    fits_sizes,
    format_declared,
    unify_sizes,
)
from graphshare.formats.facets import Integers
from graphshare.formats.params.narrow_dtypes import find_numpy_dtype

Sizes = Sequence[Any]


def make_drawer(
    inputs: Mapping[str, Sizes], dtypes: Mapping[str, str] | None = None, **options: Any
) -> InputDrawer:
    """Return what draws for a session with these inputs, of float unless ``dtypes`` says otherwise."""
    defaults = options.pop("defaults", {})
    kinds = {**dict.fromkeys([*inputs, *defaults], "float"), **(dtypes or {})}
    session = SimpleNamespace(inputs=inputs, dtypes=kinds, defaults=defaults)
    return InputDrawer(cast(Any, session), options.pop("feeds", {}), **options)


@pytest.mark.parametrize(
    ("inputs", "shapes", "is_batch", "expected", "open_names"),
    [
        ({"x": [2, 3]}, {}, False, [(2, 3)], []),
        ({"x": []}, {}, False, [()], []),
        ({"x": [None, 3, None]}, {}, False, [(1, 3, 8)], ["x"]),
        ({"x": [-1, 0, "w"]}, {}, False, [(1, 0, 8)], ["x"]),
        ({"x": [None, 3, None]}, {"x": (None, 3, 5)}, False, [(1, 3, 5)], ["x"]),
        ({"x": [None, 3, None]}, {"x": (4, None, 5)}, False, [(4, 3, 5)], []),
        ({"x": ["n", 3], "y": ["n", "m"]}, {"x": (7, 3)}, False, [(7, 3), (7, 8)], ["y"]),
        ({"x": [2, "m"], "y": [3, "m"]}, {"y": (3, 4)}, False, [(2, 4), (3, 4)], ["x"]),
        ({"x": ["n", 3], "y": [2, "n"]}, {}, False, [(1, 3), (2, 1)], ["x", "y"]),
        ({"x": [None, 3], "y": [2, None]}, {}, False, [(1, 3), (2, 8)], ["x", "y"]),
        ({"h": [2, None, 16]}, {}, False, [(2, 8, 16)], ["h"]),
        ({"h": [2, None, 16]}, {}, True, [(2, 1, 16)], ["h"]),
        ({"h": [2, None]}, {}, True, [(2, 1)], ["h"]),
        ({"h": [2, None, None]}, {}, True, [(2, 8, 8)], ["h"]),
    ],
)
def test_sizes_that_are_open_are_chosen(
    inputs: Mapping[str, Sizes],
    shapes: dict[str, Any],
    is_batch: bool,
    expected: list[Any],
    open_names: list[str],
) -> None:
    drawer = make_drawer(inputs, shapes=shapes)
    assert drawer.open_names == open_names
    assert [array.shape for array in drawer.draw(8, is_batch=is_batch).values()] == expected


def test_dimensions_of_fed_arrays_are_those_of_the_others() -> None:
    drawer = make_drawer(
        {"x": ["n", "m"], "y": ["m", "n"]}, {"x": "int64"}, feeds={"x": np.ones((4, 6), np.int32)}
    )
    assert drawer.open_names == ["y"]
    drawn = drawer.draw(8)
    assert (str(drawn["x"].dtype), drawn["x"].tolist(), drawn["y"].shape) == (
        "int64",
        [[1] * 6] * 4,
        (6, 4),
    )


def test_each_dtype_is_drawn_from_one_stream() -> None:
    dtypes = {"f": "float", "d": "double", "i": "int64", "b": "bool", "s": "string", "h": "float16"}
    drawn = make_drawer({name: [3] for name in dtypes}, dtypes, seed=5).draw(8)
    rng = np.random.default_rng(5)
    wanted = [
        rng.standard_normal(3).astype("float32"),
        rng.standard_normal(3),
        rng.integers(0, 2, 3),
    ]
    wanted += [
        rng.integers(0, 2, 3).astype(bool),
        rng.choice(["a", "b", "ab", "", "1"], 3).astype(object),
        rng.standard_normal(3).astype("float16"),
    ]
    for array, expected in zip(drawn.values(), wanted, strict=True):
        assert array.dtype == expected.dtype
        assert array.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (
            {"feeds": {"z": np.ones(1)}},
            ["`feeds` 'z' is not an input: the model contains its value"],
        ),
        ({"shapes": {"z": (1,)}}, ["`shapes` 'z' is not an input: the model contains its value"]),
        ({"shapes": {"x": (2, 4)}}, ["`shapes` 'x' is (2,4), but the model declares nx3x?"]),
        (
            {"feeds": {"x": np.ones((2, 4, 1))}},
            ["`feeds` 'x' is (2,4,1), but the model declares nx3x?"],
        ),
        ({"feeds": {"x": np.ones((2, 3, 1))}}, []),
        ({"feeds": {"scalar": np.ones(2)}}, []),
        ({"shapes": {"scalar": (2,)}}, ["`shapes` 'scalar' is (2), but the model declares ()"]),
        ({"dtypes": {"x": "complex64"}}, ["input 'x' is a complex64, which cannot be drawn"]),
        ({"dtypes": {"x": "complex64"}, "feeds": {"x": np.ones(1)}}, []),
        (
            {"dtypes": {"x": "int4"}, "feeds": {"x": np.ones(1)}},
            ["`feeds` 'x' is (1), but the model declares nx3x?"],
        ),
        (
            {"dtypes": {"x": "seq(tensor(int4))"}},
            ["input 'x' is a seq(tensor(int4)), which cannot be drawn"],
        ),
        (
            {"dtypes": {"x": "seq(tensor(float8e5m2))"}, "feeds": {"x": np.ones(1)}},
            ["input 'x' is a seq(tensor(float8e5m2)), which numpy has no arrays of"],
        ),
        ({"shapes": {"default": (5,)}}, ["`shapes` 'default' is (5), but the model declares 4"]),
        ({"shapes": {"default": (4,)}}, []),
    ],
)
def test_what_does_not_fit_the_declarations_is_refused(
    options: dict[str, Any], messages: list[str]
) -> None:
    inputs: dict[str, Sizes] = {"x": ["n", 3, None], "scalar": []}
    options = {"dtypes": None, "defaults": {"default": [4]}, **options}
    if not messages:
        make_drawer(inputs, **options)
        return
    with pytest.raises(RefusedError) as caught:
        make_drawer(inputs, **options)
    assert [fault.message for fault in caught.value.faults] == messages


def test_the_memory_of_drawn_values_is_that_of_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    drawer = make_drawer({"x": [2, 3], "y": [5]})
    monkeypatch.setattr(
        declared_inputs, "describe_excess", lambda size: "too much" if size > 88 else ""
    )
    drawer.draw(8)
    monkeypatch.setattr(
        declared_inputs, "describe_excess", lambda size: "too much" if size > 87 else ""
    )
    with pytest.raises(MemoryLimitError) as caught:
        drawer.draw(8)
    assert [(fault.node, fault.message) for fault in caught.value.faults] == [
        ("y", "the values (5) take 88 B to be drawn, too much")
    ]


ID, MASK = Integers("an id", low=2, high=5), Integers("a mask", is_mask=True)
ONE_OF = Integers("one of two", values=(0, 1))


@pytest.mark.parametrize(
    ("dtype", "wishes", "values", "note"),
    [
        ("int64", [ID], {2, 3, 4}, "drawn from 2 to 4: an id"),
        (
            "int64",
            [ID, Integers("too", low=3, high=9), ID],
            {3, 4},
            "drawn from 3 to 4: an id; too",
        ),
        (
            "int64",
            [Integers("one of some", values=(9, 3))],
            {0, 1, 3, 9},
            "drawn from 0, 1, 3, 9: one of some",
        ),
        ("int64", [ID, MASK, ONE_OF], {2, 3, 4}, "drawn from 2 to 4: an id"),
        (
            "int64",
            [Integers("one of some", values=(0, 2)), MASK],
            {0, 1, 2},
            "drawn from 0, 1, 2: one of some",
        ),
        ("int32", [MASK, ONE_OF], {0, 1}, "drawn from 0, 1: a mask; one of two"),
        ("uint8", [MASK, ONE_OF], {0, 1}, None),
        (
            "int8",
            [Integers("any", low=120, high=300)],
            set(range(120, 128)),
            "drawn from 120 to 127: any",
        ),
        ("bool", [ID, MASK], {False, True}, "drawn from 0, 1: a mask"),
        ("bool", [ID], {False, True}, None),
    ],
)
def test_integers_are_those_that_the_model_needs(
    dtype: str, wishes: list[Integers], values: set[int], note: str | None
) -> None:
    drawer = make_drawer({"x": [40, 5]}, {"x": dtype}, integers={"x": wishes})
    drawn = drawer.draw(8)["x"]
    assert drawn.dtype == dtype
    assert set(drawn.ravel().tolist()) == values
    assert drawer.notes == ({} if note is None else {"x": f"'x' is {note}"})
    # A row of a mask has a 1, an index need not have one.
    assert bool(drawn[:, 0].all()) is (
        note is not None and (wishes[0] is MASK or 0 not in values or dtype == "bool")
    )


def test_floats_have_no_wishes() -> None:
    drawer = make_drawer({"x": [3]}, integers={"x": [ID, MASK]})
    assert (
        drawer.draw(8)["x"].tolist()
        == np.random.default_rng(0).standard_normal(3).astype("float32").tolist()
    )
    assert drawer.notes == {}


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ([Integers("a rate", values=(16000,))], [16000, 8000, 16000]),
        ([Integers("a flag", values=(1,))], [1, 0, 1]),
        ([Integers("a flag", values=(0,))], [0, 1, 0]),
        ([Integers("below 0", values=(-3,))], [-3, -2, -3]),
        ([Integers("one of some", values=(7, 5, 6))], [5, 6, 7]),
        ([Integers("bounded", values=(7, 4, 2), low=2, high=7)], [2, 4, 2]),
        ([Integers("bounded", values=(7, 4), low=2, high=7)], [4, 4, 4]),
        ([Integers("one of one", values=(5,)), MASK], [5, 2, 5]),
        ([Integers("a flag", values=(1,)), MASK], [1, 1, 1]),
        ([MASK], [0, 1, 0]),
        ([Integers("none", low=3, high=3)], [0, 1, 0]),
    ],
)
def test_a_single_number_takes_its_values_in_turn(
    wishes: list[Integers], expected: list[int]
) -> None:
    drawn = []
    for seed in range(3):
        drawer = make_drawer({"x": [1]}, {"x": "int64"}, integers={"x": wishes}, seed=seed)
        drawn.append(drawer.draw(8)["x"].item())
        assert drawer.notes["x"].startswith(f"'x' is {drawn[-1]}: {wishes[0].why}")
    assert drawn == expected


def test_numbers_of_several_inputs_reach_every_combination() -> None:
    wishes = {
        "x": [Integers("x", values=(4, 5, 6))],
        "y": [Integers("y", low=0, high=9)],
        "z": [Integers("z", values=(2, 3))],
    }
    dtypes = dict.fromkeys(wishes, "int64")
    drawn = [
        make_drawer({name: [] for name in wishes}, dtypes, integers=wishes, seed=seed).draw(8)
        for seed in range(6)
    ]
    assert [(each["x"].item(), each["z"].item()) for each in drawn] == [
        (4, 2),
        (5, 2),
        (6, 2),
        (4, 3),
        (5, 3),
        (6, 3),
    ]
    assert all(0 <= each["y"].item() < 9 for each in drawn)


def test_drawn_numbers_are_made_such_that_both_models_hold() -> None:
    drawn = np.array([-1.5, 2.4, 0.6], "float32")
    for dtype in ("int64", "uint8"):
        assert draw_as(drawn, dtype).tolist() == [2.0, 2.0, 1.0]
        assert draw_as(drawn, dtype).dtype == "float32"
    assert draw_as(drawn, "bool").tolist() == [1.0, 1.0, 1.0]
    assert draw_as(drawn, "") is drawn
    for dtype, narrow in (
        ("float16", np.dtype("float16")),
        ("bfloat16", find_numpy_dtype("bfloat16")),
    ):
        rounded = draw_as(drawn, dtype)
        assert rounded.dtype == drawn.dtype
        assert rounded.tolist() == drawn.astype(narrow).astype(drawn.dtype).tolist()
        assert draw_as(drawn.astype(narrow), "float32").tolist() == rounded.tolist()
    whole = np.array([-3])
    assert draw_as(whole, "uint8") is whole


def test_shapes_as_models_declare_them() -> None:
    assert [format_declared(shape) for shape in ([], [1], [2, "n", None, ""])] == [
        "()",
        "1",
        "2xnx?x?",
    ]
    assert fits_sizes([1, "n", None], [1, 4, 5])
    assert fits_sizes(["n"], ["m"])
    assert not fits_sizes([1, 4], [1, 5])
    assert not fits_sizes([1, "n"], [1])


def test_a_size_without_a_name_differs_from_one_named_none(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = {"x": ("float32", (None, "None")), "y": ("float32", ("None",))}
    monkeypatch.setattr(declared_inputs, "list_declared", lambda graph: declared)
    graph: Any = SimpleNamespace(
        variables=lambda: [SimpleNamespace(name=name) for name in declared]
    )
    names = {name: name for name in declared}
    unified = unify_sizes((graph, graph), names, {"y": (4,)}, ("the original", "the copy"))
    assert unified == {"y": (4,), "x": (None, 4)}
