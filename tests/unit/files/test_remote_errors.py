"""Errors of fsspec: the package that a protocol lacks is named, and no other one is installed in its place."""

from __future__ import annotations

import pytest

from graphshare.files.remote.filesystem import INSTALL, explain


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
