"""How the files of models are named: what their names end in, format by format, and the files of a checkpoint.

MXNet's ``save_checkpoint`` gives ``STEM-symbol.json`` and ``STEM-0007.params``.

These are known before a format's own code is loaded, so that a command on one format imports nothing of the others.
"""

from __future__ import annotations

import re

import msgspec

from graphshare.formats.paths import base_name, extend
from graphshare.text.urls import is_url, split_url

STEM_END = "-symbol.json"
PARAMETER_ENDINGS = (".params", ".npz", ".safetensors")
_PARAMS = re.compile(r"(.*)-(\d{4,})\.params", re.DOTALL)


def params_path(stem: str, epoch: int) -> str:
    """Return the path of a checkpoint's parameter file."""
    return extend(stem, f"-{epoch:04d}.params")


def split_params(path: str) -> tuple[str, int] | None:
    """Return the stem and the epoch of a checkpoint's parameter file; None for a path of another form."""
    match = _PARAMS.fullmatch(path)
    return (match[1], int(match[2])) if match else None


PACKED = ".gz"


class FormatNames(msgspec.Struct, frozen=True):
    """The names of one format's files: those of its models end in ``suffix``, those of other files of it in ``extension``.

    ``module`` is where the format's object is (``FORMAT``).
    """

    module: str
    suffix: str
    extension: str

    @property
    def model_endings(self) -> tuple[str, ...]:
        """What names in a folder end in that mean a model."""
        return self.suffix, self.suffix + PACKED

    @property
    def endings(self) -> tuple[str, ...]:
        """What names of any file of the format end in."""
        return self.extension, self.extension + PACKED


#: A new format is one class and one line. Content is compared with the formats in this order.
FORMAT_NAMES = {
    "mxnet": FormatNames("graphshare.formats.mxnet.format", STEM_END, ".json"),
    "onnx": FormatNames("graphshare.formats.onnx.format", ".onnx", ".onnx"),
}
MODEL_ENDINGS = tuple(ending for names in FORMAT_NAMES.values() for ending in names.model_endings)
FILE_ENDINGS = tuple(ending for names in FORMAT_NAMES.values() for ending in names.endings)


def stem_of(path: str) -> str:
    """Return the path of a model's file without what its format adds to a stem; the query of a URL stays behind it."""
    if is_url(path):
        head, name, tail = split_url(path)
        return f"{head}{stem_of(name)}{tail}"
    plain = path.removesuffix(PACKED)
    for names in FORMAT_NAMES.values():
        for end in (names.suffix, names.extension):
            if plain.endswith(end):
                return plain.removesuffix(end)
    return plain


def leads_stem(path: str) -> bool:
    """Return whether a stem means this file, whatever other files have the same stem: it is of the first format."""
    first = next(iter(FORMAT_NAMES.values()))
    return path.endswith(first.endings)


def name_of(path: str) -> str:
    """Return the last name of a model's stem."""
    return base_name(stem_of(path))
