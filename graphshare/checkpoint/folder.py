"""The models below a folder: the one place where names of files become models, each with its parameter files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from graphshare.checkpoint.load import find_by_stem
from graphshare.errors import Fault, InputError
from graphshare.formats.byte_source import ListedFile
from graphshare.formats.model_format import load_format
from graphshare.formats.model_names import FORMAT_NAMES, PARAMETER_ENDINGS
from graphshare.formats.path_matches import match_path
from graphshare.formats.paths import base_name, is_folder, is_surely_file, join, split
from graphshare.text.format import format_count
from graphshare.text.urls import is_url, split_url

_ENVIRONMENTS = ("venv", "node_modules", "__pycache__")
_ENVIRONMENT_FILE = "pyvenv.cfg"


class ModelFiles(msgspec.Struct, frozen=True, gc=False):
    """The file of a model, and its parameter files by epoch, the newest last; none where it holds its parameters.

    ``listed`` and ``listed_newest`` are what a listing of URLs says of the file and of the newest parameter file.
    """

    graph: str
    params: dict[int, str]
    listed: ListedFile | None = None
    listed_newest: ListedFile | None = None

    @property
    def newest(self) -> str:
        """The parameter file of the last epoch; empty where there is none."""
        return next(reversed(self.params.values()), "")


def is_folder_of_models(path: str) -> bool:
    """Return whether a path means a folder of models, and not the stem of a model beside a folder of its name."""
    if is_url(path):  # most are stems: those are asked for first
        return not base_name(path) or (not is_surely_file(path) and not find_by_stem(path) and is_folder(path))
    return is_folder(path) and not find_by_stem(path)


class Folder(msgspec.Struct, frozen=True):
    """The models below a folder and the ``loose`` parameter files, which by their names belong to none, by path.

    ``rest`` says what was left out; it is empty where nothing was.
    """

    models: list[ModelFiles]
    loose: list[str]
    rest: str


class Sieve:
    """Which files and folders below a folder count; the others are counted, each once.

    ``exclude`` are globs of a path, of its part below the folder, or of its last name. With ``skips`` hidden folders and those
    of environments do not count either.
    """

    def __init__(self, folder: str, exclude: Sequence[str], *, skips: bool = True) -> None:
        self._folder, self._globs, self._skips = folder, [os.path.normpath(glob) for glob in exclude], skips
        self.skipped: set[str] = set()
        self._excluded: set[str] = set()

    def admits(self, relative: str) -> bool:
        """Return whether the path of a file below the folder counts, or with a slash at its end that of a folder."""
        for end in (i for i, c in enumerate(f"{relative}/") if c == "/"):
            path, name = relative[:end], os.path.basename(relative[:end])
            if self._skips and end < len(relative) and (name[:1] == "." or name in _ENVIRONMENTS):
                self.skipped.add(path)
                return False
            if any(match_path(text, glob) for glob in self._globs for text in (path, name, self._name(path))):
                self._excluded.add(path)
                return False
        return True

    def describe(self) -> str:
        """Return what was left out, in words."""
        skipped = f"skipped {format_count(len(self.skipped), 'folder')} (hidden or of an environment)"
        excluded = f"excluded {format_count(len(self._excluded), 'path')}"
        return ", ".join([skipped] * bool(self.skipped) + [excluded] * bool(self._globs))

    def _name(self, relative: str) -> str:
        return os.path.normpath(os.path.join(self._folder, relative))


def find_models(folder: str, exclude: Sequence[str] = (), *, or_parameters: bool = False) -> Folder:
    """Return what :func:`list_models` does. Raises InputError also without models (and with ``or_parameters``, loose files)."""
    listing = list_models(folder, exclude)
    if not listing.models and not (or_parameters and listing.loose):
        endings = [names.suffix for names in FORMAT_NAMES.values()] + list(PARAMETER_ENDINGS) * or_parameters
        hint = f"{listing.rest}{'; ' if listing.rest else ''}name symbol files, ONNX models, stems, folders or globs"
        raise InputError(Fault(f"contains no {' or '.join(f'*{ending}' for ending in endings)}", where=folder, hint=hint))
    return listing


def list_models(folder: str, exclude: Sequence[str] = ()) -> Folder:
    """Return the models below ``folder`` (or a URL), without hidden ones and what a :class:`Sieve` leaves out.

    Links to folders are followed, each folder is read once, and only regular files count (and links to nothing, which cannot be
    read), so that neither a loop of links nor a pipe stops the search.

    Raises:
        InputError: folders that cannot be read, all of them are listed.
    """
    sieve = Sieve(folder, exclude)
    models: list[ModelFiles] = []
    loose: list[str] = []
    for parent, names in (_find_remote(folder, sieve) if is_url(folder) else _find_local(folder, sieve)).items():
        group = group_models(parent, names)
        used = {path for model in group for path in model.params.values()}
        models += group
        paths = (join(parent, name) for name in names if name.endswith(PARAMETER_ENDINGS) and name[:1] != ".")
        loose += [path for path in paths if path not in used and _is_readable(path)]
    return Folder(sorted(models, key=lambda model: model.graph), sorted(loose), sieve.describe())


_Files = Mapping[str, Mapping[str, ListedFile | None]]
"""The names of files by folder, each with what a listing of URLs says of it."""


def _find_local(folder: str, sieve: Sieve) -> _Files:
    names: dict[str, dict[str, ListedFile | None]] = {}
    faults: list[Fault] = []
    visited: set[tuple[int, int]] = set()

    def note(error: OSError) -> None:
        faults.append(Fault(f"cannot be read: {error.strerror}", where=str(error.filename)))

    _is_new(folder, visited)
    for parent, folders, files in os.walk(folder, onerror=note, followlinks=True):
        below = os.path.join(parent, "")[len(os.path.join(folder, "")) :]
        if below and _ENVIRONMENT_FILE in files:
            sieve.skipped.add(below)
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if sieve.admits(f"{below}{name}/") and _is_new(os.path.join(parent, name), visited)
        ]
        names[parent] = dict.fromkeys(name for name in files if sieve.admits(below + name))
    if faults:
        raise InputError(faults)
    return names


def _find_remote(url: str, sieve: Sieve) -> _Files:
    from graphshare.formats.remote.listing import find_files  # start-up: only URLs need it

    head, last, _ = split_url(url)
    start = len(f"{head}{last}/" if last else head)
    return _group_by_folder(file for file in find_files(url) if sieve.admits("".join(split_url(file.path)[:2])[start:]))


def _group_by_folder(files: Iterable[ListedFile]) -> dict[str, dict[str, ListedFile]]:
    by_folder: dict[str, dict[str, ListedFile]] = {}
    for file in files:
        parent, name = split(file.path)
        by_folder.setdefault(parent, {})[name] = file
    return by_folder


def group_files(files: Iterable[ListedFile]) -> list[ModelFiles]:
    """Return the models among listed files, sorted by path."""
    models = [model for parent, members in _group_by_folder(files).items() for model in group_models(parent, members)]
    return sorted(models, key=lambda model: model.graph)


def group_models(parent: str, names: Mapping[str, ListedFile | None]) -> list[ModelFiles]:
    """Return the models among the files of a folder, without hidden ones."""
    return [
        ModelFiles(
            path,
            {epoch: join(parent, name) for epoch, name in model.params.items()},
            names[model.name],
            names.get([*model.params.values(), ""][-1]),
        )
        for format_, endings in FORMAT_NAMES.items()
        if any(name.endswith(endings.model_endings) for name in names)
        for model in load_format(format_).list_models(names)
        if model.name[:1] != "." and _is_readable(path := join(parent, model.name))
    ]


def _is_readable(path: str) -> bool:
    return is_url(path) or os.path.isfile(path) or (os.path.islink(path) and not os.path.exists(path))


def _is_new(folder: str, visited: set[tuple[int, int]]) -> bool:
    """Return whether a folder was not met before under any name, and note it."""
    try:
        status = os.stat(folder)
    except OSError:
        return True  # the walk reports it
    identity = status.st_dev, status.st_ino
    if identity in visited:
        return False
    visited.add(identity)
    return True
