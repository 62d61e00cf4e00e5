"""``export``: translate a model to ONNX and prove it in onnxruntime before its file is put in
place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import msgspec

from graphshare.analysis.branches import spread_inputs
from graphshare.analysis.free_sizes import NamedShapes, choose_symbols, refuse_empty, split_names
from graphshare.api.fold import fold as fold_model
from graphshare.api.onnx_translation import (
    Instance,
    TranslationRequest,
    batch_symbol,
    list_parameters,
    translate_instance,
    translate_sizes,
)
from graphshare.arguments import Natural, NotNegative, Seconds
from graphshare.checkpoint.load import (
    Model,
    Names,
    Shape,
    StrPath,
    as_checkpoint,
    as_names,
    as_shapes,
    check_roles,
)
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.save import input_files, place_result
from graphshare.errors import DisprovedError, Fault, RefusedError, UsageError, locate_refusals
from graphshare.execute.prepare.variable_values import (
    as_arrays,
    check_shapes,
    convert_feed,
    index_limits,
    largest_integer,
)
from graphshare.export_onnx.opsets import DEFAULT, check_opset, refuse_versions
from graphshare.export_onnx.translate import OnnxTarget
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import (
    UsedFile,
    base_name,
    extend,
    is_directory,
    is_stem,
    refuse_inputs_as_outputs,
)
from graphshare.formats.facets import TensorType
from graphshare.formats.model_format import Operation, SaveOptions, WeightPlace, require
from graphshare.formats.model_names import name_of_file
from graphshare.formats.onnx.staging import ModelBytes, StagedOnnx, keep_in_memory, stage_onnx
from graphshare.formats.onnx.types import input_types, output_types
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.convert import cast_in_memory
from graphshare.formats.params.records import find_coarsest
from graphshare.ir.graph import Node
from graphshare.ops.attributes import TYPE_FLAGS
from graphshare.ops.bodies import draws_numbers
from graphshare.resources import end_time_limit, resource_limits
from graphshare.text.format import format_count, format_names
from graphshare.text.names import did_you_mean, split_key
from graphshare.text.summary import ShortRepr
from graphshare.verification.comparison import ExportTolerance, tolerate_export
from graphshare.verification.flow import ProofOptions
from graphshare.verification.inputs import Inputs
from graphshare.verification.onnx_checker import require_onnx
from graphshare.verification.onnx_export import ExportReport, prove_export
from graphshare.version import __version__


class ExportFacts(ShortRepr, msgspec.Struct, frozen=True):
    """The result of ``export``: the files, inputs and outputs by name, and numbers of nodes and
    bytes.

    ``path`` is empty and ``bytes`` 0 for a model that was not written. ``renamed`` maps inputs,
    parameters and outputs that could not keep MXNet's names to their names in ONNX. ``dropped``
    lists unused variables such as labels, ``embedded`` parameters that could not stay in their
    file. ``proof`` is None if none was requested. ``notes`` list decisions made for the user.
    """

    path: str
    files: tuple[str, ...]
    inputs: Mapping[str, tuple[int | str, ...]]
    outputs: Mapping[str, tuple[int | str, ...]]
    opset: int
    nodes: int
    bytes: int
    renamed: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    embedded: tuple[str, ...]
    notes: tuple[str, ...]
    proof: ExportReport | None


def export(
    model: Model,
    out: StrPath | None = None,
    *,
    shapes: NamedShapes | None = None,
    feeds: Mapping[str, Any] | None = None,
    upto: Names = (),
    as_input: Names = (),
    opset: int = DEFAULT,
    weights: WeightPlace = "embed",
    fold: bool = False,
    dtype: str | None = None,
    keep_io: bool = False,
    input_dtypes: Mapping[str, str] | None = None,
    dynamic_batch: bool = False,
    custom_domain: str = "",
    verify: bool = True,
    seed: Natural = 0,
    tolerance: NotNegative | None = None,
    max_memory: Natural | str | None = None,
    time_limit: Seconds | None = None,
) -> Checkpoint:
    """Translate a model for inference to ONNX, and prove in onnxruntime that it computes the same.

    The result is written to ``out`` if given; its ``report`` is an :class:`ExportFacts`. Parameter
    data stays in its files until the model is saved.

    ``shapes`` and ``feeds`` are by variable name as for :func:`run`; every shape must follow from
    them and the parameters. ``upto`` selects outputs instead of the graph's heads. ``opset`` is the
    version of ONNX's operator set, 13 or later. ``weights`` says where the parameters go:
    ``"embed"`` puts them into the file, ``"external"`` into one file beside it, and ``"params"``
    leaves them in their own file in or below the directory of ``out``. ``fold`` folds BatchNorm
    into the weights first.

    With ``dtype`` (``float16``, ``float32`` or ``float64``) the parameters are cast to that dtype
    first and the graph computes in it; parameters that BatchNorm accepts only in float32 are not
    cast. With ``keep_io``, inputs and outputs that are float16 in the graph stay float32 in the
    model, and the model casts them. ``input_dtypes`` states dtypes of the model's inputs
    (``{"data0": "int64"}`` for tokens); the model casts them to the graph's dtypes where a node
    needs that.

    With ``dynamic_batch`` the caller of the model chooses the batch; names in ``shapes`` are sizes
    that the caller chooses (``{"data": ("n", 3, "h", "w")}``; ``"h:480"`` is translated at 480).
    Nodes without a translation are written in ``custom_domain`` if one is given.

    With ``verify`` the model is checked and run before a file is in place: on ``feeds`` and inputs
    drawn with ``seed`` every output must match graphshare's own executor, up to ``tolerance`` of
    the output's largest number (by default 1e-4, or 1e-2 if the model computes anything in
    float16), and the branches of a siamese network must be equal bit for bit.

    Raises:
        RefusedError: nodes have no translation, shapes do not follow, parameters are missing, or
            nodes draw random numbers and cannot be proved; all of a kind are listed.
        UsageError: the opset or a dtype is unknown; ``input_dtypes`` names something that is not an
            input, or a dtype too small for its indices; ``keep_io`` keeps nothing; onnxruntime is
            needed and not installed; ``weights`` have no file to go beside.
        DisprovedError: onnxruntime computes different outputs; nothing is written.
        OutputError: the file could not be written; its previous contents remain.
    """
    source = as_checkpoint(model)
    require(source.graph, Operation.EXPORT, where=source.where)
    path = _place(out, source, weights)
    check_opset(opset)
    if verify:
        # Checked first, because the work may take minutes.
        require_onnx()
    if fold:
        # In the dtype of the file: a cast could round the statistics.
        source = fold_model(source)
    source, cast_notes = _cast(source, dtype)
    inputs, targets = as_names(as_input), as_names(upto)
    with locate_refusals(source):
        check_roles(source.graph.variables(), inputs)
        arrays, sizes, spread_notes = spread_inputs(
            source.graph,
            as_arrays(feeds),
            as_shapes(shapes, source.graph),
            targets=targets,
            option="`upto`",
            held=source.held,
            as_input=inputs,
        )
    stated = _check_dtypes(input_dtypes or {})
    arrays = {name: convert_feed(name, array, stated.get(name)) for name, array in arrays.items()}
    # An input with a stated dtype is cast inside the model.
    types = {name: str(array.dtype) for name, array in arrays.items() if name not in stated}
    fed_shapes = {name: array.shape for name, array in arrays.items()}
    fixed, named = split_names(sizes, fed_shapes)
    all_shapes = {**fed_shapes, **fixed}
    refuse_empty(all_shapes)
    with (
        locate_refusals(source),
        resource_limits(max_memory, time_limit),
        _open_weights(source) as reader,
    ):
        target = OnnxTarget(
            opset=opset,
            name=_name(source),
            domain=custom_domain,
            version=__version__,
            metadata=_describe_source(source),
            input_dtypes=stated,
            keep_io=keep_io,
        )
        request = TranslationRequest(source, reader, types, targets, inputs, target)
        instances = _translate(request, all_shapes, named, dynamic_batch)
        _check_inputs(instances[0], stated, keep_io)
        translated, inference = instances[0].translated, instances[0].static.inference
        check_shapes(_find_fed_shapes(inference.nodes, fed_shapes), inference)
        # onnxruntime has no kernels for operators of a custom domain.
        proves = verify and not translated.custom
        notes, bound = [*cast_notes, *spread_notes], tolerate_export(tolerance)
        if proves:
            _refuse_random(instances[0])
            bound, bound_notes = _choose_tolerance(instances[0], tolerance)
            notes += bound_notes
        faults = refuse_versions(translated.graph, opset)
        if faults:
            raise RefusedError(faults)
        exported = Checkpoint(
            translated.graph,
            list_parameters(instances[0], source.parameter_file),
            path or source.where,
        )

        def prove(model: ModelBytes) -> ExportReport | None:
            if not proves:
                return None
            parts = [(instance.static, instance.translated.names) for instance in instances]
            options = ProofOptions(Inputs(seed=seed), bound, feeds=arrays, as_input=tuple(inputs))
            proof = prove_export(source, parts, model.graph, model.encode, options)
            if not proof:
                raise DisprovedError(Fault(proof.verdict, where=path, hint="nothing was written"))
            return proof

        if not path:
            proof = None
            if proves:
                proof = prove(keep_in_memory(exported.graph, exported.parameter_file))
            return _report(exported, instances[0], opset, notes, proof)
        with OutputTransaction() as stage:
            staged = stage_onnx(
                exported.graph, exported.parameter_file, path, stage, SaveOptions(weights=weights)
            )
            proof = prove(staged.model)
            # The limit must not strike while files are put in place.
            end_time_limit()
            stage.commit()
    return _report(exported, instances[0], opset, notes, proof, staged)


def _place(out: StrPath | None, source: Checkpoint, weights: WeightPlace) -> str:
    path = "" if out is None else place_model(os.fspath(out), source)
    if not path and weights != "embed":
        message = f"`weights={weights!r}` needs a file beside which they go, and none is written"
        raise UsageError(Fault(message, hint="name it with `out`"))
    return path


def _find_fed_shapes(
    nodes: Sequence[Node], shapes: Mapping[str, tuple[int, ...]]
) -> dict[Node, tuple[int, ...]]:
    return {node: shapes[node.name] for node in nodes if node.is_variable and node.name in shapes}


def _choose_tolerance(
    instance: Instance, tolerance: float | None
) -> tuple[ExportTolerance, list[str]]:
    """Note a tolerance that the least precise float inside the model decides."""
    chosen, types = tolerate_export(tolerance).by_dtype, instance.static.inference.types
    coarsest = find_coarsest(dtype for dtypes in types.values() for dtype in dtypes)
    heads = [types[head.node][head.index] or "" for head in instance.static.part.heads]
    own = [chosen[dtype] for dtype in heads if dtype in chosen]
    if tolerance is not None or not any(limit < chosen[coarsest] for limit in own):
        return ExportTolerance(by_dtype=chosen), []
    widest = chosen[coarsest]
    note = f"compared up to {widest:g} of the largest value, as values inside are {coarsest}"
    limits = {name: max(limit, widest) for name, limit in chosen.items()}
    return ExportTolerance(by_dtype=limits), [note]


def _cast(source: Checkpoint, dtype: str | None) -> tuple[Checkpoint, list[str]]:
    """Return the cast model, with notes on parameters that keep their dtype or became infinite."""
    if dtype is None:
        return source, []
    if source.parameter_file is None:
        hint = "name the parameter file with `params`"
        raise UsageError(Fault("`dtype` needs parameters", where=source.where, hint=hint))
    file, done = cast_in_memory(source.parameter_file, dtype)
    notes = [
        f"{format_count(count, 'number')} of {key!r} became infinite in {dtype}"
        for key, count in done.overflows.items()
    ]
    if done.kept:
        names = format_names((split_key(key)[1] for key in done.kept), 4)
        notes.append(f"{format_count(len(done.kept), 'array')} of BatchNorm stay float32: {names}")
    return msgspec.structs.replace(source, parameter_file=file), notes


def _check_dtypes(stated: Mapping[str, str]) -> dict[str, str]:
    known = sorted(TYPE_FLAGS.values())
    hint = f"the dtypes are {', '.join(known)}"
    unknown = [dtype for dtype in stated.values() if dtype not in known]
    faults = [
        Fault(f"`input_dtypes` has the dtype {dtype!r}, which no input can have", hint=hint)
        for dtype in unknown
    ]
    if faults:
        raise UsageError(faults)
    return dict(stated)


def _check_inputs(instance: Instance, stated: Mapping[str, str], keep_io: bool) -> None:
    static, types = instance.static, input_types(instance.translated.graph)
    inputs = [node for node in static.roles if instance.translated.names.get((node, 0)) in types]
    limits = index_limits(static.inference.nodes)
    faults = []
    for name, dtype in stated.items():
        own_limits = [limits.get(node, 0) for node in inputs if node.name == name]
        if not own_limits:
            hint = did_you_mean(name, [node.name for node in inputs])
            faults.append(Fault(f"`input_dtypes` {name!r} is not an input of the model", hint=hint))
        elif (last := max(own_limits) - 1) > (most := largest_integer(dtype)):
            message = f"{name!r} is an index up to {last}, and {dtype} holds integers up to {most}"
            faults.append(Fault(message, hint=f"`input_dtypes={{{name!r}: int64}}` holds it"))
    own = [static.inference.types[node][0] for node in inputs]
    own += [static.inference.types[entry.node][entry.index] for entry in static.part.heads]
    if keep_io and "float16" not in own:
        hint = "`dtype='float16'` makes them float16 in the graph"
        faults.append(Fault("`keep_io` keeps nothing: no input or output is float16", hint=hint))
    if faults:
        raise UsageError(faults)


def _translate(
    request: TranslationRequest,
    shapes: Mapping[str, Shape],
    named: NamedShapes,
    dynamic_batch: bool,
) -> list[Instance]:
    instance = translate_instance(request, shapes)
    inputs = instance.input_shapes()
    variables = instance.translated.variables.items()
    own = {name: node.name for node, name in variables if name in inputs}
    # Inputs of one name have one shape, although ONNX tells them apart; an omitted label has none.
    free = {name: named[variable] for name, variable in own.items() if variable in named}
    symbols = choose_symbols(free, dynamic_batch, inputs, lambda: batch_symbol(instance))
    if named and not symbols:
        message = f"{format_names(named)} is left out of the model, so no size is free"
        raise UsageError(Fault(f"`shapes`: {message}", hint="name sizes of its inputs"))
    return translate_sizes(request, instance, symbols) if symbols else [instance]


def _refuse_random(instance: Instance) -> None:
    """Refuse a proof of random numbers, because each runtime draws different ones."""
    hint = (
        "write the model without a proof with `verify=False`, or export the part before with `upto`"
    )
    faults = []
    for node in filter(draws_numbers, instance.static.inference.nodes):
        message = f"{node.op} draws random numbers, and onnxruntime draws different ones, so nothing can be proved"
        faults.append(Fault(message, node=node.name, hint=hint))
    if faults:
        raise RefusedError(faults)


def place_model(out: str, source: Checkpoint) -> str:
    """Return the model's path: ``out`` with ``.onnx`` if it has no suffix, or a name in a
    directory.

    Raises:
        UsageError: ``out`` is stdout.
        RefusedError: the path is a file from which the model is made.
    """
    if out == "-":
        message = "a model is proved from its file, so it cannot go to stdout"
        raise UsageError(Fault(message, hint="name a file with `out`"))
    is_name = is_stem(out) and not is_directory(out)
    path = extend(out, ".onnx") if is_name else place_result(out, source, ".onnx")
    outputs = [UsedFile(path, "graph"), UsedFile(extend(path, ".data"), "parameters")]
    refuse_inputs_as_outputs(outputs, input_files(source))
    return path


@contextmanager
def _open_weights(source: Checkpoint) -> Iterator[ArrayReader | None]:
    if source.parameter_file is None:
        yield None
        return
    with ArrayReader(source.parameter_file) as reader:
        yield reader


def _name(source: Checkpoint) -> str:
    return base_name(source.stem) or name_of_file(source.where) or "graph"


def _describe_source(source: Checkpoint) -> dict[str, str]:
    version = source.graph.version
    metadata = {"source": base_name(source.where)} if source.where else {}
    if source.data:
        metadata["source.sha256"] = sha256(source.data).hexdigest()
    if version is not None:
        metadata["source.version"] = (
            f"MXNet {version // 10000}.{version // 100 % 100}.{version % 100}"
        )
    return {f"graphshare.{key}": value for key, value in metadata.items()}


def _report(
    exported: Checkpoint,
    instance: Instance,
    opset: int,
    notes: Sequence[str],
    proof: ExportReport | None,
    staged: StagedOnnx | None = None,
) -> Checkpoint:
    translated = instance.translated
    notes = [*notes, *instance.static.notes]
    if translated.custom:
        notes.append(
            f"written in a custom domain, and not proved: {format_names(translated.custom)}"
        )
    inputs, outputs = input_types(exported.graph), output_types(exported.graph)
    report = ExportFacts(
        path="",
        files=(),
        inputs={name: _list_sizes(stated) for name, stated in inputs.items()},
        outputs={name: _list_sizes(stated) for name, stated in outputs.items()},
        opset=opset,
        nodes=sum(1 for node in exported.graph.nodes if node.op),
        bytes=0,
        renamed=tuple(translated.renamed),
        dropped=tuple(translated.dropped),
        embedded=(),
        notes=tuple(notes),
        proof=proof,
    )
    if staged is not None:
        report = msgspec.structs.replace(
            report,
            path=staged.files[0],
            files=staged.files,
            bytes=staged.size,
            embedded=staged.embedded,
        )
    return msgspec.structs.replace(exported, report=report, notes=report.notes)


def _list_sizes(stated: TensorType) -> tuple[int | str, ...]:
    return tuple(size for size in stated.shape or () if size is not None)
