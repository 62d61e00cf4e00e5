"""PNG and PDF, which Graphviz draws."""

from __future__ import annotations

import shutil
import subprocess

from graphshare.errors import Fault, GraphshareError

LIMIT = 120  # seconds
IMAGES = ("png", "pdf")


class GraphvizError(GraphshareError):
    """Graphviz is not installed, or could not draw the graph."""


def render_image(dot: str, to: str) -> bytes:
    """Return the image that Graphviz draws of a graph in its language; ``to`` is ``png`` or ``pdf``.

    Raises:
        GraphvizError: Graphviz is not installed, refuses the graph, or takes longer than ``LIMIT`` seconds.
    """
    program = shutil.which("dot")
    if program is None:
        hint = "install it (apt install graphviz, brew install graphviz), or draw with --to svg, --to html or --to mermaid"
        raise GraphvizError(Fault(f"{to} needs Graphviz, but its program `dot` is not on the path", hint=hint))
    try:
        result = subprocess.run([program, f"-T{to}"], input=dot.encode(), capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        hint = "show less with --depth 1, or use --to svg"
        raise GraphvizError(Fault(f"Graphviz did not finish within {LIMIT} s", hint=hint)) from None
    except OSError as error:
        raise GraphvizError(Fault(f"Graphviz cannot be started: {error.strerror}", where=program)) from error
    if result.returncode:
        messages = result.stderr.decode("utf-8", "replace").strip().splitlines()
        hint = "if the graph is large, show less with --depth 1"
        raise GraphvizError(Fault(f"Graphviz refuses the graph: {messages[-1] if messages else result.returncode}", hint=hint))
    return result.stdout
