"""``params tie`` and ``untie``: one copy or two, and every other byte as it was; and folders as parameter files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import InputError, RefusedError, UsageError
from graphshare.formats.params.format import read_index
from tests.processes import graphshare
from tests.shard_folders import INDEX, encode_shard, make_values, write_shards

FIRST, SECOND = "model-1.safetensors", "model-2.safetensors"
WORDS, OUTPUT = "model.embed_tokens.weight", "lm_head.weight"


def read_tensors(folder: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """Read every tensor of a folder with plain code: dtype, shape, bytes."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:end])
        assert end % 8 == 0 or "tied" not in str(folder)
        for name, entry in header.items():
            if name != "__metadata__":
                begin, stop = entry["data_offsets"]
                tensors[name] = (entry["dtype"], entry["shape"], data[end + begin : end + stop])
    return tensors


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    shards = {FIRST: [WORDS, "a.weight"], SECOND: ["b.weight", OUTPUT, "c.weight"]}
    return write_shards(
        tmp_path / "twice", shards, tied=True, architectures=["LlamaForCausalLM"], hidden_size=4
    )


@pytest.mark.parametrize(
    ("keep", "kept", "lost"), [((), WORDS, OUTPUT), ((OUTPUT,), OUTPUT, WORDS)]
)
def test_tie_and_untie(
    twice: Path, tmp_path: Path, keep: tuple[str, ...], kept: str, lost: str
) -> None:
    before = read_tensors(twice)
    old = read_files(twice)
    tied = gs.tie_params(twice, tmp_path / "tied", keep=keep)
    assert [(array.name, array.kept, array.size) for array in tied.arrays] == [(lost, kept, 320)]
    assert read_tensors(tmp_path / "tied") == {
        name: tensor for name, tensor in before.items() if name != lost
    }
    index = json.loads((tmp_path / "tied" / INDEX).read_text())
    assert index["metadata"]["total_size"] == 4 * 320
    assert list(index["weight_map"]) == [name for name in before if name != lost]
    assert gs.check(tmp_path / "tied", isolated=True).findings == ()
    untied = gs.tie_params(tmp_path / "tied", tmp_path / "untied", untie=True)
    assert untied.size == 320
    assert read_tensors(tmp_path / "untied") == before
    assert (
        json.loads((tmp_path / "untied" / "config.json").read_text())["tie_word_embeddings"]
        is False
    )
    assert gs.check(tmp_path / "untied", isolated=True).findings == ()
    assert read_files(twice) == old


def test_in_place_writes_what_changes(twice: Path) -> None:
    old = read_files(twice)
    done = gs.tie_params(twice, in_place=True)
    assert [os.path.basename(path) for path in done.files] == [INDEX, SECOND]
    new = read_files(twice)
    assert new[FIRST] == old[FIRST]
    assert new["config.json"] == old["config.json"]
    assert OUTPUT not in read_tensors(twice)


def test_a_dry_run_writes_nothing_and_says_how_much(twice: Path) -> None:
    old = read_files(twice)
    run = graphshare("params", "tie", twice, "--dry-run", "--format", "json")
    plan = json.loads(run.stdout)
    assert plan["size"] == 320
    assert plan["files"] == [SECOND, INDEX]
    assert read_files(twice) == old
    text = graphshare("params", "tie", twice, "--dry-run")
    assert b"lm_head.weight is model.embed_tokens.weight: 320 bytes\n320 B less\n" in text.stdout


def test_a_name_in_the_metadata_stays_with_its_shard(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "one", {FIRST: [WORDS, OUTPUT]}, tied=True, indexed=False)
    gs.tie_params(folder, tmp_path / "tied")
    keys = {record.key: record.tied_to for record in read_index(tmp_path / "tied").records}
    assert keys == {WORDS: None, OUTPUT: WORDS}
    gs.tie_params(tmp_path / "tied", in_place=True, untie=True)
    assert read_tensors(tmp_path / "tied") == read_tensors(folder)
    assert all(record.tied_to is None for record in read_index(tmp_path / "tied").records)


@pytest.mark.parametrize(
    ("text", "tied", "expected"),
    [
        (
            '{"a": 1, "tie_word_embeddings" :  false , "b": [2]}',
            True,
            '{"a": 1, "tie_word_embeddings" :  true , "b": [2]}',
        ),
        ('{\n  "a": 1\n}', True, '{\n  "tie_word_embeddings": true,\n  "a": 1\n}'),
        ("{}", False, '{\n  "tie_word_embeddings": false}'),
        (
            '{"text_config": {"tie_word_embeddings": true}, "tie_word_embeddings": false}',
            False,
            '{"text_config": {"tie_word_embeddings": false}, "tie_word_embeddings": false}',
        ),
    ],
)
def test_the_configuration_changes_in_one_word(
    text: str, tied: bool, expected: str, tmp_path: Path
) -> None:
    names = [WORDS, OUTPUT] if tied else [WORDS]
    folder = write_shards(tmp_path / "a", {FIRST: names})
    (folder / "config.json").write_text(text)
    gs.tie_params(folder, tmp_path / "b", untie=not tied)
    assert (tmp_path / "b" / "config.json").read_text() == expected


def test_every_other_tensor_stays_aligned_and_whole(tmp_path: Path) -> None:
    """An odd number of bytes goes; what follows is aligned, in dtypes that no other format has."""
    folder = write_shards(tmp_path / "a", {FIRST: [WORDS]}, tied=True, indexed=False)
    content = {
        WORDS: b"\1" * 15,
        OUTPUT: b"\1" * 15,
        "x": b"\2" * 2,
        "y": make_values("y"),
        "z": b"\3" * 4,
    }
    forms = {
        WORDS: ("U8", [5, 3]),
        OUTPUT: ("U8", [5, 3]),
        "x": ("BF16", [1]),
        "z": ("F8_E4M3", [2, 2]),
    }
    (folder / FIRST).write_bytes(encode_shard(content, forms=forms))
    before = read_tensors(folder)
    gs.tie_params(folder, tmp_path / "tied")
    after = read_tensors(tmp_path / "tied")
    assert after == {name: tensor for name, tensor in before.items() if name != OUTPUT}
    header = json.loads((tmp_path / "tied" / FIRST).read_bytes()[8:].split(b"}}")[0] + b"}}")
    assert header["y"]["data_offsets"][0] % 4 == 0


def test_names_of_one_array_follow_the_one_that_is_kept(tmp_path: Path) -> None:
    names = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", OUTPUT]
    folder = write_shards(
        tmp_path / "t5", {FIRST: names}, tied=True, architectures=["T5ForConditionalGeneration"]
    )
    done = gs.tie_params(folder, tmp_path / "b", keep=[OUTPUT])
    assert {array.kept for array in done.arrays} == {OUTPUT}
    assert list(read_tensors(tmp_path / "b")) == [OUTPUT]
    with pytest.raises(RefusedError, match="which are one array"):
        gs.tie_params(folder, tmp_path / "c", keep=[OUTPUT, "encoder.embed_tokens.weight"])


def test_refusals(twice: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs either"):
        gs.tie_params(twice)
    with pytest.raises(RefusedError, match="not one of two tied names"):
        gs.tie_params(twice, tmp_path / "x", keep=["lm_haed.weight"])
    with pytest.raises(RefusedError, match="is the source itself"):
        gs.tie_params(twice, twice)
    other = write_shards(tmp_path / "other", {"model-7.safetensors": [WORDS]}, tied=True)
    with pytest.raises(RefusedError, match=r"other files in it: model-7.safetensors"):
        gs.tie_params(twice, other)
    with pytest.raises(RefusedError, match="no two copies"):
        gs.tie_params(other, tmp_path / "x")
    with pytest.raises(RefusedError, match="is a URL"):
        gs.tie_params("https://example.org/a/", tmp_path / "x")
    apart = write_shards(
        tmp_path / "apart",
        {FIRST: {WORDS: make_values("embed"), OUTPUT: make_values("a")}},
        tied=True,
    )
    with pytest.raises(RefusedError, match="differ at byte"):
        gs.tie_params(apart, tmp_path / "x")
    with pytest.raises(RefusedError, match="under one name"):
        gs.tie_params(apart, tmp_path / "x", untie=True)
    (twice / FIRST).unlink()
    with pytest.raises(InputError, match="does not exist"):
        gs.tie_params(twice, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_hub_cache_is_read_and_not_written(twice: Path, tmp_path: Path) -> None:
    snapshot, blobs = (
        tmp_path / "models--a--b" / "snapshots" / "01",
        tmp_path / "models--a--b" / "blobs",
    )
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for path in twice.iterdir():
        os.replace(path, blobs / f"blob-{path.name}")
        (snapshot / path.name).symlink_to(f"../../blobs/blob-{path.name}")
    old = read_files(blobs)
    with pytest.raises(RefusedError, match="hub's cache"):
        gs.tie_params(snapshot, in_place=True)
    with pytest.raises(RefusedError, match="hub's cache"):
        gs.tie_params(snapshot, snapshot / "new")
    assert gs.tie_params(snapshot, dry_run=True).size == 320
    gs.tie_params(snapshot, tmp_path / "tied")
    assert OUTPUT not in read_tensors(tmp_path / "tied")
    assert all(not path.is_symlink() for path in (tmp_path / "tied").iterdir())
    assert read_files(blobs) == old
    (snapshot / FIRST).unlink()
    (snapshot / FIRST).symlink_to("../../../elsewhere.safetensors")
    (tmp_path / "elsewhere.safetensors").write_bytes(encode_shard([WORDS]))
    with pytest.raises(InputError, match="leads out of the folder"):
        read_index(snapshot)


def test_links_in_a_folder_are_not_written_through(twice: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / SECOND).symlink_to(precious)
    with pytest.raises(RefusedError, match="is a link"):
        gs.tie_params(twice, tmp_path / "out")
    os.replace(twice / SECOND, twice / "second")
    (twice / SECOND).symlink_to("second")
    old = read_files(twice)
    with pytest.raises(RefusedError, match="is a link"):
        gs.tie_params(twice, in_place=True)
    assert read_files(twice) == old
    assert precious.read_bytes() == b"kept"


def test_a_folder_is_a_parameter_file(twice: Path, tmp_path: Path) -> None:
    names = [WORDS, "a.weight", "b.weight", OUTPUT, "c.weight"]
    assert [array.key for array in gs.list_params(twice).arrays] == names
    assert {array.key: array.equal_to for array in gs.show_params(twice).arrays}[OUTPUT] == WORDS
    assert gs.measure_params(twice, select=["a.*"]).arrays[0].statistics is not None
    gs.convert(twice, tmp_path / "all.npz", leave_out=[OUTPUT])
    with np.load(tmp_path / "all.npz") as arrays:
        assert list(arrays) == [name for name in names if name != OUTPUT]
        assert arrays["c.weight"].tobytes() == read_tensors(twice)["c.weight"][2]


def test_two_variants_of_one_base(twice: Path, tmp_path: Path) -> None:
    """Tensors that are equal, near within the tolerance, and different are counted apart."""
    moved = np.frombuffer(make_values("a.weight"), "<f4") + np.float32(1e-4)
    first = {WORDS: make_values(WORDS), "a.weight": moved.tobytes()}
    other = write_shards(
        tmp_path / "b",
        {FIRST: first, SECOND: {"b.weight": make_values("x"), OUTPUT: make_values(OUTPUT)}},
    )
    diff = gs.diff_params(twice, other, atol=1e-3)
    assert (diff.equal, diff.near) == (3, 1)
    assert [(change.how, change.old) for change in diff.changes] == [
        ("values", "b.weight"),
        ("removed", "c.weight"),
    ]
    run = graphshare("params", "diff", twice, other, "--atol", "1e-3")
    assert (
        run.stdout.decode().splitlines()[-1] == "parameters: 3 equal, 1 of them near, 2 different"
    )
