"""What differs between two models whose values are compared, and which of it no value that was computed shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.branches import HeadPairs
from graphshare.checkpoint.model import Checkpoint
from graphshare.formats.model_format import find_statement_changes
from graphshare.formats.params.lookup import compare_parameters
from graphshare.ir.compare import NodeDifference, Pairing, describe_bodies, find_content_changes
from graphshare.ir.walk import consumers
from graphshare.text.format import format_count, format_names
from graphshare.verification.coverage import BodyCoverage
from graphshare.verification.pairing import SidePair, pair_heads, pair_nodes
from graphshare.verification.report import OTHER_MODEL, Report, Stage, exact_stage, structure_stage


class ModelChanges(msgspec.Struct, frozen=True, eq=False):
    """What differs between two models whose outputs are compared, in words.

    ``values`` are those of weights, functions and attributes, each with the name of an operator that it concerns, ``bodies``
    the operators with other bodies: what was computed may not show them. ``owners`` has by name how the bodies of an operator
    differ from those of the same name, and ``deep`` are those with bodies inside of them.
    """

    pairing: Pairing
    everything: Sequence[str]
    values: Sequence[tuple[str, str]]
    bodies: Sequence[NodeDifference]
    owners: Mapping[str, str]
    deep: frozenset[str]

    def add_to(self, report: Report, coverage: BodyCoverage) -> Report:
        """Return a report with the changes, and with a stage that fails where one of them changed nothing that was computed."""
        (branch,) = report.branches
        if branch.regions and not branch.regions[0].regions:
            exact = msgspec.structs.replace(branch, stages=(exact_stage(branch.regions[0]), *branch.stages))
            return msgspec.structs.replace(report, branches=(exact,))
        structure = structure_stage(self.pairing)
        if self.everything:
            summary = f"{format_count(len(self.everything), 'difference')}, so values alone are compared"
            structure = Stage("structure", "skipped", summary, tuple(self.everything))
        stages = [structure, *branch.stages]
        layers = [layer for values in branch.rounds for layer in values.layers]
        is_same = all(output.comparison.identical for values in branch.rounds for output in values.outputs)
        alike = frozenset[str]().union(*(each.list_alike() for each in branch.regions)) if branch.regions else None
        hidden = [text for name, text in self.values if alike is None or not name or name in alike] if is_same else []
        for body in self.bodies if alike is None else ():
            own = [layer.comparison.identical for layer in layers if layer.node in (body.left.name, body.right.name)]
            hidden += [body.describe()] if is_same or (own and all(own)) else []
        if branch.regions and not hidden:
            judged = frozenset.intersection(*(each.list_operators() for each in branch.regions)) & self.owners.keys()
            hiding = frozenset.intersection(*(each.list_hidden() for each in branch.regions))
            hiding -= coverage.list_taken(both=True) - self.deep
            unseen = judged & (hiding | coverage.list_taken(both=False))
            hidden += [f"{name!r}: {self.owners[name]}" for name in sorted(unseen)]
            if rest := sorted(judged & self.deep - unseen):
                note = f"{format_names(rest)}: bodies inside of the bodies differ, and which were computed is not counted"
                report = msgspec.structs.replace(report, notes=(*report.notes, note))
        if hidden and report:
            summary = f"{len(hidden)} of {format_count(len(self.everything), 'difference')} changed nothing that was computed"
            stages.append(Stage("changes", "fails", summary, tuple(hidden)))
            report = msgspec.structs.replace(report, notes=(*report.notes, "`feeds` gives inputs that show the other changes"))
        return msgspec.structs.replace(report, branches=(msgspec.structs.replace(branch, stages=tuple(stages)),))


def find_changes(left: Checkpoint, right: Checkpoint, *, across_dtypes: bool) -> ModelChanges:
    """Return what differs between two models, whose outputs are paired as :func:`compare_models` does.

    With ``across_dtypes`` weights of unlike dtypes are not a difference.
    """
    _, heads = pair_heads(left, right)
    pairing = pair_nodes(HeadPairs("", OTHER_MODEL, tuple(left.graph.heads), tuple(heads)), left, right)
    sides = SidePair(left, right)
    parameters = [(a, b) for a, b in pairing.variables if sides.is_parameter(a, b)]
    compared = compare_parameters(parameters, sides.is_auxiliary, *sides.records)
    different = [p for p in compared if p.how == "different" and not (across_dtypes and p.detail.startswith("types "))]
    weights = [f"{p.left.name!r} and {p.right.name!r}: {p.detail}" for p in different]
    users = consumers(node for node in left.graph.nodes if node.op)
    names = [users[p.left][0][0].name if p.left in users else "" for p in different]
    values = list(zip(names, weights, strict=True))
    stated = find_statement_changes(left.graph, right.graph, pairing.pairs, computed=True)
    # Versions are judged with their operators, and a function that is gone by what took the place of its calls.
    values += [
        ("", each.describe())
        for each in stated
        if each.what != "operator set" and not (each.what == "function" and None in (each.old, each.new))
    ]
    values += [(each.left.name, each.describe()) for each in pairing.differences if _changes_value(each)]
    bodies = [each for each in pairing.differences if each.left.op == each.right.op and each.left.subgraphs]
    twins = {node.name: node for node in right.graph.nodes if node.subgraphs}
    own = [node for node in left.graph.nodes if node.subgraphs]
    compared_bodies = {n.name: describe_bodies(n, twins[n.name]) if n.name in twins else "no such bodies" for n in own}
    owners = {name: what for name, what in compared_bodies.items() if what}
    deep = frozenset(node.name for node in own if any(inner.subgraphs for body in node.subgraphs for inner in body.nodes))
    return ModelChanges(pairing, (*pairing.describe(), *weights), values, bodies, owners, deep)


def _changes_value(difference: NodeDifference) -> bool:
    """Whether an operator has another value of an attribute; one that is stated on one side alone may be the default."""
    changes = list(find_content_changes(difference.left, difference.right))
    return changes != [] and all(c.what == "attribute" and c.old is not None and c.new is not None for c in changes)
