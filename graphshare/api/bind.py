"""``bind``: a model compiled once, with its parameters, for many forward passes."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from graphshare.analysis.name_lists import name_outputs, resolve_targets
from graphshare.analysis.roles import assign_roles, find_auxiliary
from graphshare.arguments import Natural
from graphshare.checkpoint.load import Model, Names, as_checkpoint, as_names
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import check_belongs, list_parameter_names
from graphshare.errors import locate_refusals
from graphshare.execute.backends.backend import EngineOptions, choose_executor, open_computation
from graphshare.execute.bound import Binding, Bound, BoundWhole
from graphshare.execute.prepare.assignment import refuse_missing
from graphshare.execute.prepare.feeds import parameter_values
from graphshare.execute.prepare.prepare import runnable_part
from graphshare.formats.model_format import find_format
from graphshare.ir.walk import post_order
from graphshare.resources import memory_limit, parse_size

_CALLS = 100
"""The estimated number of calls of a bound graph, for ``auto``."""


_ARRAYS: WeakValueDictionary[Any, Any] = WeakValueDictionary()
"""Parameters of bound graphs, in memory once for all graphs that are bound to one file.

The file is not mapped: the system ends a process that reads a page of a mapped file which was cut
short.
"""


def bind(
    model: Model,
    *,
    targets: Names = (),
    seed: Natural = 0,
    engine: str | None = None,
    strict_engine: bool = False,
    max_memory: Natural | str | None = None,
) -> Bound:
    """Compile the heads of a model, or ``targets``, to be computed often with the same parameters.

    The first passes are slower than later ones. ``seed`` is for random operators. ``engine``,
    ``strict_engine`` and ``max_memory`` are the same as in :func:`run`; an engine compiles the
    graph once for each combination of input shapes. ``"auto"`` counts on a hundred calls.

    Raises:
        UnsupportedError: operators without a kernel; all are listed.
        RefusedError: parameters without values, targets that are not in the graph; all of a
            kind are in one error.
        UsageError: the engine is not installed.
    """
    source = as_checkpoint(model)
    graph, params, names = source.graph, source.parameter_file, as_names(targets)
    use = EngineOptions(strict_engine, _CALLS, fixed=True)
    executor = choose_executor(graph, engine, where=source.where, options=use)
    size = parse_size(max_memory) if isinstance(max_memory, str) else max_memory
    again = partial(
        bind,
        source,
        targets=names,
        seed=seed,
        engine=engine,
        strict_engine=strict_engine,
        max_memory=size,
    )
    binding = Binding(again, seed, size)
    with locate_refusals(source):
        check_belongs(params, graph)
        wanted = (
            resolve_targets(names, graph.nodes, option="`targets`", heads=graph.heads)
            if names
            else list(graph.heads)
        )
        part, _ = runnable_part(graph, wanted)
        outputs = name_outputs(graph, wanted)
        if not find_format(graph).knows_operators:
            with memory_limit(size):
                return BoundWhole(
                    open_computation(Checkpoint(part, params, source.where)), outputs, binding
                )
        roles = assign_roles(part, held=list_parameter_names(params))
        nodes = post_order(entry.node for entry in part.heads)
        variables = [node for node in nodes if node.is_variable]
        values = parameter_values(variables, params, find_auxiliary(roles), shared=_ARRAYS)
        refuse_missing(
            [n for n in variables if n not in values and roles[n].is_parameter],
            roles,
            seed,
            None,
            params,
        )
        return Bound(part, outputs, values, roles, binding, executor)
