"""``verify``: the proof that branches compute the same, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.roles import Kind
from graphshare.errors import Fault, RefusedError
from graphshare.execute.plan import UnsupportedError, unsupported
from graphshare.formats.params.lookup import ParameterPair, compare_parameters
from graphshare.ir.compare import Pairing, compare_structure
from graphshare.ir.graph import Graph, Node
from graphshare.verification.inputs import RoundValues, Sides, values_of_round
from graphshare.verification.options import Options, Side
from graphshare.verification.stages import Stage, parameter_stage, structure_stage, value_stage
from graphshare.verification.training import Training
from graphshare.verification.training_stage import answer, train_branches
from graphshare.verification.values import compare_values
from graphshare.verification.verdict import BranchReport, Report


def verify(heads: Sequence[HeadPairs], left: Side, right: Side, options: Options | None = None) -> Report:
    """Compares the branches that ``heads`` pair: the references stand in ``left``, the others in ``right`` (often the same).

    Raises:
        RefusedError: shapes are missing or contradict each other, a feed fits nothing, a parameter is missing.
        UnsupportedError: operators without a kernel, unless that is allowed; all are listed.
    """
    options = options or Options()
    check_given([left.graph, right.graph], options)
    sides = Sides(left, right)
    notes: dict[str, None] = {}
    reports = tuple(_verify_branch(pair, sides, options, notes) for pair in heads)
    return Report(reports, tuple(notes))


def _verify_branch(pair: HeadPairs, sides: Sides, options: Options, notes: dict[str, None]) -> BranchReport:
    pairing = compare_structure(pair.left, pair.right)
    stages = [structure_stage(pairing)]
    if not pairing:
        return BranchReport(pair.reference, pair.label, tuple(stages))
    variables = [(a, b) for a, b in pairing.pairs if a.is_variable]
    parameters = [(a, b) for a, b in variables if sides.roles[0][a].is_parameter]
    inputs = [(a, b) for a, b in variables if not sides.roles[0][a].is_parameter]
    found = compare_parameters(parameters, lambda node: sides.roles[0][node].kind is Kind.AUXILIARY, *sides.records)
    stages.append(parameter_stage(found, sides.records[0] is None))
    faults = unsupported([a for a, _ in pairing.pairs])
    if faults and options.allow_unsupported:
        operators = sorted({fault.message for fault in faults})
        stages.append(Stage("values", "skipped", "not run", tuple(operators)))
        return BranchReport(pair.reference, pair.label, tuple(stages))
    if faults:
        raise UnsupportedError(faults)
    made = [values_of_round(pair, inputs, found, sides, options, number, notes) for number in range(options.rounds)]
    rounds = tuple(
        compare_values(
            pair.left,
            pair.right,
            pairing.pairs,
            (ready.left, ready.right),
            atol=options.atol,
            rtol=options.rtol,
            shapes=ready.inference.shapes,
        )
        for ready in made
    )
    stages.append(value_stage(rounds))
    training = None
    if options.train_step:
        if stages[-1].verdict == "fails":
            stages.append(Stage("training", "skipped", "the branches differ before they are trained"))
        else:
            training = _trained(pair, pairing, inputs, found, made[0], sides, options)
            stages.append(Stage("training", *answer(training, expect_tied=options.expect_tied)))
    return BranchReport(pair.reference, pair.label, tuple(stages), rounds, training)


def _trained(
    pair: HeadPairs,
    pairing: Pairing,
    inputs: Sequence[tuple[Node, Node]],
    found: Sequence[ParameterPair],
    made: RoundValues,
    sides: Sides,
    options: Options,
) -> Training:
    return train_branches(
        pair,
        pairing,
        inputs,
        found,
        (made.left, made.right),
        made.inference,
        sides.roles[0],
        feeds=options.feeds,
        seed=options.seed,
        atol=options.atol,
        rtol=options.rtol,
    )


def check_given(graphs: Sequence[Graph], options: Options) -> None:
    """Refuses feeds and shapes for what no variable is called. Raises RefusedError with all such names."""
    from graphshare.text.names import did_you_mean

    known = {node.name for graph in graphs for node in graph.variables()}
    faults = [
        Fault(f"{option} {name!r} names no variable", hint=did_you_mean(name, known))
        for option, given in (("--feed", options.feeds), ("--shape", options.shapes))
        for name in given
        if name not in known
    ]
    if faults:
        raise RefusedError(faults)
