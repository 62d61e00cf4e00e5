"""Symbol files cut, damaged, endless and absurd: each is refused with its place, exit code 2, no
traceback, and none hangs.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphshare.cli import main
from graphshare.errors import InputError
from graphshare.formats import model_file
from graphshare.formats.mxnet.symbol import read_symbol
from tests.processes import files_in, graphshare, refused
from tests.surroundings import size_of_day
from tests.symbols import Document, document, mxnet_text, operator, siamese, two_layers, variable

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """One command in this process: its exit code, and what it said on standard error."""

    def once(*arguments: str) -> tuple[int, str]:
        code = main.run(list(arguments))
        return code, capfd.readouterr().err

    return once


def refuse(run: Run, path: Path, data: bytes | str, *words: str) -> str:
    """Every command that reads a graph refuses these bytes; the message begins with the file."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    before = files_in(path.parent)
    said = ""
    for command in (
        ["inspect"],
        ["format", "-o", f"{path}.out"],
        ["duplicate", "--prefix", "x-", "-o", f"{path}.out"],
    ):
        code, said = run(command[0], str(path), *command[1:])
        assert code == 2, said
        assert said.startswith(f"error: {path}: "), said
        assert "Traceback" not in said
        assert "bug in graphshare" not in said
        for word in words:
            assert word in said
    assert files_in(path.parent) == before
    return said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.json"


def text(found: Any) -> str:
    return json.dumps(found)


@pytest.mark.parametrize("layout", [mxnet_text, json.dumps])
def test_a_file_cut_at_any_byte_is_truncated(
    layout: Callable[[Document], str], path: Path, run: Run
) -> None:
    data = layout(siamese()).encode()
    for end in range(0, len(data), size_of_day(5, 1)):
        path.write_bytes(data[:end])
        code, said = run("inspect", str(path))
        assert code == 2
        assert said.startswith(f"error: {path}: "), said
        assert "bug in graphshare" not in said
        if end > 0:
            assert "truncated" in said, (end, said)
            assert "line " in said


@pytest.mark.parametrize("layout", [mxnet_text, json.dumps])
def test_flipped_bytes_never_end_in_a_bug(
    layout: Callable[[Document], str], path: Path, run: Run
) -> None:
    generator = random.Random(20_240_229)
    original = layout(two_layers()).encode()
    for _ in range(size_of_day(80, 400)):
        data = bytearray(original)
        for _ in range(generator.choice([1, 1, 2, 5])):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data)
        for command in ("inspect", "upgrade"):
            code, said = run(command, str(path))
            assert code in (0, 2)
            assert "bug in graphshare" not in said, (bytes(data), said)
            if code:
                assert said.startswith(f"error: {path}"), said


WRONG_VALUES: list[Any] = [None, True, 0, -1, 1.5, "text", [], {}, [[]], [{}], [None], ["text"], {"a": 1}, [[0]],
                           [[0, 0, 0, 0]], [[-1, 0, 0]], [[0.0, 0, 0]], [[2**32, 0, 0]], 10**30]  # fmt: skip


def test_a_value_of_the_wrong_type_under_any_key(path: Path, run: Run) -> None:
    fits = {("arg_nodes", "[]"), ("heads", "[]"), ("nodes", "[]"), ("node_row_ptr", "[]"), ("attrs", "{}"), ("inputs", "[]"),
            ("control_deps", "[]"), ("subgraphs", "[]"), ("attr", "{}"), ("param", "{}"), ("op", '"text"'),
            ("name", '"text"'), ("backward_source_id", "0"), ("backward_source_id", "-1"), ("attrs", '{"a": 1}'),
            ("backward_source_id", str(10**30))}  # fmt: skip
    graph_keys = ["nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"]
    node_keys = [
        "op",
        "name",
        "attrs",
        "attr",
        "param",
        "inputs",
        "control_deps",
        "subgraphs",
        "backward_source_id",
    ]
    refusals = 0
    for key in [*graph_keys, *node_keys]:
        for value in WRONG_VALUES:
            found = siamese()
            in_graph = key in graph_keys and (key != "attrs" or value != {"a": 1})
            (found if in_graph else found["nodes"][2])[key] = value
            path.write_text(text(found))
            code, said = run("inspect", str(path))
            assert "bug in graphshare" not in said, (key, value, said)
            if (key, text(value)) in fits and not (key == "attrs" and value == {"a": 1}):
                continue  # the right type; whether the graph then makes sense is asked elsewhere
            assert code == 2, (key, value)
            assert f"$.{key}" in said or f"$.nodes[2].{key}" in said or "$" in said, said
            refusals += 1
    assert refusals > 200


def test_a_missing_key(path: Path, run: Run) -> None:
    for key in ("nodes", "arg_nodes", "heads"):
        found = siamese()
        del found[key]
        refuse(run, path, text(found), f"has no '{key}'")
    for key in ("op", "name", "inputs"):
        found = siamese()
        del found["nodes"][2][key]
        refuse(run, path, text(found), "$.nodes[2]", f"has no '{key}'")


def test_all_faults_are_listed_at_once(path: Path, run: Run) -> None:
    found = siamese()
    found["nodes"][0]["name"] = 5
    found["nodes"][2]["attrs"]["kernel"] = 3
    del found["nodes"][3]["inputs"]
    refuse(
        run,
        path,
        text(found),
        "$.nodes[0].name",
        "$.nodes[2].attrs.kernel",
        "$.nodes[3]",
        '(node "conv")',
    )
    found = siamese()
    found["nodes"][2]["inputs"] = [[7, 0, 0], [8, 0, 0]]
    found["heads"] = [[9, 0, 0]]
    found["arg_nodes"] = [0, 2, 11]
    said = refuse(
        run,
        path,
        text(found),
        "node 7",
        "node 8",
        "node 9",
        "node 11",
        "$.arg_nodes[1]",
        "operator (Convolution)",
    )
    assert said.count("error: ") == 5


def test_ids_out_of_range(path: Path, run: Run) -> None:
    for value in (4, 99, 2**32 - 1):
        found = siamese()
        found["nodes"][3]["inputs"] = [[value, 0, 0]]
        refuse(
            run,
            path,
            text(found),
            "$.nodes[3].inputs[0]",
            '(node "loss")',
            f"refers to node {value}, but the graph has 4",
        )
    for value in (-1, 2**32, 10**40):
        found = siamese()
        found["nodes"][3]["inputs"] = [[value, 0, 0]]
        refuse(run, path, text(found), "$.nodes[3].inputs[0][0]")
    found = siamese()
    found["nodes"][3]["control_deps"] = [12]
    refuse(run, path, text(found), "$.nodes[3].control_deps[0]", "node 12")


def test_cycles_are_shown_as_a_path(path: Path, run: Run) -> None:
    found = document([operator("relu", "a", [0])], [0])
    refuse(run, path, text(found), "needs its own output", "a (node 0) <- a (node 0)")
    found = document([operator("relu", "a", [1]), operator("relu", "b", [0])], [0])
    refuse(run, path, text(found), "a (node 0) <- b (node 1) <- a (node 0)")
    found = document(
        [
            variable("x"),
            {**operator("relu", "a", [0]), "control_deps": [2]},
            operator("relu", "b", [1]),
        ],
        [2],
    )
    refuse(run, path, text(found), "needs its own output")
    count = size_of_day(10_000, 50_000)
    found = document([operator("relu", f"r{i}", [(i + 1) % count]) for i in range(count)], [0])
    said = refuse(run, path, text(found), "needs its own output", "more ...")
    assert len(said) < 2000


def test_forward_references_are_fine(path: Path, run: Run) -> None:
    count = size_of_day(5_000, 20_000)
    nodes = [operator("relu", f"r{i}", [i + 1]) for i in range(count)] + [variable("x")]
    path.write_text(text(document(nodes, [0])))
    code, said = run("duplicate", str(path), "--prefix", "x-", "-o", f"{path}.out")
    assert (code, "nodes, inputs" in said) == (0, True)
    assert len(json.loads(Path(f"{path}.out").read_text())["nodes"]) == 2 * count + 2


@pytest.mark.parametrize(
    "opening",
    ["[", '{"a":', '{"nodes":[{"subgraphs":[', '{"nodes":[],"arg_nodes":[],"heads":[],"z":['],
)
def test_brackets_nested_without_end(opening: str, path: Path, run: Run) -> None:
    refuse(run, path, opening * 100_000)
    refuse(run, path, opening * 500)


def test_nesting_is_bounded_where_it_closes(path: Path, run: Run) -> None:
    for depth in (80, 900, 100_000):
        found = text(siamese())[:-1] + ', "z": ' + "[" * depth + "]" * depth + "}"
        refuse(run, path, found, "nested")
        found = text(siamese())[:-1] + ', "z": ' + '{"a":' * depth + "1" + "}" * depth + "}"
        refuse(run, path, found, "nested")
    inner: Document = document([variable("x")], [0])
    for _ in range(70):
        inner = document([{**operator("_foreach", "f", []), "subgraphs": [inner]}], [0])
    refuse(run, path, text(inner), "nested deeper than 64")


@pytest.mark.parametrize(
    "number",
    [
        "1" * 5000,
        "-" + "9" * 400,
        "1e400",
        "1e99999999999999999999",
        "0" * 2,
        "+1",
        "1.",
        "NaN",
        "0x10",
    ],
)
def test_numbers_that_are_none(number: str, path: Path, run: Run) -> None:
    refuse(run, path, text(siamese()).replace("[[3, 0, 0]]", f"[[{number}, 0, 0]]"))


def test_encodings_and_what_surrounds_the_graph(path: Path, run: Run) -> None:
    good = text(siamese()).encode()
    refuse(run, path, b"\xef\xbb\xbf" + good, "byte 0", "byte order mark")
    refuse(
        run,
        path,
        text(siamese()).encode("utf-16"),
        "is text in UTF-16, not a symbol file",
        "iconv -f UTF-16 ",
    )
    refuse(
        run, path, text(siamese()).encode("utf-16-le"), "is text in UTF-16LE", "iconv -f UTF-16LE "
    )
    refuse(run, path, good.replace(b"conv", b"co\xffnv"), "is not UTF-8", "byte ")
    refuse(run, path, good.replace(b"conv", b"co\xc0\x80nv"), "is not UTF-8")
    refuse(run, path, good + b"x", "trailing bytes", "line 1 column ")
    refuse(run, path, good + good, "trailing bytes")
    refuse(run, path, good + b"\0", "trailing bytes")
    refuse(run, path, b"", "is empty")
    refuse(run, path, b" \n\t ", "is empty")
    refuse(run, path, b"null", "$: is null")
    refuse(run, path, b"[]", "$: is an array")
    refuse(run, path, b'"text"', "$: is a string")
    refuse(run, path, good.replace(b"}", b",}"), "is not JSON")
    refuse(run, path, good.replace(b'"', b"'"), "is not JSON")
    refuse(run, path, b"PK\x03\x04" + b"\0" * 30, "is a zip archive, not a symbol file")
    refuse(run, path, b"\0" * 1000, "is a file of nothing but NUL bytes, not a symbol file")
    refuse(run, path, b"\1" * 1000, "is not JSON")


def test_texts_that_are_no_text(path: Path, run: Run) -> None:
    for escape in (r"\ud800", r"\udc00", r"\udc00\ud800", r"\uD83Dx"):
        data = text(siamese()).replace('"name": "conv"', f'"name": "co{escape}nv"')
        refuse(run, path, data, "$.nodes[2].name", "half a character")
    refuse(run, path, text(siamese()).replace("conv", r"\x41"), "is not JSON")


def test_nul_in_a_name_reads_and_keeps_but_is_not_written_for_mxnet(path: Path, run: Run) -> None:
    data = text(siamese()).replace('"name": "conv"', '"name": "co\\u0000nv"')
    path.write_text(data)
    out = Path(f"{path}.out")
    assert run("format", str(path), "-o", str(out))[0] == 0
    assert out.read_text() == data
    out.unlink()
    code, said = run("duplicate", str(path), "--prefix", "x-", "-o", str(out))
    assert code == 2
    assert said.startswith(f"error: {path}: ")
    assert "NUL" in said
    assert files_in(path.parent) == [path.name]


def test_the_last_of_equal_keys_counts(path: Path, run: Run) -> None:
    path.write_text(text(siamese()).replace('"name": "conv"', '"name": "other", "name": "conv"').replace(
        '"heads"', '"heads": [], "heads"'))  # fmt: skip
    code, _ = run("format", str(path), "-o", f"{path}.out")
    assert code == 0
    assert json.loads(Path(f"{path}.out").read_text()) == siamese()


def test_an_attribute_of_many_megabytes(path: Path, run: Run) -> None:
    found = siamese()
    found["nodes"][2]["attrs"]["note"] = 'a"\u00e9\n' * size_of_day(400_000, 10_000_000)
    path.write_text(mxnet_text(found), encoding="utf-8")
    out = Path(f"{path}.out")
    assert run("format", str(path), "-o", str(out))[0] == 0
    assert out.read_bytes() == path.read_bytes()


def test_counts_in_attributes_make_no_lists(path: Path, run: Run) -> None:
    nodes = [variable("x"), operator("SliceChannel", "s", [0], attrs={"num_outputs": "2000000000"}),
             operator("Concat", "c", [0], attrs={"num_args": "2000000000"}),
             operator("add_n", "a", [0], attrs={"num_args": "2147483647"}),
             operator("multi_sgd_mom_update", "m", [0], attrs={"num_weights": "2147483647"}),
             operator("_split_v2", "v", [0], attrs={"sections": "2147483647"})]  # fmt: skip
    path.write_text(text(document(nodes, [1, 2, 3, 4, 5], version=None)))
    for command in (["inspect"], ["inspect", "--module"], ["duplicate", "--prefix", "x-"], ["upgrade"],
                    ["extract", "--target", "c"], ["extract", "--target", "s"]):  # fmt: skip
        code, said = run(command[0], str(path), *command[1:])
        assert code in (0, 2)
        assert "bug in graphshare" not in said


def test_things_that_are_no_files(tmp_path: Path) -> None:
    refused(graphshare("format", str(tmp_path)), str(tmp_path), "is a directory")
    refused(graphshare("inspect", str(tmp_path / "none.json")), "none.json", "does not exist")
    refused(graphshare("inspect", str(tmp_path / "a\nb")), "does not exist")
    broken = tmp_path / "link.json"
    broken.symlink_to(tmp_path / "nowhere")
    refused(graphshare("inspect", str(broken)), "does not exist")
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    refused(graphshare("inspect", str(loop)), "loop.json")
    refused(graphshare("inspect", "/dev/null"), "/dev/null", "is empty")
    refused(
        graphshare("inspect", "/dev/zero"),
        "/dev/zero",
        "is a file of nothing but NUL bytes, not a symbol file",
    )
    refused(graphshare("inspect", "x" * 5000))


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(text(siamese()).encode()))
    writer.start()
    run = graphshare("inspect", str(fifo), "--format", "json")
    writer.join()
    assert json.loads(run.stdout)["nodes"] == 4


def test_a_pipe_without_an_end_is_left_at_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr(model_file, "MAX_STREAM", 1 << 22)
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)

    def write() -> None:
        try:
            with fifo.open("wb") as file:
                while True:
                    file.write(b"{" + b" " * (1 << 20))
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    code, said = run("inspect", str(fifo))
    writer.join()
    assert (code, "is larger than 4 MiB" in said) == (2, True)


def test_standard_input(tmp_path: Path) -> None:
    refused(graphshare("inspect", "-", data=b""), "<stdin>", "is empty")
    refused(graphshare("inspect", "-", data=b"\x00\x01"), "<stdin>", "is not a symbol file")
    refused(
        graphshare("duplicate", "-", "--prefix", "x-", data=b'{"nodes": [}'),
        "<stdin>: line 1 column",
    )


def test_a_sample_of_refusals_in_processes_of_their_own(path: Path) -> None:
    samples = [
        b"",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        text(siamese()).encode()[:-5],
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\0}\0",
    ]
    for data in samples:
        path.write_bytes(data)
        refused(graphshare("duplicate", str(path), "--prefix", "x-"), f"error: {path}: ")


def test_all_texts_with_half_a_character_are_named_in_order() -> None:
    text = json.dumps(
        {
            "nodes": [{"op": "null", "name": f"{i}\ud800", "inputs": []} for i in range(3)],
            "arg_nodes": [],
            "heads": [],
        }
    )
    with pytest.raises(InputError) as caught:
        read_symbol(text.encode())
    assert [fault.path for fault in caught.value.faults] == [f"$.nodes[{i}].name" for i in range(3)]
