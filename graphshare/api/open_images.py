"""``open_images``: image files as the value of an input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphshare.arguments import Positive
from graphshare.files.paths import StrPath, as_paths
from graphshare.formats.images.images import Images, open_image_files
from graphshare.formats.images.settings import make_settings


def open_images(
    paths: StrPath | Iterable[StrPath],
    *,
    preset: str | None = None,
    resize: Positive | tuple[Positive, Positive] | None = None,
    crop: Positive | tuple[Positive, Positive] | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    scale: float | None = None,
    color: str | None = None,
    layout: str | None = None,
    interpolation: str | None = None,
) -> Images:
    """Open images, or folders of them, at ``paths`` as one batch: a value for ``feeds``, an array of float32 for numpy.

    ``preset`` is the preparation of a model zoo (``gluoncv``, ``insightface``, ``mtcnn``...); other
    options replace its values. An image is resized to ``resize``, the length of its shorter side or
    (height, width), and cut at its centre to ``crop``, one length or (height, width). Pixels, from
    0 to 255, become ``(pixel - mean) * scale / std``; ``scale`` is one number, ``mean`` and ``std``
    are one, or one each for red, green and blue. ``color`` is ``rgb``, ``bgr`` or ``gray``,
    ``layout`` is ``NCHW`` or ``NHWC``, ``interpolation`` is ``mxnet`` (bilinear as in
    ``mx.image.imresize``) or a filter of Pillow.

    Raises:
        UsageError: an unknown preset, or values that do not make sense; all are listed.
        InputError: files that are missing, damaged or no images; all are listed.
        RefusedError: Pillow is not installed (the extra ``images``), or the images give different sizes.
    """
    if isinstance(crop, int):
        crop = (crop, crop)
    options = {
        "resize": resize if isinstance(resize, int) else _as_tuple(resize),
        "crop": _as_tuple(crop),
        "mean": _as_tuple(mean),
        "std": _as_tuple(std),
        "scale": scale,
        "color": color,
        "layout": layout,
        "interpolation": interpolation,
    }
    return open_image_files(as_paths(paths), make_settings(preset, options))


def _as_tuple(value: float | Sequence[float] | None) -> tuple[float, ...] | None:
    """Return one number or several as a tuple; None stays None."""
    if value is None:
        return None
    return (value,) if isinstance(value, (int, float)) else tuple(value)
