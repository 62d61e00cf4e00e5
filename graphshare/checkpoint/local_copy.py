"""An ONNX model as files of this machine, for a runtime that opens paths alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from graphshare.formats.onnx.decode import read_model
from graphshare.formats.onnx.external import list_external
from graphshare.formats.open_source import open_source
from graphshare.formats.params.byte_ranges import copy_ranges
from graphshare.formats.paths import base_name
from graphshare.text.urls import is_url


@contextmanager
def copy_from_url(path: str) -> Iterator[str]:
    """Yield the path of an ONNX model; for one at a URL, that of a copy which ends with the block, its external data beside it.

    Raises:
        InputError: the model or its external data cannot be read.
    """
    if not is_url(path):
        yield path
        return
    import tempfile  # start-up: few models are at URLs

    with tempfile.TemporaryDirectory(prefix="graphshare-") as folder:
        files = {path: base_name(path)}
        for _, place in list_external(read_model(path)):
            files[place.path] = dict(place.external)["location"]
        for url, name in files.items():
            target = os.path.join(folder, name)  # no location leads out of the folder of the model
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open_source(url) as source, open(target, "wb") as file:
                copy_ranges(source, [(0, source.size)], file)
        yield os.path.join(folder, files[path])
