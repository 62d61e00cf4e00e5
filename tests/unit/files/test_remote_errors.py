"""Errors of fsspec: the package that a protocol lacks is named, and no other one is installed in its place."""

from __future__ import annotations

import pytest

from graphshare.errors import Fault, InputError
from graphshare.files import open_source
from graphshare.files.remote.filesystem import INSTALL, explain
from graphshare.files.remote.ranges import _total


@pytest.mark.parametrize(
    ("url", "text", "hint"),
    [
        ("gs://models/net-symbol.json", "Please install gcsfs to access Google Storage", "pip install gcsfs"),
        ("github://a:b@c/net-symbol.json", "Install the requests package to use the github FS", "pip install requests"),
        ("sftp://host/net-symbol.json", 'SFTPFileSystem requires "paramiko" to be installed', "pip install paramiko"),
        ("lakefs://a/net-symbol.json", "Please install lakefs-spec to access LakeFSFileSystem", "pip install lakefs-spec"),
        ("libarchive://net-symbol.json", "LibArchive requires to be installed", ""),
        ("hdfs://host/net-symbol.json", "pyarrow and local java libraries required for HDFS", ""),
        ("s3://models/net-symbol.json", "Install s3fs to access S3", INSTALL),
        ("s3://models/net-symbol.json", "No module named 'aiobotocore'", INSTALL),
        ("https://host/net-symbol.json", 'HTTPFileSystem requires "requests" and "aiohttp" to be installed', INSTALL),
    ],
)
def test_a_missing_package_is_named(url: str, text: str, hint: str) -> None:
    (fault,) = explain(ImportError(text), url).faults
    assert (fault.message, fault.hint) == (f"needs a package that is not installed: {text}", hint)


@pytest.mark.parametrize(
    ("cause", "endings", "hint"),
    [
        (FileNotFoundError(), (".json",), "did you mean b.json?"),
        (FileNotFoundError(), (), ""),
        (PermissionError(), (".json",), ""),
    ],
)
def test_a_file_near_a_url_is_suggested_where_nothing_is(
    cause: OSError, endings: tuple[str, ...], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_source, "suggest_files", lambda path, ends: f"did you mean b{ends[0]}?")
    error = InputError(Fault("does not exist", where="s3://models/a.json"))
    error.__cause__ = cause
    (fault,) = open_source.suggest_others(error, "s3://models/a.json", endings).faults
    assert (fault.message, fault.where, fault.hint) == ("does not exist", "s3://models/a.json", hint)


def test_the_size_of_an_object_is_that_of_its_range() -> None:
    assert _total({"ContentRange": "bytes 0-3/10"}, "s3://a/b") == 10
    for response in ({}, {"ContentRange": "bytes 0-3/*"}, {"ContentRange": "0-3/10"}):
        with pytest.raises(InputError, match="does not send ranges"):
            _total(response, "s3://a/b")
