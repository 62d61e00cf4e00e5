"""Sessions of Paddle's predictor, in the confined process; only this module imports paddle (optional)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from graphshare.confined_process import find_process
from graphshare.errors import Fault, InputError, UsageError, install_command
from graphshare.execute.backends.session import (
    BackendSession,
    RemoteSession,
    SessionSettings,
    serve_sessions,
)

Declared = Mapping[str, tuple[str, Sequence[int | str | None]]]
"""The dtype and the shape of each input by name."""
_SUMMARY = re.compile(
    r"(?:.*Error Message Summary:\s*-+)?\s*(.+?)\s*(?:\[operator < .*)?", re.DOTALL
)
_LONGEST = 400  # characters of a Paddle message: its C++ traces have thousands
EXTRA = f"{install_command('paddle')} installs {{}}"


def has_paddle() -> bool:
    """Return whether paddle is installed, without importing it."""
    return find_spec("paddle") is not None


class ConfinedPredictor(RemoteSession):
    """A predictor of a graph and its parameters in another process.

    ``outputs`` are (name, dtype, name to read, possibly an input's). The files are not needed once
    it is open. With ``partial`` unreadable outputs are None: memory never written to, or reused.

    Raises:
        UsageError: paddle is not installed.
        InputError: it refuses the graph.
    """

    module = __name__
    program = "paddle"

    def __init__(
        self,
        graph: str,
        parameters: str,
        inputs: Declared,
        outputs: Sequence[tuple[str, str, str]],
        settings: SessionSettings,
        *,
        partial: bool = False,
    ) -> None:
        if not has_paddle():
            raise UsageError(Fault("paddle is not installed", hint=EXTRA.format("it")))
        self._open((graph, parameters), inputs, outputs, settings, partial)


def start_process() -> None:
    """Start the process if paddle is installed, while the caller goes on."""
    if has_paddle():
        find_process(__name__, ConfinedPredictor.program)


class _Predictor(BackendSession):
    """A predictor in this process; the process exists for it alone."""

    defaults: Mapping[str, Sequence[Any]] = {}

    def __init__(
        self,
        files: Sequence[str],
        inputs: Declared,
        outputs: Sequence[tuple[str, str, str]],
        settings: Mapping[str, Any],
        partial: bool,
    ) -> None:
        paddle, self._partial, own = _load(), partial, SessionSettings(**settings)
        self.version = paddle.__version__
        self.inputs = {name: shape for name, (_, shape) in inputs.items()}
        self.dtypes = {name: dtype for name, (dtype, _) in inputs.items()}
        self.outputs, self.output_types, self._read_as = (
            list(each) for each in zip(*outputs, strict=True)
        )
        try:
            config = paddle.inference.Config(*files)
            config.disable_glog_info()
            config.disable_mkldnn()  # Paddle 3.3 stops at nearest_interp with it
            config.switch_ir_optim(own.optimize)
            config.set_cpu_math_library_num_threads(own.threads)
            self._predictor = paddle.inference.create_predictor(config)
        except Exception as error:  # its exceptions have no common class
            raise InputError(
                Fault(f"paddle {self.version} refuses the graph: {_summarize(error)}")
            ) from error

    def compute(self, feeds: Mapping[str, Any]) -> list[Any]:
        predictor = self._predictor
        try:
            for name in predictor.get_input_names():
                if name in feeds:
                    predictor.get_input_handle(name).copy_from_cpu(feeds[name])
            predictor.run()
            return [
                feeds[name] if name in self.inputs else self._read(name) for name in self._read_as
            ]
        except Exception as error:  # as above
            raise InputError(Fault(f"paddle {self.version} fails: {_summarize(error)}")) from error

    def _read(self, name: str) -> Any:
        try:
            return self._predictor.get_output_handle(name).copy_to_cpu()
        except Exception:
            if self._partial:
                return None
            raise


def _summarize(error: Exception) -> str:
    match = _SUMMARY.fullmatch(str(error))
    return " ".join((match[1] if match else str(error)).split())[:_LONGEST]


def _load() -> ModuleType:
    """Import paddle with its inference; this takes seconds."""
    # Paddle creates a data folder in the home folder, here a temporary one.
    with TemporaryDirectory(prefix="graphshare-") as home:
        os.environ.update(HOME=home, USERPROFILE=home)
        import paddle
        import paddle.inference
    return paddle  # type: ignore[no-any-return]


def serve(model: str) -> None:
    """Answer messages on predictors; their files are named in the messages."""
    serve_sessions(_make, _load)


def _make(data: list[bytes], *values: Any) -> BackendSession:
    return _Predictor(*values)
