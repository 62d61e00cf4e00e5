"""Find the smallest parts of two models that show a difference, and write them for a bug report.

Both sides start from the original's values, and end at one value; docs/how-it-works.md has the
steps.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.load import load
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.save import input_files, save
from graphshare.errors import Fault, GraphshareError, RefusedError
from graphshare.execute.outputs import is_recordable
from graphshare.execute.prepare.prepare import unique_names
from graphshare.files.atomic import OutputTransaction, make_folder, refuse_links, refusing_links
from graphshare.files.leftovers import list_temporaries
from graphshare.files.paths import UsedFile, is_folder, join, list_names, refuse_inputs_as_outputs
from graphshare.files.staged_file import output_error
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.params.array_files import write_arrays
from graphshare.formats.params.format import find_format as find_parameter_format
from graphshare.formats.params.narrow_dtypes import widen
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs
from graphshare.resources import end_time_limit
from graphshare.text.format import format_count, format_dims, format_names
from graphshare.text.markup import quote_markdown, quote_shell, write_path
from graphshare.text.urls import redact
from graphshare.verification.comparison import BY_ELEMENT, Tolerate, compare_values
from graphshare.verification.flow import ProofOptions
from graphshare.verification.inputs import Inputs
from graphshare.verification.model_comparison import ModelComparison
from graphshare.verification.parts import cast_value, compute_part, cut_part, name_dtype
from graphshare.verification.region import Operator
from graphshare.verification.region_plan import Pair, get_place
from graphshare.verification.regions import Departure
from graphshare.verification.report import Reduction, Report

_LARGEST = 256
"""The most operators of a side whose inner values are compared with the other side's."""
_Inner = Mapping[Place, tuple[Entry, Any]]


class Parts(Struct, frozen=True, eq=False):
    """Both sides up to ``end``. ``starts`` maps each side's starting places to names of ``values``.

    ``dtypes`` has dtypes of places on the right where they differ, else None.
    """

    end: Pair
    starts: tuple[Mapping[Place, str], Mapping[Place, str]]
    values: Mapping[str, Array]
    dtypes: Mapping[Place, str | None]

    def list_nodes(self, side: int) -> list[Node]:
        nodes, pending = set[Node](), [self.end[side]]
        while pending:
            entry = pending.pop()
            if get_place(entry) not in self.starts[side] and entry.node not in nodes:
                nodes.add(entry.node)
                pending += entry.node.inputs
        return [node for node in post_order([self.end[side].node]) if node in nodes and node.op]

    def find_values(self, side: int) -> dict[Place, Array]:
        """Return a side's starting values by place, in its dtypes."""
        starts, end = self.starts[side], get_place(self.end[side])
        operands = chain(*(node.inputs for node in self.list_nodes(side)))
        reached = {end, *map(get_place, operands)}
        values = {place: self.values[name] for place, name in starts.items() if place in reached}
        if not side:
            return values
        return {place: cast_value(x, self.dtypes.get(place)) for place, x in values.items()}

    def list_shared(self) -> list[str]:
        """Name the values that both sides start from."""
        left, right = (
            {self.starts[side][place] for place in self.find_values(side)} for side in (0, 1)
        )
        shared = left & right
        return [name for name in self.values if name in shared]

    def start_at(self, a: Entry, b: Entry, value: Array, dtype: str) -> Parts:
        """Start both sides at ``a`` and ``b``, left and right, as one value."""
        name = unique_names([*self.values, output_name(a)])[-1]
        starts = {**self.starts[0], get_place(a): name}, {**self.starts[1], get_place(b): name}
        return Parts(
            self.end, starts, {**self.values, name: value}, {**self.dtypes, get_place(b): dtype}
        )

    def free_names(self) -> Parts:
        """Rename starts that have the name of a remaining operator."""
        # Starts are named after the original's values, whose operators the other side may keep.
        taken: dict[str, None] = {}
        for node in chain(self.list_nodes(0), self.list_nodes(1)):
            taken |= dict.fromkeys((node.name, *node.details.outputs))
        own_names = unique_names([*taken, *self.values])[len(taken) :]
        names = dict(zip(self.values, own_names, strict=True))
        starts = [{place: names[name] for place, name in side.items()} for side in self.starts]
        values = {names[name]: value for name, value in self.values.items()}
        return replace(self, starts=tuple(starts), values=values)


class Reducer:
    """Makes departing parts of a region smaller."""

    def __init__(self, departure: Departure, tolerate: Tolerate) -> None:
        self._departure, self._tolerate = departure, tolerate
        self.models = [side.model for side in departure.planner.sides]

    def reduce(self) -> Parts | None:
        """Return the smallest parts, or None if no end departs by itself."""
        parts, candidates = None, iter(self._list_whole())
        while smaller := next((each for each in candidates if self._compare(each) is False), None):
            parts, candidates = smaller, self._list_smaller(smaller)
        return parts

    def _list_whole(self) -> list[Parts]:
        plan, cone, feeds = self._departure.plan, self._departure.cone, self._departure.feeds
        sources = self._find_sources()
        named = self._name_sources([*sources[0].values(), *sources[1].values()])
        starts: tuple[dict[Place, tuple[str, Any]], dict[Place, tuple[str, Any]]] = {}, {}
        for own, side in zip(starts, sources, strict=True):
            for place, source in side.items():
                if get_place(source) in named:
                    own[place] = named[get_place(source)]
        name_input = self._departure.planner.sides[1].name_input
        for operand in chain(*(node.inputs for node in cone.right)):
            if not operand.node.op:
                name = name_input(operand.node)
                if name in feeds:
                    starts[1][operand.node, 0] = name, feeds[name]
        values = dict([*starts[0].values(), *starts[1].values()])
        left, right = ({place: name for place, (name, _) in side.items()} for side in starts)
        dtypes = {
            place: plan.find_dtype(entry) for place, (entry, _) in plan.list_sources(cone).items()
        }
        return [Parts(end, (left, right), values, dtypes) for end in cone.ends]

    def _find_sources(self) -> tuple[Mapping[Place, Entry], Mapping[Place, Entry]]:
        plan, cone = self._departure.plan, self._departure.cone
        # Values that the left side reads are starts: a part runs by itself.
        own = set(cone.left)
        left: dict[Place, Entry] = {}
        for e in chain(*(node.inputs for node in cone.left)):
            if e.node not in own and plan.left.key(e)[0] != "constant":
                left[get_place(e)] = plan.sources.get(plan.left.of(e), e)
        return left, {place: source for place, (_, source) in plan.list_sources(cone).items()}

    def _name_sources(self, sources: Iterable[Entry]) -> dict[Place, tuple[str, Any]]:
        nodes, feeds = self._departure.planner.sides[0].nodes, self._departure.feeds
        inputs = {
            (node, 0): (node.name, feeds[node.name])
            for node in nodes
            if not node.op and node.name in feeds
        }
        # Starts of both sides are computed once, under one name.
        computed = {get_place(e): e for e in sources if e.node.op}
        names = unique_names([output_name(e) for e in computed.values()])
        fed = {place: value for place, (_, value) in inputs.items()}
        values = compute_part(self.models[0], list(computed.values()), fed) if computed else []
        starts = zip(names, values, strict=True)
        return {**inputs, **dict(zip(computed, starts, strict=True))}

    def _list_smaller(self, parts: Parts) -> Iterator[Parts]:
        """The smallest parts come first."""
        nodes = [parts.list_nodes(side) for side in (0, 1)]
        # Pairs grow quadratically, and each may need a run.
        if max(map(len, nodes)) > _LARGEST:
            return
        try:
            inner = [self._compute_inner(parts, side, own) for side, own in enumerate(nodes)]
        except GraphshareError:
            return
        # In reverse: later starts leave fewer operators.
        for a, wanted in reversed(inner[0].values()):
            for b, value in reversed(inner[1].values()):
                if self._is_same(value, wanted):
                    yield parts.start_at(a, b, wanted, name_dtype(value))
        known: list[_Inner] = []
        for side, computed in enumerate(inner):
            starts = {p: (Entry(*p), x) for p, x in parts.find_values(side).items()}
            known.append({**starts, **computed})
        yield from self._list_earlier(parts, known)

    def _list_earlier(self, parts: Parts, inner: Sequence[_Inner]) -> Iterator[Parts]:
        """Yield parts that end at earlier differences, if the operators after these do the same."""
        for b, value in inner[1].values():
            for a, wanted in inner[0].values():
                if not _are_alike(value, wanted):
                    continue
                after = parts.start_at(a, b, wanted, name_dtype(value))
                # `is True`: None (a side cannot be computed) proves nothing.
                if self._compare(after) is True:
                    yield replace(parts, end=(a, b))

    def _compute_inner(
        self, parts: Parts, side: int, nodes: Sequence[Node]
    ) -> dict[Place, tuple[Entry, Any]]:
        # The end departs, and the starts are equal.
        left_out = {get_place(parts.end[side]), *parts.starts[side]}
        outputs = chain(*map(visible_outputs, nodes))
        entries = [entry for entry in outputs if get_place(entry) not in left_out]
        values = zip(entries, self._compute(parts, side, entries), strict=True)
        return {get_place(e): (e, value) for e, value in values if isinstance(value, np.ndarray)}

    def _compare(self, parts: Parts) -> bool | None:
        """Return None if a side cannot be computed."""
        try:
            wanted, value = (
                self._compute(parts, side, [end])[0] for side, end in enumerate(parts.end)
            )
        except GraphshareError:
            return None
        return self._is_same(value, wanted)

    def _is_same(self, value: Any, wanted: Any) -> bool:
        return bool(compare_values(value, wanted, self._tolerate(wanted, value)))

    def _compute(self, parts: Parts, side: int, targets: Sequence[Entry]) -> list[Any]:
        return compute_part(self.models[side], targets, parts.find_values(side)) if targets else []


def _are_alike(value: Any, wanted: Any) -> bool:
    """Shapes and kinds of numbers must be equal."""
    if not isinstance(value, np.ndarray) or not isinstance(wanted, np.ndarray):
        return False
    return (value.shape, value.dtype.kind) == (wanted.shape, wanted.dtype.kind)


_STEMS = ("original", "rewrite")
_INPUTS, _PAGE = "inputs.npz", "README.md"
_HEAD = (
    "# A difference between two models\n\nWritten by `graphshare compare --reduce`, which may "
    "write to this folder again.\n"
)
_HIDDEN = "the difference does not appear in parts that run by themselves, so nothing was written"
_OWN = rf"{re.escape(_PAGE)}|{re.escape(_INPUTS)}|({'|'.join(_STEMS)})[-.].+"
_RUN = """import numpy as np, onnxruntime as rt; x = dict(np.load("inputs.npz")); \
a, b = (rt.InferenceSession(name).run(None, x)[0] for name in ({})); print(abs(a - b).max())"""


def refuse_folder(folder: str) -> None:
    """Reject a folder with links or foreign files. Raises RefusedError, or OutputError."""
    try:
        names: list[str] = []
        if is_folder(folder):
            names = sorted(set(list_names(folder)).difference(list_temporaries(folder)))
        refuse_links(folder, [join(folder, name) for name in names])
        others = [name for name in names if not re.fullmatch(_OWN, name)]
        if not others and not _has_page(folder):
            others = names
    except OSError as error:
        raise output_error(error, folder) from error
    if others:
        message = (
            f"has files that `graphshare compare --reduce` did not write: {format_names(others, 6)}"
        )
        raise RefusedError(
            Fault(message, where=folder, hint="name a new or an empty folder with `reduce`")
        )


def _has_page(folder: str) -> bool:
    path = join(folder, _PAGE)
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_HEAD)) == _HEAD.encode()


def reduce_difference(folder: str, comparison: ModelComparison, options: ProofOptions) -> Report:
    """Compare two models, write the smallest parts that show their first difference, and report.

    The written files must reproduce it.

    Raises:
        RefusedError: no region departs on equal inputs, or the difference does not show in separate
            parts.
        OutputError: a file could not be written; its previous contents are still there.
    """
    report = comparison.run()
    if report:
        return replace(
            report, notes=(*report.notes, f"no difference, so nothing was written to {folder}")
        )
    models, parts = _find_parts(folder, report, comparison)
    with tempfile.TemporaryDirectory(prefix="graphshare-") as scratch:
        names = [_write_part(model, parts, side, scratch) for side, model in enumerate(models)]
        inputs = {name: widen(parts.values[name]) for name in parts.list_shared()}
        with open(os.path.join(scratch, _INPUTS), "wb") as file:
            write_arrays(inputs, file, find_parameter_format("npz"))
        left, right = (load(os.path.join(scratch, name)) for name in names)
        # From the files: these may agree although parts in memory depart.
        chosen = Inputs(seed=options.inputs.seed)
        own = replace(options, feeds=inputs, shapes={}, targets=(), inputs=chosen, layers=False)
        confirmed = ModelComparison(left, right, own, {}).run()
        if confirmed:
            raise _refuse(_HIDDEN, folder, report)
        verdict = confirmed.verdict.replace(os.path.join(scratch, ""), "")
        operators, others = (
            tuple(Operator(n.op, n.shown_name) for n in parts.list_nodes(side)) for side in (0, 1)
        )
        shapes = {name: array.shape for name, array in inputs.items()}
        files = tuple(join(folder, name) for name in (*sorted(os.listdir(scratch)), _PAGE))
        command = _make_command(folder, names, options)
        reduction = Reduction(files, operators, others, shapes, command, verdict)
        commands = _list_commands(models, names, options)
        page = _format_page(reduction, [model.where for model in models], commands)
        with open(os.path.join(scratch, _PAGE), "wb") as file:
            file.write(page.encode())
        _place_files(scratch, folder, files, models)
    return replace(report, reduced=reduction)


def _find_parts(
    folder: str, report: Report, comparison: ModelComparison
) -> tuple[Sequence[Checkpoint], Parts]:
    if not comparison.departures:
        message = (
            "the difference has no place: no region departs on equal inputs, so nothing was written"
        )
        raise _refuse(message, folder, report)
    reducer = Reducer(comparison.departures[0], comparison.tolerate)
    parts = reducer.reduce()
    if parts is None:
        raise _refuse(_HIDDEN, folder, report)
    parts = parts.free_names()
    unwritable = [name for name, value in parts.values.items() if not is_recordable(value)]
    if unwritable:
        message = (
            f"the smallest parts start from what no file of arrays of numbers can hold: "
            f"{format_names(unwritable)}"
        )
        raise _refuse(message, folder, report)
    return reducer.models, parts


def _refuse(message: str, folder: str, report: Report) -> RefusedError:
    return RefusedError(Fault(f"{message} ({report.verdict})", where=folder))


def _place_files(
    scratch: str, folder: str, files: Sequence[str], models: Sequence[Checkpoint]
) -> None:
    """Raise RefusedError if a file is one of the models' own."""
    sources = [used for model in models for used in input_files(model)]
    refuse_inputs_as_outputs([UsedFile(path, "graph") for path in files], sources)
    # A time limit while files are put in place would lose the answer.
    end_time_limit()
    with make_folder(folder), refusing_links(folder), OutputTransaction() as stage:
        for path in files:
            with open(os.path.join(scratch, os.path.basename(path)), "rb") as file:
                shutil.copyfileobj(file, stage.open(path))
        stage.commit()


def _write_part(model: Checkpoint, parts: Parts, side: int, folder: str) -> str:
    """Return the file's name. Starts of only this side become parameters."""
    values = parts.find_values(side)
    names = {place: parts.starts[side][place] for place in values}
    # The file of inputs must fit both models.
    shared = parts.list_shared()
    own = {names[place]: value for place, value in values.items() if names[place] not in shared}
    (end,) = compute_part(model, [parts.end[side]], values)
    if not isinstance(end, np.ndarray):
        raise RefusedError(
            Fault("the smallest parts end in a sequence or in nothing, which is not written")
        )
    rewrite, _ = cut_part(model, [parts.end[side]], values, names, own)
    part = follow_rewrite(model, rewrite, drop_unused=True)
    graph = find_format(part.graph).editing.declare_output(part.graph, name_dtype(end), end.shape)
    outputs = save(
        replace(part, graph=graph, epoch=0).with_params(own), os.path.join(folder, _STEMS[side])
    )
    return _STEMS[side] if outputs.params else os.path.basename(outputs.graph)


def _make_command(folder: str, names: Sequence[str], options: ProofOptions) -> str:
    folder = write_path(folder)
    original, rewrite = (join(folder, name) if folder else name for name in names)
    words = ["graphshare", "compare", original, rewrite, "--inputs", folder or "."]
    chosen, usual = options.tolerance, BY_ELEMENT
    for option, value, default in (
        ("--atol", chosen.atol, usual.atol),
        ("--rtol", chosen.rtol, usual.rtol),
    ):
        if value != default:
            words += [option, repr(value)]
    return quote_shell(*words)


def _list_commands(
    models: Sequence[Checkpoint], names: Sequence[str], options: ProofOptions
) -> Iterator[str]:
    """The commands run in the folder."""
    yield _make_command("", names, options)
    if not any(find_format(model.graph).supports(Operation.PARAMETER_FILE) for model in models):
        yield quote_shell("python", "-c", _RUN.format(", ".join(f'"{name}"' for name in names)))


def _format_page(reduction: Reduction, sources: Sequence[str], commands: Iterable[str]) -> str:
    lines = [_HEAD, quote_markdown(reduction.verdict), ""]
    for stem, where, operators in zip(
        _STEMS, sources, (reduction.operators, reduction.other_operators), strict=True
    ):
        listed = ", ".join(quote_markdown(str(each)) for each in operators)
        model = quote_markdown(redact(where)) if where else "a model"
        lines.append(
            f"- {stem}: {format_count(len(operators), 'operator')} of {model}: {listed or 'none'}"
        )
    shapes = ", ".join(
        f"{quote_markdown(name)} {format_dims(shape)}" for name, shape in reduction.inputs.items()
    )
    lines += [f"- {_INPUTS}: {shapes or 'none'}", "", "Run in this folder:"]
    for command in commands:
        lines += ["", f"    {command}"]
    return "\n".join(lines) + "\n"
