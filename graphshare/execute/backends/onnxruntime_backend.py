"""The backend ``onnxruntime``: ONNX models in sessions; errors name the file and node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from graphshare.execute.backends.backend import Backend, Computation, Encode
from graphshare.execute.backends.onnx_session import EXTRA, has_runtime
from graphshare.execute.backends.session import BackendSession, SessionSettings
from graphshare.execute.backends.session_computation import SessionComputation
from graphshare.execute.engines.executor import Executor
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Entry, Graph

# The forms in which onnxruntime names a node in messages.
_NODE = re.compile(r"Name:'([^']+)'|Node ?\(([^)]+)\)")

# Equal branches must both be computed, or a comparison would compare a branch with itself.
_SETTINGS = SessionSettings(merge_equal=False)


class OnnxComputation(SessionComputation):
    """Heads of a graph in a session of onnxruntime.

    ``encode`` returns a graph's bytes and the folder of its external data. By default the model is
    someone else's, and the session is confined; our ``own`` translation is confined only under a
    memory limit. Raises RefusedError, too, for external data in several directories.
    """

    engine = "onnxruntime"
    variants = (
        msgspec.structs.replace(_SETTINGS, optimize=False),
        msgspec.structs.replace(_SETTINGS, threads=1),
        msgspec.structs.replace(_SETTINGS, threads=2),
        msgspec.structs.replace(_SETTINGS, prepack=False),
    )

    def __init__(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        where: str,
        settings: SessionSettings,
        *,
        encode: Encode | None = None,
        own: bool = False,
    ) -> None:
        self._encode, self._own = encode, own
        super().__init__(graph, parameters, where, settings)

    def _copy(self, graph: Graph, settings: SessionSettings) -> SessionComputation:
        return OnnxComputation(
            graph, self.parameters, self.where, settings, encode=self._encode, own=self._own
        )

    def _open(self, heads: Sequence[Entry]) -> BackendSession:
        # Start-up: few runs are of ONNX models
        from graphshare.execute.backends.confined_session import ConfinedSession, open_session
        from graphshare.formats.onnx.staging import encode_for_session

        part = msgspec.structs.replace(self.graph, heads=tuple(heads))
        self.check_sizes(EMPTY)
        with self.locate():
            model, folder = (
                encode_for_session(part, self.parameters)
                if self._encode is None
                else self._encode(part)
            )
            if self._own:
                return open_session(model, folder, settings=self._settings)
            # Threads sleep: spinning in the other process would slow this one down.
            return ConfinedSession(
                model, folder, settings=msgspec.structs.replace(self._settings, awake=False)
            )

    def _find_node(self, message: str) -> str | None:
        match = _NODE.search(message)
        return match and (match[1] or match[2])


class OnnxruntimeBackend(Backend):
    """onnxruntime: it computes a graph as a whole."""

    name = "onnxruntime"

    def open(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        where: str,
        executor: Executor | None,
        *,
        exact: bool = False,
        encode: Encode | None = None,
        own: bool = False,
        **_: Any,
    ) -> Computation:
        # Optimizations would reorder sums on one side only: compared graphs have different
        # operators.
        settings = msgspec.structs.replace(_SETTINGS, optimize=not exact, prepack=not exact)
        return OnnxComputation(graph, parameters, where, settings, encode=encode, own=own)

    def find_obstacle(self) -> str:
        if has_runtime():
            return ""
        return f"onnxruntime, which computes ONNX models, is not installed: {EXTRA.format('it')}"

    def warm_up(self) -> None:
        # Start-up: runs of graphs with kernels do not need it
        from graphshare.execute.backends.confined_session import start_process

        start_process()


BACKEND = OnnxruntimeBackend()
