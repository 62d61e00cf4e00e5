"""Wrong calls of the library, made from its signatures: each ends in an error that says what is
allowed, and writes nothing.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import graphshare as gs
from graphshare.differences.changes import GraphDiff
from graphshare.differences.difference import Difference
from graphshare.reports.model import FindingsReport
from graphshare.verification.report import Report
from tests import pictures
from tests.onnx_files.made import dense
from tests.shard_folders import make_values, write_shards
from tests.surroundings import ROOT

PIXELS = np.zeros((1, 1, 28, 28), "float32")
MODEL = {"model": "lenet"}
#: Messages that need no hint: they say what fits, or that there is no such file where none has a similar name.
_FACTS = "has the shape .*, which does not fit .*|does not exist$|No such file"
#: The arguments of a call of each function that is right; those that are not here need none but a model.
RIGHT: dict[str, dict[str, Any]] = {
    "check": {"models": "lenet"},
    "compare": {**MODEL, "other": "lenet"},
    "check_rules": {"path": "rules.json"},
    "convert": {"source": "lenet", "target": "out.npz"},
    "diff": {"left": "lenet", "right": "lenet"},
    "diff_params": {"left": "lenet", "right": "lenet"},
    "draw_difference": {"difference": Difference(GraphDiff()), "left": "lenet", "right": "lenet"},
    "draw_proof": {**MODEL, "report": Report(()), "other": "lenet"},
    "downgrade": {**MODEL, "version": "0.10.0"},
    "duplicate": {**MODEL, "prefixes": "b-"},
    "explain": {"name": "conv1_weight", "rules": "rules.json"},
    "export": {**MODEL, "shapes": {"data": (1, 1, 28, 28)}, "verify": False},
    "extract": {**MODEL, "targets": "fc1_output"},
    "foreach": {"patterns": "lenet", "command": ["inspect", "{}"]},
    "group": {"models": ["lenet", "lenet"], "prefixes": ["a-", "b-"]},
    "infer_shapes": {**MODEL, "shapes": {"data": (1, 1, 28, 28)}},
    "inspect_checkpoint": {"folder": "gpt"},
    "inspect_folder": {"folder": "."},
    "inspect_shared": {"folder": "."},
    "list_params": {"path": "lenet"},
    "load": {"source": "lenet"},
    "load_rules": {"path": "rules.json"},
    "measure_params": {"path": "lenet"},
    "open_images": {"paths": "photo.png"},
    "pool": {"models": ["net.onnx"], "out": "pooled"},
    "rank_classes": {"outputs": {"scores": np.ones((1, 10), "float32")}},
    "rename": {**MODEL, "prefix": "a-"},
    "rename_params": {"source": "lenet", "target": "named.npz", "prefix": "a-"},
    "run": {**MODEL, "feeds": {"data": PIXELS}},
    "save": {"out": "out"},
    "share": {**MODEL, "aliases": {"conv1_bias": "conv2_bias"}},
    "show_params": {"path": "lenet"},
    "tie_params": {"folder": "gpt", "out": "once"},
    "train": {**MODEL, "steps": 1, "feeds": {"data": PIXELS}},
    "with_params": {"arrays": {"fc2_bias": np.zeros(10, "float32")}},
}
# Names that a wrong call gives may be right where they are those of new nodes; what globs exclude
# is counted, none too.
NEW_NAMES = {
    "duplicate.prefixes",
    "rename.variable_scopes",
    "rename.name_scopes",
    "inspect_folder.exclude",
    "inspect_shared.exclude",
}
# Wrong values of arguments by name, beside those of wrong types: names that are not in the graph,
# shapes that do not fit.
WRONG: dict[str, list[Any]] = {
    "aliases": [
        {"nothing": "conv1_bias"},
        {"conv1_bias": "fc1_weight"},
        {"conv1_bias": 3},
        {3: "conv1_bias"},
    ],
    "arrays": [
        *(
            {"fc2_bais": np.zeros(10, "float32")},
            {"fc2_bias": np.zeros(9, "float32")},
            {"fc2_bias": np.zeros(10)},
        ),
        *({"fc2_bias": None}, {"fc2_bias": "zeros"}, {"fc2_bias": [[1], []]}),
    ],
    "batch_axes": [{"dta": 0}, {"data": "0"}, {"data": -1}, {"data": 0}],
    "choices": [[("tied", "conv*")], [("tie",)], ["tie"], [("tie", "nothing")], [("tie", 3)]],
    "connect": [
        *({"a-fc1_outptu": "b-data"}, {"a-fc1_output": "nothing"}),
        *([("a-fc1_output",)], [("a-fc1_output", "b-data", "c")]),
    ],
    "dynamic": [
        {"dta": ("n", 1, 28, 28)},
        {"data": ("n",)},
        {"data": "n"},
        {"data": (1.5, 1, 28, 28)},
    ],
    "feeds": [
        *({"dta": PIXELS}, {"data": None}, {"data": "text"}, {"data": PIXELS[0]}),
        *({"data": PIXELS * 1j}, {"data": [[1], []]}),
    ],
    "head_gradients": [{"nothing": PIXELS}, {"softmax_output": PIXELS}, {"softmax_output": None}],
    "match": [{"nothing*": "a"}, {"*": "one"}, {"conv*": 3}],
    "max_memory": ["lots", "", -1],
    "names": [{"nothing": "a"}, {"conv1": 3}, {"conv1": "fc1"}, {"conv1": ""}],
    "outputs": [{"scores": None}, {"scores": "text"}, {"scores": np.ones(3)}, {}],
    "overrides": [{"a": 3}, {3: "a"}],
    "inputs": [
        gs.Inputs(rounds=0),
        gs.Inputs(rounds="2"),
        gs.Inputs(sets=[]),
        gs.Inputs(sets="missing"),
        gs.Inputs(seed=-1),
    ],
    "tolerance": [gs.Tolerance(atol=-1), gs.Tolerance(rtol="1e-5")],
    "other": [{"fc1_output": None}],
    "resources": [
        gs.Resources(max_memory="lots"),
        gs.Resources(time_limit=0),
        gs.Resources(time_limit="soon"),
    ],
    "to": ["npx", ""],
    "data": ["a/b", "..", "x.onnx", "w.npz"],
    "dtype": ["float23", ""],
    "preset": ["insihgtface", ""],
    "color": ["rbg"],
    "layout": ["NHWCN"],
    "engine": ["nmupy"],
    "shapes": [
        *({"dta": (1, 1, 28, 28)}, {"data": (1,)}, {"data": (1, 2, 28, 28)}),
        *({"data": "1,1,28,28"}, {"data": (-1, 1, 28, 28)}),
    ],
}


class Call(NamedTuple):
    """A wrong call: the function's name, and the argument that is wrong."""

    function: str
    keyword: str
    value: Any


def list_functions() -> dict[str, Callable[..., Any]]:
    public = {
        name: getattr(gs, name)
        for name in gs.__all__
        if name[0].islower() and name != "overwriting"
    }
    methods = {
        name: method
        for name, method in vars(gs.Checkpoint).items()
        if name[0] != "_" and inspect.isfunction(method)
    }
    return {**public, **methods}


def list_hints(function: Callable[..., Any]) -> dict[str, Any]:
    own = inspect.unwrap(function)
    annotations = {name: hint for name, hint in own.__annotations__.items() if name != "return"}
    holder = type("Holder", (), {"__annotations__": annotations})
    return get_type_hints(holder, own.__globals__, include_extras=True)


def list_leaves(hint: Any) -> Iterator[Any]:
    """Yield the types that a value may have by itself, those of its items not among them."""
    if (
        get_origin(hint) is Annotated
        or not get_args(hint)
        or get_origin(hint) in (Literal, Mapping)
    ):
        yield hint
    elif isinstance(get_origin(hint), type) and "Union" not in str(get_origin(hint)):
        yield get_origin(hint)
    else:
        for option in get_args(hint):
            yield from list_leaves(option)


def list_wrong_values(function: str, keyword: str, hint: Any, default: Any) -> Iterator[Any]:
    """Yield values that do not fit an argument: of other types, misspelt, out of range, empty, repeated, unknown."""
    leaves = list(list_leaves(hint))
    if Any not in leaves:
        yield object()
        yield from () if NoneType in leaves else (None,)
    for leaf in leaves:
        if get_origin(leaf) is Literal:
            yield from (get_args(leaf)[0] + "x", get_args(leaf)[0].swapcase(), "", 3)
        elif get_origin(leaf) is Annotated:
            yield from (("", 3) if get_args(leaf)[0] is str else (-1, "two", float("nan"), [1]))
        elif leaf in (int, float):
            yield from ("two", ["two"])
        elif leaf is bool:
            yield from ("yes", 1)
    if str in leaves and default != "":
        yield ""
    if os.PathLike in leaves and keyword not in (
        "out",
        "target",
        "manifest",
        "models",
        "model",
        "reduce",
    ):
        yield from ("nul\0byte", 3)
        yield from () if function == "save" else ("lenet-0000.parms",)
    if hint == str | Iterable[str]:
        yield from ([3], [""], ["conv1_output", "conv1_output"], [None], 3)
        yield from (
            () if f"{function}.{keyword}" in NEW_NAMES else ("conv1_wieght", ["conv1_wieght*"])
        )
    if "Checkpoint" in str(hint):
        yield from ("missing", [], 3.5)
    yield from WRONG.get(keyword, ())


def list_calls() -> list[Call]:
    calls = []
    for name, function in list_functions().items():
        parameters = inspect.signature(function).parameters
        for keyword, hint in list_hints(function).items():
            values = list_wrong_values(name, keyword, hint, parameters[keyword].default)
            calls += [Call(name, keyword, value) for value in values]
    return calls


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in (ROOT / "fixtures").glob("lenet*"):
        shutil.copy(path, tmp_path)
    pictures.save(tmp_path / "photo.png", pictures.texture(30, 40))
    (tmp_path / "rules.json").write_text(
        '{"version": 1, "rules": [{"alias": "conv1_bias", "to": "conv2_bias"}]}'
    )
    (tmp_path / "net.onnx").write_bytes(dense().SerializeToString())
    words = "transformer.wte.weight"
    both = {words: make_values(words), "lm_head.weight": make_values(words)}
    write_shards(tmp_path / "gpt", {"model.safetensors": both}, tied=True, model_type="gpt2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def list_files(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


def call(function: str, arguments: Mapping[str, Any]) -> Any:
    if function == "with_params":
        return gs.load("lenet").with_params(**arguments)
    if function == "save":
        arguments = {"model": gs.duplicate("lenet", "b-"), **arguments}
    return getattr(gs, function)(**arguments)


def test_wrong_calls_end_in_an_error_with_a_hint(folder: Path) -> None:
    calls, before, complaints = list_calls(), list_files(folder), []
    assert len(calls) > 1000
    for each in calls:
        arguments = {**RIGHT.get(each.function, MODEL), each.keyword: each.value}
        try:
            result = call(each.function, arguments)
        except gs.GraphshareError as error:
            # The command line alone writes a baseline.
            text = str(error).replace("`graphshare check --write-baseline FILE`", "")
            if option := re.search(r"(?:^|[ (`])(--?[a-z][a-z-]*|graphshare [a-z]+)", text, re.M):
                complaints.append((*each, f"words of the command line, {option[0]}: {error}"))
            if not any(fault.hint or re.search(_FACTS, fault.message) for fault in error.faults):
                complaints.append((*each, f"no hint: {error}"))
        except Exception as error:
            complaints.append((*each, repr(error)))
        else:
            if isinstance(result, FindingsReport) and result.exit_code():
                continue  # the answer of check is the findings
            complaints.append((*each, f"returned {result!r}"))
        if list_files(folder) != before:
            complaints.append((*each, "wrote a file"))
            before = list_files(folder)
    assert complaints == [], "\n".join(map(str, complaints))
