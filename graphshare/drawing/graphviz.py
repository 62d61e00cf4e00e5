"""Graphviz, where it is installed: the program that places boxes and draws."""

from __future__ import annotations

import shutil
import subprocess

from graphshare.errors import Fault, GraphshareError

LIMIT = 120  # seconds


class GraphvizError(GraphshareError):
    """Graphviz is not there, or could not draw."""


def render(dot: str, format_: str = "svg") -> str:
    """What Graphviz makes of a graph in its language.

    Raises:
        GraphvizError: it is not installed, refuses the graph, or takes longer than ``LIMIT`` seconds.
    """
    program = shutil.which("dot")
    if program is None:
        hint = "install it (apt install graphviz, brew install graphviz), or draw with --to dot or --to mermaid"
        raise GraphvizError(Fault("svg is drawn by Graphviz, whose program `dot` is not on the path", hint=hint))
    try:
        done = subprocess.run([program, f"-T{format_}"], input=dot.encode(), capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        hint = "show less with --depth 1, or take --to dot and another program"
        raise GraphvizError(Fault(f"Graphviz has not drawn it within {LIMIT} s", hint=hint)) from None
    except OSError as error:
        raise GraphvizError(Fault(f"Graphviz cannot be started: {error.strerror}", where=program)) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        hint = "if it is large, show less of it with --depth 1"
        raise GraphvizError(Fault(f"Graphviz refuses the picture: {said[-1] if said else done.returncode}", hint=hint))
    return done.stdout.decode("utf-8", "replace")
