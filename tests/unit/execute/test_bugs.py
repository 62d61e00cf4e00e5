"""Whatever a kernel, a rule or a gradient raises but KernelError is a bug, and is reported as one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.cli.main import FAILED
from graphshare.cli.main import run as run_command
from graphshare.errors import BugError, GraphshareError, RefusedError
from graphshare.execute.interpreter import run_graph
from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph
from graphshare.ops.gradient import Gradient
from graphshare.ops.inference import infer
from graphshare.ops.kernel import Kernel, KernelError
from graphshare.ops.registry import GRADIENTS, KERNELS
from graphshare.ops.unification import same_dtypes, same_shapes
from tests.symbols import document, operator, variable

ERRORS = [ValueError("7 is odd"), KeyError("axis"), TypeError("no len"), IndexError("3"), ZeroDivisionError("by 0"),
          AttributeError("shape"), RuntimeError("broken"), AssertionError("never")]  # fmt: skip
NODES = [variable("data"), operator("buggy", "middle", [0]), operator("tanh", "out", [1])]


def raising(error: Exception) -> Callable[..., Any]:
    def function(*arguments: Any) -> Any:
        raise error

    return function


def graph() -> Graph:
    return read_symbol(json.dumps(document(NODES, [2])).encode())


@pytest.fixture
def register() -> Iterator[Callable[..., None]]:
    """Register the operator ``buggy``, the identity but for the parts given, for one test."""

    def add(*, vjp: Any = lambda record, dy: dy, forward: Any = lambda context, attrs, x: x, shapes: Any = same_shapes,
            types: Any = same_dtypes) -> None:  # fmt: skip
        KERNELS.register(Kernel("buggy", forward, shapes, types))
        GRADIENTS.register(Gradient("buggy", vjp))

    yield add
    KERNELS.registered.pop("buggy", None)
    GRADIENTS.registered.pop("buggy", None)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("part", ["forward", "shapes", "types", "vjp"])
def test_an_unexpected_exception_is_a_bug_with_node_operator_shapes_and_dtypes(
    part: str, error: Exception, register: Callable[..., None]
) -> None:
    register(**{part: raising(error)})
    with pytest.raises(BugError) as caught:
        everything()
    told = str(caught.value)
    assert all(
        text in told
        for text in (
            "buggy",
            "'middle'",
            "data",
            "float32",
            "(2,3)",
            type(error).__name__,
            str(error),
        )
    )
    assert caught.value.__cause__ is error
    assert not isinstance(caught.value, GraphshareError)


def everything() -> None:
    """Infer, run and go back."""
    net = graph()
    data = net.nodes[0]
    infer(net, {data: (2, 3)}, {data: "float32"})
    values = {data: np.ones((2, 3), np.float32)}
    run_graph(net.heads, values)
    tape = Tape(make_plan(net.heads), values, [data])
    tape.backward([np.ones((2, 3), np.float32)])


@pytest.mark.parametrize("part", ["forward", "shapes", "types", "vjp"])
def test_a_kernel_error_is_a_refusal(part: str, register: Callable[..., None]) -> None:
    register(**{part: raising(KernelError("7 is odd"))})
    with pytest.raises(RefusedError, match="7 is odd"):
        everything()


def test_nothing_is_raised_where_nothing_is_wrong(register: Callable[..., None]) -> None:
    register()
    everything()


COMMANDS = {
    "run": ["run", "net.json", "--seed", "0", "--shape", "data=2,3"],
    "verify": ["verify", "two.json", "--prefix", "b-", "--shape", "data=2,3"],
    "check": ["check", "net.json", "--shape", "data=2,3"],
    "inspect": ["inspect", "net.json", "--shape", "data=2,3"],
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.json").write_text(json.dumps(document(NODES, [2])))
    twins = [
        *NODES,
        variable("b-data"),
        operator("buggy", "b-middle", [3]),
        operator("tanh", "b-out", [4]),
    ]
    Path("two.json").write_text(json.dumps(document(twins, [2, 5])))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("run", "forward"),
        ("run", "shapes"),
        ("verify", "forward"),
        ("verify", "types"),
        ("inspect", "shapes"),
    ],
)
def test_a_command_reports_a_bug_as_one(
    command: str, part: str, register: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    register(**{part: raising(ValueError("7 is odd"))})
    assert run_command(COMMANDS[command]) == FAILED
    told = capsys.readouterr().err
    assert "this is a bug" in told
    assert "middle" in told
    assert "Traceback" not in told
    assert run_command(["--debug", *COMMANDS[command]]) == FAILED
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "ValueError: 7 is odd" in told
