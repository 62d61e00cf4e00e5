"""Images opened and prepared: sizes, numbers, channels, layouts, folders, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import graphshare as gs
from graphshare.errors import Fault, InputError, RefusedError, UsageError
from graphshare.formats.images import header, images
from graphshare.formats.images.pixels import normalize, resize_as_mxnet
from graphshare.formats.images.settings import (
    PRESETS,
    ImageSettings,
    crop_corner,
    make_settings,
    size_before_crop,
    size_of_result,
)
from tests import pictures


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    return pictures.save(tmp_path / "photo.png", pictures.texture(30, 40))


def test_pixels_as_they_are(photo: Path) -> None:
    found = gs.open_images(photo)
    assert repr(found) == "<Images: 1, 1x3x30x40>"
    array = np.asarray(found)
    assert array.dtype == np.float32
    assert array.flags.c_contiguous
    assert np.array_equal(array[0].transpose(1, 2, 0), pictures.texture(30, 40))


def test_channels_and_layouts(photo: Path) -> None:
    rgb = np.asarray(gs.open_images(photo))
    assert np.array_equal(np.asarray(gs.open_images(photo, color="bgr")), rgb[:, ::-1])
    assert np.array_equal(
        np.asarray(gs.open_images(photo, layout="NHWC")), rgb.transpose(0, 2, 3, 1)
    )
    gray = gs.open_images(photo, color="gray")
    assert gray.shape == np.asarray(gray).shape == (1, 1, 30, 40)
    weights = np.array([0.299, 0.587, 0.114])[:, None, None]
    assert np.abs(np.asarray(gray)[0, 0] - (rgb[0] * weights).sum(0)).max() < 1
    assert gs.open_images(photo, color="gray", layout="NHWC").shape == (1, 30, 40, 1)


def test_the_formula_keeps_red_green_and_blue_apart() -> None:
    pixels = np.array([[[10, 20, 30]]], "uint8")
    settings = ImageSettings(mean=(1.0, 2.0, 3.0), std=(2.0, 4.0, 8.0), scale=4.0)
    assert normalize(pixels, settings).tolist() == [[[18.0, 18.0, 13.5]]]
    assert normalize(pixels, ImageSettings(scale=2.0)).tolist() == [[[20.0, 40.0, 60.0]]]
    assert normalize(pixels, ImageSettings(std=(1.0, 1.0, 2.0))).tolist() == [[[10.0, 20.0, 15.0]]]
    assert normalize(
        pixels, make_settings(None, {"mean": (1.0, 2.0, 3.0), "color": "bgr"})
    ).tolist() == [[[27.0, 18.0, 9.0]]]


@pytest.mark.parametrize(
    ("size", "resize", "crop", "wanted"),
    [
        ((30, 40), None, None, (30, 40)),
        ((30, 40), 15, None, (15, 20)),
        ((40, 30), 20, None, (26, 20)),
        ((41, 30), 20, None, (27, 20)),
        ((30, 40), (7, 9), None, (7, 9)),
        ((30, 40), None, (10, 11), (10, 11)),
        ((30, 40), 60, (50, 50), (50, 50)),
    ],
)
def test_sizes(
    tmp_path: Path, size: tuple[int, int], resize: Any, crop: Any, wanted: tuple[int, int]
) -> None:
    file = pictures.save(tmp_path / "a.png", pictures.texture(*size))
    found = gs.open_images(file, resize=resize, crop=crop)
    assert found.shape == np.asarray(found).shape == (1, 3, *wanted)


def test_the_crop_is_the_centre(photo: Path) -> None:
    found = np.asarray(gs.open_images(photo, crop=(9, 10), layout="NHWC"))
    assert np.array_equal(found[0], pictures.texture(30, 40)[10:19, 15:25])


def test_a_resize_to_half_is_an_average_and_one_to_the_same_size_changes_nothing() -> None:
    pixels = np.arange(48, dtype="uint8").reshape(4, 4, 3)
    # Of 0, 3, 12 and 15: 7.5, rounded up
    assert resize_as_mxnet(pixels, 2, 2)[0, 0].tolist() == [8, 9, 10]
    assert np.array_equal(resize_as_mxnet(pixels, 4, 4), pixels)
    assert np.array_equal(
        resize_as_mxnet(pixels[:1, :1], 3, 5), np.broadcast_to(pixels[:1, :1], (3, 5, 3))
    )


@pytest.mark.parametrize(
    ("height", "width", "wanted"),
    [
        (3, 2, [[79, 110], [70, 144], [145, 134]]),
        (8, 3, [[17, 66, 116], [82, 131, 87], [158, 208, 57], [91, 140, 123], [103, 113, 122], [196, 125, 54], [144, 138, 131],
                [97, 146, 196]]),
        (7, 9, [[11, 17, 34, 50, 66, 83, 99, 116, 122], [95, 102, 118, 134, 151, 167, 127, 78, 60],
                [128, 134, 151, 167, 183, 200, 145, 81, 56], [51, 57, 74, 90, 107, 123, 139, 156, 162],
                [157, 163, 179, 185, 121, 56, 62, 79, 85], [153, 159, 175, 184, 135, 86, 95, 111, 117],
                [91, 97, 114, 130, 146, 163, 179, 196, 202]]),
    ],
)  # fmt: skip
def test_a_resize_gives_the_numbers_of_mxnet(
    height: int, width: int, wanted: list[list[int]]
) -> None:
    """Recorded from ``mx.image.imresize`` of MXNet 1.9.1; positions beyond an edge take the pixel at it."""
    pixels = ((np.arange(20) * 37 + 11) % 256).astype("uint8").reshape(5, 4, 1)
    assert resize_as_mxnet(pixels, height, width)[..., 0].tolist() == wanted


def test_filters_differ(photo: Path) -> None:
    names = ("mxnet", "nearest", "box", "bilinear", "bicubic", "lanczos")
    arrays = [
        np.asarray(gs.open_images(photo, resize=(11, 13), interpolation=name)) for name in names
    ]
    assert all(not np.array_equal(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientations(tmp_path: Path, orientation: int) -> None:
    upright = pictures.texture(8, 12)
    undo = {2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}
    turn = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"}
    turn.update({6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"})
    stored = Image.fromarray(upright)
    if orientation > 1:
        stored = stored.transpose(Image.Transpose[turn[undo[orientation]]])
    exif = Image.Exif()
    exif[0x0112] = orientation
    for name in ("a.png", "a.tiff"):
        stored.save(tmp_path / name, exif=exif)
        found = gs.open_images(tmp_path / name, layout="NHWC")
        assert np.array_equal(np.asarray(found)[0], upright)
        assert found.notes == (
            (f"turned upright by their EXIF data: {name}",) if orientation > 1 else ()
        )


def test_a_folder_in_order_with_what_it_leaves_out(tmp_path: Path) -> None:
    for seed, name in enumerate(("b.png", "a.jpg", "c.bmp")):
        pictures.save(tmp_path / name, pictures.texture(5, 6, seed))
    (tmp_path / "inner").mkdir()
    (tmp_path / ".hidden.png").write_bytes(b"x")
    (tmp_path / "words.txt").write_text("cat\n")
    found = gs.open_images(tmp_path)
    assert [Path(path).name for path in found.paths] == ["a.jpg", "b.png", "c.bmp"]
    assert found.notes == (f"not images, and left out of {tmp_path}: words.txt",)
    assert np.array_equal(
        np.asarray(found[1:])[0], np.asarray(gs.open_images(tmp_path / "b.png"))[0]
    )
    assert [len(found[1]), len(found[:2]), len(found.take([2, 2]))] == [1, 2, 2]
    assert len(gs.open_images([tmp_path / "b.png", tmp_path])) == 4


def test_every_wrong_file_is_named(tmp_path: Path) -> None:
    pictures.save(tmp_path / "good.png", pictures.texture(5, 6))
    (tmp_path / "page.jpg").write_text("<html>")
    (tmp_path / "empty.png").write_bytes(b"")
    whole = (tmp_path / "good.png").read_bytes()
    (tmp_path / "header.png").write_bytes(whole[:20])
    with pytest.raises(InputError) as caught:
        gs.open_images([tmp_path, tmp_path / "absent.png"])
    assert [Path(fault.where).name for fault in caught.value.faults] == [
        "empty.png",
        "header.png",
        "page.jpg",
        "absent.png",
    ]
    assert "is a web page (HTML), not an image" in str(caught.value.faults[2])
    for name in ("page.jpg", "empty.png", "header.png"):
        (tmp_path / name).unlink()
    (tmp_path / "cut.png").write_bytes(whole[:80])
    (tmp_path / "cut2.png").write_bytes(whole[:90])
    with pytest.raises(InputError) as caught:
        np.asarray(gs.open_images(tmp_path))
    assert [Path(fault.where).name for fault in caught.value.faults] == ["cut.png", "cut2.png"]
    with pytest.raises(InputError, match="is a folder without images"):
        gs.open_images(tmp_path.joinpath("empty").mkdir() or tmp_path / "empty")
    with pytest.raises(InputError, match="no image was given"):
        gs.open_images([])


def test_sizes_that_differ_are_all_named(tmp_path: Path) -> None:
    for name, size in (("a.png", (5, 6)), ("b.png", (6, 5)), ("c.png", (5, 7))):
        pictures.save(tmp_path / name, pictures.texture(*size))
    with pytest.raises(RefusedError) as caught:
        gs.open_images(tmp_path)
    assert [Path(fault.where).name for fault in caught.value.faults] == ["b.png", "c.png"]
    assert f"is 5 wide, 6 high, where {tmp_path / 'a.png'} is 6 wide, 5 high" in str(
        caught.value.faults[0]
    )
    assert gs.open_images(tmp_path, crop=5).shape == (3, 3, 5, 5)
    for number in range(9):
        pictures.save(tmp_path / f"d{number}.png", pictures.texture(3, 3))
    with pytest.raises(RefusedError) as caught:
        gs.open_images(tmp_path)
    assert [Path(fault.where).name for fault in caught.value.faults] == [
        "b.png",
        "c.png",
        "d0.png",
        "d1.png",
        "",
    ]
    assert str(caught.value.faults[-1]) == "and so on for 7 more images"


def test_limits(photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match=r"after the resize; at most 16,777,216 pixels"):
        gs.open_images(photo, resize=5000)
    for limit, fits in ((24 * 32, True), (24 * 32 - 1, False)):
        monkeypatch.setattr(images, "MAX_RESIZED", limit)
        if fits:
            gs.open_images(photo, resize=24)
            continue
        with pytest.raises(
            RefusedError,
            match=f"would be 32 wide, 24 high after the resize; at most {limit} pixels",
        ):
            gs.open_images(photo, resize=24)
    monkeypatch.setattr(images, "MAX_BATCH_BYTES", 30 * 40 * 3 * 4 * 2)
    np.asarray(gs.open_images([photo, photo]))
    with pytest.raises(RefusedError, match="a batch may take") as caught:
        np.asarray(gs.open_images([photo] * 3))
    assert "`batch=N`" in caught.value.faults[0].hint
    monkeypatch.setattr(header, "MAX_PIXELS", 1200)
    gs.open_images(photo)
    monkeypatch.setattr(header, "MAX_PIXELS", 1199)
    with pytest.raises(InputError, match=r"has 40x30 pixels; graphshare reads up to 1,199"):
        gs.open_images(photo)


def test_pixels_of_32_bits_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((4, 4), "float32")).save(tmp_path / "deep.tiff")
    with pytest.raises(InputError, match="32 bits") as caught:
        gs.open_images(tmp_path / "deep.tiff")
    assert ".npy" in caught.value.faults[0].hint


@pytest.mark.parametrize(
    ("size", "mode", "words"),
    [
        ((0, 5), "L", "has no pixels"),
        ((5, 0), "L", "has no pixels"),
        ((5, 1), "F", "32 bits"),
        ((1, 1), "RGB", ""),
    ],
)
def test_images_without_pixels_are_refused(size: tuple[int, int], mode: str, words: str) -> None:
    image, source = SimpleNamespace(size=size, mode=mode), SimpleNamespace(name="a.png")
    if not words:
        header._check_size(image, source)  # type: ignore[arg-type]
        return
    with pytest.raises(InputError, match=f"a.png: has .*{words.removeprefix('has ')}"):
        header._check_size(image, source)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mean", "is_odd"),
    [((0.0,), False), ((0.5,), True), ((1.0,), True), ((-1.0, 0.0, 1.0), True), ((1.5,), False), ((-1.5,), False),
     ((0.5, 0.5, 100.0), False)],
)  # fmt: skip
def test_a_mean_of_numbers_from_0_to_1_is_noted(mean: tuple[float, ...], is_odd: bool) -> None:
    words = "the mean of the images lies between -1 and 1"
    assert [words in note for note in ImageSettings(mean=mean).notes] == [True] * is_odd


def test_presets_give_way_to_options() -> None:
    assert make_settings("gluoncv").crop == (224, 224)
    changed = make_settings("gluoncv", {"crop": (299, 299), "resize": None})
    assert (changed.crop, changed.resize, changed.std) == ((299, 299), 256, (58.395, 57.12, 57.375))
    for name, preset in PRESETS.items():
        assert make_settings(name) == ImageSettings(**preset.settings)
        assert preset.source
        assert preset.models


@pytest.mark.parametrize(
    ("preset", "given", "words"),
    [
        ("gluon", {}, ["no preset 'gluon'", "gluoncv"]),
        (None, {"color": "cmyk"}, ["color 'cmyk' must be one of rgb, bgr, gray"]),
        (None, {"layout": "CHW"}, ["layout 'CHW'"]),
        (None, {"interpolation": "magic"}, ["interpolation 'magic'"]),
        (
            None,
            {"resize": 0, "crop": (3, -1)},
            ["resize 0 is not a size", "crop (3, -1) is not a size"],
        ),
        (None, {"resize": (1, 1 << 20)}, ["not a size", "32,768"]),
        (None, {"mean": (1.0, 2.0)}, ["mean has 2 numbers for 3 channels"]),
        (
            None,
            {"mean": (float("nan"),), "std": (0.0,), "scale": float("inf")},
            ["mean must be finite", "std must not be 0", "scale must be finite"],
        ),
        (
            "gluoncv",
            {"color": "gray"},
            ["mean has 3 numbers for 1 channel", "std has 3 numbers for 1 channel"],
        ),
    ],
)
def test_settings_that_make_no_sense(
    preset: str | None, given: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        make_settings(preset, given)
    text = "\n".join(f"{fault} {fault.hint}" for fault in caught.value.faults)
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"resize": 1}, "", ""),
        ({"resize": 32768}, "", ""),
        ({"crop": (1, 32768)}, "", ""),
        (
            {"resize": 32769},
            "resize 32769 is not a size",
            "give lengths from 1 to 32,768, as in 224 or 112,96",
        ),
        (
            {"resize": 0},
            "resize 0 is not a size",
            "give lengths from 1 to 32,768, as in 224 or 112,96",
        ),
        (
            {"crop": (32769, 1)},
            "crop (32769, 1) is not a size",
            "give lengths from 1 to 32,768, as in 224 or 112,96",
        ),
        (
            {"crop": ()},
            "crop () is not a size",
            "give lengths from 1 to 32,768, as in 224 or 112,96",
        ),
        ({"color": "grey"}, "color 'grey' must be one of rgb, bgr, gray", "did you mean 'gray'?"),
        ({"layout": "x"}, "layout 'x' must be one of NCHW, NHWC", "such as layout='NCHW'"),
        ({"mean": (1.0, 2.0, 3.0), "std": (2.0,)}, "", ""),
        ({"mean": (0.0,), "scale": 2.0, "color": "gray"}, "", ""),
        (
            {"mean": (1.0, 2.0)},
            "mean has 2 numbers for 3 channels",
            "give one number, or one each for red, green and blue",
        ),
        (
            {"std": (1.0, 2.0, 3.0), "color": "gray"},
            "std has 3 numbers for 1 channel",
            "give one number",
        ),
        ({"std": (1.0, 0.0, 3.0)}, "std must not be 0", "leave it out, or give 1"),
        ({"scale": 0.0}, "scale must not be 0", "leave it out, or give 1"),
        ({"scale": float("inf")}, "scale must be finite", ""),
        ({"mean": (1.0, float("nan"), 2.0)}, "mean must be finite", ""),
    ],
)
def test_each_setting_has_its_bounds(given: dict[str, Any], message: str, hint: str) -> None:
    if not message:
        assert make_settings(None, given) == ImageSettings(**given)
        return
    with pytest.raises(UsageError) as caught:
        make_settings(None, given)
    (fault,) = caught.value.faults
    assert (fault.message, fault.hint) == (message, hint)


@pytest.mark.parametrize(
    ("size", "resize", "crop", "before", "corner"),
    [
        ((30, 40), 20, (10, 11), (20, 26), (5, 7)),
        ((40, 30), 20, (10, 10), (26, 20), (8, 5)),
        ((30, 30), 20, (21, 20), (20, 20), (-1, 0)),
        ((30, 40), None, (30, 41), (30, 40), (0, -1)),
        ((30, 40), (7, 9), None, (7, 9), (0, 0)),
    ],
)
def test_sizes_are_computed_from_the_header(
    size: tuple[int, int], resize: Any, crop: Any, before: tuple[int, int], corner: tuple[int, int]
) -> None:
    image, settings = header.ImageHeader("a", *size, 1), ImageSettings(resize=resize, crop=crop)
    assert size_before_crop(image, settings) == before
    assert size_of_result(image, settings) == (crop or before)
    assert crop_corner(image, settings) == corner


@pytest.mark.parametrize(
    ("count", "last"),
    [(4, "f3"), (5, "and so on for 1 more image"), (7, "and so on for 3 more images")],
)
def test_some_faults_of_a_kind_are_named(count: int, last: str) -> None:
    shown = images._shorten([Fault(f"f{i}", hint="h") for i in range(count)], "h")
    assert [fault.message for fault in shown] == ["f0", "f1", "f2", "f3", last][: min(count, 5)]
    assert {fault.hint for fault in shown} == {"h"}
