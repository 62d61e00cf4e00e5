"""``duplicate --verify``: the branches of a rewrite are compared before anything is put in place."""

from __future__ import annotations

from collections.abc import Sequence

from graphshare.analysis.branches import pair_by_prefix
from graphshare.analysis.implied import implied_variables
from graphshare.errors import DisprovedError, Fault
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph
from graphshare.rewrite.batch import find_batch
from graphshare.rewrite.upgrade import upgrade
from graphshare.verification.batched import verify_batched
from graphshare.verification.options import Options, Side
from graphshare.verification.verify import verify


def prove_branches(graph: Graph, params: ParameterFile | None, prefixes: Sequence[str]) -> str:
    """Compares the branches with these prefixes, with parameters drawn where there is no file; returns the verdict.

    Raises:
        DisprovedError: a branch differs; every difference is listed.
        RefusedError: it cannot be told: an operator without a kernel, a shape that nothing determines.
    """
    if any(implied_variables(graph)):
        graph = upgrade(graph, keep_amp_cast=True).graph
    side = Side(graph, params)
    options = Options(params_seed=0 if params is None else None)
    batched = find_batch(graph)
    report = verify_batched(batched, side, options) if batched else verify(pair_by_prefix(graph, prefixes), side, side, options)
    if not report:
        told = [
            Fault(f"{stage.name} of {branch.branch}: {detail}", hint="nothing was written")
            for branch in report.branches
            for stage in branch.stages
            if stage.verdict == "fails"
            for detail in stage.details or (stage.summary,)
        ]
        raise DisprovedError(told or [Fault(report.verdict)])
    return report.verdict
