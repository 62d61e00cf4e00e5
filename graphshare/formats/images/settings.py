"""The preparation of images as the input of a network: sizes, numbers, channels and layout.

Presets match published models. Sizes are computed as in MXNet, from the image's header.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.errors import Fault, UsageError
from graphshare.formats.images.header import ImageHeader
from graphshare.text.format import format_count
from graphshare.text.names import did_you_mean


class Preset(msgspec.Struct, frozen=True):
    """``settings`` are fields of ``ImageSettings``, with the ``models`` that need them and their
    ``source``.
    """

    models: str
    settings: Mapping[str, Any]
    source: str


PRESETS = {
    "gluoncv": Preset(
        "ImageNet classifiers of GluonCV and of Gluon's model zoo",
        {
            "resize": 256,
            "crop": (224, 224),
            "mean": (123.675, 116.28, 103.53),
            "std": (58.395, 57.12, 57.375),
        },
        "transform_eval in gluoncv/data/transforms/presets/imagenet.py; mean and std there times 255",
    ),
    "imagenet1k-resnet": Preset(
        "imagenet1k-resnet-34 to -152 of MXNet's symbol model zoo",
        {"resize": 256, "crop": (224, 224)},
        "test_imagenet1k_resnet in example/image-classification/test_score.py of MXNet (rgb_mean "
        "0,0,0; val-5k-256.rec)",
    ),
    "imagenet1k-inception-bn": Preset(
        "imagenet1k-inception-bn of MXNet's symbol model zoo",
        {"resize": 256, "crop": (224, 224), "mean": (123.68, 116.779, 103.939)},
        "test_imagenet1k_inception_bn in example/image-classification/test_score.py of MXNet",
    ),
    "insightface": Preset(
        "ArcFace and gender-age nets of InsightFace, on an aligned face; they normalize inside the graph",
        {"resize": (112, 112)},
        "get_input and get_feature in deploy/face_model.py of deepinsight/insightface",
    ),
    "mtcnn": Preset(
        "MTCNN's det1 to det4; --resize makes the levels of det1's pyramid",
        {"mean": (127.5,), "scale": 0.0078125, "color": "bgr"},
        "adjust_input in helper.py and cv2.imread in main.py of YYuanAnyVision/mxnet_mtcnn_face_detection",
    ),
    "mnist": Preset(
        "LeNets trained on MNIST as MXNet's examples load it: white digits on black, 28x28",
        {"resize": (28, 28), "scale": 1 / 255, "color": "gray"},
        "get_mnist in python/mxnet/test_utils.py of MXNet",
    ),
}


COLORS = {"rgb": 3, "bgr": 3, "gray": 1}
"""Orders of the channels, with their number."""
LAYOUTS = ("NCHW", "NHWC")
INTERPOLATIONS = ("mxnet", "nearest", "box", "bilinear", "bicubic", "lanczos")
MAX_SIDE = 1 << 15
_CHOICES = {"color": tuple(COLORS), "layout": LAYOUTS, "interpolation": INTERPOLATIONS}


class ImageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The preparation of an image: resize, crop at the centre, then
    ``(pixel - mean) * scale / std``, pixels from 0 to 255.

    ``resize`` is the length of the shorter side, or (height, width); ``crop`` is (height, width).
    ``mean`` and ``std`` have one number, or one each for red, green and blue, in this order even
    for ``bgr``.
    """

    resize: int | tuple[int, int] | None = None
    crop: tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    scale: float = 1.0
    color: str = "rgb"
    layout: str = "NCHW"
    interpolation: str = "mxnet"

    @property
    def notes(self) -> tuple[str, ...]:
        if any(self.mean) and all(-1 <= value <= 1 for value in self.mean):
            return (
                (
                    "the mean of the images lies between -1 and 1, but it is subtracted from pixels "
                    "of 0 to 255, before `scale`"
                ),
            )
        return ()


def make_settings(
    preset: str | None = None, options: Mapping[str, Any] | None = None
) -> ImageSettings:
    """Return the settings of ``preset``, replaced by ``options`` by name unless None.

    Raises:
        UsageError: an unknown preset, or invalid values; all are listed.
    """
    stated = {name: value for name, value in (options or {}).items() if value is not None}
    faults = []
    if preset is not None and preset not in PRESETS:
        hint = did_you_mean(preset, PRESETS) or f"the presets are {', '.join(PRESETS)}"
        faults.append(Fault(f"there is no preset {preset!r}", hint=hint))
    values = {**(PRESETS[preset].settings if preset in PRESETS else {}), **stated}
    faults += _check(values)
    if faults:
        raise UsageError(faults)
    return ImageSettings(**values)


def _is_size(size: object) -> bool:
    sides = size if isinstance(size, tuple) else (size,)
    return bool(sides) and all(isinstance(side, int) and 0 < side <= MAX_SIDE for side in sides)


def _check(values: Mapping[str, Any]) -> list[Fault]:
    faults = []
    for name, choices in _CHOICES.items():
        if name in values and values[name] not in choices:
            hint = did_you_mean(str(values[name]), choices) or f"such as {name}={choices[0]!r}"
            faults.append(
                Fault(f"{name} {values[name]!r} must be one of {', '.join(choices)}", hint=hint)
            )
    for name in ("resize", "crop"):
        size = values.get(name)
        if size is not None and not _is_size(size):
            faults.append(
                Fault(
                    f"{name} {size} is not a size",
                    hint=f"give lengths from 1 to {MAX_SIDE:,}, as in 224 or 112,96",
                )
            )
    channels = COLORS.get(values.get("color", "rgb"), 3)
    for name in ("mean", "std", "scale"):
        numbers = values.get(name, 1.0)
        faults += _check_numbers(
            name, (numbers,) if isinstance(numbers, (int, float)) else tuple(numbers), channels
        )
    return faults


def _check_numbers(name: str, numbers: Sequence[float], channels: int) -> Iterator[Fault]:
    if not all(map(math.isfinite, numbers)):
        yield Fault(f"{name} must be finite")
    elif name != "mean" and 0 in numbers:
        yield Fault(f"{name} must not be 0", hint="leave it out, or give 1")
    if name != "scale" and len(numbers) not in (1, channels):
        hint = (
            "give one number"
            if channels == 1
            else "give one number, or one each for red, green and blue"
        )
        message = f"{name} has {format_count(len(numbers), 'number')} for {format_count(channels, 'channel')}"
        yield Fault(message, hint=hint)


def size_before_crop(header: ImageHeader, settings: ImageSettings) -> tuple[int, int]:
    """Return height and width after the resize. The longer side is rounded down, as in
    ``mx.image.resize_short``.
    """
    size = settings.resize
    if size is None:
        return header.height, header.width
    if isinstance(size, tuple):
        return size
    if header.height > header.width:
        return size * header.height // header.width, size
    return size, size * header.width // header.height


def size_of_result(header: ImageHeader, settings: ImageSettings) -> tuple[int, int]:
    """Return height and width of the result."""
    return settings.crop or size_before_crop(header, settings)


def crop_corner(header: ImageHeader, settings: ImageSettings) -> tuple[int, int]:
    """Return the first row and column of the crop, rounded down; below 0 if the image is too
    small.
    """
    before, after = size_before_crop(header, settings), size_of_result(header, settings)
    return (before[0] - after[0]) // 2, (before[1] - after[1]) // 2
