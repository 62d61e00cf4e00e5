"""The names of model files: stems, epochs, and the files that belong to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphshare.errors import InputError
from graphshare.formats import model_names
from graphshare.formats.model_names import (
    FORMAT_NAMES,
    find_stem,
    find_stem_name,
    leads_stem,
    name_of_file,
    select_params,
    split_params,
    suggest_graph,
    suggest_parameters,
)


@pytest.mark.parametrize(
    ("path", "stem", "is_first"),
    [
        ("a/net-symbol.json", "a/net", True),
        ("a/net-symbol.json.gz", "a/net", True),
        ("net.json", "net", True),
        ("net.json.gz", "net", True),
        ("net.onnx", "net", False),
        ("net.onnx.gz", "net", False),
        ("net.txt", "net.txt", False),
        ("net", "net", False),
        ("net-symbol.json.x", "net-symbol.json.x", False),
        ("http://h/a/net-symbol.json?b=c.json", "http://h/a/net?b=c.json", True),
        ("zip://net.onnx::s3://b/m.zip", "zip://net::s3://b/m.zip", False),
    ],
)
def test_a_stem_is_a_path_without_what_its_format_adds(
    path: str, stem: str, is_first: bool
) -> None:
    assert find_stem(path) == stem
    assert leads_stem(path) is is_first


def test_the_last_name_of_a_stem() -> None:
    paths = ("a/net-symbol.json", "http://h/a/net.onnx?b=c")
    assert [find_stem_name(path) for path in paths] == ["net", "net"]


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a/net-0007.params", ("a/net", 7)),
        ("net-10000.params", ("net", 10000)),
        ("net-0-0012.params", ("net-0", 12)),
        ("net-007.params", None),
        ("net-0007.npz", None),
        ("net0007.params", None),
        ("net-0007.params.gz", None),
        ("-0001.params", ("", 1)),
    ],
)
def test_the_epoch_of_a_parameter_file(path: str, parts: tuple[str, int] | None) -> None:
    assert split_params(path) == parts
    if parts is not None:
        assert FORMAT_NAMES["mxnet"].params_path(*parts) == path
    assert (
        FORMAT_NAMES["mxnet"].params_path("http://h/net?a=b", 3) == "http://h/net-0003.params?a=b"
    )


def test_parameter_files_of_a_stem_are_not_those_of_a_longer_one() -> None:
    names = ["net-0001.params", "net-large-0001.params", "net-symbol.json", "net-0010.params"]
    assert select_params(names, "net") == ["net-0001.params", "net-0010.params"]
    assert select_params(["-symbol.json", "-0001.params"], "") == ["-0001.params"]


def test_one_parameter_file_is_beside_a_model_or_none_or_several() -> None:
    has_one = {
        name: FORMAT_NAMES[name].has_one_parameter_file for name in ("mxnet", "onnx", "paddle")
    }
    assert has_one == {"mxnet": False, "onnx": False, "paddle": True}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("mobilenet1.0.json", "mobilenet1.0"),
        ("a.tar.gz", "a"),
        ("a/.onnx", ".onnx"),
        ("a.b.c", "a"),
        ("net-symbol.json.gz", "net"),
        ("net.0", "net.0"),
    ],
)
def test_the_name_of_a_file_has_no_suffixes(path: str, name: str) -> None:
    assert name_of_file(path) == name


def test_the_file_beside_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (
        "net-symbol.json",
        "net-0003.params",
        "net-0012.params",
        "net-large-0000.params",
        "other-symbol.json",
    ):
        Path(name).touch()
    assert (
        suggest_graph("net-0003.params")
        == "the graph of this checkpoint is net-symbol.json; net names both"
    )
    assert [
        suggest_graph(path) for path in ("gone-0003.params", "net.params", "net-large-0000.params")
    ] == ["", "", ""]
    for path in ("net-symbol.json", "net-symbol.json.gz"):
        assert suggest_parameters(path) == "its parameters are in net-0003.params"
    assert [
        suggest_parameters(path)
        for path in ("other-symbol.json", "net.json", "gone/net-symbol.json")
    ] == ["", "", ""]

    def refuse(*_: object, **__: object) -> bool:
        raise InputError("the server refuses access (403)")

    monkeypatch.setattr(model_names, "exists", refuse)
    monkeypatch.setattr(model_names, "list_names", refuse)
    assert [
        suggest_graph("s3://b/net-0003.params"),
        suggest_parameters("s3://b/net-symbol.json"),
    ] == ["", ""]
