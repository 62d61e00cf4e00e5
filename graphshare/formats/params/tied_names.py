"""Find the tensors of a checkpoint folder that its configuration ties, and compare a pair's bytes.

``tied_names.json`` has the names of outputs and embeddings by architecture, read off the classes of
transformers (it states the version). Folders prefix these names
(``language_model.lm_head.weight``), or drop a first part (``wte.weight``). They are tied if
``config.json`` says so as ``tie_word_embeddings``, for the model or its text model. Otherwise the
default is in the model's code, and nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Literal

import msgspec

from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import reopen_source
from graphshare.formats.params.safetensors import Header, TensorEntry
from graphshare.formats.params.shards import ShardFolder
from graphshare.progress import task

KEY = "tie_word_embeddings"
_TEXT_MODELS = (
    "text_config",
    "decoder",
    "generator",
    "llm_config",
    "language_config",
    "thinker_config",
    "text_encoder",
)
_DEPTH = 3  # thinker_config.text_config of Qwen's omni models
# Ends of the names of classes that put out words
_HEADS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
_PIECE = 1 << 20


class TieStatement(msgspec.Struct, frozen=True):
    """A configuration's statement about ties: ``tied`` is None for none or both; ``places`` say
    where.
    """

    tied: bool | None
    places: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        if not self.places:
            return "config says nothing"
        places = [".".join(place) for place in self.places]
        if self.tied is None:
            return f"config says both: {' and '.join(places)} differ"
        return f"config.json: {places[0]} is {str(self.tied).lower()}"


class TiedPair(msgspec.Struct, frozen=True):
    """Two names of one array by the architecture: ``name`` is there as ``first``, ``kept`` as
    ``second``, or None.
    """

    name: str
    kept: str
    first: tuple[Header, TensorEntry] | None
    second: tuple[Header, TensorEntry] | None

    @property
    def stored(self) -> Literal["once", "twice", "unlike"]:
        """``unlike`` means that two arrays differ in dtype, shape or number of bytes."""
        if self.first is None or self.second is None:
            return "once"
        x, y = self.first[1], self.second[1]
        return "twice" if (x.dtype, x.shape, x.size) == (y.dtype, y.shape, y.size) else "unlike"

    @property
    def is_output(self) -> bool:
        """Whether ``name`` is an output layer, and ``kept`` an embedding."""
        if self.name.rpartition(".")[2] != "weight":
            return False
        is_embedding = "embed" in self.name.replace("embed_out", "")
        words = ("embed", "shared", "wte", "transformer.w.")
        return not is_embedding and any(word in self.kept for word in words)


def read_statement(folder: ShardFolder) -> TieStatement:
    """Return the configuration's statement about ties, for the model or its text model."""
    stated: dict[tuple[str, ...], bool] = {}
    pending: list[tuple[tuple[str, ...], Mapping[str, object]]] = [((), folder.config)]
    for steps, config in pending:  # grows during the loop
        value = config.get(KEY)
        if isinstance(value, bool):
            place = (*steps, KEY)
            stated[place] = value
        if len(steps) >= _DEPTH:
            continue
        for name in _TEXT_MODELS:
            part = config.get(name)
            if isinstance(part, dict):
                pending.append(((*steps, name), part))
    values = set(stated.values())
    return TieStatement(values.pop() if len(values) == 1 else None, tuple(stated))


def list_architectures(folder: ShardFolder) -> list[str]:
    """Return the stated names of classes."""
    stated = folder.config.get("architectures")
    if not isinstance(stated, list):
        return []
    return [name for name in stated if isinstance(name, str)]


@cache
def _read_table() -> dict[str, tuple[tuple[str, str], ...]]:
    # Start-up: it imports much, and few commands look at checkpoints
    from importlib.resources import files

    data = msgspec.json.decode(files(__package__).joinpath("tied_names.json").read_bytes())
    pairs = {
        text: tuple((new, old) for pair in text.split() for new, _, old in (pair.partition("="),))
        for text in data["classes"]
    }
    return {name: pairs[text] for text, names in data["classes"].items() for name in names.split()}


def find_pairs(folder: ShardFolder) -> list[TiedPair]:
    """Return the architecture's pairs with a name in the folder.

    Without a known architecture for words, return the first fitting pair of any language model.
    """
    tensors = folder.list_tensors()
    names = list_architectures(folder)
    table = _read_table()
    known = [pair for name in names for pair in table.get(name, ())]
    if known or (names and not any(name.endswith(_HEADS) for name in names)):
        return list(dict.fromkeys(_match_all(tensors, known)))
    general = dict.fromkeys(
        pair for name, pairs in table.items() if name.endswith(_HEADS) for pair in pairs
    )
    fitting = [pair for pair in _match_all(tensors, general) if pair.is_output]
    best = sorted(fitting, key=lambda pair: (pair.first is None) + (pair.second is None))
    return best[:1]


def _match_all(
    tensors: Mapping[str, tuple[Header, TensorEntry]], pairs: Iterable[tuple[str, str]]
) -> Iterator[TiedPair]:
    for new, old in pairs:
        pair = _match(tensors, new, old)
        if pair is not None:
            yield pair


def _match(
    tensors: Mapping[str, tuple[Header, TensorEntry]], new: str, old: str
) -> TiedPair | None:
    kept = _find(tensors, old, 2)
    name = _find(tensors, new, max(2, new.count(".")))
    if name is None and kept is not None:  # the name that it would have beside the other one
        name = kept.removesuffix(old) + new if kept.endswith(f".{old}") else new
    if kept is None and name is not None:
        kept = name.removesuffix(new) + old if name.endswith(f".{new}") else old
    if name is None or kept is None or name == kept:
        return None
    return TiedPair(name, kept, tensors.get(name), tensors.get(kept))


def _find(tensors: Mapping[str, object], name: str, least: int) -> str | None:
    """Return the one tensor whose name is, or ends in, ``name`` or at least ``least`` of its
    parts.
    """
    parts = name.split(".")
    for start in range(max(1, len(parts) - least + 1)):
        end = ".".join(parts[start:])
        if end in tensors:
            return end
        matches = [key for key in tensors if key.endswith(f".{end}")]
        if matches:
            return matches[0] if len(matches) == 1 else None
    return None


def find_difference(
    left: tuple[Header, TensorEntry], right: tuple[Header, TensorEntry]
) -> int | None:
    """Return the position of the first byte that differs between tensors of equal size; None if
    equal.

    Raises:
        InputError: a shard cannot be read, or has changed since its header was read.
    """
    (one, x), (other, y) = left, right
    with (
        reopen_source(one.path, one.identity, b"") as a,
        reopen_source(other.path, other.identity, b"") as b,
    ):
        at, there = one.start + x.data_offsets[0], other.start + y.data_offsets[0]
        with task("comparing", x.size, "B") as advance:
            for start, piece, twin in _read_pairs(a, at, b, there, x.size):
                if piece != twin:
                    pairs = enumerate(zip(piece, twin, strict=True), start)
                    return next(place for place, (p, q) in pairs if p != q)
                advance(len(piece))
        a.check_unchanged()
        b.check_unchanged()
    return None


def _read_pairs(
    a: ByteSource, at: int, b: ByteSource, there: int, size: int
) -> Iterator[tuple[int, bytearray, bytearray]]:
    """Yield pieces of two ranges, each with its place; both arrays are reused."""
    left, right = bytearray(min(size, _PIECE)), bytearray(min(size, _PIECE))
    for start in range(0, size, _PIECE):
        if size - start < len(left):
            del left[size - start :], right[size - start :]
        a.read_into(at + start, memoryview(left))
        b.read_into(there + start, memoryview(right))
        yield start, left, right
