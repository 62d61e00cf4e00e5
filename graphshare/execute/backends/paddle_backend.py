"""The backend ``paddle``: Paddle's graphs in its own predictor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.parameters import split_by_origin
from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import Backend, Computation
from graphshare.execute.backends.paddle_session import (
    EXTRA,
    ConfinedPredictor,
    has_paddle,
    start_process,
)
from graphshare.execute.backends.session import BackendSession, SessionSettings
from graphshare.execute.backends.session_computation import SessionComputation
from graphshare.execute.engines.executor import Executor
from graphshare.formats.facets import TensorType
from graphshare.formats.paddle.edit import find_fetched, settle_outputs
from graphshare.formats.paddle.types import find_type
from graphshare.formats.paddle.write import encode_program
from graphshare.formats.params.convert import write_parts
from graphshare.formats.params.format import find_format
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import list_value_places
from graphshare.resources import count_threads
from graphshare.text.format import format_names


class PaddleComputation(SessionComputation):
    """Heads of a graph in a confined predictor. Raises RefusedError, too, for parameters without values."""

    engine = "paddle"

    variants = (
        SessionSettings(optimize=True),
        *(SessionSettings(optimize=False, threads=count) for count in (1, 2)),
    )

    def _open(self, heads: Sequence[Entry], *, partial: bool = False) -> BackendSession:
        self.check_sizes({})
        # The predictor loses a value that is two outputs, or an output and an input.
        places = list_value_places(map(find_fetched, heads))
        once = {
            place: head
            for place, head in zip(places, heads, strict=True)
            if place[0].details.holds_value is not False
        }
        part = settle_outputs(msgspec.structs.replace(self.graph, heads=tuple(once.values())))
        read = {place: head.node.name for place, head in zip(once, part.heads, strict=True)}
        inputs, parameters = list[Node](), list[Node]()
        for node in part.variables():
            (parameters if node.details.holds_value else inputs).append(node)
        with TemporaryDirectory(prefix="graphshare-") as folder, self.locate():
            # It loads only files, and has read them once it is open.
            graph, params = (
                os.path.join(folder, "model.json"),
                os.path.join(folder, "model.pdiparams"),
            )
            with open(graph, "wb") as file:
                file.write(encode_program(part))
            if parameters:
                self._write_parameters(parameters, params)
            return ConfinedPredictor(
                graph,
                params if parameters else "",
                {node.name: _declare(Entry(node)) for node in inputs},
                [
                    (output_name(e), _declare(e)[0], read.get(p, p[0].name))
                    for e, p in zip(heads, places, strict=True)
                ],
                msgspec.structs.replace(
                    self._settings, threads=self._settings.threads or count_threads()
                ),
                partial=partial,
            )

    def _write_parameters(self, nodes: Sequence[Node], path: str) -> None:
        names = {node.name for node in nodes}
        file = self.parameters
        records = (
            () if file is None else tuple(record for record in file.records if record.key in names)
        )
        missing = sorted(names - {record.key for record in records})
        if missing or file is None:
            hint = "name a parameter file with `params`"
            raise RefusedError(
                Fault(f"parameters have no values: {format_names(missing)}", hint=hint)
            )
        with open(path, "wb") as out:
            write_parts(
                split_by_origin(msgspec.structs.replace(file, records=records)),
                out,
                find_format("pdiparams"),
            )

    def _open_watched(self, heads: Sequence[Entry]) -> BackendSession:
        return self._open(heads, partial=True)

    def _list_watched(self) -> list[Entry]:
        return [
            entry for entry in super()._list_watched() if isinstance(find_type(entry), TensorType)
        ]


def _declare(entry: Entry) -> tuple[str, Sequence[Any]]:
    kind = find_type(entry)
    return (kind.dtype, kind.shape or ()) if isinstance(kind, TensorType) else (str(kind), ())


class PaddleBackend(Backend):
    """Paddle: it computes a graph as a whole."""

    name = "paddle"

    def open(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        where: str,
        executor: Executor | None,
        **_: Any,
    ) -> Computation:
        return PaddleComputation(graph, parameters, where, SessionSettings(optimize=False))

    def find_obstacle(self) -> str:
        if has_paddle():
            return ""
        return f"paddle, which computes Paddle graphs, is not installed: {EXTRA.format('it')}"

    def warm_up(self) -> None:
        start_process()


BACKEND = PaddleBackend()
