"""Talking to a process that has MXNet."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.surroundings import oracle_environment

PROCESS = Path(__file__).with_name("mxnet_process.py")


class CrashError(Exception):
    """The question ended the process."""


class Oracle:
    """One MXNet for many questions: importing it takes seconds.

    It starts at the first question, and again after a crash.
    """

    def __init__(self, python: str) -> None:
        self._python = python
        self._process: subprocess.Popen[str] | None = None

    def ask(self, ask: str, **question: Any) -> dict[str, Any]:
        """The answer; what MXNet refuses has an ``error``.

        Raises:
            CrashError: MXNet died of it.
        """
        if self._process is None:
            pipes = {
                "stdin": subprocess.PIPE,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.DEVNULL,
            }
            self._process = subprocess.Popen(
                [self._python, str(PROCESS)],
                env=oracle_environment(),
                text=True,
                encoding="utf-8",
                **pipes,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": ask, **question}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        status = self._process.wait()
        self._process = None
        raise CrashError(f"MXNet ended with status {status} at {ask} {str(question)[:300]}")

    def known(self, ask: str, **question: Any) -> dict[str, Any]:
        """An answer that must not be an error."""
        answer = self.ask(ask, **question)
        assert "error" not in answer, answer["error"]
        return answer

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None
