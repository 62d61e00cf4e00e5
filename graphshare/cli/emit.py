"""What every rewriting command does with its result: print the plan, or write it and say what was done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from graphshare.checkpoint.load import Checkpoint, Outputs, refusals_of, resolve_outputs
from graphshare.checkpoint.parameter_plan import Plan, plan_records
from graphshare.checkpoint.save import write_results
from graphshare.cli.console import put, put_json, say
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Rewrite


class Delivery(msgspec.Struct, frozen=True):
    """The output options of a command line."""

    out: str | None
    params_out: str | None
    map_out: str | None
    dry_run: bool
    format: str
    verify_bytes: bool
    strict: bool


def deliver(
    rewrite: Rewrite,
    source: Checkpoint,
    delivery: Delivery,
    *,
    drop_unused: bool = False,
    needs_params_out: bool = False,
    notes: Sequence[str] = (),
    proof: Callable[[ParameterFile | None], None] | None = None,
    report: Mapping[str, Any] = MappingProxyType({}),
) -> Outputs:
    """Writes the rewrite of ``source``, or prints it as a plan; ``notes`` become warnings, or refusals with ``--strict``.

    ``needs_params_out`` says that the new graph uses names which the old parameter file does not hold. ``proof`` is asked
    before anything is in place. ``report`` is what a plan as JSON holds beside the map.
    """
    plan = None if source.params is None else plan_records(source.params, rewrite, drop_unused=drop_unused)
    records = [] if source.params is None or plan is None else [(source.params, plan)]
    return deliver_joined(
        rewrite, [source], records, delivery, needs_params_out=needs_params_out, notes=notes, proof=proof, report=report
    )


def deliver_joined(
    rewrite: Rewrite,
    sources: Sequence[Checkpoint],
    records: Sequence[tuple[ParameterFile, Plan]],
    delivery: Delivery,
    *,
    needs_params_out: bool,
    notes: Sequence[str] = (),
    proof: Callable[[ParameterFile | None], None] | None = None,
    report: Mapping[str, Any] = MappingProxyType({}),
) -> Outputs:
    """:func:`deliver` for a rewrite of one or more ``sources``; ``records`` say what becomes of their parameter files."""
    namesake = next((source for source in sources if source.params is not None), sources[0])
    outputs = resolve_outputs(delivery.out, delivery.params_out, delivery.map_out, namesake)
    if delivery.strict and notes:
        raise RefusedError([Fault(note) for note in notes])
    if outputs.map == "-":
        raise UsageError(Fault("the map cannot go to standard output", hint="name a file with --map-out"))
    if not records and outputs.params:
        hint = "name the parameter file with --params"
        raise UsageError(Fault("--params-out has nothing to write: there is no parameter file", hint=hint))
    if records and not outputs.params and needs_params_out and not delivery.dry_run:
        hint = "add --params-out FILE, or write both under a stem (-o siam)"
        raise UsageError(Fault("the parameters get new names, and nothing says where to write them", hint=hint))
    for note in notes:
        say(note, style="warning")
    by_graph = {source.graph: source for source in sources}
    if delivery.dry_run:
        _print_plan(rewrite, by_graph, records, delivery.format, report)
        return outputs
    if outputs.graph == "-":
        refuse_terminal()
    text = None
    if outputs.map:  # the map needs hashes, which take time to import
        from graphshare.checkpoint.map_file import map_text

        text = map_text(rewrite, by_graph)
    with refusals_of(namesake):
        write_results(rewrite.graph, outputs, params=records, map_text=text, verify_bytes=delivery.verify_bytes, proof=proof)
    return outputs


def refuse_terminal() -> None:
    """Refuses to write a graph where a person would have to read it.

    Raises:
        UsageError: standard output is a terminal.
    """
    if sys.stdout is not None and sys.stdout.isatty():
        raise UsageError(Fault("the graph would go to the terminal", hint="add -o FILE, or pipe it on"))


def _print_plan(
    rewrite: Rewrite,
    sources: Mapping[Graph, Checkpoint],
    plans: Sequence[tuple[ParameterFile, Plan]],
    format_: str,
    report: Mapping[str, Any],
) -> None:
    from graphshare.checkpoint.map_file import map_of

    records = [{"from": record.key, "to": key} for _, plan in plans for record, key in plan]
    if format_ == "json":
        found: dict[str, Any] = {**map_of(rewrite, sources), "records": records, **report}
        put_json(found)
        return
    put(_plan_lines(map_of(rewrite, sources)["entries"], records))


def _plan_lines(entries: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        new = entry["to"]["name"] if entry["to"] else "-"
        yield f"{entry['how']:8} {entry['from']['kind']:8} {entry['from']['name']} -> {new}"
    for record in records:
        yield f"{'record':8} {'':8} {record['from']} -> {record['to']}"
