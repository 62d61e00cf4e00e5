"""transformers loads what ``tie`` and ``untie`` write, with equal logits; and the table of names is
that of its classes.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.formats.params import tied_names
from tests.shard_folders import INDEX
from tests.surroundings import ROOT, missing

MODELS = ("llama", "qwen2", "gpt2", "opt", "bert", "t5")
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def transformers_python() -> str:
    """A Python with transformers and torch."""
    path = os.environ.get("GRAPHSHARE_TRANSFORMERS", "")
    if not path:
        missing(
            "transformers",
            "no transformers: set GRAPHSHARE_TRANSFORMERS to a Python that has it, and torch",
        )
    return path


def run(python: str, script: str, *arguments: str | Path) -> str:
    """Run a script of this folder, without the packages of this Python and without a network."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment = {**kept, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    command = [python, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False, cwd=HERE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.large
def test_logits_stay_bit_for_bit(transformers_python: str, tmp_path: Path) -> None:
    run(transformers_python, "compare_logits.py", "make", tmp_path)
    folders: list[Path] = []
    for name in MODELS:
        source, untied, tied = (tmp_path / f"{name}{end}" for end in ("", "-untied", "-tied"))
        assert (source / INDEX).exists()
        assert gs.check(source, isolated=True).findings == ()
        gs.tie_params(source, untied, untie=True)
        assert gs.check(untied, isolated=True).findings == ()
        gs.tie_params(untied, tied)
        assert gs.check(tied, isolated=True).findings == ()
        keys = [
            {array.key for array in gs.list_params(folder).arrays}
            for folder in (source, untied, tied)
        ]
        assert keys[0] < keys[1]
        folders += [source, untied, tied]
    hashes: dict[str, Any] = json.loads(
        run(transformers_python, "compare_logits.py", "logits", *folders)
    )
    for source, untied, tied in zip(folders[::3], folders[1::3], folders[2::3], strict=True):
        assert hashes[str(source)] == hashes[str(untied)] == hashes[str(tied)], source.name
    assert len(set(hashes.values())) == len(MODELS)


@pytest.mark.large
def test_the_table_is_that_of_transformers(transformers_python: str) -> None:
    text = Path(tied_names.__file__).with_suffix(".json").read_text(encoding="utf-8")
    current = json.loads(run(transformers_python, "read_tied_keys.py"))
    kept = json.loads(text)
    if current["source"] != kept["source"]:
        pytest.fail(
            f"the table is of {kept['source']}: write it again with tests/ties/read_tied_keys.py, and read what changed"
        )
    assert current == kept


def test_the_table_names_its_source() -> None:
    table = tied_names._read_table()
    assert len(table) > 300
    assert table["LlamaForCausalLM"] == (("lm_head.weight", "model.embed_tokens.weight"),)
    assert dict(table["T5ForConditionalGeneration"])["lm_head.weight"] == "shared.weight"
    assert str(ROOT) not in Path(tied_names.__file__).with_suffix(".json").read_text(
        encoding="utf-8"
    )
