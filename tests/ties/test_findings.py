"""Folders as public threads describe them, for three architectures: each fault is named, and its
clean twin has no finding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.formats.params.shards import _locate, read_shard_folder
from graphshare.formats.params.tied_names import read_statement
from tests.processes import graphshare
from tests.shard_folders import INDEX, encode_shard, make_values, write_shards

ARCHITECTURES = {
    "LlamaForCausalLM": ("lm_head.weight", "model.embed_tokens.weight"),
    "GPT2LMHeadModel": ("lm_head.weight", "transformer.wte.weight"),
    "Qwen2VLForConditionalGeneration": (
        "lm_head.weight",
        "model.language_model.embed_tokens.weight",
    ),
}
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


class Maker:
    """Makes one folder after the other; ``output`` and ``words`` are the names of the architecture."""

    def __init__(self, root: Path, architecture: str) -> None:
        self.root, self.architecture = root, architecture
        self.output, self.words = ARCHITECTURES[architecture]

    def write(
        self, first: Any, second: Any = ("norm.weight",), *, name: str = "model", **settings: Any
    ) -> Path:
        """Write a folder of two shards."""
        given = {"architectures": [self.architecture], **settings}
        return write_shards(self.root / name, {FIRST: first, SECOND: second}, **given)


def edit_index(folder: Path, **changes: str | None) -> Path:
    """Change the file of tensors in an index; None takes the line out."""
    index = json.loads((folder / INDEX).read_text())
    for name, file in changes.items():
        index["weight_map"].pop(name, None)
        index["weight_map"].update({name: file} if file is not None else {})
    (folder / INDEX).write_text(json.dumps(index))
    return folder


def twice(m: Maker) -> Path:
    """The output layer is shipped although it is tied."""
    return m.write([m.words], [m.output, "norm.weight"], tied=True)


def twice_in_one_shard(m: Maker) -> Path:
    return m.write([m.words, m.output], tied=True)


def tied_by_text_config(m: Maker) -> Path:
    """The text model has the word, in a configuration of its own."""
    return m.write([m.words, m.output], text_config={"tie_word_embeddings": True})


def differ(m: Maker) -> Path:
    """Both were trained, and the configuration still ties them."""
    return m.write({m.words: make_values("embed"), m.output: make_values("trained")}, tied=True)


def differ_in_last_byte(m: Maker) -> Path:
    content = make_values("embed")
    return m.write({m.words: content, m.output: content[:-1] + bytes([content[-1] ^ 1])}, tied=True)


def no_output(m: Maker) -> Path:
    """Not tied, and not there."""
    return m.write([m.words], tied=False)


def padded(m: Maker) -> Path:
    """The vocabulary of one was padded."""
    return m.write({m.words: make_values("embed"), m.output: make_values("embed", 96)}, tied=True)


def converted(m: Maker) -> Path:
    folder = m.write([m.words, m.output], tied=True)
    forms = {m.output: ("I32", [20, 4])}
    (folder / FIRST).write_bytes(encode_shard([m.words, m.output], forms=forms))
    return folder


def empty_entry(m: Maker) -> Path:
    """An empty entry, and an index that points at it."""
    return m.write({m.words: make_values("embed"), m.output: b""}, tied=True)


def entry_without_dtype(m: Maker) -> Path:
    folder = m.write({m.words: make_values("embed"), m.output: b""}, tied=True)
    content = {m.words: make_values("embed"), m.output: b""}
    (folder / FIRST).write_bytes(encode_shard(content, forms={m.output: ("", [])}))
    return folder


def missing_in_shard(m: Maker) -> Path:
    return edit_index(m.write([m.words], tied=True), **{"layer.weight": FIRST})


def in_another_shard(m: Maker) -> Path:
    return edit_index(m.write([m.words], tied=True), **{"norm.weight": FIRST})


def in_two_shards(m: Maker) -> Path:
    return m.write([m.words, "norm.weight"], tied=True)


def in_two_shards_without_index(m: Maker) -> Path:
    return m.write([m.words, "norm.weight"], tied=True, indexed=False)


def not_indexed(m: Maker) -> Path:
    return edit_index(
        m.write([m.words], ["norm.weight", "norm.bias"], tied=True), **{"norm.bias": None}
    )


def no_shard(m: Maker) -> Path:
    folder = m.write([m.words], tied=True)
    (folder / SECOND).unlink()
    return folder


def cut_shard(m: Maker) -> Path:
    folder = m.write([m.words], tied=True)
    (folder / SECOND).write_bytes((folder / SECOND).read_bytes()[:-8])
    return folder


def path_in_index(m: Maker) -> Path:
    folder = edit_index(m.write([m.words], tied=True), **{"norm.weight": f"../other/{SECOND}"})
    (folder.parent / "other").mkdir()
    os.replace(folder / SECOND, folder.parent / "other" / SECOND)
    return folder


def link_out_of_folder(m: Maker) -> Path:
    folder = m.write([m.words], tied=True)
    os.replace(folder / SECOND, folder.parent / "elsewhere")
    (folder / SECOND).symlink_to("../elsewhere")
    return folder


def silent_and_equal(m: Maker) -> Path:
    return m.write([m.words, m.output])


def silent_without_output(m: Maker) -> Path:
    return m.write([m.words])


def says_both(m: Maker) -> Path:
    return m.write([m.words], tied=True, text_config={"tie_word_embeddings": False})


def broken_config(m: Maker) -> Path:
    folder = m.write([m.words], tied=True)
    (folder / "config.json").write_text('{"tie_word_embeddings": true')
    return folder


FAULTS: dict[Callable[[Maker], Path], set[str]] = {
    twice: {"GS701"},
    twice_in_one_shard: {"GS701"},
    tied_by_text_config: {"GS701"},
    differ: {"GS702"},
    differ_in_last_byte: {"GS702"},
    no_output: {"GS703"},
    padded: {"GS708"},
    converted: {"GS708"},
    empty_entry: {"GS706"},
    entry_without_dtype: {"GS706"},
    missing_in_shard: {"GS704"},
    in_another_shard: {"GS704"},
    in_two_shards: {"GS705"},
    in_two_shards_without_index: {"GS705"},
    not_indexed: {"GS707"},
    no_shard: {"GS710"},
    cut_shard: {"GS710"},
    path_in_index: {"GS710"},
    link_out_of_folder: {"GS710"},
    silent_and_equal: {"GS709"},
    silent_without_output: {"GS709"},
    says_both: {"GS709"},
    broken_config: {"GS709", "GS710"},
}


def tied_once(m: Maker) -> Path:
    return m.write([m.words], tied=True)


def tied_output_alone(m: Maker) -> Path:
    """The name that was kept is that of the output layer."""
    return m.write([m.output], tied=True)


def apart(m: Maker) -> Path:
    return m.write({m.words: make_values("embed"), m.output: make_values("trained")}, tied=False)


def apart_and_equal(m: Maker) -> Path:
    return m.write([m.words, m.output], tied=False)


def apart_and_padded(m: Maker) -> Path:
    return m.write({m.words: make_values("embed"), m.output: make_values("embed", 96)}, tied=False)


def silent_and_apart(m: Maker) -> Path:
    return m.write({m.words: make_values("embed"), m.output: make_values("trained")})


def without_index(m: Maker) -> Path:
    return m.write([m.words], tied=True, indexed=False)


def prefixed(m: Maker) -> Path:
    return m.write([f"base.{m.words}"], tied=True)


def nested_tie(m: Maker) -> Path:
    return m.write([m.words], thinker_config={"text_config": {"tie_word_embeddings": True}})


def no_words(m: Maker) -> Path:
    """A model that puts out no words has no output layer."""
    return m.write([m.words], tied=False, architectures=["LlamaForSequenceClassification"])


def unknown_base(m: Maker) -> Path:
    return m.write([m.words], tied=False, architectures=["OwnModel"])


def empty_buffer(m: Maker) -> Path:
    folder = m.write({m.words: make_values("embed"), "g_idx": b""}, tied=True)
    content = {m.words: make_values("embed"), "g_idx": b""}
    (folder / FIRST).write_bytes(encode_shard(content, forms={"g_idx": ("I32", [0])}))
    return folder


def float8(m: Maker) -> Path:
    folder = m.write([m.words], tied=True)
    (folder / SECOND).write_bytes(
        encode_shard({"norm.weight": b"1234"}, forms={"norm.weight": ("F8_E4M3", [2, 2])})
    )
    return folder


def single_file(m: Maker) -> Path:
    folder = m.write([m.words], tied=True, indexed=False)
    for name in (FIRST, SECOND):
        (folder / name).unlink()
    (folder / "model.safetensors").write_bytes(encode_shard([m.words, "norm.weight"]))
    return folder


def hub_cache(m: Maker) -> Path:
    folder = m.write([m.words], tied=True, name="models--a--b/snapshots/0123")
    blobs = m.root / "models--a--b" / "blobs"
    blobs.mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        os.replace(path, blobs / str(number))
        path.symlink_to(f"../../blobs/{number}")
    return folder


def link_in_folder(m: Maker) -> Path:
    folder = m.write([m.words], tied=True)
    os.replace(folder / SECOND, folder / "second")
    (folder / SECOND).symlink_to("second")
    return folder


CLEAN = [
    tied_once,
    tied_output_alone,
    apart,
    apart_and_equal,
    apart_and_padded,
    silent_and_apart,
    without_index,
    prefixed,
    nested_tie,
    no_words,
    unknown_base,
    empty_buffer,
    float8,
    single_file,
    hub_cache,
    link_in_folder,
]


def list_codes(folder: Path) -> set[str]:
    report = gs.check(folder, isolated=True)
    assert all(finding.where.startswith(str(folder.parent)) for finding in report.findings)
    return {finding.code for finding in report.findings}


def test_there_are_forty_folders_or_more() -> None:
    assert (len(FAULTS) + len(CLEAN)) * len(ARCHITECTURES) >= 40


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("make", FAULTS, ids=lambda make: make.__name__)
def test_a_fault_is_named(make: Callable[[Maker], Path], architecture: str, tmp_path: Path) -> None:
    assert list_codes(make(Maker(tmp_path, architecture))) == FAULTS[make]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("make", CLEAN, ids=lambda make: make.__name__)
def test_a_clean_folder_has_no_finding(
    make: Callable[[Maker], Path], architecture: str, tmp_path: Path
) -> None:
    assert list_codes(make(Maker(tmp_path, architecture))) == set()


def test_folders_of_an_encoder_and_a_decoder(tmp_path: Path) -> None:
    """Several names of one array: each is a finding of its own."""
    names = [
        "shared.weight",
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "lm_head.weight",
    ]
    folder = write_shards(
        tmp_path / "t5", {FIRST: names}, tied=True, architectures=["T5ForConditionalGeneration"]
    )
    assert [f.path for f in gs.check(folder, isolated=True).findings] == [
        f'record "{name}"' for name in names[1:]
    ]


def test_a_shard_at_another_place_is_named_though_the_index_does_not_name_its_file(
    tmp_path: Path,
) -> None:
    folder = write_shards(tmp_path / "a", {FIRST: ["x"], SECOND: ["y"]}, tied=True)
    (finding,) = gs.check(edit_index(folder, x=SECOND), isolated=True).findings
    assert finding.message == f"is in {SECOND} by the index, and it is in {FIRST}"


def test_a_folder_of_folders_is_checked_folder_by_folder(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "all", "LlamaForCausalLM")
    maker.write([maker.words], tied=True, name="good")
    maker.write([maker.words, maker.output], tied=True, name="twice")
    run = graphshare("check", tmp_path / "all")
    assert (
        run.stderr.decode().rstrip().endswith("2 files: 1 warning")
        or b"2 files: 1 warning" in run.stdout
    )
    assert run.returncode == 0
    assert run.stdout.count(b"GS701") == 1


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("good", set()),
        ("twice", {"GS701"}),
        ("differ", {"GS702"}),
        ("index", {"GS706"}),
        ("shards", {"GS705"}),
        ("untied", {"GS703"}),
    ],
)
def test_cases(cases: Path, name: str, codes: set[str]) -> None:
    assert list_codes(cases / "ties" / name) == codes


@pytest.mark.parametrize(
    ("config", "index"),
    [
        ("[]", None),
        ('{"architectures": 5, "tie_word_embeddings": "yes", "text_config": [1]}', None),
        (
            (
                '{"architectures": [{}, null, "LlamaForCausalLM"], "text_config": {"decoder": '
                '{"text_config": {"decoder": {}}}}}'
            ),
            None,
        ),
        ("{}", "[" * 100_000),
        ("{}", '{"weight_map": {"a": 5}}'),
        ("{}", '{"weight_map": ["a"]}'),
        ("{}", '{"metadata": 5}'),
        (
            "{}",
            (
                '{"weight_map": {"a": "", "b": ".", "c": "..", "d": "/etc/passwd", "e": "C:x", "f": '
                '"a\\u0000b", "g": "~"}}'
            ),
        ),
        ("{}", '{"weight_map": {"a": "model.safetensors.index.json"}}'),
        ("{}", json.dumps({"weight_map": {str(i): f"shard-{i}.safetensors" for i in range(300)}})),
    ],
)
def test_odd_texts_are_findings_or_nothing(config: str, index: str | None, tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "odd", {FIRST: ["model.embed_tokens.weight"]}, tied=None)
    (folder / "config.json").write_text(config)
    if index is not None:
        (folder / INDEX).write_text(index)
    assert list_codes(folder) <= {"GS704", "GS707", "GS709", "GS710"}
    run = graphshare("params", "list", folder)
    assert run.returncode in (0, 2)
    assert b"bug in graphshare" not in run.stderr


@pytest.mark.parametrize(
    "name", ["../a", "..", "", "a/b", "a\\b", "%2e%2e%2fb", "a?b", "a#b", "c:a"]
)
def test_names_at_a_url_stay_in_its_folder(name: str) -> None:
    with pytest.raises(gs.InputError, match="which is a path"):
        _locate("https://example.org/model", name)


def test_the_usual_index_comes_before_that_of_a_variant(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "a", {FIRST: ["x"]}, tied=True)
    (folder / "model.fp16.safetensors.index.json").write_text(
        '{"weight_map": {"x": "none.safetensors"}}'
    )
    assert list_codes(folder) == set()


def test_what_config_says_is_followed_into_the_text_model(tmp_path: Path) -> None:
    def read(number: int, config: Mapping[str, object]) -> str:
        folder = write_shards(tmp_path / str(number), {FIRST: ["x"]}, **dict(config))
        return str(read_statement(read_shard_folder(str(folder))))

    inner = {"text_config": {"tie_word_embeddings": False}}
    assert read(0, {}) == "config says nothing"
    assert read(1, inner) == "config.json: text_config.tie_word_embeddings is false"
    assert (
        read(2, {"thinker_config": inner})
        == "config.json: thinker_config.text_config.tie_word_embeddings is false"
    )
    assert read(3, {"tied": True, **inner}).startswith(
        "config says both: tie_word_embeddings and text_config"
    )
    assert read(4, {"vision_config": {"tie_word_embeddings": True}}) == "config says nothing"
