"""Models on one file of weights: what goes there, once and where; what stays, and what is refused
with every file as it was.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, numpy_helper

import graphshare as gs
from graphshare.errors import Fault
from graphshare.files.atomic import OutputTransaction
from graphshare.files.byte_source import hash_pieces
from graphshare.files.leftovers import temporary_path
from graphshare.formats.onnx import pool as pooling
from graphshare.formats.onnx import pool_ranges
from graphshare.formats.params.arrays import have_equal_bytes
from tests.onnx_files.mutable import BOOL, SOURCES, body, build, declare, node
from tests.processes import ROOT, done, files_in, graphshare, refused

pytest.importorskip("onnxruntime")


def array(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def raw(name: str, values: np.ndarray) -> TensorProto:
    return numpy_helper.from_array(values, name)


def dense(*weights: np.ndarray, more: tuple[TensorProto, ...] = ()) -> ModelProto:
    """A chain of products with square weights of 16 rows."""
    nodes, value = [], "x"
    for number in range(len(weights)):
        nodes.append(node("MatMul", f"{value} w{number}", f"h{number}"))
        value = f"h{number}"
    tensors = [raw(f"w{number}", values) for number, values in enumerate(weights)]
    return build(nodes, [declare("x", ("N", 16))], [declare(value, ("N", 16))], [*tensors, *more])


def choices(first: np.ndarray, second: np.ndarray) -> ModelProto:
    """A Constant, and an If with a Constant in one branch and an initializer in the other."""
    constant = node("Constant", "", "k", value=raw("", second))
    yes = body("yes", [constant, node("MatMul", "h k", "a")], [], [declare("a", ("N", 16))])
    no = body(
        "no", [node("MatMul", "h own", "b")], [], [declare("b", ("N", 16))], [raw("own", first)]
    )
    nodes = [
        node("Constant", "", "c", value=raw("", first)),
        node("MatMul", "x c", "h"),
        node("If", "flag", "y", then_branch=yes, else_branch=no),
    ]
    return build(
        nodes, [declare("x", ("N", 16)), declare("flag", (), BOOL)], [declare("y", ("N", 16))]
    )


def write(path: Path, model: ModelProto) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(model.SerializeToString())
    return path


A, B, C = (array(16, 16, seed=seed) for seed in range(3))


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    """Two models with one weight in common, one of them in Constants and bodies."""
    (tmp_path / "out").mkdir()
    (tmp_path / "back").mkdir()
    return [write(tmp_path / "a.onnx", dense(A, B)), write(tmp_path / "b.onnx", choices(B, C))]


def places(path: Path) -> dict[str, tuple[str, int, int]]:
    """Return where a model has its external data, by a number for each tensor."""
    model = onnx.load(path, load_external_data=False)
    tensors = list(onnx.external_data_helper._get_all_tensors(model))
    pairs = [
        {entry.key: entry.value for entry in tensor.external_data}
        for tensor in tensors
        if tensor.data_location
    ]
    return {
        str(i): (one["location"], int(one["offset"]), int(one["length"]))
        for i, one in enumerate(pairs)
    }


def test_arrays_of_equal_bytes_are_there_once_wherever_they_stand(
    pair: list[Path], tmp_path: Path
) -> None:
    result = gs.pool(pair, tmp_path / "out")
    data = (tmp_path / "out" / "weights.data").read_bytes()
    assert data == A.tobytes() + B.tobytes() + C.tobytes()
    assert [one.proof for one in result.models] == ["1 output equal bit for bit"] * 2
    assert (result.weights, result.distinct, result.orphans) == (5 * 1024, 3 * 1024, 0)
    for path in pair:
        new = tmp_path / "out" / path.name
        assert new.stat().st_size < 1000
        assert not gs.diff(path, new)
        assert gs.compare(path, new)
        onnx.checker.check_model(new)
    assert set(places(tmp_path / "out" / "b.onnx").values()) == {
        ("weights.data", 1024, 1024),
        ("weights.data", 2048, 1024),
    }


def test_embedded_again_models_have_their_bytes(pair: list[Path], tmp_path: Path) -> None:
    gs.pool(pair, tmp_path / "out", verify=False)
    result = gs.pool([tmp_path / "out" / path.name for path in pair], tmp_path / "back", embed=True)
    assert result.data == ""
    assert [path.name for path in sorted((tmp_path / "back").iterdir())] == ["a.onnx", "b.onnx"]
    for path in pair:
        assert (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()


def test_other_shapes_and_names_of_the_same_bytes_are_one(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    one, other = (
        write(tmp_path / "a.onnx", dense(A)),
        write(tmp_path / "b.onnx", dense(more=(raw("flat", A.reshape(4, 64)),))),
    )
    del one
    result = gs.pool([tmp_path / "a.onnx", other], tmp_path / "out", verify=False)
    assert result.distinct == 1024


def test_bytes_that_differ_are_never_one(tmp_path: Path) -> None:
    """A number that is almost the same, minus zero, and another NaN."""
    (tmp_path / "out").mkdir()
    near, zero, minus = A.copy(), np.zeros((16, 16), np.float32), -np.zeros((16, 16), np.float32)
    near[3, 3] = np.nextafter(near[3, 3], 9)
    nan, other = np.full((16, 16), np.nan, np.float32), np.full((16, 16), np.nan, np.float32)
    other.view(np.uint32)[0, 0] += 1
    result = gs.pool(
        [write(tmp_path / "a.onnx", dense(A, near, zero, minus, nan, other))], tmp_path / "out"
    )
    assert result.distinct == 6 * 1024


SHAPED = ("images", "parts", "optional")
"""Models whose axes and sizes are initializers: onnxruntime wants them in the model, where they are
as small as they are.
"""


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_part_of_the_format_comes_back(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However data is stored, and wherever: pooled down to the last byte and embedded again a model is the same."""
    monkeypatch.setattr(pooling, "LEAST", 1)
    source = SOURCES[name]()
    path = write(tmp_path / "in" / "m.onnx", source.model)
    for file, content in source.files.items():
        (tmp_path / "in" / file).write_bytes(content)
    folders = [tmp_path / "out", tmp_path / "back"]
    for folder in folders:
        folder.mkdir()
    gs.pool([path], folders[0], verify=name not in SHAPED)
    gs.pool([folders[0] / "m.onnx"], folders[1], embed=True, verify=name not in SHAPED)
    assert places(folders[1] / "m.onnx") == {}
    for folder in folders:
        assert not gs.diff(path, folder / "m.onnx")
    assert (
        tensors_of(path) == tensors_of(folders[0] / "m.onnx") == tensors_of(folders[1] / "m.onnx")
    )


def tensors_of(path: Path) -> list[tuple[str, bytes]]:
    """Return every tensor of a model, in functions and bodies too: dtype and shape, and its bytes."""
    model = onnx.load(path)
    found = []
    for tensor in onnx.external_data_helper._get_all_tensors(model):
        values = (
            list(tensor.string_data)
            if tensor.data_type == TensorProto.STRING
            else numpy_helper.to_array(tensor).tobytes()
        )
        found.append(
            (
                f"{tensor.data_type} {list(tensor.dims)}",
                values if isinstance(values, bytes) else b" ".join(values),
            )
        )
    return found


def test_large_arrays_can_be_mapped_and_little_is_padding(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    sizes = [1 << 18, (1 << 18) + 1, (1 << 20) + 5, 300, 301, 1 << 22]
    tensors = tuple(raw(f"t{i}", array(size, seed=i)) for i, size in enumerate(sizes))
    odd = tuple(raw(f"o{i}", np.arange(1025 + 2 * i, dtype=np.uint8)) for i in range(50))
    wide = raw("wide", array(200, dtype=np.float64))
    model = dense(more=(*odd, *tensors, wide))
    result = gs.pool([write(tmp_path / "a.onnx", model)], tmp_path / "out", verify=False)
    assert result.size <= result.distinct * 1.01
    for _, start, size in places(tmp_path / "out" / "a.onnx").values():
        assert start % 65536 == 0 or size < 1 << 20
    width = next(
        start for _, start, size in places(tmp_path / "out" / "a.onnx").values() if size == 1600
    )
    assert width % 8 == 0


def test_many_odd_large_arrays_are_not_padded_apart(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    tensors = tuple(raw(f"t{i}", np.full((1 << 20) + 1, i, np.uint8)) for i in range(20))
    result = gs.pool(
        [write(tmp_path / "a.onnx", dense(more=tensors))], tmp_path / "out", verify=False
    )
    assert result.size <= result.distinct * 1.01


def test_a_pool_grows_and_models_from_before_keep_their_bytes(
    pair: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    gs.pool(pair[:1], out)
    before, first = (out / "weights.data").read_bytes(), (out / "a.onnx").read_bytes()
    gs.pool(pair[1:], out)
    assert (out / "weights.data").read_bytes() == before + C.tobytes()
    assert (out / "a.onnx").read_bytes() == first
    for path in pair:
        assert gs.compare(path, out / path.name)
    whole = {file.name: file.read_bytes() for file in out.iterdir()}
    gs.pool(pair, out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == whole
    (out / "b.onnx").unlink()
    assert gs.pool(pair[:1], out).orphans == 1024


@pytest.mark.parametrize("content", [b"something else", A.tobytes()[:-1], bytes(4096), b"x"])
def test_a_file_that_is_not_of_a_pool_is_refused(
    content: bytes, pair: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "out" / "mine.bin").write_bytes(content)
    gs.pool(pair[:1], tmp_path / "out", verify=False)  # a model that points elsewhere
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(
        gs.RefusedError, match="is not a file of weights: no model beside it points into it"
    ) as caught:
        gs.pool(pair, tmp_path / "out", data="mine.bin")
    assert caught.value.faults[0].where == str(tmp_path / "out" / "mine.bin")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_an_empty_file_and_one_of_a_model_of_another_program_grow(
    pair: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "out" / "weights.data").touch()
    gs.pool(pair[1:], tmp_path / "out")
    assert (tmp_path / "out" / "weights.data").stat().st_size == 2 * 1024
    other = tmp_path / "out" / "other.onnx"
    onnx.save_model(
        dense(array(16, 16, seed=9)),
        other,
        save_as_external_data=True,
        size_threshold=0,
        location="own.bin",
    )
    before = (tmp_path / "out" / "own.bin").read_bytes()
    gs.pool(pair[:1], tmp_path / "out", data="own.bin")
    assert (tmp_path / "out" / "own.bin").read_bytes() == before + A.tobytes() + B.tobytes()


def test_safetensors_are_written_and_pointed_into(pair: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = gs.pool(pair, out, data="w.safetensors")
    arrays = gs.load(out / "a.onnx").params
    held = [hashlib.sha256(arrays[name].tobytes()).digest() for name in ("w0", "w1")]
    assert held == [hashlib.sha256(values.tobytes()).digest() for values in (A, B)]
    assert [len(gs.list_params(out / "w.safetensors").arrays), result.orphans] == [3, 0]
    before = (out / "w.safetensors").read_bytes()
    new = write(tmp_path / "c.onnx", dense(B, array(16, 16, seed=9)))
    again = gs.pool([new], out, data="w.safetensors")
    assert (out / "w.safetensors").read_bytes() == before
    assert (again.models[0].arrays, again.models[0].kept) == (1, 1024)
    gs.pool([out / "c.onnx", out / "a.onnx"], tmp_path / "back", embed=True)
    assert (tmp_path / "back" / "c.onnx").read_bytes() == new.read_bytes()
    assert (tmp_path / "back" / "a.onnx").read_bytes() == pair[0].read_bytes()


def test_params_that_hold_the_bytes_are_pointed_into(pair: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    gs.convert(pair[0], out / "w.params")
    before = (out / "w.params").read_bytes()
    result = gs.pool(pair[:1], out, data="w.params")
    assert (out / "w.params").read_bytes() == before
    assert (result.models[0].arrays, result.models[0].kept) == (2, 0)


def test_external_data_of_models_is_pooled_too_and_small_ones_are_embedded(tmp_path: Path) -> None:
    source = tmp_path / "in" / "a.onnx"
    write(source, dense(A, more=(raw("small", A[0]),)))
    model = onnx.load(source)
    onnx.save_model(model, source, save_as_external_data=True, size_threshold=0, location="own.bin")
    assert len(places(source)) == 2
    (tmp_path / "out").mkdir()
    gs.pool([source], tmp_path / "out")
    assert places(tmp_path / "out" / "a.onnx") == {"0": ("weights.data", 0, 1024)}
    assert not gs.diff(source, tmp_path / "out" / "a.onnx")


def test_in_place(pair: list[Path], tmp_path: Path) -> None:
    with pytest.raises(gs.RefusedError, match="is also the input"):
        gs.pool(pair, tmp_path)
    originals = [path.read_bytes() for path in pair]
    gs.pool(pair, tmp_path, in_place=True)
    gs.pool(pair, tmp_path, in_place=True, embed=True)
    assert [path.read_bytes() for path in pair] == originals


Harm = Callable[[Path], object]
HARM: dict[str, tuple[Harm, str]] = {
    "changed": (
        lambda data: data.write_bytes(bytes(8) + data.read_bytes()[8:]),
        "are not those that the model was pooled with",
    ),
    "short": (
        lambda data: data.write_bytes(data.read_bytes()[:1500]),
        "has 1,500 bytes, and the data ends",
    ),
    "gone": (lambda data: data.unlink(), "does not exist"),
}


@pytest.mark.parametrize("kind", HARM)
def test_a_pool_that_was_harmed_is_named(kind: str, pair: list[Path], tmp_path: Path) -> None:
    gs.pool(pair, tmp_path / "out", verify=False)
    harm, words = HARM[kind]
    harm(tmp_path / "out" / "weights.data")
    with pytest.raises(gs.InputError, match=words):
        gs.pool([tmp_path / "out" / "a.onnx"], tmp_path / "back", embed=True)
    assert files_in(tmp_path / "back") == []
    found = gs.check([tmp_path / "out" / "a.onnx"]).findings
    assert "GS607" in {finding.code for finding in found}


class Counting:
    """Counts the bytes that are hashed."""

    size = 0


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    count = Counting()

    def hash_counted(pieces: Iterable[bytes | memoryview]) -> str:
        data = b"".join(pieces)
        count.size += len(data)
        return hash_pieces([data])

    monkeypatch.setattr(pooling, "hash_pieces", hash_counted)
    return count


REPEATED = 300


def share_a_range(folder: Path, lines: int, *, spelled: bool = False) -> Path:
    """A model of which 300 initializers are one range, with so many lines on it, of the file under as many names."""
    (folder / "weights.data").write_bytes(A.tobytes())
    model = dense(*[A] * REPEATED)
    for number, tensor in enumerate(model.graph.initializer):
        location = f"{'./' * number if spelled else ''}weights.data"
        onnx.external_data_helper.set_external_data(tensor, location, 0, 1024)
        tensor.ClearField("raw_data")
    line = f"0 1024 {hashlib.sha256(A.tobytes()).hexdigest()}\n"
    names = ["./" * number for number in range(REPEATED)] if spelled else [""]
    for name in names:
        model.metadata_props.add(
            key=f"graphshare.pool.{name}weights.data", value=line * (lines // len(names))
        )
    return write(folder / "shared.onnx", model)


@pytest.mark.parametrize("spelled", [False, True])
def test_what_is_stated_of_a_range_again_and_again_is_read_once(
    spelled: bool, tmp_path: Path, counting: Counting
) -> None:
    path = share_a_range(tmp_path, REPEATED, spelled=spelled)
    assert [finding.code for finding in gs.check([path]).findings if finding.code == "GS607"] == []
    assert counting.size == A.nbytes
    (tmp_path / "weights.data").write_bytes(B.tobytes())
    assert "GS607" in {finding.code for finding in gs.check([path]).findings}
    assert counting.size == 2 * A.nbytes


def test_a_range_of_many_arrays_is_hashed_and_compared_once(
    tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []

    def count(left: Any, right: Any) -> bool:
        compared.append(1)
        return have_equal_bytes(left, right)

    monkeypatch.setattr(pooling, "have_equal_bytes", count)
    path = share_a_range(tmp_path, 1)
    result = gs.pool([path], tmp_path / "out", verify=False)
    assert (result.models[0].arrays, result.distinct) == (REPEATED, A.nbytes)
    # The range of the line, and the array
    assert (counting.size, len(compared)) == (2 * A.nbytes, 1)
    assert set(places(tmp_path / "out" / "shared.onnx").values()) == {("weights.data", 0, 1024)}


def test_a_part_of_a_pooled_model_is_of_the_same_pool(pair: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    gs.pool(pair, out, verify=False)
    gs.save(gs.extract(out / "a.onnx", targets="h0"), out / "part.onnx")
    assert set(places(out / "part.onnx").values()) == {("weights.data", 0, 1024)}
    assert gs.check([out / "part.onnx"]).findings == ()
    gs.pool([out / "part.onnx"], tmp_path / "back", embed=True)
    (out / "weights.data").write_bytes(bytes(3072))
    assert [finding.code for finding in gs.check([out / "part.onnx"]).findings] == ["GS607"]


def test_refusals_name_every_model(pair: list[Path], tmp_path: Path) -> None:
    other = write(tmp_path / "sub" / "a.onnx", dense(C))
    again = write(tmp_path / "sub" / "b.onnx", dense(C))
    with pytest.raises(gs.RefusedError) as caught:
        gs.pool([*pair, other, again], tmp_path / "out")
    assert [Path(fault.where).name for fault in caught.value.faults] == ["a.onnx", "b.onnx"]
    names = [f"{first}, {second}" for first, second in zip(pair, (other, again), strict=True)]
    assert [fault.message for fault in caught.value.faults] == [
        f"2 models would have this name: {each}" for each in names
    ]
    assert files_in(tmp_path / "out") == []


REWRITTEN: dict[str, Callable[[gs.Checkpoint], gs.Checkpoint]] = {
    "rewritten": lambda model: gs.rename(model, prefix="p_"),
    "in memory": lambda model: msgspec.structs.replace(model, where=""),
    "of stdin": lambda model: msgspec.structs.replace(model, where="<stdin>"),
}


@pytest.mark.parametrize("how", REWRITTEN)
def test_a_model_that_is_not_its_file_is_refused(
    how: str, pair: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(gs.RefusedError) as caught:
        gs.pool([pair[0], REWRITTEN[how](gs.load(pair[1]))], tmp_path / "out")
    (fault,) = caught.value.faults
    assert (fault.message, fault.hint) == (
        "is not in a file",
        "save it first: a model is pooled from its file",
    )
    assert (
        fault.where
        == {"rewritten": str(pair[1]), "in memory": "a graph", "of stdin": "<stdin>"}[how]
    )
    assert files_in(tmp_path / "out") == []


NAMES = [
    "",
    "a/b",
    "..",
    "-",
    "a\0b",
    "w.params",
    "w.npz",
    ".graphshare-",
    ".Graphshare-x",
    ".graphshare-1c63-7d.old",
]


@pytest.mark.parametrize(
    "data", [*NAMES, "a.onnx", "x.onnx", "A.ONNX", "x.Onnx", "x.ONNX.gz", "x-SYMBOL.json"]
)
def test_names_of_the_file_that_are_refused(data: str, pair: list[Path], tmp_path: Path) -> None:
    with pytest.raises((gs.UsageError, gs.RefusedError)):
        gs.pool(pair, tmp_path / "out", data=data)
    assert files_in(tmp_path / "out") == []


def test_after_a_killed_run_a_pool_grows_as_it_would_have(pair: list[Path], tmp_path: Path) -> None:
    """The file has the new arrays, no model points at them, and the copy of the old file is still
    there, as a hard link.
    """
    out, more = tmp_path / "out", write(tmp_path / "more.onnx", dense(A, array(16, 16, seed=30)))
    gs.pool(pair, out)
    old = (out / "weights.data").read_bytes()
    gs.pool([more], out)
    (out / "more.onnx").unlink()
    grown = (out / "weights.data").read_bytes()
    left = Path(temporary_path(str(out / "weights.data"), ".old"))
    os.link(out / "weights.data", left)
    gs.pool([more], out)
    assert len(grown) > len(old)
    assert (out / "weights.data").read_bytes() == grown
    assert not left.exists()
    assert not gs.diff(more, out / "more.onnx")


def test_a_model_beside_a_pool_that_may_not_be_read_is_an_error(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it points at is not known, so that its arrays would be there twice."""
    gs.pool(pair[:1], tmp_path / "out")
    (tmp_path / "out" / "folder.onnx").mkdir()
    read = pool_ranges.read_model

    def refuse(path: str) -> Any:
        if path.endswith("folder.onnx"):
            return read(path)
        raise gs.InputError(Fault("cannot be read", where=path)) from PermissionError()

    monkeypatch.setattr(pool_ranges, "read_model", refuse)
    with pytest.raises(gs.InputError, match="cannot be read"):
        gs.pool(pair[1:], tmp_path / "out")
    monkeypatch.undo()
    gs.pool(pair[1:], tmp_path / "out")


def test_a_link_is_not_written_through(pair: list[Path], tmp_path: Path) -> None:
    (tmp_path / "else.bin").write_bytes(b"x")
    (tmp_path / "out" / "weights.data").symlink_to(tmp_path / "else.bin")
    with pytest.raises(gs.RefusedError, match="is a link"):
        gs.pool(pair, tmp_path / "out")
    assert (tmp_path / "else.bin").read_bytes() == b"x"


def test_another_result_of_the_runtime_writes_nothing(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = pooling._read_staged

    def read_other(*staged: Any) -> tuple[bytes, str]:
        content, folder = read(*staged)
        return content.replace(b"MatMul", b"MatSub").replace(b"MatSub", b"MatMul", 1), folder

    monkeypatch.setattr(pooling, "_read_staged", read_other)
    with pytest.raises(gs.DisprovedError, match="cannot be computed as its source can"):
        gs.pool(pair, tmp_path / "out")
    assert files_in(tmp_path / "out") == []


def test_other_bits_are_found(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One model is computed in place of the other."""
    write(tmp_path / "b.onnx", dense(A, np.nextafter(B, 9)))
    wrong = (tmp_path / "b.onnx").read_bytes()
    monkeypatch.setattr(pooling, "_read_staged", lambda *staged: (wrong, str(tmp_path)))
    with pytest.raises(gs.DisprovedError, match="different bits from its source"):
        gs.pool(pair[:1], tmp_path / "out")
    assert files_in(tmp_path / "out") == []


def test_other_bytes_are_found(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two arrays that are taken for one, as after a collision of digests."""
    monkeypatch.setattr(pooling, "hash_pieces", lambda pieces: str(sum(map(len, pieces))))
    with pytest.raises(gs.SelfCheckError, match=r"differs from its source in weights\.data"):
        gs.pool(pair, tmp_path / "out", verify=False)
    assert files_in(tmp_path / "out") == []


def test_two_writers_at_once(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    paths = [write(tmp_path / f"m{i}.onnx", dense(A, array(16, 16, seed=20 + i))) for i in range(4)]
    code = "import sys, graphshare as gs; gs.pool(sys.argv[2:], sys.argv[1], verify=False)"
    runs = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path / "out", path]) for path in paths
    ]
    assert [run.wait() for run in runs] == [0] * 4
    assert (tmp_path / "out" / "weights.data").stat().st_size == 5 * 1024
    for path in paths:
        assert not gs.diff(path, tmp_path / "out" / path.name)


def test_two_runs_of_foreach_fill_one_file(tmp_path: Path) -> None:
    """Four processes write to one folder at once; what has the same weights finds them there."""
    for i in range(6):
        write(tmp_path / f"in{i % 2}" / f"m{i}.onnx", dense(A, array(16, 16, seed=20 + i)))
        write(tmp_path / f"in{i % 2}" / "sub" / f"n{i}.onnx", dense(B))
    words = [sys.executable, "-m", "graphshare", "foreach", "-o", "out", "--jobs", "2"]
    starts = [
        subprocess.Popen([*words, f"in{i}", "--", "pool", "{}", "--no-verify"], cwd=tmp_path)
        for i in range(2)
    ]
    assert [run.wait() for run in starts] == [0, 0]
    out = tmp_path / "out"
    assert [(out / folder / "weights.data").stat().st_size for folder in ("", "sub")] == [
        7 * 1024,
        1024,
    ]
    for path in [*tmp_path.glob("in?/*.onnx"), *tmp_path.glob("in?/sub/*.onnx")]:
        assert not gs.diff(path, out.joinpath(*path.relative_to(tmp_path).parts[1:]))
    assert gs.check(sorted(out.rglob("*.onnx"))).findings == ()
    assert sorted(
        path.name for path in out.rglob("*") if path.suffix not in (".onnx", ".data")
    ) == ["sub"]
    done(
        graphshare(
            "foreach",
            "out",
            "-o",
            "back",
            "--",
            "pool",
            "--embed",
            "{}",
            "--no-verify",
            cwd=tmp_path,
        )
    )
    assert files_in(tmp_path / "back") == sorted(
        name for i in range(6) for name in (f"m{i}.onnx", f"sub/n{i}.onnx")
    )
    assert (tmp_path / "back" / "m3.onnx").read_bytes() == (
        tmp_path / "in1" / "m3.onnx"
    ).read_bytes()


def test_subsets_compute_the_same(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"m{i}.onnx", dense(*(array(16, 16, seed=s) for s in range(i, i + 3))))
        for i in range(4)
    ]
    for number, subset in enumerate(itertools.combinations(paths, 2)):
        out = tmp_path / f"out{number}"
        out.mkdir()
        gs.pool(subset, out, verify=False)
        for path in subset:
            left, right = (onnx.load(folder / path.name) for folder in (tmp_path, out))
            del right.metadata_props[:]
            for tensor in right.graph.initializer:
                tensor.ClearField("data_location")
            assert left == right


def test_on_the_command_line(pair: list[Path], tmp_path: Path) -> None:
    finished = done(graphshare("pool", "a.onnx", "b.onnx", "-o", "out", cwd=tmp_path))
    assert "5.1 kB of weights take 3.1 kB in out/weights.data" in finished.stderr.decode()
    refused(graphshare("pool", "a.onnx", "-o", "a.onnx", cwd=tmp_path), "a.onnx: is not a folder")
    refused(
        graphshare("pool", "a.onnx", "a.onnx", "-o", "new", cwd=tmp_path),
        "2 models would have this name",
    )
    done(graphshare("pool", "--embed", "out", "-o", "new/back", "--no-verify", cwd=tmp_path))
    assert (tmp_path / "new" / "back" / "a.onnx").read_bytes() == pair[0].read_bytes()
    symbol = ROOT / "fixtures" / "lenet-symbol.json"
    refused(
        graphshare("pool", symbol, "-o", "x", cwd=tmp_path),
        "a pool of weights is for ONNX models",
        "graphshare export",
    )
    assert not (tmp_path / "x").exists()


def test_a_new_folder_is_gone_after_an_error(pair: list[Path], tmp_path: Path) -> None:
    with pytest.raises(gs.RefusedError):
        gs.pool(pair, tmp_path / "new", data="w.npz")
    assert not (tmp_path / "new").exists()


def test_the_result_counts_bytes_before_and_after(pair: list[Path], tmp_path: Path) -> None:
    result = gs.pool(pair, tmp_path / "out")
    before, after = (
        sum(path.stat().st_size for path in paths)
        for paths in (pair, map(Path, (m.out for m in result.models)))
    )
    assert (result.weights, result.distinct, result.orphans) == (5 * 1024, 3 * 1024, 0)
    assert (result.before, result.after) == (before, after + 3 * 1024)
    assert [(model.before, model.arrays, model.weights) for model in result.models] == [
        (path.stat().st_size, count, 1024 * count) for path, count in zip(pair, (2, 3), strict=True)
    ]


@pytest.mark.parametrize("data", ["weights.data", "weights.safetensors"])
def test_after_the_commit_a_source_may_be_gone(
    data: str, pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, commit = [path.stat().st_size for path in pair], OutputTransaction.commit

    def commit_and_remove(stage: OutputTransaction) -> None:
        commit(stage)
        for path in pair:
            path.unlink()

    monkeypatch.setattr(OutputTransaction, "commit", commit_and_remove)
    result = gs.pool(pair, tmp_path / "out", data=data)
    assert [model.before for model in result.models] == sizes
    assert result.size == (tmp_path / "out" / data).stat().st_size


@pytest.mark.parametrize("lost", ["weights.data", "a.onnx", ""])
def test_after_the_commit_an_output_may_be_gone(
    lost: str, pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, out = OutputTransaction.commit, tmp_path / "out"

    def commit_and_remove(stage: OutputTransaction) -> None:
        commit(stage)
        if lost:
            (out / lost).unlink()
        else:
            shutil.rmtree(out)

    monkeypatch.setattr(OutputTransaction, "commit", commit_and_remove)
    result = gs.pool(pair, out)
    assert (result.size, len(result.models)) == (3 * 1024, 2)


def test_in_place_the_sizes_before_are_those_of_the_originals(
    pair: list[Path], tmp_path: Path
) -> None:
    sizes = [path.stat().st_size for path in pair]
    assert [model.before for model in gs.pool(pair, tmp_path, in_place=True).models] == sizes


def test_models_of_small_arrays_need_no_file_of_weights(tmp_path: Path) -> None:
    path = write(tmp_path / "small.onnx", dense(array(16, 15)))
    result = gs.pool([path], tmp_path / "out")
    assert (result.data, result.size, result.orphans, result.weights, result.distinct) == (
        "",
        0,
        0,
        0,
        0,
    )
    assert files_in(tmp_path / "out") == ["small.onnx"]
    assert result.after == (tmp_path / "out/small.onnx").stat().st_size


@pytest.mark.usefixtures("pair")
def test_json(tmp_path: Path) -> None:
    said = json.loads(
        done(graphshare("pool", "a.onnx", "-o", "out", "--format", "json", cwd=tmp_path)).stdout
    )
    assert (said["models"][0]["arrays"], said["data"]) == (2, "out/weights.data")
