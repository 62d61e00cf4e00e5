"""Images through the command line: a lenet learns drawn digits and reads others; folders, batches,
classes, refusals.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from graphshare.cli.image_options import format_options, parse_settings
from graphshare.errors import UsageError
from graphshare.files.schema import find_violations
from graphshare.formats.images.settings import ImageSettings
from tests import pictures
from tests.processes import ROOT, done, graphshare, refused, write_json
from tests.symbols import document, operator, variable

LENET = ROOT / "fixtures" / "lenet"
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve drawings of each digit to learn from, one of each that nobody has seen, and a lenet
    that has learned them.
    """
    folder = tmp_path_factory.mktemp("digits")
    (folder / "drawn").mkdir()
    (folder / "unseen").mkdir()
    labels = []
    for seed in range(12):
        for number in range(10):
            pictures.digit(number, seed).save(folder / "drawn" / f"{seed:02}-{number}.png")
            labels.append(number)
    for number in range(10):
        pictures.digit(number, 99).save(folder / "unseen" / f"{number}.png")
    np.save(folder / "labels.npy", np.array(labels, "float32"))
    (folder / "words.txt").write_text("\n".join(WORDS) + "\n")
    arguments = [
        "--feed",
        "data=drawn",
        "--preset",
        "mnist",
        "--feed",
        "softmax_label=labels.npy",
        "--sgd-steps",
        "30",
    ]
    settings = ["--learning-rate", "0.1", "--momentum", "0.9", "--params-out", "trained.params"]
    done(
        graphshare(
            "run", f"{LENET}-symbol.json", "--random-params", "1", *arguments, *settings, cwd=folder
        )
    )
    return folder


TRAINED = ["run", f"{LENET}-symbol.json", "--params", "trained.params"]


def test_a_drawn_digit_is_classified(digits: Path) -> None:
    pictures.digit(7, 1234).save(digits / "digit.png")
    arguments = [
        "--feed",
        "data=digit.png",
        "--preset",
        "mnist",
        "--top",
        "1",
        "--labels",
        "words.txt",
    ]
    run = done(graphshare(*TRAINED, *arguments, cwd=digits))
    title, row = run.stdout.decode().splitlines()
    assert title.split() == ["image", "class", "label", "score"]
    assert row.split()[:3] == ["digit.png", "7", "seven"]
    assert float(row.split()[3]) > 0.5
    assert b"'data' is 1 image as (1,1,28,28), gray, NCHW" in run.stderr


def test_a_folder_is_a_batch_in_the_order_of_names(digits: Path) -> None:
    arguments = [
        "--feed",
        "data=unseen",
        "--preset",
        "mnist",
        "--top",
        "2",
        "--labels",
        "words.txt",
        "--format",
        "json",
    ]
    found = json.loads(done(graphshare(*TRAINED, *arguments, cwd=digits)).stdout)
    assert not find_violations(found, "run")
    assert [ranking["image"] for ranking in found["classes"]] == [
        f"unseen/{number}.png" for number in range(10)
    ]
    best = [ranking["classes"][0]["label"] for ranking in found["classes"]]
    assert sum(word == wanted for word, wanted in zip(best, WORDS, strict=True)) >= 9
    assert all(len(ranking["classes"]) == 2 for ranking in found["classes"])
    assert found["classes"][0]["classes"][0]["score"] >= found["classes"][0]["classes"][1]["score"]


@pytest.mark.parametrize("size", ["1", "3", "10", "16"])
def test_batches_give_what_one_batch_gives(digits: Path, size: str) -> None:
    arguments = [
        "--feed",
        "data=unseen",
        "--preset",
        "mnist",
        "-o",
        "out.npz",
        "--target",
        "pool1",
        "--target",
        "softmax",
    ]
    done(graphshare(*TRAINED, *arguments, cwd=digits))
    with np.load(digits / "out.npz") as file:
        whole = dict(file)
    done(graphshare(*TRAINED, *arguments, "--batch", size, cwd=digits))
    with np.load(digits / "out.npz") as file:
        parts = dict(file)
    assert {name: array.shape for name, array in parts.items()} == {
        name: array.shape for name, array in whole.items()
    }
    assert whole["pool1_output"].shape[0] == 10
    for name, array in whole.items():
        assert np.allclose(parts[name], array, rtol=1e-5, atol=1e-6), name


def test_batches_of_what_has_no_batch_axis_or_mixes_samples(tmp_path: Path) -> None:
    for seed in range(3):
        pictures.save(tmp_path / f"{seed}.png", pictures.texture(8, 8, seed))
    nodes = [
        variable("data"),
        operator("_contrib_MultiBoxPrior", "anchors", [0], attrs={"sizes": "(0.5,)"}),
        operator("sum", "all", [0], attrs={"axis": "(0,)"}),
    ]
    write_json(
        tmp_path / "net.json",
        document(
            [*nodes, operator("transpose", "moved", [0], attrs={"axes": "(1,0,2,3)"})], [1, 2, 3]
        ),
    )
    arguments = ["run", "net.json", "--feed", "data=.", "--batch", "2", "-o", "out.npz"]
    refused(graphshare(*arguments, cwd=tmp_path), '(node "all")', "leave --batch out")
    (tmp_path / "out.npz").unlink(missing_ok=True)
    done(graphshare(*arguments, "--target", "anchors", "--target", "moved", cwd=tmp_path))
    with np.load(tmp_path / "out.npz") as found:
        assert found["anchors_output"].shape == (1, 64, 4)
        assert found["moved_output"].shape == (3, 3, 8, 8)
        assert (
            found["moved_output"][:, 2, 0, 0].tolist() == pictures.texture(8, 8, 2)[0, 0].tolist()
        )


def test_images_are_fed_to_a_comparison(digits: Path) -> None:
    both = [
        f"{LENET}-symbol.json",
        f"{LENET}-symbol.json",
        "--params",
        "trained.params",
        "--against-params",
        "trained.params",
    ]
    run = done(
        graphshare("compare", *both, "--feed", "data=unseen", "--preset", "mnist", cwd=digits)
    )
    assert b"'data' is 10 images as (10,1,28,28)" in run.stderr
    assert b"'data' is seeded" not in run.stderr


def refuse(digits: Path, *arguments: str, words: tuple[str, ...]) -> None:
    refused(graphshare(*TRAINED, *arguments, cwd=digits), *words)


def test_refusals(digits: Path) -> None:
    image = ["--feed", "data=unseen/0.png"]
    refuse(digits, *image, words=("'data' has the shape (1,3,96,96)", "--gray and --layout change"))
    refuse(
        digits,
        *image,
        "--gray",
        words=("inputs of a sample", "'data' is fed as (1,1,96,96); --preset, --resize"),
    )
    refuse(digits, *image, "--labels", "words.txt", words=("--labels needs --top",))
    refuse(
        digits,
        *image,
        "--preset",
        "mnist",
        "--top",
        "1",
        "--labels",
        "absent.txt",
        words=("absent.txt", "does not exist"),
    )
    refuse(
        digits,
        *image,
        "--preset",
        "mnist",
        "--top",
        "1",
        "--labels",
        "labels.npy",
        words=("labels.npy", "UTF-8"),
    )
    (digits / "two.txt").write_text("a\nb\n")
    wrong = ("no output has rows of 2 scores", "softmax_output 1x10", "--target")
    refuse(digits, *image, "--preset", "mnist", "--top", "1", "--labels", "two.txt", words=wrong)
    refuse(
        digits, *image, "--preset", "mnist", "--top", "1", "-o", "-", words=("both go to stdout",)
    )
    refuse(
        digits,
        *image,
        "--preset",
        "mnist",
        "--batch",
        "1",
        "--sgd-steps",
        "1",
        words=("--batch", "--sgd-steps"),
    )
    refuse(
        digits,
        *image,
        "--preset",
        "mnist",
        "--batch",
        "1",
        "--profile",
        words=("--profile", "--batch"),
    )
    refuse(
        digits,
        "--feed",
        "data=labels.npy",
        "--batch",
        "1",
        words=("--batch needs images, but no --feed is one", "--feed data=photos"),
    )
    refuse(
        digits,
        "--feed",
        "data=labels.npy",
        "--mean",
        "1",
        words=("options for images, but no --feed is an image",),
    )
    refuse(digits, "--feed", "data=absent.png", words=("absent.png: does not exist",))
    refuse(
        digits,
        "--feed",
        "unseen",
        words=("it is not clear which array of unseen", "--feed NAME=unseen"),
    )
    several = (
        "--mean 'a,b' cannot be read",
        "--resize '1,2,3' cannot be read",
        "--scale '1/0' cannot be read",
    )
    refuse(digits, *image, "--mean", "a,b", "--resize", "1,2,3", "--scale", "1/0", words=several)
    several = ("mean has 2 numbers for 3 channels", "std must not be 0", "resize 0 is not a size")
    refuse(digits, *image, "--mean", "1,2", "--std", "0", "--resize", "0", words=several)
    refuse(
        digits,
        *image,
        "--gray",
        "--std",
        "1,2,3",
        words=("std has 3 numbers for 1 channel", "give one number"),
    )
    refuse(
        digits,
        *image,
        "--crop",
        "200",
        words=("unseen/0.png", "96 wide, 96 high", "200 wide, 200 high", "--resize"),
    )


def test_a_mean_below_one_is_remarked_on(digits: Path) -> None:
    run = done(
        graphshare(
            *TRAINED,
            "--feed",
            "data=unseen/0.png",
            "--preset",
            "mnist",
            "--mean",
            "0.13",
            cwd=digits,
        )
    )
    assert b"the mean of the images lies between -1 and 1" in run.stderr


def test_without_pillow_the_error_names_the_extra(digits: Path, tmp_path: Path) -> None:
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL" / "__init__.py").write_text("raise ImportError('not here')")
    path = f"{tmp_path}:{ROOT}:{':'.join(sys.path)}"
    run = graphshare(
        *TRAINED, "--feed", "data=unseen/0.png", "--preset", "mnist", cwd=digits, PYTHONPATH=path
    )
    refused(run, "unseen/0.png: is an image", "pip install Pillow", ".npy")
    done(
        graphshare(
            "run",
            f"{LENET}",
            "--seed",
            "1",
            "--shape",
            "data=1,1,28,28",
            cwd=digits,
            PYTHONPATH=path,
        )
    )


def test_no_image_and_no_labels_are_overwritten(digits: Path) -> None:
    folder = digits / "kept"
    folder.mkdir()
    pictures.digit(3, 5).save(folder / "3.npz", "PNG")
    before = (folder / "3.npz").read_bytes()
    arguments = ["--feed", "data=kept", "--preset", "mnist", "--top", "1", "--labels", "words.txt"]
    refuse(digits, *arguments, "-o", "kept/3.npz", words=("kept/3.npz",))
    (digits / "words.npz").write_text("\n".join(WORDS))
    refuse(digits, *arguments[:-1], "words.npz", "-o", "words.npz", words=("words.npz",))
    assert (folder / "3.npz").read_bytes() == before
    assert (digits / "words.npz").read_text().startswith("zero")


def test_two_inputs_of_images(tmp_path: Path) -> None:
    for folder, count in (("left", 3), ("right", 2)):
        (tmp_path / folder).mkdir()
        for seed in range(count):
            pictures.save(tmp_path / folder / f"{seed}.png", pictures.texture(4, 4, seed))
    net = document(
        [variable("data"), variable("sha-data"), operator("elemwise_sub", "gap", [0, 1])], [2]
    )
    write_json(tmp_path / "net.json", net)
    arguments = [
        "run",
        "net.json",
        "--feed",
        "data=left",
        "--feed",
        "sha-data=right",
        "--batch",
        "2",
        "-o",
        "out.npz",
    ]
    refused(
        graphshare(*arguments, cwd=tmp_path),
        "--batch needs the same number of images",
        "data 3, sha-data 2",
    )
    (tmp_path / "left" / "2.png").unlink()
    done(graphshare(*arguments, cwd=tmp_path))
    with np.load(tmp_path / "out.npz") as found:
        assert found["gap_output"].shape == (2, 3, 4, 4)
        assert not found["gap_output"].any()


def parse(**options: str) -> dict[str, Any]:
    """Return the settings that options give, without those that are what they are by default."""
    names = ("preset", "resize", "crop", "mean", "scale", "std", "color", "layout", "interpolation")
    settings = parse_settings({**dict.fromkeys(names), **options})
    assert settings is not None
    plain = ImageSettings()
    return {
        name: value
        for name, value in msgspec.structs.asdict(settings).items()
        if value != getattr(plain, name)
    }


@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        ({"resize": "256"}, {"resize": 256}, "--resize 256"),
        ({"resize": "112,96"}, {"resize": (112, 96)}, "--resize 112,96"),
        ({"crop": "224"}, {"crop": (224, 224)}, "--crop 224"),
        ({"crop": "112,96"}, {"crop": (112, 96)}, "--crop 112,96"),
        (
            {"mean": "104,117,123", "color": "bgr"},
            {"mean": (104, 117, 123), "color": "bgr"},
            "--mean 104,117,123 --bgr",
        ),
        (
            {"mean": "127.5", "scale": "1/128"},
            {"mean": (127.5,), "scale": 1 / 128},
            "--mean 127.5 --scale 0.0078125",
        ),
        (
            {"std": "58,57,56", "layout": "NHWC"},
            {"std": (58, 57, 56), "layout": "NHWC"},
            "--std 58,57,56 --layout NHWC",
        ),
    ],
)
def test_options_of_images_have_one_number_or_several(
    options: dict[str, str], settings: dict[str, Any], words: str
) -> None:
    assert parse(**options) == settings
    assert format_options(settings) == words


def test_numbers_of_images_that_cannot_be_read_are_all_listed() -> None:
    wrong = {"resize": "1,2,3", "crop": "1.5", "mean": "1,2,3,4", "std": "x", "scale": "1,2"}
    with pytest.raises(UsageError) as raised:
        parse(**wrong)
    assert [fault.message for fault in raised.value.faults] == [
        f"--{name} {wrong[name]!r} cannot be read"
        for name in ("resize", "crop", "mean", "scale", "std")
    ]
    with pytest.raises(UsageError, match="--scale '1/0' cannot be read"):
        parse(scale="1/0")
