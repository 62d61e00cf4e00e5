"""Save a model, its map and arrays: resolve the paths of outputs, and write all of them or none."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from graphshare.checkpoint.load import StrPath, list_siblings, read_parameters
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import notes_on, split_by_origin
from graphshare.errors import Fault, GraphshareError, OutputError, UsageError, locate_refusals
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import (
    STDIN,
    STDOUT,
    Content,
    UsedFile,
    base_name,
    extend,
    find_identity,
    find_stdout_faults,
    is_directory,
    is_stem,
    join,
    refuse_inputs_as_outputs,
)
from graphshare.files.staged_file import output_error
from graphshare.formats.model_format import (
    CopiedWeights,
    ModelFormat,
    Operation,
    SaveOptions,
    find_format,
    load_format,
    require,
)
from graphshare.formats.model_names import (
    FORMAT_NAMES,
    PARAMETER_FORMATS,
    FormatNames,
    find_stem,
    name_of_file,
    suggest_suffix,
)
from graphshare.formats.mxnet.source import get_source
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph
from graphshare.ops.attributes import has_np_shape
from graphshare.resources import end_time_limit
from graphshare.text.format import shorten
from graphshare.text.urls import is_url

_LONGEST_NOTE = 200  # characters: a file from before may lack hundreds of names
_CONTENTS: dict[str, Content] = {
    "graph": "graph",
    "params": "parameters",
    "map": "map",
    "arrays": "arrays",
}


class Outputs(msgspec.Struct, frozen=True):
    """The paths of results: ``-`` is stdout, for the graph or for arrays; empty means no output.

    With ``in_place`` a result may replace the input of its kind; None if no option allows that.
    ``inputs`` are files read besides the model's own.
    """

    graph: str = ""
    params: str = ""
    map: str = ""
    arrays: str = ""
    in_place: bool | None = None
    inputs: tuple[UsedFile, ...] = ()

    def files(self) -> list[str]:
        paths = (self.graph, self.params, self.map, self.arrays)
        return [path for path in paths if path not in ("", "-")]


def resolve_outputs(
    model: Checkpoint,
    out: StrPath | None,
    params: StrPath | None = None,
    map: StrPath | None = None,
    *,
    dry_run: bool = False,
    in_place: bool | None = None,
    inputs: Sequence[UsedFile] = (),
) -> Outputs:
    """Return where ``model`` goes: ``out`` is a path, a directory, ``-`` (or None) for stdout, or a
    stem.

    A directory and a stem name the parameters, too. With ``in_place`` the model replaces its own
    files, if ``out`` is its own graph or None; None if the caller has no such option.

    Raises:
        UsageError: see :func:`graphshare.save`; a ``dry_run`` needs no place for the parameters.
        RefusedError: an output is an input without ``in_place``.
    """
    out, params, map = ("" if path is None else os.fspath(path) for path in (out, params, map))
    format_ = find_format(model.graph)
    if in_place and (not out or _is_own_graph(out, model)):
        graph, params = _own_files(model, params)
        out = out or graph
    stem = ""
    if is_directory(out):
        stem = join(out, _name(model, out))
    elif is_stem(out):
        stem = out
    if not params and _writes_file(model.parameter_file, format_):
        names = format_.names
        params = names.params_path(stem, model.epoch) if stem else _find_pair(out, names)
    if stem:
        out = extend(stem, format_.names.suffix)
    params, map = _place_params(params, model), place_result(map, model, "-map.json")
    _check_places(model, format_, out, params, map, dry_run=dry_run)
    outputs = Outputs(out or "-", params, map, in_place=in_place, inputs=tuple(inputs))
    check_outputs(outputs, model)
    return outputs


def _writes_file(file: ParameterFile | None, format_: ModelFormat) -> bool:
    if file is None or format_.holds_parameters:
        return False
    if file.records:
        return True
    # Start-up: few models have no arrays
    from graphshare.formats.params.format import find_format as find_parameter_format

    return find_parameter_format(file.format).may_be_empty


def _find_pair(out: str, names: FormatNames) -> str:
    is_pair = names.has_one_parameter_file and out.endswith(names.suffix)
    return names.params_path(find_stem(out), 0) if is_pair else ""


def _check_places(
    model: Checkpoint, format_: ModelFormat, out: str, params: str, map: str, *, dry_run: bool
) -> None:
    """Refuse a map or parameters on stdout, misspelt suffixes, parameters without a place and a
    place without parameters.
    """
    has_params = model.parameter_file is not None
    if params:
        format_.require(Operation.PARAMETER_FILE, what="`save(params=...)`", where=model.where)
    faults = [] if out == "-" else _check_suffix(format_, out)
    faults += find_stdout_faults(map, "the map", "name a file with `save(map=...)`")
    faults += _find_params_faults(params, model)
    if params and not has_params:
        hint = "name the parameter file with `params`"
        faults.append(
            Fault("`save(params=...)` has nothing to write: there is no parameter file", hint=hint)
        )
    has_new_names = has_params and model.needs_params and not format_.holds_parameters
    if has_new_names and not params and not dry_run:
        hint = "add `save(params=FILE)`, or write both under a stem (`out='siam'`)"
        faults.append(Fault("the parameters get new names, so they need an output", hint=hint))
    UsageError.raise_any(faults)


def _find_params_faults(path: str, model: Checkpoint) -> list[Fault]:
    faults = find_stdout_faults(path, "parameters", "name a file with `save(params=...)`")
    suffix, hint = os.path.splitext(base_name(path))[1], suggest_suffix(path)
    source = model.parameter_file.path if model.parameter_file is not None else ""
    # Without a known suffix the file gets the format of its source, perhaps in its place.
    if hint and not source.endswith(suffix):
        message = f"the suffix {suffix!r} is not that of a parameter format"
        faults.append(Fault(message, where=path, hint=hint))
    return faults


def _check_suffix(format_: ModelFormat, out: str) -> list[Fault]:
    suffix = os.path.splitext(out)[1].lower()
    for name, names in FORMAT_NAMES.items():
        if suffix == names.extension != format_.names.extension:
            message = f"is the path of {load_format(name).file}, but {format_.file} is written"
            hint = f"let it end in {format_.names.extension}"
            if format_.supports(Operation.EXPORT):
                hint += "; `gs.export` writes an MXNet model as ONNX"
            return [Fault(message, where=out, hint=hint)]
    return []


def resolve_run_outputs(
    model: Checkpoint,
    arrays: str,
    params: str = "",
    *,
    in_place: bool = False,
    inputs: Sequence[UsedFile] = (),
) -> Outputs:
    """Return where the outputs of a run and trained parameters go; with ``in_place`` alone, into
    the model's parameter file.

    Raises:
        UsageError: there is no parameter file to replace; the parameters would go to stdout or
            have a misspelt suffix.
        RefusedError: an output is an input without ``in_place``.
    """
    if in_place and not params:
        if model.parameter_file is None:
            raise UsageError(
                Fault(
                    "`in_place` replaces the parameter file, and there is none",
                    hint="add `save(params=FILE)`",
                )
            )
        params = model.parameter_file.path
    params = _place_params(params, model)
    UsageError.raise_any(_find_params_faults(params, model))
    outputs = Outputs(
        params=params,
        arrays=place_result(arrays, model, ".npz"),
        in_place=in_place,
        inputs=tuple(inputs),
    )
    check_outputs(outputs, model)
    return outputs


def find_stale(outputs: Outputs, model: Checkpoint) -> Iterator[str]:
    """Yield notes on parameter files beside the new symbol file that are not written and do not
    fit.
    """
    stem, format_ = find_stem(outputs.graph), find_format(model.graph)
    if is_url(stem) or format_.holds_parameters:
        return
    if extend(stem, format_.names.suffix) != outputs.graph:
        return
    for path in list_siblings(stem, format_.names):
        if find_identity(path) == find_identity(outputs.params):
            continue
        try:
            notes = notes_on(read_parameters(path), model.graph)
        except GraphshareError as error:
            notes = [str(error.faults[0])]
        if notes:
            fault = shorten(notes[0].removeprefix(f"{path}: "), _LONGEST_NOTE)
            yield f"{path} was there before and does not fit the new {base_name(outputs.graph)}: it {fault}"


def check_outputs(outputs: Outputs, model: Checkpoint) -> None:
    """Raise RefusedError for all outputs that would replace a source of ``model``."""
    places = [(getattr(outputs, name), content) for name, content in _CONTENTS.items()]
    used = [UsedFile(path, content) for path, content in places if path]
    refuse_inputs_as_outputs(
        used, [*input_files(model), *outputs.inputs], in_place=outputs.in_place
    )


def input_files(model: Checkpoint) -> Iterator[UsedFile]:
    """Yield the files that a model and its sources were loaded from, with its parameters' files."""
    for source in (model, *model.sources):
        if source.where:
            yield UsedFile(source.where, "graph")
        file = source.parameter_file
        if file is None:
            continue
        paths = {file.path}
        for record in file.records:
            if record.other_file is not None:
                paths.add(record.other_file.path)
        for path in sorted(paths):
            if path != source.where:
                yield UsedFile(path, "parameters")


def place_result(path: str, model: Checkpoint, ending: str) -> str:
    """Return ``path``, or in a directory the model's name with ``ending``."""
    return join(path, _name(model, path) + ending) if path and is_directory(path) else path


def _name(model: Checkpoint, folder: str) -> str:
    name = base_name(model.stem) or name_of_file(model.where)
    if not name:
        source = (
            "the graph comes from stdin" if model.where == STDIN else "the graph comes from no file"
        )
        hint = f"name it: {join(folder, 'NAME')}"
        raise UsageError(
            Fault(f"{source}, so it has no name in this directory", where=folder, hint=hint)
        )
    return name


def _place_params(path: str, model: Checkpoint) -> str:
    if not path or not is_directory(path):
        return path
    source = model.parameter_file.path if model.parameter_file is not None else ""
    root, usual = os.path.splitext(
        find_format(model.graph).names.params_path(_name(model, path), model.epoch)
    )
    return join(path, root + (os.path.splitext(base_name(source))[1] or usual))


def _is_own_graph(out: str, model: Checkpoint) -> bool:
    if out in ("", "-") or len(model.loaded_models) != 1:
        return False
    (source,) = model.loaded_models
    identity = find_identity(out)
    return identity is not None and identity == find_identity(source.where)


def _own_files(model: Checkpoint, params: str) -> tuple[str, str]:
    """Return the graph file and the parameter file; UsageError unless it is one each."""
    sources = model.loaded_models
    if len(sources) != 1:
        raise UsageError(
            Fault(
                f"{len(sources)} graphs are read, and `in_place` replaces one",
                hint="name the output with `out`",
            )
        )
    (source,) = sources
    if source.where in ("", STDIN):
        raise UsageError(
            Fault(
                "`in_place` replaces a file, and the graph comes from none",
                hint="name the output with `out`",
            )
        )
    has_params = model.parameter_file is not None
    in_model = find_format(model.graph).holds_parameters
    if has_params and source.parameter_file is not None and not in_model:
        params = params or source.parameter_file.path
    return source.where, params


_NO_OPTIONS = SaveOptions()


def save(
    model: Checkpoint,
    out: StrPath,
    *,
    params: StrPath | None = None,
    map: StrPath | None = None,
    in_place: bool = False,
    verify_bytes: bool = False,
    external_data: CopiedWeights | None = None,
    no_copy: bool = False,
) -> Outputs:
    """Write a model to ``out`` with its parameters and the map of its rewrites; all of them or none.

    A stem (``siam``) names both files (``siam-symbol.json``, ``siam-0000.params``); in a directory
    they have the model's own name. For a path, ``params`` is the file of the parameters, and its
    suffix chooses their format. ``map`` is a file for the map: which node became which. With
    ``in_place`` the files that the model was loaded from may be replaced. With ``verify_bytes`` the
    written parameters are read again and compared with their source. Returns the paths of the
    outputs.

    An ONNX model holds its parameters itself. External data stays in its files where these are in
    or below the directory of ``out``; else the data is copied into one file beside it, or refused
    with ``no_copy``. With ``external_data`` ``"copy"`` copies of an initializer get external data
    of their own; with ``"share"``, as without it, they share one range.

    Raises:
        UsageError: the parameters have new names and no file to go to, or there are none to write;
            ``params`` or ``map`` is stdout; the suffix of ``params`` is a misspelt one.
        RefusedError: an output is an input, or a parameter has no place in the format; all are
            listed. The format has no use for ``params``, ``external_data`` or ``no_copy``.
        OutputError: a file could not be written; its old contents remain.
        SelfCheckError: the result does not read back as it should.
    """
    outputs = resolve_outputs(model, out, params, map, in_place=in_place)
    write_outputs(
        outputs,
        model,
        options=choose_options(model, external_data, no_copy=no_copy, verify_bytes=verify_bytes),
    )
    return outputs


def choose_options(
    model: Checkpoint,
    external_data: CopiedWeights | None,
    *,
    no_copy: bool = False,
    verify_bytes: bool = False,
) -> SaveOptions:
    """Return the options for writing a model.

    Raises RefusedError for options on external data that its format lacks.
    """
    for option, is_set in (("`external_data`", external_data is not None), ("`no_copy`", no_copy)):
        if is_set:
            require(model.graph, Operation.EXTERNAL_DATA, what=option, where=model.where)
    return SaveOptions(external_data or "share", no_copy, verify_bytes)


def write_outputs(
    outputs: Outputs,
    model: Checkpoint,
    *,
    arrays: Mapping[str, Any] | None = None,
    options: SaveOptions = _NO_OPTIONS,
) -> None:
    """Write the parts of ``model`` in ``outputs``, and ``arrays`` by name, in one transaction.

    ``outputs`` must come from :func:`resolve_outputs` or :func:`resolve_run_outputs`: only these
    check that no input is replaced. The graph is read back and checked before anything is in place.
    Stdout is flushed before a file is replaced. Raises as :func:`save`.
    """
    end_time_limit()
    with locate_refusals(model), OutputTransaction() as stage:
        # An output may be the file of a redirected stdout, and would overwrite it.
        if "-" in (outputs.graph, outputs.arrays):
            stage.claim_stdout()
        to_stdout = _stage_model(outputs, model, stage, options)
        if arrays is not None and outputs.arrays:
            to_stdout += _stage_arrays(arrays, outputs.arrays, stage)
        if to_stdout:
            write_stdout(to_stdout)
        stage.commit()


def write_models(models: Iterable[tuple[Outputs, Checkpoint]]) -> None:
    """Write several models, all or none. Errors as in :func:`write_outputs`."""
    end_time_limit()
    with OutputTransaction() as stage:
        for outputs, model in models:
            with locate_refusals(model):
                _stage_model(outputs, model, stage, _NO_OPTIONS)
        stage.commit()


def _stage_model(
    outputs: Outputs, model: Checkpoint, stage: OutputTransaction, options: SaveOptions
) -> list[bytes]:
    to_stdout: list[bytes] = []
    if outputs.graph:
        to_stdout = find_format(model.graph).stage(
            model.graph, model.parameter_file, outputs.graph, stage, options
        )
    if model.parameter_file is not None and outputs.params:
        _stage_params(
            model.parameter_file, model.graph, outputs.params, stage, options.verify_bytes
        )
    if outputs.map:
        from graphshare.checkpoint.map_file import map_text  # its hashes take time to import

        stage.open(outputs.map).write(map_text(model).encode())
    return to_stdout


def _stage_params(
    file: ParameterFile, graph: Graph, target: str, stage: OutputTransaction, verify_bytes: bool
) -> None:
    parts = split_by_origin(file)
    # Start-up: graphs alone need no parameter format
    from graphshare.formats.params.convert import stage_params
    from graphshare.formats.params.format import WriteOptions

    in_memory = any(record.origin is not None for _, plan in parts for record, _ in plan)
    # Copied records keep their form. Others become V3 if the file has such, or the graph is
    # np-shape: MXNet loads V2 and V3 each in its own mode only.
    np_shape = any(record.layout == "V3" for record in file.records)
    np_shape |= in_memory and has_np_shape(graph.attrs)
    format_ = file.format
    for name in PARAMETER_FORMATS:
        if base_name(target).lower().endswith(f".{name}"):
            format_ = name
    layout = get_source(graph).params_layout
    if layout and all(record.layout <= layout for record in file.records):
        layout = ""  # an older form is read as well
    options = WriteOptions(densify=in_memory, np_shape=np_shape, layout=layout)
    stage_params(parts, stage, target, to=format_, options=options, verify_bytes=verify_bytes)


def _stage_arrays(arrays: Mapping[str, Any], target: str, stage: OutputTransaction) -> list[bytes]:
    """Write ``.npz`` beside the target; return bytes for stdout."""
    # Start-up: only this path needs it
    from graphshare.formats.params.array_files import write_arrays
    from graphshare.formats.params.format import find_format as find_parameter_format

    if target != "-":
        write_arrays(arrays, stage.open(target), find_parameter_format("npz"))
        return []
    buffer = io.BytesIO()
    write_arrays(arrays, buffer, find_parameter_format("npz"))
    return [buffer.getvalue()]


def write_stdout(pieces: Iterable[bytes]) -> None:
    """Write to stdout and flush it.

    Raises OutputError, but keeps a BrokenPipeError: the command ends quietly.
    """
    if sys.stdout is None:
        raise OutputError(Fault("is closed", where=STDOUT, hint="name a file with `out`"))
    try:
        for piece in pieces:
            _write_whole(sys.stdout.buffer, piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(error, STDOUT) from error


def _write_whole(file: BinaryIO, piece: bytes) -> None:
    """Under ``python -u`` stdout has no buffer and may take a part without an error."""
    rest = memoryview(piece)
    while rest:
        written = file.write(rest)
        if not written:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[written:]


def write_text(
    path: str,
    text: bytes,
    *,
    content: Content = "report",
    inputs: Iterable[UsedFile] = (),
    stage: OutputTransaction | None = None,
) -> None:
    """Write a report or picture to the file ``path``, and commit ``stage`` with its files, if any.

    Raises:
        RefusedError: ``path`` is one of ``inputs``, the files from which it was made.
        OutputError: the file could not be written; its old contents remain.
    """
    refuse_inputs_as_outputs([UsedFile(path, content)], inputs)
    with stage or OutputTransaction() as stage:
        stage.open(path).write(text)
        stage.commit()
