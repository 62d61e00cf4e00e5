"""Pictures that tests draw: seeded textures, and digits as a person might write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Pixels = NDArray[np.uint8]


def texture(height: int, width: int, seed: int = 0) -> Pixels:
    """Waves and noise (H, W, 3): every filter gives something else of it."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = np.stack(
        [
            128 + 100 * np.sin(x / 7 + y / 13),
            128 + 100 * np.cos(x / 5 - y / 9),
            (x * 3 + y * 2) % 256,
        ],
        -1,
    )
    return np.clip(waves + rng.normal(0, 15, waves.shape), 0, 255).astype("uint8")


def save(path: Path, pixels: Pixels, **settings: object) -> Path:
    """Write pixels in the format of the suffix."""
    Image.fromarray(pixels).save(path, **settings)  # type: ignore[arg-type]
    return path


def digit(number: int, seed: int, side: int = 96) -> Image.Image:
    """A white digit on black, a little shifted, turned and scaled, with its own colour."""
    rng = np.random.default_rng([number, seed])
    image = Image.new("RGB", (side, side))
    size = int(side * rng.uniform(0.7, 0.85))
    middle = (side / 2 + rng.uniform(-4, 4), side / 2 + rng.uniform(-4, 4))
    red, green, blue = (int(value) for value in rng.integers(190, 256, 3))
    ImageDraw.Draw(image).text(
        middle, str(number), fill=(red, green, blue), font=ImageFont.load_default(size), anchor="mm"
    )
    return image.rotate(rng.uniform(-12, 12), Image.Resampling.BILINEAR)
