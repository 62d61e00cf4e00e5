"""``downgrade``: one graph for an older MXNet version."""

from __future__ import annotations

from graphshare.arguments import Text
from graphshare.checkpoint.load import Model, as_checkpoint
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import Fault, RefusedError, locate_refusals
from graphshare.formats.model_format import Operation, require
from graphshare.rewrite.downgrade_graph import OldVersion


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
