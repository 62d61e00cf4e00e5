"""Load models, and the forms in which functions take a model, names and shapes.

A stem names the two files of a checkpoint as MXNet's ``save_checkpoint`` does:
``STEM-symbol.json`` and ``STEM-0007.params``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from graphshare.analysis.roles import Role, assign_roles
from graphshare.arguments import Natural
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, InputError, RefusedError, UsageError
from graphshare.files.paths import (
    STDIN,
    base_name,
    exists,
    extend,
    is_file,
    is_folder,
    is_surely_file,
    join,
    list_names,
    refuse_missing,
    split,
    suggest_files,
)
from graphshare.files.paths import StrPath as StrPath
from graphshare.formats.model_file import open_model_file
from graphshare.formats.model_format import ModelFormat, Operation, load_format, recognize_format
from graphshare.formats.model_names import (
    DEFAULT_FORMAT,
    FORMAT_NAMES,
    STEM_END,
    FormatNames,
    find_names,
    find_stem,
    list_file_endings,
    select_params,
    split_params,
    suggest_graph,
)
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.text.format import format_count
from graphshare.text.names import suggest
from graphshare.text.patterns import expand_patterns
from graphshare.text.urls import is_url, redact

S = TypeVar("S")
Model = Checkpoint | Graph | str | os.PathLike[str]
"""A model, a graph without parameters, or a path or stem as for :func:`graphshare.load`."""
Names = str | Iterable[str]
"""One name or pattern, or several."""
Shape = tuple[int | None, ...]
Shapes = Mapping[str, Sequence[Natural | None]]
"""Shapes by variable name or pattern; None is a size to be inferred."""


def load(
    source: StrPath, *, epoch: Natural | None = None, params: StrPath | None = None
) -> Checkpoint:
    """Load the model that ``source`` names: a symbol file, an ONNX model, the stem of a checkpoint, or ``-`` for stdin.

    Paths may be URLs.

    The parameters are those in ``params``, or for a stem those in ``STEM-NNNN.params`` (of
    ``epoch``, if there are several); in a format with one parameter file, also the one beside a
    graph. Only their names, shapes and places are read.

    Raises:
        InputError: a file cannot be read or is broken.
        UsageError: a stem has several parameter files and ``epoch`` does not choose one.
    """
    source, params = os.fspath(source), os.fspath(params) if params else None
    path, stem = graph_path(source)
    if path == STDIN and params == "-":
        raise UsageError(Fault("the graph and its parameters cannot both come from stdin"))
    with open_model_file(path) as opened:
        format_, file = recognize_format(opened)
        if format_.holds_parameters:
            _refuse_parameters(format_, params, epoch, path)
        elif params is None and stem:
            params = sibling_params(stem, epoch, format_.names)
        elif params is None and epoch is not None:
            raise UsageError(
                Fault(
                    f"`epoch={epoch}` needs a stem, but {source!r} is a file",
                    hint="name the parameter file with `params`",
                )
            )
        elif params is None:
            params = find_only_params(path, format_.names)
        graph = format_.read(file)
    index = (
        format_.name_records(graph, read_parameters(params))
        if params
        else format_.index_parameters(graph)
    )
    # The parameter file's name states the epoch.
    number = split_params(params) if params else None
    return Checkpoint(
        graph, index, redact(path), file.data, redact(stem), number[1] if number else epoch or 0
    )


def read_parameters(path: str) -> ParameterFile:
    """Return the index of a parameter file. Raises InputError if it cannot be read."""
    # Start-up: graphs alone need no parameter format
    from graphshare.formats.params.format import read_index

    return read_index(path)


def load_both(
    left: str,
    right: str,
    *,
    epoch: int | None = None,
    params: str | None = None,
    other_params: str | None = None,
) -> tuple[Checkpoint, Checkpoint]:
    """Load two models to compare; ``epoch`` applies to each stem. Errors as in :func:`load`."""
    one, other = (
        epoch if epoch is not None and graph_path(path)[1] else None for path in (left, right)
    )
    if one is other is None and epoch is not None:
        raise UsageError(
            Fault(f"`epoch={epoch}` needs a stem, but {left!r} and {right!r} are files")
        )
    return load(left, epoch=one, params=params), load(right, epoch=other, params=other_params)


def _refuse_parameters(
    format_: ModelFormat, params: str | None, epoch: int | None, path: str
) -> None:
    for option, value in (("`params`", params), ("`epoch`", epoch)):
        if value is not None:
            format_.require(Operation.PARAMETER_FILE, what=option, where=path)


def read_graph(path: str) -> tuple[ModelFormat, Graph, bytes]:
    """Return a file's format and graph, and its bytes if they were read as a whole. Raises
    InputError.
    """
    with open_model_file(path) as opened:
        format_, file = recognize_format(opened)
        return format_, format_.read(file), file.data


def graph_path(source: str) -> tuple[str, str]:
    """Return the file that ``source`` (a path, a URL, a stem or ``-``) names, and the stem if it is
    one, else ``""``. Raises InputError if there is none.
    """
    if source == "-":
        return STDIN, ""
    is_remote = is_url(source)
    # One request less for a URL: reading the file tells whether it exists.
    is_graph = is_surely_file(source) if is_remote else is_file(source)
    if is_graph:
        return source, ""
    # A URL that ends in a slash is a folder, not a stem.
    if base_name(source) or not is_remote:
        path = find_by_stem(source)
        if path:
            return path, source
    if is_remote and is_file(source):
        return source, ""
    if is_folder(source):
        raise InputError(
            Fault(
                "is a directory",
                where=source,
                hint="give a symbol file or the stem of a checkpoint",
            )
        )
    hint = suggest_files(source, list_file_endings(), stem_end=STEM_END) or suggest_graph(source)
    raise InputError(
        refuse_missing(source, hint or f"there is no such file, and no {_name_graphs(source)}")
    )


def _name_graphs(stem: str) -> str:
    graphs = []
    for names in FORMAT_NAMES.values():
        beside = "" if names.is_certain else f" beside {names.params_path(stem, 0)}"
        graphs.append(extend(stem, names.suffix) + beside)
    return ", ".join(graphs)


def find_by_stem(stem: str) -> str:
    """Return the file of a stem's model, if any, symbol files first; UsageError for two local ones."""
    paths: list[str] = []
    for key, names in sorted(FORMAT_NAMES.items(), key=lambda item: item[0] != DEFAULT_FORMAT):
        path = extend(stem, names.suffix)
        if not exists(path) or not _is_model(key, stem, path):
            continue
        paths.append(path)
        if key == DEFAULT_FORMAT or is_url(stem):  # each further one is a request
            break
    if len(paths) > 1:
        message = f"names {len(paths)} models: {', '.join(paths)}"
        raise UsageError(Fault(message, where=stem, hint="name the file of one of them"))
    return paths[0] if paths else ""


def _is_model(key: str, stem: str, path: str) -> bool:
    """Return whether a file with the suffix of a format is a model of it."""
    names = FORMAT_NAMES[key]
    if names.is_certain or exists(names.params_path(stem, 0)):
        return True
    # Models may lack parameters: the start of a local file shows its kind.
    if is_url(path) or not is_file(path):
        return False
    with open_model_file(path) as file:
        return load_format(key).fits(file.start)


def sibling_params(stem: str, epoch: int | None, names: FormatNames) -> str | None:
    """Return the parameter file beside a stem's graph, if any; its format has ``names``.

    Raises InputError for a missing ``epoch``, UsageError if several files need one.
    """
    if epoch is not None:
        path = names.params_path(stem, epoch)
        if not names.has_epochs:
            message = (
                f"`epoch={epoch}` chooses one of several parameter files, and this model has one"
            )
            raise UsageError(Fault(message, where=stem, hint=f"leave it out; the file is {path}"))
        if not exists(path):
            raise InputError(Fault("does not exist", where=path, hint=_epochs_hint(stem, names)))
        return path
    paths = list_siblings(stem, names)
    if len(paths) > 1:
        message = f"has {format_count(len(paths), 'parameter file')}"
        raise UsageError(Fault(message, where=stem, hint=_epochs_hint(stem, names)))
    return paths[0] if paths else None


def find_only_params(path: str, names: FormatNames) -> str | None:
    """Return the parameter file beside a graph, if any, of a format with one name for it."""
    if path == STDIN or not names.has_one_parameter_file:
        return None
    params = names.params_path(find_stem(path), 0)
    return params if exists(params) else None


def find_params(source: StrPath, *, epoch: int | None = None) -> str:
    """Return the parameter file that FILE means: a path, ``-`` for stdin, or a stem.

    Raises:
        InputError: a stem has no parameter file of ``epoch``.
        UsageError: a stem has several parameter files and no ``epoch`` chooses one; a path comes
            with ``epoch``.
    """
    path = os.fspath(source)
    is_named = _is_parameter_file(path)
    if is_named and epoch is not None:
        raise UsageError(Fault(f"`epoch={epoch}` needs a stem, but {path!r} is a file"))
    if is_named:
        return path
    model = find_by_stem(path)
    names = find_names(model)
    if names.parameters:
        return sibling_params(path, epoch, names) or path
    return sibling_params(path, epoch, FORMAT_NAMES[DEFAULT_FORMAT]) or model


def index_params(source: StrPath, *, epoch: int | None = None) -> ParameterFile:
    """Return the index of the parameter file that FILE means, as :func:`find_params`.

    Nameless records of a stem's file get the names of the graph's parameters; InputError for a
    graph of another file.
    """
    path = find_params(source, epoch=epoch)
    return name_by_stem(read_parameters(path), source)


def name_by_stem(file: ParameterFile, source: StrPath) -> ParameterFile:
    """Name the records of a stem's parameter file from its graph; a path's names stay."""
    # Start-up: graphs alone need no parameter format
    from graphshare.formats.params.format import find_format

    stem = os.fspath(source)
    if file.named or _is_parameter_file(stem) or find_format(file.format).keeps_names:
        return file
    format_, graph, _ = read_graph(find_by_stem(stem))
    return format_.name_records(graph, file)


def find_both_params(left: StrPath, right: StrPath, *, epoch: int | None = None) -> tuple[str, str]:
    """Return the parameter files that A and B mean; ``epoch`` applies to each stem.

    Errors as in :func:`find_params`; UsageError for an ``epoch`` with two paths.
    """
    sides = [os.fspath(source) for source in (left, right)]
    files = [_is_parameter_file(path) for path in sides]
    if all(files) and epoch is not None:
        raise UsageError(
            Fault(f"`epoch={epoch}` needs a stem, but {sides[0]!r} and {sides[1]!r} are files")
        )
    one, other = (
        find_params(path, epoch=None if is_named else epoch)
        for path, is_named in zip(sides, files, strict=True)
    )
    return one, other


def _is_parameter_file(path: str) -> bool:
    is_remote_file = is_url(path) and is_surely_file(path)
    if path == "-" or is_remote_file or is_file(path):
        return True
    if not is_folder(path) or find_by_stem(path):
        return False
    # Start-up: few parameters are in folders
    from graphshare.formats.params.shards import is_shard_folder

    return is_shard_folder(path)


def list_siblings(stem: str, names: FormatNames) -> list[str]:
    """Return the parameter files of a stem, those that cannot be listed left out."""
    first = names.params_path(stem, 0)
    if not names.has_epochs:
        return [first] if exists(first) else []
    folder, name = split(stem)
    try:
        entries = list_names(folder, prefix=f"{name}-")
    except OSError:
        return []
    except InputError:  # a web server that lists no folders: the first epoch is where MXNet puts it
        entries = [base_name(first)] if exists(first) else []
    return [join(folder, entry) for entry in select_params(entries, name)]


def _epochs_hint(stem: str, names: FormatNames) -> str:
    paths = list_siblings(stem, names)
    epochs = [str(parts[1]) for parts in map(split_params, paths) if parts is not None]
    if not epochs:
        return f"there is no {extend(stem, '-NNNN.params')}"
    choice = f"choose with `epoch`, or name a file, such as {paths[0]}"
    return f"there are epochs {', '.join(epochs)}: {choice}"


def as_checkpoint(model: Model) -> Checkpoint:
    """Return ``model`` as a checkpoint; load a path or stem. Raises as :func:`graphshare.load`."""
    if isinstance(model, Checkpoint):
        return model
    if isinstance(model, Graph):
        return Checkpoint(model)
    return load(model)


def as_names(names: Names) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def check_roles(variables: Iterable[Node], as_input: Names, as_parameter: Names = ()) -> None:
    """Raise RefusedError with all of these inputs and parameters that no variable is named after."""
    check_variable_names(
        variables, {"`as_input`": as_names(as_input), "`as_parameter`": as_names(as_parameter)}
    )


def find_roles(
    model: Checkpoint,
    as_input: Names = (),
    as_parameter: Names = (),
    others: Mapping[str, Collection[str]] = EMPTY,
) -> dict[Node, Role]:
    """Return the roles of a model's variables; ``others`` are further options that name variables.

    Raises RefusedError for names without a variable.
    """
    inputs, parameters = as_names(as_input), as_names(as_parameter)
    check_variable_names(
        model.graph.variables(), {"`as_input`": inputs, "`as_parameter`": parameters, **others}
    )
    return assign_roles(model.graph, held=model.held, as_input=inputs, as_parameter=parameters)


def check_variable_names(variables: Iterable[Node], options: Mapping[str, Collection[str]]) -> None:
    """Raise RefusedError with all names in ``options`` that no variable has."""
    if not any(options.values()):
        return
    names = [node.name for node in variables]
    known = set(names)
    faults = []
    for option, texts in options.items():
        for name in texts:
            if name not in known:
                hint = suggest(name, names, "variables")
                faults.append(Fault(f"{option} {name!r} names no variable", hint=hint))
    RefusedError.raise_any(faults)


def as_shapes(shapes: Mapping[str, Sequence[S]] | None, *graphs: Graph) -> dict[str, tuple[S, ...]]:
    """Return shapes by name as tuples; a pattern applies to each matching variable of ``graphs``."""
    tuples = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    variables = chain.from_iterable(graph.variables() for graph in graphs)
    return expand_patterns(tuples, dict.fromkeys(node.name for node in variables))


def as_path(path: StrPath | None) -> str | None:
    """Return a path as text; None stays None."""
    return None if path is None else os.fspath(path)
