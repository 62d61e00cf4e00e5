"""``check --fix``: rewrites that do not change the graph for MXNet, written in place or shown as a
diff.

Outputs, their order and everything they need stay unchanged. The new bytes are read back and
compared before they are written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import unified_diff

import msgspec

from graphshare.checks.config import CheckOptions
from graphshare.checks.context import CheckContext, NamedRecord
from graphshare.checks.document import BOM
from graphshare.checks.engine import run_rules
from graphshare.checks.targets import Target, read_context
from graphshare.errors import Fault, RefusedError, SelfCheckError, UsageError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.open_source import is_gzip
from graphshare.files.paths import real_path
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.source import MxnetSource, get_source
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.format import read_index
from graphshare.formats.params.records import Record
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Graph, freeze
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ir.walk import reachable, topological
from graphshare.ops.registry import total_outputs
from graphshare.text.format import format_count

MAX_DIFFED = 1 << 22  # bytes; the lines of a larger file are not compared
# Rewriting is enough: the writer escapes strings as MXNet reads them, and writes each key once.
_FIXED_BY_WRITING = frozenset(("GS004", "GS005", "GS009", "GS107"))
GRAPH_FIXES = _FIXED_BY_WRITING | {"GS003", "GS103", "GS104", "GS108", "GS109"}


class Fix(msgspec.Struct, frozen=True, eq=False):
    """New contents for the files of a target, None if unchanged; ``before`` are the graph file's
    current bytes.
    """

    target: Target
    before: bytes
    graph: bytes | None
    records: list[tuple[Record, str | None]] | None

    def __bool__(self) -> bool:
        return self.graph is not None or self.records is not None

    def list_paths(self) -> list[str]:
        changes = ((self.target.graph, self.graph), (self.target.params, self.records))
        return [path for path, change in changes if change is not None]


def plan_fixes(targets: Sequence[Target], options: CheckOptions) -> list[Fix]:
    """Return the fixes of all targets with fixable findings.

    Raises:
        InputError: a graph file cannot be read.
        UsageError: a target is standard input, or compressed.
    """
    if any(target.graph == "-" for target in targets):
        raise UsageError(
            Fault("`fix` writes files in place, and cannot fix standard input", hint="name a file")
        )
    return [fix for target in targets if (fix := _plan_fix(target, options))]


def _plan_fix(target: Target, options: CheckOptions) -> Fix | None:
    context = read_context(target, options)
    if not context.format.is_text or not target.graph:
        return None
    if is_gzip(target.graph):
        hint = "unpack it with gunzip, and name the unpacked file"
        raise UsageError(
            Fault(
                "is compressed with gzip, and `fix` writes in place", where=target.graph, hint=hint
            )
        )
    findings, _ = run_rules(context, options.codes_for(context.where))
    codes = {finding.code for finding in findings if finding.fixable}
    graph, records = fix_graph(context, codes), fix_records(context, codes)
    if graph == context.data:
        graph = None
    return Fix(target, context.data, graph, records)


def drop_repeated(fixes: Sequence[Fix]) -> list[Fix]:
    """Drop files that an earlier fix changes equally: graphs may share a parameter file, or be
    links.
    """
    changes: set[tuple[str, object]] = set()
    rest = []
    for fix in fixes:
        graph = (real_path(fix.target.graph), fix.graph)
        records = (real_path(fix.target.params), tuple(key for _, key in fix.records or ()))
        if graph in changes:
            fix = msgspec.structs.replace(fix, graph=None)
        if records in changes:
            fix = msgspec.structs.replace(fix, records=None)
        rest.append(fix)
        changes.update((graph, records))
    return rest


def stage_fix(fix: Fix, stage: OutputTransaction) -> None:
    """Stage the files of a fix and flush them to disk, because there may be thousands. Raises
    OutputError.
    """
    if fix.graph is not None:
        stage.open(fix.target.graph).write(fix.graph)
    if fix.records is not None:
        # Start-up
        from graphshare.formats.params.convert import stage_params

        source = read_index(fix.target.params)
        stage_params([(source, fix.records)], stage, fix.target.params)
    stage.complete()


def format_fix(fix: Fix) -> list[str]:
    """Return a diff of the graph file, and the record keys that change."""
    lines: list[str] = []
    if fix.graph is not None:
        lines += _diff_graph(fix.target.graph, fix.before, fix.graph)
    for record, key in fix.records or ():
        if key != record.key:
            path = fix.target.params
            lines += [f"--- {path}", f"+++ {path}", f"-{record.key}", f"+{key}"]
    return lines


def _diff_graph(path: str, before: bytes, after: bytes) -> list[str]:
    if max(len(before), len(after)) > MAX_DIFFED:
        sizes = f"{format_count(len(before), 'byte')} before, {len(after):,} after"
        return [f"{path}: would be rewritten ({sizes})"]
    left, right = (data.decode("utf-8", "backslashreplace").split("\n") for data in (before, after))
    return [line.rstrip("\n") for line in unified_diff(left, right, path, path, n=1)]


def fix_graph(context: CheckContext, codes: Collection[str]) -> bytes | None:
    """Return the graph file without the findings of ``codes``, or None if nothing is fixable.

    Raises:
        SelfCheckError: the new file would contain a different graph.
    """
    fixes = GRAPH_FIXES.intersection(codes)
    if not fixes or not context.has_graph:
        return None
    # The rest of the file stays unchanged.
    if fixes == {"GS003"}:
        return context.data.removeprefix(BOM)
    try:
        data = b"".join(write_symbol(_rewrite_graph(context, fixes)))
    except RefusedError:
        return None  # a NUL; no file for MXNet can contain one
    if context.data.startswith(BOM) and "GS003" not in fixes:
        data = BOM + data
    _check_fixed_graph(context, data)
    return data


def fix_records(
    context: CheckContext, codes: Collection[str]
) -> list[tuple[Record, str | None]] | None:
    """Return the records with their right keys, or None if no key changes."""
    if context.params is None:
        return None
    changes: list[tuple[NamedRecord, str]] = []
    if "GS404" in codes:
        changes += context.misfiled_records
    if "GS405" in codes:
        changes += context.bare_records
    if not changes:
        return None
    keys = {record.number: key for record, key in changes}
    taken = {record.key for record in context.params.records}
    new = set(keys.values())
    # Only the user knows which of two records with the right key is right.
    if len(new) < len(keys) or not new.isdisjoint(taken):
        return None
    return [(record, keys.get(i, record.key)) for i, record in enumerate(context.params.records)]


def _rewrite_graph(context: CheckContext, fixes: Collection[str]) -> Graph:
    graph = context.graph
    source = get_source(graph).after_rename()
    nodes = topological(graph) if "GS103" in fixes else graph.nodes
    if "GS104" in fixes:
        needed = set(context.reachable)
        nodes = tuple(node for node in nodes if node in needed)
    changes_nodes = nodes != graph.nodes
    if changes_nodes or "GS107" in fixes or "GS108" in fixes:
        source = _regularize(source, "arg_nodes")
    fixed = msgspec.structs.replace(graph, nodes=nodes, source=source)
    if changes_nodes or "GS109" in fixes:
        return _recount_outputs(fixed)
    return fixed


def _regularize(source: MxnetSource, key: str) -> MxnetSource:
    rest = {name: value for name, value in source.irregular.items() if name != key}
    return msgspec.structs.replace(source, irregular=freeze(rest))


def _recount_outputs(graph: Graph) -> Graph:
    source = _regularize(get_source(graph), "node_row_ptr")
    counts = [total_outputs(node) for node in graph.nodes]
    # With an unknown count the list is left out rather than guessed; MXNet does not need it.
    if None in counts:
        keys = tuple(key for key in source.keys if key != "node_row_ptr")
        return msgspec.structs.replace(graph, source=msgspec.structs.replace(source, keys=keys))
    numbers = dict(zip(graph.nodes, counts, strict=True))
    counted, _ = rebuild_graph(
        graph, lambda node: msgspec.structs.replace(node, num_outputs=numbers[node])
    )
    return msgspec.structs.replace(counted, source=source)


def _check_fixed_graph(context: CheckContext, data: bytes) -> None:
    again = read_symbol(data.removeprefix(BOM), where=context.where)
    if not _is_same_graph(context.graph, again):
        hint = "this is a bug in graphshare; nothing was written, please report it"
        raise SelfCheckError(
            Fault("would not be the same graph after `fix`", where=context.where, hint=hint)
        )


def _is_same_graph(graph: Graph, other: Graph) -> bool:
    """Whether names, attributes and structure of everything that the heads need are equal."""
    if len(graph.heads) != len(other.heads):
        return False
    pairing = compare_structure(graph.heads, other.heads)
    if not pairing or len(pairing.pairs) != len(reachable(graph)):
        return False
    return all(a.name == b.name and a.attrs == b.attrs for a, b in pairing.pairs)
