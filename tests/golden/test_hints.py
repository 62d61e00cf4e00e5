"""Each line that a hint spells out is followed once: it never meets the refusal that it was given for."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.golden.wrong_inputs import GOLDEN, make_files
from tests.hints import find_faults, follow, list_answered, list_hints
from tests.processes import ROOT, graphshare, refused

LINES = """
    duplcate lenet --prefix b- -o x
    duplicate
    duplicate lenet
    duplicate lenet --prefix b- -o lenet
    duplicate lenet --prefix b- --mode batch -o x
    duplicate lenet --prefix b- --mode batch --batch-axis data -o x
    duplicate lenet --prefix b- --tie data --tie fc9_* -o x
    duplicate lenet --prefix b- --share-input conv1_* -o x
    params lits lenet
    params stast lenet-0000.params
    params convert lenet-0000.params x.npz --prefix a
    inspekt lenet
    inspect lenet --shap data=1
    diff lenet
    draw lenet-symbol.json -o a.gif
    export lenet -o x.onnx
    export lenet --shape data=1,1,28,28 -o lenet-symbol.json
    format lenet -o lenet-symbol.json
    export lenet --shape data=n,1,h:28,w:28 -o x.onnx
    export lenet --shape data=1,1,28,28 --dynamic data=n,1,h,w -o x.onnx
    unfix lenet
    foreach lenet*
    foreach lenet* -- chekc {}
    rules explain
    rename lenet -o x
    rename lenet --prefix a- --prefix b- -o x
    rename lenet --match conv1_* -o x
    group lenet
    group lenet lenet -o x
    group lenet lenet --connect softmax_output -o x
    run lenet
    run lenet --feed x.npy
    run lenet --seed 0 --in-place
    run lenet --seed 0 --shape data=1,x
    run lenet --seed 0 --shape data=1,1,28,28 --labels words.txt
    run lenet --seed 1 --seed 2
    run lenet --feed data=x.npy --batch 2
    run lenet --feed data=x.npy --mean 1
    run lenet --feed data=x.npy --sgd-steps 0
    run bare.json --seed 0
    verify lenet
    verify siam --recorded x.npz
    verify siam --against lenet
    compare lenet record.npz --format html
    compare lenet bare.json
    share lenet -o x
    share lenet --alias nonsense -o x
    share lenet --alias data=softmax_label -o x
    share siam --override sha-=conv1 --reuse require -o x
    extract lenet -o x
    extract lenet --target conv9 -o x
    extract lenet --target fc1_output --cut relu9 -o x
    extract lenet --branch flag=true -o x
    fold lenet --dtype float16 -o x
    reshape lenet --dynamic-batch -o x
    reshape small.onnx -o x.onnx
    split small.onnx -o parts
    pool small.onnx
    upgrade small.onnx -o x.onnx
    downgrade lenet -o x
    check none.json
    check lenet-symbol.json --select GS9999
"""


UNSPELLED = {
    "duplicate lenet --prefix b- --share-input conv1_* -o x",
    "draw lenet-symbol.json -o a.gif",
    "export lenet --shape data=1,1,28,28 -o lenet-symbol.json",
    "unfix lenet",
    "rename lenet --prefix a- --prefix b- -o x",
    "rename lenet --match conv1_* -o x",
    "group lenet lenet -o x",
    "run lenet --seed 1 --seed 2",
    "extract lenet -o x",
    "extract lenet --target fc1_output --cut relu9 -o x",
    "extract lenet --branch flag=true -o x",
    "reshape lenet --dynamic-batch -o x",
    "upgrade small.onnx -o x.onnx",
}
"""Lines whose hints leave it to the user what to write; that their options exist is checked nevertheless."""
VALUES = {
    "NAME=FILE": "data=x.npy",
    "NAME=x.npy": "data=x.npy",
    "SEED": "0",
    "GRAPH": "lenet",
    "MODEL OTHER": "siam lenet",
    "MODEL FILE": "lenet record.npz",
    "FILE": "lenet-0000.params",
    "OUT=IN": "softmax_output=data",
    "OLD=NEW": "conv2_bias=conv1_bias",
}
"""What a user writes for words of hints that stand for others."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("hints")
    make_files(where)
    for name in ("lenet-symbol.json", "lenet-0000.params", "small.onnx"):
        shutil.copy(ROOT / "fixtures" / name, where)
    shutil.copy(ROOT / "fixtures" / "lenet-symbol.json", where / "bare.json")
    np.save(where / "x.npy", np.zeros((1, 1, 28, 28), "float32"))
    np.savez(where / "record.npz", softmax_output=np.zeros((1, 10), "float32"))
    (where / "words.txt").write_text("\n".join("abcdefghij"))
    assert (
        graphshare("duplicate", "lenet", "--prefix", "sha-", "-o", "siam", cwd=where).returncode
        == 0
    )
    return where


@pytest.mark.parametrize("line", [line.strip() for line in LINES.strip().splitlines()])
def test_a_hint_leads_out_of_its_refusal(line: str, folder: Path, tmp_path: Path) -> None:
    words = shlex.split(line.replace("*", r"\*").replace("{", r"\{"))
    here = shutil.copytree(folder, tmp_path / "here")
    said = refused(graphshare(*words, cwd=here))
    followed = 0
    for errors, hint in list_answered(said):
        assert not find_faults(words, hint), hint
        stuck = {}
        lines = list(follow(words, hint, VALUES))
        followed += len(lines)
        for number, following in enumerate(lines):
            there = shutil.copytree(folder, tmp_path / f"{len(stuck)}-{number}")
            answer = graphshare(*following, cwd=there).stderr.decode().splitlines()
            stuck[number] = [error for error in errors if error in answer]
            shutil.rmtree(there)
        # Of several ways one may be for a part of the errors alone.
        assert not lines or not all(stuck.values()), (lines, hint, stuck)
        if hint.startswith(("write ", "add ")):
            assert not any(stuck.values()), (lines, hint, stuck)
    assert bool(followed) != (line in UNSPELLED), (
        "a line that is spelled out is not followed, or the other way round"
    )


def test_hints_on_wrong_inputs_name_what_there_is() -> None:
    words: list[str] = []
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if line.startswith("$ graphshare "):
            words = shlex.split(line)[2:]
        for hint in list_hints(line):
            assert not find_faults(words, hint), (words, hint)


def test_faults_of_hints_are_found() -> None:
    assert find_faults(["run", "lenet"], "choose its sizes with --shapes")
    assert find_faults(["run", "lenet"], "`graphshare inspekt` lists them")
    assert find_faults(["run", "lenet"], "`graphshare inspect --sizes` lists them")
    assert not find_faults(
        ["run", "lenet"], "`graphshare inspect --names` lists them; or add --shape NAME=1,2"
    )
    assert list(
        follow(["run", "a", "--shape", "x=1,2"], "sizes that fit: --shape x=1,3 --shape y=2,2")
    ) == [["run", "a", "--shape", "x=1,3", "--shape", "y=2,2"]]
    assert list(
        follow(["run", "a", "--batch", "2"], "leave --batch out, or name a file with --feed")
    ) == [["run", "a"]]
    assert list(follow(["run", "a", "--seed", "1"], "add --seed 2")) == [
        ["run", "a", "--seed", "2"]
    ]


def test_parameters_of_the_other_model_have_an_option_of_their_own(folder: Path) -> None:
    said = refused(
        graphshare("compare", "lenet", "bare.json", cwd=folder),
        "bare.json: 16 parameters have no value",
    )
    assert "--against-params FILE" in said
    said = refused(
        graphshare("compare", "bare.json", "lenet", cwd=folder),
        "bare.json: 16 parameters have no value",
    )
    assert "with --params FILE" in said


def test_a_part_of_a_split_in_the_place_of_the_model_has_a_hint_that_split_takes(
    tmp_path: Path,
) -> None:
    shutil.copy(ROOT / "fixtures" / "lenet-symbol.json", tmp_path / "a-symbol.json")
    (tmp_path / "a-1-symbol.json").symlink_to("a-symbol.json")
    said = refused(graphshare("split", "a", "--at", "pool1_output", "-o", ".", cwd=tmp_path))
    assert list_hints(said) == ["choose another output"]
