"""Rewrites of models that have every message keep all of them; a message that a rewrite loses or changes is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import graphshare as gs
from tests.fuzz import message_rewrites, messages
from tests.fuzz.accounts import INITIALIZER, LISTS, get_graph, name_of
from tests.fuzz.message_changes import change_message
from tests.fuzz.message_models import FILES, MODELS
from tests.fuzz.message_rewrites import REWRITES, Lost, list_names
from tests.fuzz.sandbox import run_numbers
from tests.onnx_files.wire import Field, Message, encode, parse
from tests.surroundings import size_of_day


@pytest.mark.parametrize("rewrite", REWRITES)
def test_every_message_of_every_model_is_kept(rewrite: str, tmp_path: Path) -> None:
    failures = {}
    for name, make in MODELS.items():
        folder = tmp_path / name
        folder.mkdir()
        status, what = messages.try_rewrite(rewrite, make().SerializeToString(), folder)
        assert status != "refused" or "nothing would be tied" in what, f"{name}: {what}"
        if status == "failed":
            failures[name] = what
    assert not failures


def test_every_message_of_changed_models_is_kept() -> None:
    cases = messages.Cases(0)
    first = len(cases.rewrites) * len(cases.sources)
    numbers = range(first, first + len(cases.rewrites) * size_of_day(10, 800))
    failures = {
        cases.make(o.number)[:2]: o.what
        for o in run_numbers(cases.run, numbers)
        if o.status == "failed"
    }
    assert not failures


@pytest.mark.parametrize("name", MODELS)
def test_the_bytes_of_a_model_are_read_and_written(name: str) -> None:
    data = MODELS[name]().SerializeToString()
    assert encode(parse(data)) == data
    with pytest.raises(ValueError, match="missing at byte"):
        parse(data[:-1])


def spoil(monkeypatch: pytest.MonkeyPatch, change: Callable[[Message], object]) -> None:
    """Let every rewrite write a model in which something is changed."""
    save = message_rewrites._save

    def save_changed(model: gs.Checkpoint, path: Path) -> Message:
        result = save(model, path)
        change(result)
        path.write_bytes(encode(result))
        return result

    monkeypatch.setattr(message_rewrites, "_save", save_changed)


def is_lost(rewrite: str, folder: Path) -> bool:
    """Return whether a rewrite of the model in a folder is found to lose something."""
    try:
        REWRITES[rewrite](folder / messages.MODEL, parse((folder / messages.MODEL).read_bytes()))
    except Lost:
        return True
    return False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model that no rewrite loses anything of."""
    for name, content in {messages.MODEL: MODELS["kinds"]().SerializeToString(), **FILES}.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("rewrite", ["rename", "rename one"])
def test_every_change_of_what_was_renamed_is_found(
    rewrite: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_lost(rewrite, folder)
    groups = []
    for seed in range(60):

        def change(result: Message, seed: int = seed) -> None:
            before = result.group()
            change_message(result, random.Random(seed))
            groups.append(before == result.group())

        with monkeypatch.context() as context:
            spoil(context, change)
            assert is_lost(rewrite, folder) != groups[-1], seed
    assert groups.count(False) > 40


@pytest.mark.parametrize(
    "rewrite", ["duplicate, copy", "duplicate, tie", "extract, all", "group", "group, second"]
)
def test_every_entry_that_is_lost_is_found(
    rewrite: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_lost(rewrite, folder)
    count = sum(
        f.number in LISTS for f in get_graph(parse((folder / messages.MODEL).read_bytes())).fields
    )
    for at in range(count):

        def remove(result: Message, at: int = at) -> None:
            entries = [one for one in get_graph(result).fields if one.number in LISTS]
            get_graph(result).fields.remove(entries[at % len(entries)])  # an extract has fewer

        with monkeypatch.context() as context:
            spoil(context, remove)
            assert is_lost(rewrite, folder), at


def test_statements_of_the_second_model_need_a_note(tmp_path: Path) -> None:
    first, second, result = (parse(MODELS["old"]().SerializeToString()) for _ in range(3))
    second.fields.append(Field(6, 2, b"about the second"))
    parts = [message_rewrites.Part(model, list_names(model)) for model in (first, second)]
    with pytest.raises(Lost, match="field 6 of ModelProto of model 2"):
        message_rewrites.expect_parts(parts, result, [])
    message_rewrites.expect_parts(parts, result, ["its documentation is left out"])


def test_a_shared_weight_goes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said of the other one has to stay."""
    for name, content in {messages.MODEL: MODELS["weights"]().SerializeToString(), **FILES}.items():
        (tmp_path / name).write_bytes(content)
    model = parse((tmp_path / messages.MODEL).read_bytes())
    graph = get_graph(model)
    twin = next(
        entry for entry in graph.list(INITIALIZER) if name_of(INITIALIZER, entry) == "t1"
    ).copy()
    twin.set_text(8, "twin")
    graph.fields.append(Field(INITIALIZER, 2, twin))
    (tmp_path / messages.MODEL).write_bytes(encode(model))
    assert not is_lost("share", tmp_path)
    spoil(monkeypatch, lambda result: get_graph(result).fields.remove(get_graph(result).fields[-1]))
    assert is_lost("share", tmp_path)


def test_a_pool_that_changes_a_model_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_lost("pool", folder)
    pool = gs.pool

    def pool_and_spoil(
        models: list[Path], out: Path, *, embed: bool = False, verify: bool = True
    ) -> None:
        pool(models, out, embed=embed, verify=verify)
        model = parse((out / messages.MODEL).read_bytes())
        get_graph(model).set_text(2, "other")
        (out / messages.MODEL).write_bytes(encode(model))

    monkeypatch.setattr(gs, "pool", pool_and_spoil)
    assert is_lost("pool", folder)


@pytest.mark.large
def test_the_campaign_finds_a_rewrite_that_loses_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert messages.Cases(3).make(500) == messages.Cases(3).make(500) != messages.Cases(4).make(500)
    monkeypatch.setattr(messages, "MODELS", {"kinds": MODELS["kinds"]})
    monkeypatch.setattr(messages, "REWRITES", {"rename": REWRITES["rename"]})
    spoil(monkeypatch, lambda result: get_graph(result).fields.clear())
    totals = messages.run(0.05, 0, tmp_path)
    assert totals.failures
    assert {path.name for path in (tmp_path / "1").iterdir()} == {
        messages.MODEL,
        *FILES,
        "command",
        "what",
    }
