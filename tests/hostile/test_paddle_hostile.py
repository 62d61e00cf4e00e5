"""Programs of Paddle and their parameter files, cut, changed and absurd: refused with a place, or read and written."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.cli import main
from graphshare.errors import InputError
from graphshare.formats.paddle.edit import settle_outputs
from graphshare.formats.paddle.read import read_program
from graphshare.formats.paddle.write import encode_program
from graphshare.formats.params.format import read_index
from tests import paddle_programs as build
from tests.surroundings import size_of_day

PROGRAMS = [built()[0] for built in (build.dense, build.bodies, build.odd)]
BOUND = 4 << 20  # bytes of Python memory that reading a small hostile file may take
ABSURD = (
    None,
    True,
    -1,
    0,
    1,
    1 << 63,
    1 << 70,
    1.5,
    "",
    "x",
    "\0",
    [],
    {},
    [[]],
    [0],
    {"%": 1},
    {"#": "p"},
)


def check(text: bytes) -> bool:
    """Read a text; return whether it was read. One that was is written, and reads back; another fault has a place."""
    try:
        graph = read_program(text, "a.json")
    except InputError as error:
        faults = error.faults
    else:
        faults = ()
    if faults:
        assert all(fault.where == "a.json" and fault.path and fault.message for fault in faults)
        return False
    again = encode_program(settle_outputs(graph))
    assert encode_program(settle_outputs(read_program(again))) == again
    return True


def list_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value of a document."""
    yield place
    items = (
        enumerate(value)
        if isinstance(value, list)
        else value.items()
        if isinstance(value, dict)
        else ()
    )
    for key, inner in items:
        yield from list_places(inner, (*place, key))


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_value_changed_or_left_out_reads_or_is_refused_with_its_place(
    program: build.Program,
) -> None:
    places, rng = list(list_places(program.document()))[1:], random.Random(0)
    outcomes = {True: 0, False: 0}
    for place in places if size_of_day(0, 1) else rng.sample(places, 12):
        for value in (*ABSURD, KeyError):
            document = json.loads(program.encode())
            owner: Any = document
            for key in place[:-1]:
                owner = owner[key]
            if value is KeyError:
                del owner[place[-1]]
            else:
                owner[place[-1]] = value
            outcomes[check(build.encode(document))] += 1
    assert min(outcomes.values()) > 20, "both must have been seen"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_text_cut_or_flipped_anywhere_reads_or_is_refused_with_its_place(
    program: build.Program,
) -> None:
    text = program.encode()
    for end in range(0, len(text), size_of_day(97, 3)):
        assert not check(text[:end])
    rng = random.Random(1)
    for _ in range(size_of_day(300, 20_000)):
        at = rng.randrange(len(text))
        check(text[:at] + bytes([rng.randrange(256)]) + text[at + rng.randrange(2) :])


_NAMED = {"A": [build.attribute("name", "0.a_str", "y")]}


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        (
            [{"#": "1.relu", "A": [], "I": [{"%": 9}], "O": []}],
            "uses value 9, which nothing before it defines",
        ),
        (
            [{"#": "1.relu", "A": [], "I": [{"%": 1, "k": 2}], "O": []}],
            "has an input with the keys %, k; it has only %",
        ),
        ([{"#": "1.full", "A": [], "I": [], "O": [{"%": -3}]}], "gives a value the number -3"),
        (
            [{"#": "1.full", "A": [], "I": [], "O": [{"%": 1}, {"%": 1}]}],
            "defines value 1, which is defined before",
        ),
        ([{"#": "p", "A": [0, 1, 1], "O": {"%": 1}, "OA": [1]}], "is not a program of Paddle: "),
        ([{"A": [], "I": [], "O": []}], "no key '#'"),
        (
            [{"#": "1.if", "A": [], "I": [], "O": [], "regions": [{"#": "r", "blocks": []}]}],
            "has 0 blocks",
        ),
        (
            [{**_NAMED, "#": "1.fetch", "I": [], "O": [{"%": 1}]}],
            "is a fetch with other than one input",
        ),
        (
            [{**_NAMED, "#": "1.fetch", "I": [{"%": 0}], "O": [{"%": 1}]}],
            "gives a value that is absent",
        ),
        (
            [{**_NAMED, "#": "1.fetch", "I": [{"%": 0}], "O": [{"%": 1}], "regions": []}],
            "is a fetch with other than",
        ),
        (
            [{**_NAMED, "#": "1.data", "I": [{"%": 0}], "O": [{"%": 1}]}],
            "is a data with other than no input",
        ),
        (
            [{**_NAMED, "#": "1.data", "I": [], "O": []}],
            "is a data with other than no input, one result",
        ),
    ],
)
def test_a_faulty_operator_is_refused_in_words(
    operators: list[dict[str, Any]], message: str
) -> None:
    document = build.Program().document()
    document["program"]["regions"][0]["blocks"][0]["ops"] = operators
    with pytest.raises(InputError) as caught:
        read_program(build.encode(document), "a.json")
    (fault,) = caught.value.faults
    assert message in fault.message
    assert (fault.path or "").startswith("$.program.regions[0].blocks[0].ops[0]")


def test_bodies_in_bodies_and_deep_lists_are_bounded() -> None:
    def nest(depth: int) -> dict[str, Any]:
        body = [nest(depth - 1)] if depth else []
        operators = [*body, {"#": "2.yield", "A": [], "I": [], "O": []}]
        region = {"#": "r", "blocks": [{"#": "b", "args": [], "ops": operators}]}
        return {"#": "1.while", "A": [], "I": [], "O": [], "regions": [region]}

    for depth in (20, 60, 100):
        document = build.Program().document()
        document["program"]["regions"][0]["blocks"][0]["ops"] = [nest(depth)]
        assert check(build.encode(document)) is (depth < 50)
    start = b'{"base_code":{"magic":"pir","version":4},"program":{"regions":'
    for deep in (b"[" * 100_000, b'{"a":' * 100_000):
        assert not check(start + deep)


def test_a_parameter_file_cut_or_flipped_anywhere_reads_or_is_refused(tmp_path: Path) -> None:
    kinds = [build.record((2, 3), dtype) for dtype in build.PDIPARAMS_CODES]
    content = b"".join([build.record(()), build.record((2,), levels=[b"12345678"]), *kinds])
    path, outcomes = tmp_path / "x.pdiparams", {True: 0, False: 0}
    variants = [content[:end] for end in range(0, len(content), size_of_day(11, 1))]
    for at in range(0, len(content), size_of_day(5, 1)):
        variants += [
            content[:at] + bytes([value]) + content[at + 1 :]
            for value in (0, 1, 8, 0x7F, 0x80, 0xFF)
        ]
    for variant in variants:
        path.write_bytes(variant)
        try:
            records = read_index(path).records
        except InputError as error:
            faults, records = error.faults, ()
        else:
            faults = ()
        assert all(fault.where == str(path) and fault.message for fault in faults)
        assert faults or sum(record.size for record in records) == len(variant)
        outcomes[not faults] += 1
    assert min(outcomes.values()) > 20, "both must have been seen"


@pytest.mark.parametrize("size", [1 << 20, 1 << 40, 1 << 62, (1 << 63) - 1])
def test_sizes_beyond_the_file_are_refused_in_little_memory(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.pdiparams"
    path.write_bytes(build.record((size, 4), data=b"") + bytes(64))
    tracemalloc.start()
    with pytest.raises(InputError, match="record 0"):
        read_index(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < BOUND


def test_commands_refuse_a_broken_model_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program, arrays = build.dense()
    stem = program.save(tmp_path, arrays)
    text = Path(f"{stem}.json").read_bytes()
    Path(f"{stem}.json").write_bytes(text.replace(b'"1.matmul"', b"17"))
    for command in (
        ["inspect"],
        ["rename", "--prefix", "a_", "-o", f"{stem}-out"],
        ["draw"],
        ["params", "list"],
    ):
        words = [*command[:2], stem] if command[0] == "params" else [command[0], stem, *command[1:]]
        assert main.run(words) == 2
        said = capfd.readouterr().err
        assert said.startswith(f"error: {stem}.json: $.program.regions[0].blocks[0].ops[3]: "), said
    Path(f"{stem}.json").write_bytes(text)
    Path(f"{stem}.pdiparams").write_bytes(build.record((2,)))
    with pytest.raises(gs.InputError, match="has 1 array, and the graph has 2 parameters"):
        gs.load(stem)
