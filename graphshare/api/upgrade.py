"""``upgrade``, ``downgrade`` and ``format``: one graph for another MXNet version, or in another
layout.
"""

from __future__ import annotations

from graphshare.arguments import Text
from graphshare.checkpoint.load import Model, as_checkpoint
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import Fault, RefusedError, locate_refusals
from graphshare.formats.model_format import Operation, find_format, require
from graphshare.ir.graph import Branch, Kept, Rewrite
from graphshare.reports.model import Finding, FindingsReport, Level, RuleInfo
from graphshare.rewrite.downgrade import OldVersion
from graphshare.rewrite.upgrade import upgrade as upgrade_graph
from graphshare.text.markup import quote_shell

_RULE = RuleInfo(
    "format-layout",
    "format-layout",
    Level.ERROR,
    "The file is not laid out as asked for",
    fixable=True,
)


def upgrade(model: Model, *, keep_amp_cast: bool = False) -> Checkpoint:
    """Convert the graph to the form that MXNet 1.9.1 writes after loading its file.

    Implied auxiliary states become nodes under the names that their parameters already have. Symbol.save removes
    ``amp_cast`` and ``amp_multicast``; ``keep_amp_cast`` keeps them.

    Raises:
        RefusedError: MXNet would reject the file, or an operator is not known well enough; every such node is listed.
    """
    source = as_checkpoint(model)
    require(source.graph, Operation.UPGRADE, where=source.where)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        rewrite = upgrade_graph(source.graph, keep_amp_cast=keep_amp_cast)
    return follow_rewrite(source, rewrite, notes=notes_on(source.parameter_file, rewrite.graph))


def downgrade(model: Model, version: Text) -> Checkpoint:
    """Convert the graph for MXNet ``version``, from 0.9.5 (``"0.9.5"``) to 1.8, and saved
    parameters too.

    Operators that the version computes differently are rejected, or noted if that depends on the
    inputs or the device. Between the measured versions (0.9.5, 0.10.0, 0.12.1, 1.2.1, 1.4.1, 1.6.0)
    the earlier one decides, and a note says so.

    Raises:
        UsageError: the version is not in this range.
        RefusedError: as :func:`upgrade`; the version lacks operators, attributes or dtypes; all are
            listed.
    """
    source = as_checkpoint(model)
    require(source.graph, Operation.DOWNGRADE, where=source.where)
    old = OldVersion(version)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        rewrite = old.downgrade(source.graph)
        records = () if source.parameter_file is None else source.parameter_file.records
        # The operator Cast of a version lists its dtypes.
        lacking = [
            record
            for record in records
            if record.dtype and not old.has(f"Cast.dtype={record.dtype}")
        ]
        if lacking:
            raise RefusedError(
                [
                    Fault(f"MXNet {version} lacks {each.dtype}, the type of {each.key!r}")
                    for each in lacking
                ]
            )
    notes = [*rewrite.notes, *notes_on(source.parameter_file, rewrite.graph)]
    if not f"{version}.0.".startswith(f"{old.measured}."):
        notes = [*notes, f"judged by MXNet {old.measured}, the last one measured before {version}"]
    return follow_rewrite(source, rewrite, notes=notes)


def format(model: Model, layout: str | None = None) -> Checkpoint:
    """Change the ``layout`` of the graph's file: ``mxnet``, ``compact`` or ``indent:N``; None keeps the file's layout.

    Raises:
        UsageError: there is no such layout.
        RefusedError: the format of the model has no layouts.
    """
    source = as_checkpoint(model)
    format_ = find_format(source.graph)
    graph = format_.demand(format_.layout, Operation.LAYOUT, where=source.where).relayout(
        source.graph, layout
    )
    return follow_rewrite(source, Rewrite(graph, (Branch("", source.graph, Kept(source.graph)),)))


def layout_report(where: str, layout: str, *, changes: bool) -> FindingsReport:
    """Return the result of ``format --check`` as findings for the report formats."""
    again = quote_shell(
        "graphshare", "format", *(("--layout", layout) if layout else ()), where, "-o", where
    )
    message = (
        f"is not laid out as {layout}" if layout else "does not follow the rules of its own layout"
    )
    finding = Finding(
        code=_RULE.code,
        level=_RULE.level,
        message=message,
        where=where,
        line=1,
        column=1,
        hint=again,
        fixable=True,
    )
    return FindingsReport(
        command="format --check",
        files=(where,),
        findings=(finding,) if changes else (),
        rules=(_RULE,),
    )
