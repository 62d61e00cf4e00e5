"""``share`` and ``detect``: tie parameters inside one graph, undo ties, and find parameters to
share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from graphshare.analysis.name_lists import output_name
from graphshare.api.load_rules import make_ruleset
from graphshare.api.stated_types import find_untyped, parse_types, state_untyped
from graphshare.arguments import Text
from graphshare.checkpoint.load import Model, Names, StrPath, as_checkpoint, as_names, check_roles
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import Fault, RefusedError, UsageError, locate_refusals
from graphshare.formats.model_format import Operation, find_format
from graphshare.rewrite.find_candidates import Candidates, find_candidates
from graphshare.rewrite.rules.model import Kind, Reuse, Rule, Ruleset
from graphshare.rewrite.share_parameters import (
    EQUAL,
    Repair,
    find_repeated_names,
    plan_doctor,
    plan_share,
)
from graphshare.rewrite.tie import Sharing, Tied, Ties, note_copied_attributes, plan_untie
from graphshare.text.format import format_count

PURPOSES = "give rules (`overrides`, `aliases`, `rules`), or one of `detect`, `equal`, `untie`, `doctor`, `transposed`"
_EQUAL = ("values", "bytes")


def _alias_equal(candidates: Iterable[Candidates]) -> list[Rule]:
    groups = [each.names for each in candidates if each.why in _EQUAL]
    return [
        Rule("alias", f"={name}", names[0], place=EQUAL) for names in groups for name in names[1:]
    ]


def _make_rules(kind: Kind, option: str, pairs: Mapping[str, str]) -> list[Rule]:
    return [
        Rule(kind, old, new, place=f"`{option}={{{old!r}: {new!r}}}`", option=True)
        for old, new in pairs.items()
    ]


def share(
    model: Model,
    rules: Ruleset | StrPath | None = None,
    *,
    aliases: Mapping[str, str] = MappingProxyType({}),
    overrides: Mapping[str, str] = MappingProxyType({}),
    separator: Text | None = None,
    reuse: Reuse | None = None,
    untie: Names = (),
    doctor: Repair | None = None,
    transposed: bool = False,
    equal: bool = False,
    as_input: Names = (),
    as_parameter: Names = (),
    types: Mapping[str, str] = MappingProxyType({}),
) -> Checkpoint:
    """Tie parameters inside one graph: parameters with one name after all rules become one node
    with one record.

    Operators and outputs keep their names, and so do inputs with a default, unless ``as_parameter``
    names them. ``rules`` are a file or the result of :func:`load_rules`; ``overrides`` (scope to
    scope) and ``aliases`` (parameter or pattern to parameter) apply after them. ``separator``
    separates the parts of scopes (``/``). ``reuse`` says whether the target of a tie must exist:
    ``auto`` ties if it does and renames otherwise, ``require`` rejects a missing target, and
    ``forbid`` an existing one. Instead of rules, ``equal`` ties all parameters with equal bytes,
    regardless of their names; ``untie`` has patterns of parameters, and each operator that reads
    one gets its own copy; ``doctor`` fixes variables of one name, because MXNet's Module rejects
    them: ``tie`` makes them one, ``separate`` gives each its own name. ``transposed`` ties, in an
    ONNX model, tables that Gathers read to parameters that are their transposes, such as the
    embedding and the last layer of a language model: the Gather takes columns, and a Transpose of
    its output follows. A rule may tie parameters of an ONNX model that have equal bytes and
    different shapes: one becomes a Reshape of the other. In both cases onnxruntime must compute the
    same bits before and after; if it cannot run, a note says why. The index of a table needs a
    rank. If neither the file nor ONNX's inference gives its type, it is taken from ``types``
    (``{"ids": "int64[n,s]"}``), else onnxruntime computes it for drawn inputs.

    Raises:
        InputError: the rules file cannot be read or has faults; all are listed.
        UsageError: there are no rules, or rules together with another mode; a type is malformed, or
            given for a value whose type is known.
        RefusedError: nothing would change, the rules do not fit the graph, or parameters of
            different kinds, shapes or dtypes would be one; all are listed.
        DisprovedError: onnxruntime computes different bits.
    """
    has_rules = rules is not None or bool(aliases or overrides)
    purposes = sum((has_rules, bool(as_names(untie)), doctor is not None, transposed, equal))
    if purposes != 1:
        raise UsageError(
            Fault(
                "several purposes cannot be combined"
                if purposes
                else "no rule or option for sharing",
                hint=PURPOSES,
            )
        )
    unused: dict[str, object] = {} if has_rules else {"`separator`": separator, "`reuse`": reuse}
    unused |= (
        {"`as_input`": as_names(as_input), "`as_parameter`": as_names(as_parameter)}
        if transposed
        else {}
    )
    refuse_unused(unused, "without rules" if not transposed else "with `transposed`")
    refuse_unused({} if transposed else {"`types`": types}, "without `transposed`")
    source = as_checkpoint(model)
    if equal:
        extra = _alias_equal(detect(source, as_input=as_input, as_parameter=as_parameter))
    else:
        extra = [
            *_make_rules("scope", "overrides", overrides),
            *_make_rules("alias", "aliases", aliases),
        ]
    if transposed:
        with locate_refusals(source):
            return _tie_transposed(source, types)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        check_roles(source.graph.variables(), as_input, as_parameter)
        roles: dict[str, Any] = {
            "params": source.parameter_file,
            "as_input": as_names(as_input),
            "as_parameter": as_names(as_parameter),
        }
        if untie:
            report = plan_untie(source.graph, as_names(untie), **roles)
        elif doctor:
            report = plan_doctor(source.graph, doctor, **roles)
        else:
            ruleset = make_ruleset(rules, extra, separator=separator, reuse=reuse)
            report = plan_share(source.graph, ruleset, **roles)
    notes = [
        *notes_on(source.parameter_file, source.graph, report.roles),
        *_note_repeated_names(source, doctor),
        *report.notes,
    ]
    notes += [] if untie else note_copied_attributes(source.graph)
    needs_params = any((report.ties.tied, report.ties.renamed, report.ties.copied, report.renames))
    tied = follow_rewrite(source, report, report=report, notes=notes, needs_params=needs_params)
    if report.reshaping is None:
        return tied
    return _prove(tied, follow_rewrite(tied, report.reshaping, report=report, notes=notes))


def refuse_unused(options: Mapping[str, object], where: str) -> None:
    """Raise UsageError with all given options that have no effect ``where`` they are used."""
    faults = [
        Fault(f"{option} has no effect {where}", hint="leave it out")
        for option, value in options.items()
        if value
    ]
    if faults:
        raise UsageError(faults)


def _tie_transposed(source: Checkpoint, types: Mapping[str, str]) -> Checkpoint:
    # Start-up: few models are ONNX models
    from graphshare.onnx_ops.transposed import find_tables, list_gathers, tie_transposed

    find_format(source.graph).require(Operation.POOL, what="`transposed`", where=source.where)
    pairs = (
        {}
        if source.parameter_file is None
        else dict(find_tables(source.graph, source.parameter_file))
    )
    if not pairs:
        message = (
            "no parameter would change: no table that Gathers read has its transpose beside it"
        )
        hint = "Gathers in bodies stay: tie models before they are merged; `gs.detect(GRAPH)` lists other ties"
        raise RefusedError(Fault(message, hint=hint))
    untyped = find_untyped(
        source.graph, [gather.inputs[1] for gather in list_gathers(source.graph, pairs)]
    )
    stated = parse_types(
        types, [(output_name(entry), entry) for entry in untyped], "the index of a table"
    )
    stating = state_untyped(source, source.graph, untyped, stated)
    source = source if stating is None else follow_rewrite(source, stating)
    rewrite = tie_transposed(source.graph, pairs)
    tied = [Tied(table.name, twin.name, "") for table, twin in pairs.items()]
    own = {node.to for node in tied}
    names = [
        node.name
        for node in rewrite.graph.variables()
        if node.details.holds_value and node.name not in own
    ]
    report = Sharing(rewrite.graph, rewrite.branches, roles={}, ties=Ties(tied, [], [], names))
    return _prove(source, follow_rewrite(source, rewrite, report=report, drop_unused=True))


def _prove(source: Checkpoint, model: Checkpoint) -> Checkpoint:
    """Note that bits could not be compared; DisprovedError if they differ."""
    # Start-up: --help must not import numpy
    from graphshare.verification.whole_model import compare_bits

    comparison = compare_bits(source, model, source.where)
    if comparison.were_compared:
        return model
    return replace(model, notes=(*model.notes, f"not proved by a run: {comparison.text}"))


def _note_repeated_names(source: Checkpoint, doctor: Repair | None) -> list[str]:
    repeated = {} if doctor else find_repeated_names(source.graph)
    return [
        f"{name!r} is the name of {format_count(len(nodes), 'variable')}, "
        "which MXNet's Module refuses; `doctor='tie'` or separate fixes it"
        for name, nodes in repeated.items()
    ]


def detect(model: Model, *, as_input: Names = (), as_parameter: Names = ()) -> list[Candidates]:
    """Find parameters that could be shared: by equal values, or by equal form and related names.

    Raises:
        InputError: the parameter file cannot be read.
    """
    source = as_checkpoint(model)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        check_roles(source.graph.variables(), as_input, as_parameter)
        return find_candidates(
            source.graph,
            params=source.parameter_file,
            as_input=as_names(as_input),
            as_parameter=as_names(as_parameter),
        )
