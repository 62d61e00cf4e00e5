"""``--max-memory`` and ``--time-limit``: what asks for more is refused before memory is taken, in a
small address space.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.api.params import measure_params
from graphshare.errors import RefusedError, UsageError
from graphshare.execute.prepare.variable_values import draw_input, draw_parameter
from graphshare.formats.params.npz import encode_npy_header
from graphshare.ir.graph import Node
from graphshare.resources import _free_in_machine, available_memory, parse_size
from tests import params_bytes
from tests.processes import COMMAND, environment, graphshare, refused, write_json
from tests.surroundings import mark_everyday
from tests.symbols import Record, document, operator, variable

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="RLIMIT_AS is not kept elsewhere"
)
ADDRESS_SPACE = 3 << 30


def run_bounded(
    *arguments: str, cwd: Path, timeout: float = 60, space: int = ADDRESS_SPACE
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process that cannot have more addresses than ``space`` bytes."""
    import resource

    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        cwd=cwd,
        env=environment(OPENBLAS_NUM_THREADS="2"),
        timeout=timeout,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (space, space)),
    )


def of_x(op: str, **attrs: str) -> list[Record]:
    """A variable and an operator on it."""
    return [variable("x"), operator(op, "huge", [0], attrs=attrs)]


def doubled(times: int) -> list[Record]:
    """``Concat(x, x)`` of itself."""
    joins = [
        operator("Concat", f"join{i}", [i, i], attrs={"num_args": "2", "dim": "0"})
        for i in range(times)
    ]
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
    "_arange": (
        [operator("_arange", "huge", [], attrs={"start": "0", "stop": "1e12"})],
        "huge",
        [],
    ),
    "_npi_zeros": (
        [operator("_npi_zeros", "huge", [], attrs={"shape": "(1000000, 1000000)"})],
        "huge",
        [],
    ),
    "Embedding": (
        [
            variable("x"),
            variable("w", attrs={"__shape__": "(10, 100000)"}),
            operator(
                "Embedding", "huge", [0, 1], attrs={"input_dim": "10", "output_dim": "100000"}
            ),
        ],
        "huge",
        ["--shape", "x=1000,1000"],
    ),
    "one_hot": (of_x("one_hot", depth="2147483647"), "huge", ["--shape", "x=2"]),
    "tile": (of_x("tile", reps="(100000, 100000)"), "huge", ["--shape", "x=2,3"]),
    "repeat": (of_x("repeat", repeats="2000000000"), "huge", ["--shape", "x=2,3"]),
    "Pad": (
        of_x("Pad", mode="constant", pad_width="(0,0,0,0,50000,50000,50000,50000)"),
        "huge",
        ["--shape", "x=1,1,2,3"],
    ),
    "broadcast_to": (of_x("broadcast_to", shape="(100000, 100000)"), "huge", ["--shape", "x=1,1"]),
}


@pytest.mark.parametrize("case", mark_everyday(HUGE, 4))
def test_run_refuses_what_does_not_fit_before_it_takes_memory(tmp_path: Path, case: str) -> None:
    nodes, node, options = HUGE[case]
    write_json(tmp_path / "g.json", document(nodes, [len(nodes) - 1]))
    done = run_bounded(
        "run", "g.json", "--seed", "0", "--random-params", "0", *options, cwd=tmp_path
    )
    refused(done, f'(node "{node}', " take ", "GB are available", "--max-memory SIZE")


@pytest.mark.large
@pytest.mark.parametrize("case", HUGE)
def test_check_and_inspect_take_no_memory_by_attributes(tmp_path: Path, case: str) -> None:
    nodes, _, options = HUGE[case]
    write_json(tmp_path / "g.json", document(nodes, [len(nodes) - 1]))
    for command in (["check", "--shape"], ["inspect"]):
        words = (
            options
            if command[0] == "inspect"
            else [option for option in options if option != "--shape"]
        )
        arguments = (
            ["check", "g.json", *options]
            if command[0] == "check"
            else ["inspect", "g.json", *words]
        )
        done = run_bounded(*arguments, cwd=tmp_path, timeout=10)
        assert done.returncode in (0, 1), done.stderr.decode()
        assert b"bug in graphshare" not in done.stderr
        assert b"MemoryError" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["run", "--seed", "0"], marks=pytest.mark.large),
        ["compare", "h.json"],
        pytest.param(["run", "--seed", "0", "--all"], marks=pytest.mark.large),
    ],
)
def test_the_limit_of_the_user_is_kept(tmp_path: Path, command: list[str]) -> None:
    nodes = [variable("x"), operator("relu", "first", [0]), operator("tanh", "second", [1])]
    for name in ("g.json", "h.json"):
        write_json(tmp_path / name, document(nodes, [2]))
    name, *options = command
    arguments = [name, "g.json", *options, "--shape", "x=1000,1000"]
    said = refused(
        run_bounded(*arguments, "--max-memory", "9M", cwd=tmp_path),
        "4.0 MB",
        "the limit is 9.0 MB",
        "--max-memory",
    )
    assert '(node "first")' in said or '(node "second")' in said
    assert run_bounded(*arguments, "--max-memory", "20M", cwd=tmp_path).returncode == 0


def test_the_proof_of_a_duplicate_keeps_the_limit(tmp_path: Path) -> None:
    nodes = [
        variable("x", attrs={"__shape__": "(1000, 1000)"}),
        operator("relu", "first", [0]),
        operator("tanh", "last", [1]),
    ]
    write_json(tmp_path / "g.json", document(nodes, [2]))
    words = ["duplicate", "g.json", "--prefix", "b-", "--verify", "-o", "h.json", "--max-memory"]
    refused(
        run_bounded(*words, "9M", cwd=tmp_path),
        "take 4.0 MB",
        "the limit is 9.0 MB",
        "--max-memory SIZE",
    )
    assert not (tmp_path / "h.json").exists()
    assert run_bounded(*words, "40M", cwd=tmp_path).returncode == 0
    assert (tmp_path / "h.json").exists()


@pytest.mark.large
def test_the_proof_of_a_duplicate_ends_at_its_time_limit(tmp_path: Path) -> None:
    nodes = [
        variable("x", attrs={"__shape__": "(1500, 1500)"}),
        *(operator("dot", f"d{i}", [i, 0]) for i in range(2000)),
    ]
    write_json(tmp_path / "g.json", document(nodes, [2000]))
    words = [
        "duplicate",
        "g.json",
        "--prefix",
        "b-",
        "--verify",
        "-o",
        "h.json",
        "--time-limit",
        "1",
    ]
    refused(
        run_bounded(*words, cwd=tmp_path),
        "the time limit of 1 s has passed; nothing was written",
        "--time-limit S",
    )
    assert not (tmp_path / "h.json").exists()


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
        gs.train(
            tmp_path / "g.json",
            steps=1,
            seed=0,
            params_seed=0,
            shapes={"x": (500, 500)},
            max_memory="6M",
        )


def test_a_bound_graph_keeps_the_limit(tmp_path: Path) -> None:
    write_json(tmp_path / "g.json", document([variable("x"), operator("relu", "r", [0])], [1]))
    bound = gs.bind(tmp_path / "g.json", max_memory=10_000)
    assert bound(x=np.ones((2, 2), "float32"))["r_output"].shape == (2, 2)
    with pytest.raises(RefusedError, match=r"outputs of relu \(100,100\) take 40\.0 kB"):
        bound(x=np.ones((100, 100), "float32"))


@pytest.mark.parametrize(
    ("text", "size"),
    [("2G", 2 * 10**9), ("512m", 512 * 10**6), ("1.5GiB", 3 << 29), ("4096", 4096)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1G", "2X", "much", "1e9"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size of memory"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "size"), [("MemTotal: 9 kB\nMemAvailable:  3 kB\n", 3072), ("", 4096 * 10)]
)
def test_the_machine_states_its_memory(
    text: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphshare.resources._read", lambda path: text)
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert _free_in_machine() == size


def test_available_memory_is_known() -> None:
    assert (available_memory() or 0) > 1 << 20


@pytest.mark.parametrize(
    ("groups", "files", "available"),
    [
        (
            "0::/a/b",
            {"/a/b/memory.max": "1000", "/a/b/memory.current": "400", "/a/memory.max": "max"},
            600,
        ),
        (
            "0::/a/b",
            {
                "/a/b/memory.max": "1000",
                "/a/b/memory.current": "400",
                "/a/memory.max": "900",
                "/a/memory.current": "850",
            },
            50,
        ),
        (
            "0::/",
            {
                "/memory.max": "1000",
                "/memory.current": "900",
                "/memory.stat": "anon 1\ninactive_file 300\n",
            },
            400,
        ),
        (
            "5:memory:/c",
            {"/memory/c/memory.limit_in_bytes": "500", "/memory/c/memory.usage_in_bytes": "100"},
            400,
        ),
        ("0::/a", {"/a/memory.max": "100", "/a/memory.current": "400"}, 0),
        ("0::/a:b", {"/a:b/memory.max": "1000", "/a:b/memory.current": "400"}, 600),
        (
            "4:cpu:/d\n5:cpu,memory:/c",
            {
                "/memory/d/memory.limit_in_bytes": "1",
                "/memory/d/memory.usage_in_bytes": "1",
                "/memory/c/memory.limit_in_bytes": "500",
                "/memory/c/memory.usage_in_bytes": "100",
                "/memory/c/memory.stat": "inactive_file 7\ntotal_inactive_file 50\ntotal_active_file 30\ntotal_rss 9\n",
            },
            480,
        ),
    ],
)
def test_a_control_group_leaves_its_limit_minus_its_use(
    groups: str, files: dict[str, str], available: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {f"/sys/fs/cgroup{path}": text for path, text in files.items()} | {
        "/proc/self/cgroup": groups
    }
    monkeypatch.setattr("graphshare.resources._read", lambda path: texts.get(path, ""))
    assert available_memory() == available


@pytest.mark.large
def test_a_run_ends_at_its_time_limit(tmp_path: Path) -> None:
    nodes = [variable("x")]
    for i in range(2000):
        nodes.append(operator("dot", f"d{i}", [i, 0]))
    write_json(tmp_path / "g.json", document(nodes, [2000]))
    arguments = ["--shape", "x=1500,1500", "--time-limit", "1"]
    said = refused(
        run_bounded("run", "g.json", "--seed", "0", "-o", "out.npz", *arguments, cwd=tmp_path)
    )
    assert "the time limit of 1 s has passed; nothing was written" in said
    said = refused(run_bounded("compare", "g.json", "g.json", *arguments, cwd=tmp_path))
    assert "--time-limit S" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.json"]
    with pytest.raises(RefusedError, match=r"the time limit of 0\.2 s"):
        gs.run(tmp_path / "g.json", seed=0, shapes={"x": (1500, 1500)}, time_limit=0.2)


def test_statistics_end_at_their_time_limit(tmp_path: Path) -> None:
    """An array of 64 GB in a file that takes no space on the disk."""
    path, size = tmp_path / "large.safetensors", 1 << 36
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    ).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + size)
    start = time.monotonic()
    run_bounded("params", "list", path.name, cwd=tmp_path)
    ready = time.monotonic()
    done = run_bounded("params", "stats", path.name, "--time-limit", "1", cwd=tmp_path)
    refused(done, "the time limit of 1 s has passed", "--time-limit S")
    # Other tests may run on the same processors
    assert time.monotonic() - ready < 7 + (ready - start)
    with pytest.raises(RefusedError, match=r"the time limit of 0\.2 s"):
        measure_params(path, time_limit=0.2)


@pytest.mark.large
def test_native_code_that_does_not_return_ends_too(tmp_path: Path) -> None:
    """One product of matrices takes longer than the limit; the signal waits for it."""
    write_json(tmp_path / "g.json", document([variable("x"), operator("dot", "d", [0, 0])], [1]))
    arguments = ["--seed", "0", "--shape", "x=9000,9000", "--time-limit", "3"]
    refused(run_bounded("run", "g.json", *arguments, cwd=tmp_path), "the time limit of 3 s")


COUNTS = {
    "SliceChannel": {"num_outputs": "2147483647"},
    "_split_v2": {"indices": "(0,)", "sections": "2147483647"},
    "amp_multicast": {"num_outputs": "2147483647"},
    "add_n": {"num_args": "2147483647"},
}


@pytest.mark.large
@pytest.mark.parametrize("op", COUNTS)
@pytest.mark.parametrize("command", ["check", "inspect", "run", "compare"])
def test_counts_of_outputs_make_no_lists(tmp_path: Path, op: str, command: str) -> None:
    write_json(
        tmp_path / "g.json",
        document([variable("x"), operator(op, "many", [0], attrs=COUNTS[op])], [1]),
    )
    options = {"run": ["--seed", "0"], "compare": ["g.json"]}.get(command, [])
    done = run_bounded(command, "g.json", "--shape", "x=4,6", *options, cwd=tmp_path, timeout=10)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode in ((1, 2) if command != "check" else (1,)), said
    assert "MemoryError" not in said
    assert "bug in graphshare" not in said
    assert "2147483647" in said or "expected 0" in said


def test_a_window_far_larger_than_the_image_takes_the_taps_that_lie_in_it(tmp_path: Path) -> None:
    size = 1 << 30
    attrs = {"kernel": f"({2 * size}, {2 * size})", "pad": f"({size}, {size})", "pool_type": "max"}
    write_json(
        tmp_path / "g.json",
        document([variable("x"), operator("Pooling", "p", [0], attrs=attrs)], [1]),
    )
    done = run_bounded(
        "run",
        "g.json",
        "--seed",
        "0",
        "--shape",
        "x=1,1,4,4",
        "-o",
        "out.npz",
        cwd=tmp_path,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr.decode()
    x = gs.run(tmp_path / "g.json", seed=0, shapes={"x": (1, 1, 4, 4)}, targets="x").outputs["x"]
    assert (np.load(tmp_path / "out.npz")["p_output"] == x.max()).all()


@pytest.mark.large
def test_an_archive_that_unpacks_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(encode_npy_header((300_000_000,), "float32"))
        for _ in range(300):
            member.write(bytes(4_000_000))
    assert (tmp_path / "x.npz").stat().st_size < 1_300_000
    write_json(tmp_path / "g.json", document([variable("x"), operator("relu", "r", [0])], [1]))
    for command in (["run", "g.json", "--feed", "x.npz"], ["run", "g.json", "--params", "x.npz"]):
        said = refused(
            run_bounded(*command, "--max-memory", "1G", cwd=tmp_path),
            "x.npz",
            "its elements take 1.2 GB",
            "the limit is 1.0 GB",
        )
        assert '"x"' in said
        assert "--max-memory" in said


def test_a_sparse_record_that_is_huge_in_dense_form_is_refused(tmp_path: Path) -> None:
    record = params_bytes.row_sparse((1 << 34, 4), [], b"")
    (tmp_path / "w.params").write_bytes(params_bytes.container([record], ["arg:x"]))
    assert (tmp_path / "w.params").stat().st_size < 200
    write_json(tmp_path / "g.json", document([variable("x"), operator("relu", "r", [0])], [1]))
    for command in (
        ["run", "g.json", "--params", "w.params"],
        ["params", "convert", "w.params", "w.npz", "--densify"],
    ):
        refused(
            run_bounded(*command, cwd=tmp_path),
            "w.params",
            "is row_sparse",
            "274.9 GB",
            "GB are available",
        )
    assert not (tmp_path / "w.npz").exists()


@pytest.mark.parametrize("name", ["x_gamma", "x_weight", "x"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_values_drawn_in_blocks_are_those_drawn_at_once(name: str, dtype: str) -> None:
    """A seed gives the same values as ever: the whole stream in float64, then converted."""
    shape = (3, 200_001)
    stream = np.random.default_rng([7, zlib.crc32(name.encode())])
    if dtype == "int32":
        expected = parameter = stream.integers(0, 2, size=shape).astype(dtype)
    else:
        drawn = stream.standard_normal(shape)
        expected = drawn.astype(dtype)
        parameter = (
            1 + 0.1 * np.abs(drawn) if "gamma" in name else drawn * np.sqrt(2.0 / shape[1])
        ).astype(dtype)
    np.testing.assert_array_equal(draw_input(Node("", name), shape, dtype, seed=7), expected)
    np.testing.assert_array_equal(draw_parameter(Node("", name), shape, dtype, seed=7), parameter)


@pytest.mark.large
def test_values_are_drawn_in_the_memory_that_they_take(tmp_path: Path) -> None:
    """The address space has room for the values in float32, and not in float64 beside them."""
    write_json(
        tmp_path / "g.json",
        document([variable("x"), operator("mean", "m", [0], attrs={"axis": "()"})], [1]),
    )
    done = run_bounded(
        "run", "g.json", "--seed", "0", "--shape", "x=1000,200000", cwd=tmp_path, space=1900 << 20
    )
    assert done.returncode == 0, done.stderr.decode()


# Operators whose time follows from attributes and shapes alone, with options.
SLOW: dict[str, tuple[list[Record], list[str]]] = {
    "ROIPooling": (
        [
            variable("x"),
            variable("rois"),
            operator(
                "ROIPooling",
                "o",
                [0, 1],
                attrs={"pooled_size": "(10000, 10000)", "spatial_scale": "1"},
            ),
        ],
        ["--shape", "x=1,1,50,50", "--shape", "rois=1,5"],
    ),
    "RNN": (
        [
            *(variable(name) for name in ("x", "p_weight", "s", "c")),
            operator(
                "RNN",
                "o",
                [0, 1, 2, 3],
                attrs={"mode": "lstm", "state_size": "64", "num_layers": "4"},
            ),
        ],
        ["--shape", "x=100000,8,64"],
    ),
    "MultiBoxPrior": (
        [
            variable("x"),
            operator("_contrib_MultiBoxPrior", "o", [0], attrs={"sizes": "(0.1,)", "clip": "1"}),
        ],
        ["--shape", "x=1,1,10000,10000"],
    ),
    "box_nms": (
        [
            variable("x"),
            operator(
                "_contrib_box_nms",
                "o",
                [0],
                attrs={"valid_thresh": "-100", "overlap_thresh": "0.9"},
            ),
        ],
        ["--shape", "x=1,200000,6"],
    ),
}


@pytest.mark.large
@pytest.mark.parametrize("case", ["RNN", "box_nms"])
def test_slow_proofs_end_at_the_time_limit(tmp_path: Path, case: str) -> None:
    nodes, options = SLOW[case]
    write_json(tmp_path / "g.json", document(nodes, [len(nodes) - 1]))
    start = time.monotonic()
    run_bounded("--version", cwd=tmp_path)
    ready = time.monotonic()
    command = ["compare", "g.json", "g.json", "--random-params", "0", *options, "--time-limit", "5"]
    refused(run_bounded(*command, cwd=tmp_path), "the time limit of 5 s has passed")
    assert time.monotonic() - ready < 7 + (ready - start)


@pytest.mark.large
@pytest.mark.parametrize("case", SLOW)
def test_slow_operators_end_at_the_time_limit(tmp_path: Path, case: str) -> None:
    nodes, options = SLOW[case]
    write_json(tmp_path / "g.json", document(nodes, [len(nodes) - 1]))
    command = [
        "run",
        "g.json",
        "--seed",
        "0",
        "--random-params",
        "0",
        *options,
        "--time-limit",
        "5",
        "-o",
        "out.npz",
    ]
    start = time.monotonic()
    run_bounded("--version", cwd=tmp_path)
    ready = time.monotonic()
    # A fast machine is not stopped by memory before its time is up
    done = run_bounded(*command, cwd=tmp_path, space=8 << 30)
    # Other tests may run on the same processors
    assert time.monotonic() - ready < 7 + (ready - start)
    said = done.stderr.decode()
    assert done.returncode in (0, 2), said
    assert done.returncode == 0 or "the time limit of 5 s has passed" in said, said
    assert (tmp_path / "out.npz").exists() == (done.returncode == 0)
    assert "Traceback" not in said


def test_scratch_that_attributes_ask_for_is_refused(tmp_path: Path) -> None:
    attrs = {"pooled_size": "(2, 2)", "spatial_scale": "1", "sample_ratio": "1000000000"}
    nodes = [
        variable("x"),
        variable("rois"),
        operator("_contrib_ROIAlign", "align", [0, 1], attrs=attrs),
    ]
    write_json(tmp_path / "g.json", document(nodes, [2]))
    np.save(tmp_path / "rois.npy", np.array([[0, 1, 1, 5, 5]], "float32"))
    arguments = ["--seed", "0", "--shape", "x=1,2,8,8", "--feed", "rois=rois.npy"]
    refused(
        run_bounded("run", "g.json", *arguments, cwd=tmp_path),
        '(node "align")',
        "it needs",
        "GB",
        "--max-memory",
    )


def test_differences_of_any_order_end(tmp_path: Path) -> None:
    """After as many differences as there are elements nothing is left."""
    write_json(
        tmp_path / "g.json",
        document([variable("x"), operator("_npi_diff", "d", [0], attrs={"n": "2147483647"})], [1]),
    )
    done = run_bounded(
        "run",
        "g.json",
        "--seed",
        "0",
        "--shape",
        "x=2,3",
        "-o",
        "out.npz",
        cwd=tmp_path,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert np.load(tmp_path / "out.npz")["d_output"].shape == (2, 0)


def test_a_loop_body_is_summed_too(tmp_path: Path) -> None:
    """The values inside of a loop's body are no outputs of its node."""
    body = document(
        [
            variable("e"),
            *(
                operator("Concat", f"c{i}", [i, i], attrs={"num_args": "2", "dim": "0"})
                for i in range(28)
            ),
            operator("sum", "s", [28]),
        ],
        [29],
    )
    attrs = {
        "num_args": "2", "num_outputs": "1", "num_out_data": "1", "in_state_locs": "()", "in_data_locs": "(0,)",
        "remain_locs": "()",
    }  # fmt: skip
    loop = {**operator("_foreach", "loop", [0], attrs=attrs), "subgraphs": [body]}
    write_json(tmp_path / "g.json", document([variable("x"), loop], [1]))
    done = run_bounded("run", "g.json", "--seed", "0", "--shape", "x=3,2,5", cwd=tmp_path)
    refused(done, '(node "c', "GB are available", "--max-memory")


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "a.onnx", "b.onnx"],
        ["compare", "a.onnx", "b.onnx", "--layers"],
        ["duplicate", "a.onnx", "--prefix", "b-", "--verify", "-o", "c.onnx"],
    ],
)
def test_a_model_that_takes_gigabytes_in_onnxruntime_is_refused(
    tmp_path: Path, words: list[str]
) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is of the onnx extra")
    pytest.importorskip("onnxruntime", reason="onnxruntime is of the onnx extra")
    x, y = (
        onnx.helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("x", [1]), ("y", []))
    )
    sides = onnx.helper.make_tensor("s", onnx.TensorProto.INT64, [2], [40_000, 40_000])
    nodes = [
        onnx.helper.make_node("Expand", ["x", "s"], ["big"]),
        onnx.helper.make_node("ReduceSum", ["big"], ["y"], keepdims=0),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [sides])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    for name in ("a.onnx", "b.onnx"):
        onnx.save(model, tmp_path / name)
    done = graphshare(*words, "--max-memory", "500M", cwd=tmp_path)
    refused(
        done,
        "a.onnx: the model takes more memory in onnxruntime than the limit of 500.0 MB allows",
        "--max-memory",
    )
