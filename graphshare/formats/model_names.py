"""The names of model files: their endings by format, and the files of a checkpoint.

MXNet's ``save_checkpoint`` gives ``STEM-symbol.json`` and ``STEM-0007.params``. A format's own code
is not loaded for its names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable

import msgspec

from graphshare.errors import InputError
from graphshare.files.paths import STDIN, base_name, exists, extend, join, list_names, split
from graphshare.text.names import did_you_mean
from graphshare.text.urls import is_url, split_url

STEM_END = "-symbol.json"
DATA_END = ".data"
"""The ending of the file beside an ONNX model that has its weights."""

# The module (``FORMAT``) of each format of parameter files; names end in a dot and the key.
PARAMETER_FORMATS = {
    "params": "graphshare.formats.params.mxnet_params",
    "npz": "graphshare.formats.params.npz",
    "safetensors": "graphshare.formats.params.safetensors",
    "pdiparams": "graphshare.formats.params.pdiparams",
}
PARAMETER_ENDINGS = tuple(f".{name}" for name in PARAMETER_FORMATS)
#: Endings of files with arrays; an ``.npy`` file holds one array without a name.
ARRAY_ENDINGS = (*PARAMETER_ENDINGS, ".npy")
INDEX_END, SHARD_END, CONFIG = ".safetensors.index.json", ".safetensors", "config.json"
# A suffix begins with a letter: the .0 of mobilenet1.0.json belongs to the name.
_SUFFIX = re.compile(r"\.[A-Za-z]\w*$")
# MXNet formats the epoch as %04d: five digits from 10000 on.
_PARAMS = re.compile(r"(.*)-(\d{4,})\.params", re.DOTALL)


def split_params(path: str) -> tuple[str, int] | None:
    """Return the stem and epoch of a checkpoint's parameter file; None for other paths."""
    match = _PARAMS.fullmatch(path)
    return (match[1], int(match[2])) if match else None


def select_params(names: Iterable[str], stem: str) -> list[str]:
    """Return the parameter files of a stem among ``names``: those of ``net-large`` are not ``net``'s."""
    selected = []
    for name in names:
        parts = split_params(name)
        if parts is not None and parts[0] == stem:
            selected.append(name)
    return selected


PACKED = ".gz"


def has_shards(names: Collection[str]) -> bool:
    """Whether these files make a checkpoint folder: an index, or safetensors beside a
    ``config.json``.
    """
    return any(
        name.endswith(INDEX_END) or (name.endswith(SHARD_END) and CONFIG in names) for name in names
    )


class FormatNames(msgspec.Struct, frozen=True):
    """The names of one format's files: models end in ``suffix``, its other files in ``extension``.

    ``module`` has the format's object (``FORMAT``). ``parameters`` ends the name of a stem's
    parameter file, with ``{epoch:04d}`` if there is one per epoch; empty if models hold their
    parameters. Unless ``is_certain`` other files have that suffix too, and only the parameter file
    beside one shows that it is a model. ``companions`` are files for other programs beside a model.
    """

    module: str
    suffix: str
    extension: str
    parameters: str = ""
    is_certain: bool = True
    companions: tuple[str, ...] = ()

    @property
    def has_epochs(self) -> bool:
        return "{" in self.parameters

    @property
    def has_one_parameter_file(self) -> bool:
        """Whether the parameters of a model are in one file beside it."""
        return self.parameters != "" and not self.has_epochs

    def params_path(self, stem: str, epoch: int) -> str:
        return extend(stem, self.parameters.format(epoch=epoch))

    @property
    def model_endings(self) -> tuple[str, ...]:
        """The endings that mean a model; none if other files end so too."""
        return (self.suffix, self.suffix + PACKED) if self.is_certain else ()

    @property
    def telling_endings(self) -> tuple[str, ...]:
        """The endings without which a folder has no model of the format."""
        return self.model_endings or (self.parameters,)

    @property
    def endings(self) -> tuple[str, ...]:
        return self.extension, self.extension + PACKED


#: A new format is one class and one line. The order only decides the order of lists.
FORMAT_NAMES = {
    "mxnet": FormatNames(
        "graphshare.formats.mxnet.format", STEM_END, ".json", "-{epoch:04d}.params"
    ),
    "onnx": FormatNames("graphshare.formats.onnx.format", ".onnx", ".onnx"),
    "paddle": FormatNames(
        "graphshare.formats.paddle.format",
        ".json",
        ".json",
        ".pdiparams",
        is_certain=False,
        companions=("inference.yml",),
    ),
}
DEFAULT_FORMAT = "mxnet"
"""The format that reads, or explains, files of no known kind, and that comes first for a stem."""


def list_model_endings() -> tuple[str, ...]:
    """Return the endings that mean a model of any format."""
    return tuple(ending for names in FORMAT_NAMES.values() for ending in names.model_endings)


def list_file_endings() -> tuple[str, ...]:
    """Return the endings of all files of any format."""
    return tuple(ending for names in FORMAT_NAMES.values() for ending in names.endings)


def find_stem(path: str) -> str:
    """Return a model's path without the ending of its format; a URL keeps its query."""
    if is_url(path):
        parts = split_url(path)
        return parts.with_name(find_stem(parts.name))
    plain = path.removesuffix(PACKED)
    for names in FORMAT_NAMES.values():
        for end in (names.suffix, names.extension):
            if plain.endswith(end):
                return plain.removesuffix(end)
    return plain


def find_names(path: str) -> FormatNames:
    """Return the names of the format of a model's path, by default of symbol files."""
    fitting = [
        names for names in FORMAT_NAMES.values() if path.removesuffix(PACKED).endswith(names.suffix)
    ]
    return max(fitting, key=lambda names: len(names.suffix), default=FORMAT_NAMES[DEFAULT_FORMAT])


def leads_stem(path: str) -> bool:
    """Whether a stem means this file, even if other files have the same stem."""
    return path.endswith(FORMAT_NAMES[DEFAULT_FORMAT].endings)


def find_stem_name(path: str) -> str:
    """Return the last name of a model's stem."""
    return base_name(find_stem(path))


def name_of_file(path: str) -> str:
    """Return a file's name without directory, ``-symbol.json`` and suffixes; empty for stdin."""
    name = "" if path == STDIN else base_name(path).removesuffix(".gz")
    if name.endswith(STEM_END):
        return name.removesuffix(STEM_END)
    while (shorter := _SUFFIX.sub("", name)) not in ("", name):
        name = shorter
    return name


def suggest_suffix(path: str) -> str:
    """Return a hint for a suffix that is not of a parameter format but resembles one."""
    suffix = os.path.splitext(base_name(path))[1].lower()
    endings = [f".{name}" for name in PARAMETER_FORMATS]
    return did_you_mean(suffix, endings) if suffix and suffix not in endings else ""


def suggest_graph(path: str) -> str:
    """Suggest the graph beside a parameter file, by its name."""
    parts = split_params(path)
    pairs = [(parts[0], STEM_END)] if parts else []
    for names in FORMAT_NAMES.values():
        if names.has_one_parameter_file and path.endswith(names.parameters):
            pairs.append((path.removesuffix(names.parameters), names.suffix))
    graphs = ((stem, stem + suffix) for stem, suffix in pairs if _exists(stem + suffix))
    return next(
        (f"the graph of this checkpoint is {graph}; {stem} names both" for stem, graph in graphs),
        "",
    )


def suggest_parameters(path: str) -> str:
    """Suggest the parameter file beside a graph, by its name."""
    folder, name = split(path.removesuffix(".gz"))
    if not name.endswith(STEM_END):
        names = find_names(path)
        params = names.params_path(find_stem(path), 0)
        return (
            f"its parameters are in {params}"
            if names.has_one_parameter_file and _exists(params)
            else ""
        )
    stem = name.removesuffix(STEM_END)
    try:
        entries = list_names(folder, prefix=f"{stem}-")
    except (OSError, InputError):
        return ""
    beside = select_params(entries, stem)
    return f"its parameters are in {join(folder, beside[0])}" if beside else ""


def _exists(path: str) -> bool:
    try:
        return exists(path)
    except InputError:  # a URL of which that cannot be known
        return False
