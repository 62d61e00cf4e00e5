"""``--max-memory`` and ``--time-limit``: what asks for more is refused before memory is taken, in a small address space."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import RefusedError, UsageError
from graphshare.resources import available_memory, parse_size
from tests.processes import COMMAND, environment, refused, write_json
from tests.symbols import Record, document, operator, variable

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is not kept elsewhere")
ADDRESS_SPACE = 3 << 30


def run_bounded(*arguments: str, cwd: Path, timeout: float = 60) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process that cannot have more than 3 GiB of addresses."""
    import resource

    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        cwd=cwd,
        env=environment(OPENBLAS_NUM_THREADS="2"),
        timeout=timeout,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE)),
    )


def of_x(op: str, **attrs: str) -> list[Record]:
    """A variable and an operator on it."""
    return [variable("x"), operator(op, "huge", [0], attrs=attrs)]


def doubled(times: int) -> list[Record]:
    """``Concat(x, x)`` of itself."""
    joins = [operator("Concat", f"join{i}", [i, i], attrs={"num_args": "2", "dim": "0"}) for i in range(times)]
    return [variable("x"), *joins]


# Nodes, of which the last is the head; the node that is refused; options.
HUGE: dict[str, tuple[list[Record], str, list[str]]] = {
    "_ones": ([operator("_ones", "huge", [], attrs={"shape": "(40000, 40000)"})], "huge", []),
    "declared shape": (
        [variable("huge", attrs={"__shape__": "(30000, 30000)"}), operator("relu", "r", [0])],
        "huge",
        [],
    ),
    "doubled": (doubled(30), "join", ["--shape", "x=2,3"]),
    "_arange": ([operator("_arange", "huge", [], attrs={"start": "0", "stop": "1e12"})], "huge", []),
    "_npi_zeros": ([operator("_npi_zeros", "huge", [], attrs={"shape": "(1000000, 1000000)"})], "huge", []),
    "Embedding": (
        [
            variable("x"),
            variable("w", attrs={"__shape__": "(10, 100000)"}),
            operator("Embedding", "huge", [0, 1], attrs={"input_dim": "10", "output_dim": "100000"}),
        ],
        "huge",
        ["--shape", "x=1000,1000"],
    ),
    "one_hot": (of_x("one_hot", depth="2147483647"), "huge", ["--shape", "x=2"]),
    "tile": (of_x("tile", reps="(100000, 100000)"), "huge", ["--shape", "x=2,3"]),
    "repeat": (of_x("repeat", repeats="2000000000"), "huge", ["--shape", "x=2,3"]),
    "Pad": (of_x("Pad", mode="constant", pad_width="(0,0,0,0,50000,50000,50000,50000)"), "huge", ["--shape", "x=1,1,2,3"]),
    "broadcast_to": (of_x("broadcast_to", shape="(100000, 100000)"), "huge", ["--shape", "x=1,1"]),
}


@pytest.mark.parametrize("case", HUGE)
def test_run_refuses_what_does_not_fit_before_it_takes_memory(tmp_path: Path, case: str) -> None:
    nodes, node, options = HUGE[case]
    write_json(tmp_path / "g.json", document(nodes, [len(nodes) - 1]))
    done = run_bounded("run", "g.json", "--random", "0", "--random-params", "0", *options, cwd=tmp_path)
    refused(done, f'(node "{node}', " take ", "GB are available", "--max-memory SIZE")


@pytest.mark.parametrize("case", HUGE)
def test_check_and_inspect_take_no_memory_by_attributes(tmp_path: Path, case: str) -> None:
    nodes, _, options = HUGE[case]
    write_json(tmp_path / "g.json", document(nodes, [len(nodes) - 1]))
    for command in (["check", "--shape"], ["inspect"]):
        words = options if command[0] == "inspect" else [option for option in options if option != "--shape"]
        arguments = ["check", "g.json", *options] if command[0] == "check" else ["inspect", "g.json", *words]
        done = run_bounded(*arguments, cwd=tmp_path, timeout=10)
        assert done.returncode in (0, 1), done.stderr.decode()
        assert b"bug of graphshare" not in done.stderr
        assert b"MemoryError" not in done.stderr


@pytest.mark.parametrize(
    "command", [["run", "--random", "0"], ["verify", "--against", "h.json"], ["run", "--random", "0", "--all"]]
)
def test_the_limit_of_the_user_is_kept(tmp_path: Path, command: list[str]) -> None:
    nodes = [variable("x"), operator("relu", "first", [0]), operator("tanh", "second", [1])]
    for name in ("g.json", "h.json"):
        write_json(tmp_path / name, document(nodes, [2]))
    name, *options = command
    arguments = [name, "g.json", *options, "--shape", "x=1000,1000"]
    said = refused(run_bounded(*arguments, "--max-memory", "9M", cwd=tmp_path), "4.0 MB", "the limit is 9.0 MB", "--max-memory")
    assert '(node "first")' in said or '(node "second")' in said
    assert run_bounded(*arguments, "--max-memory", "20M", cwd=tmp_path).returncode == 0


def test_training_counts_all_that_it_keeps(tmp_path: Path) -> None:
    nodes = [
        variable("x"),
        variable("w_weight"),
        operator("FullyConnected", "fc", [0, 1], attrs={"num_hidden": "500", "no_bias": "1"}),
    ]
    for i in range(8):
        nodes.append(operator("tanh", f"t{i}", [i + 2]))
    write_json(tmp_path / "g.json", document(nodes, [len(nodes) - 1]))
    gs.run(tmp_path / "g.json", seed=0, params_seed=0, shapes={"x": (500, 500)}, max_memory="6M")
    with pytest.raises(RefusedError, match=r"the limit is 6\.0 MB"):
        gs.train(tmp_path / "g.json", steps=1, seed=0, params_seed=0, shapes={"x": (500, 500)}, max_memory="6M")


def test_a_bound_graph_keeps_the_limit(tmp_path: Path) -> None:
    write_json(tmp_path / "g.json", document([variable("x"), operator("relu", "r", [0])], [1]))
    bound = gs.bind(tmp_path / "g.json", max_memory=10_000)
    assert bound(x=np.ones((2, 2), "float32"))["r_output"].shape == (2, 2)
    with pytest.raises(RefusedError, match=r"outputs of relu \(100,100\) take 40\.0 kB"):
        bound(x=np.ones((100, 100), "float32"))


@pytest.mark.parametrize(("text", "size"), [("2G", 2 * 10**9), ("512m", 512 * 10**6), ("1.5GiB", 3 << 29), ("4096", 4096)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1G", "2X", "much", "1e9"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size of memory"):
        parse_size(text)


def test_available_memory_is_known() -> None:
    assert (available_memory() or 0) > 1 << 20


def test_a_run_ends_at_its_time_limit(tmp_path: Path) -> None:
    nodes = [variable("x")]
    for i in range(2000):
        nodes.append(operator("dot", f"d{i}", [i, 0]))
    write_json(tmp_path / "g.json", document(nodes, [2000]))
    arguments = ["--shape", "x=1500,1500", "--time-limit", "1"]
    started = time.monotonic()
    said = refused(run_bounded("run", "g.json", "--random", "0", "-o", "out.npz", *arguments, cwd=tmp_path))
    assert "the time limit of 1 s has passed; nothing was written" in said
    said = refused(run_bounded("verify", "g.json", "--against", "g.json", *arguments, cwd=tmp_path))
    assert "--time-limit S" in said
    assert time.monotonic() - started < 8
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.json"]
    with pytest.raises(RefusedError, match=r"the time limit of 0\.2 s"):
        gs.run(tmp_path / "g.json", seed=0, shapes={"x": (1500, 1500)}, time_limit=0.2)


def test_native_code_that_does_not_return_ends_too(tmp_path: Path) -> None:
    """One product of matrices takes longer than the limit; the signal waits for it."""
    write_json(tmp_path / "g.json", document([variable("x"), operator("dot", "d", [0, 0])], [1]))
    started = time.monotonic()
    arguments = ["--random", "0", "--shape", "x=9000,9000", "--time-limit", "3"]
    refused(run_bounded("run", "g.json", *arguments, cwd=tmp_path), "the time limit of 3 s")
    assert time.monotonic() - started < 7
