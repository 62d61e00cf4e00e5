"""Images as MXNet 1.9.1 reads and resizes them; MTCNN's first net on a picture; the numbers of docs/images.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

import graphshare as gs
from graphshare.formats.images.pixels import resize_as_mxnet
from tests import pictures
from tests.oracle.conversation import Oracle
from tests.processes import ROOT, done, graphshare

pytestmark = pytest.mark.oracle

Array = NDArray[Any]
SIZES = [(48, 64), (97, 131), (375, 500), (1, 7), (9, 1), (2, 2)]
TARGETS = [
    (24, 32),
    (28, 28),
    (33, 57),
    (100, 140),
    (12, 16),
    (1, 1),
    (48, 32),
    (224, 224),
    (1, 3),
    (188, 250),
]


def ask(oracle: Oracle, code: str, folder: Path) -> dict[str, Array]:
    """What ``code`` stores in ``out`` by name; it runs in MXNet with ``folder`` as the place of its files."""
    lines = [
        "import numpy as np",
        f"folder = {str(folder)!r}",
        "out = {}",
        code,
        "np.savez(folder + '/out.npz', **out)",
    ]
    oracle.known("author", code="\n".join([*lines, "result = [0]"]))
    with np.load(folder / "out.npz") as found:
        return dict(found)


def test_the_resize_is_that_of_imresize_to_the_bit(oracle: Oracle, tmp_path: Path) -> None:
    for number, size in enumerate(SIZES):
        np.save(tmp_path / f"{number}.npy", pictures.texture(*size, seed=number))
    code = f"""
for i in range({len(SIZES)}):
    array = mx.nd.array(np.load(folder + '/%d.npy' % i), dtype='uint8')
    for h, w in {TARGETS}:
        out['%d %d %d' % (i, h, w)] = mx.image.imresize(array, w, h, interp=1).asnumpy()
"""
    found = ask(oracle, code, tmp_path)
    assert len(found) == len(SIZES) * len(TARGETS)
    for name, wanted in found.items():
        number, height, width = map(int, name.split())
        ours = resize_as_mxnet(pictures.texture(*SIZES[number], seed=number), height, width)
        assert np.array_equal(ours, wanted), name


def kinds(folder: Path) -> None:
    """Files of many kinds of one texture."""
    pixels = pictures.texture(48, 64)
    image = Image.fromarray(pixels)
    alpha = pictures.texture(48, 64, 1)[..., :1]
    pictures.save(folder / "alpha.png", np.dstack([pixels, alpha]))
    image.save(folder / "plain.png")
    image.save(folder / "plain.bmp")
    image.save(folder / "plain.tiff")
    image.save(folder / "baseline.jpg", quality=90)
    image.save(folder / "subsampled.jpg", quality=75, subsampling=2)
    image.save(folder / "progressive.jpg", progressive=True)
    image.convert("L").save(folder / "gray.jpg")
    image.convert("1").save(folder / "bits.png")
    image.quantize(64).save(folder / "palette.png")
    deep = np.random.default_rng(0).integers(0, 1 << 16, (48, 64)).astype("uint16")
    Image.fromarray(deep).save(folder / "deep.png")


def test_pixels_are_those_of_imread_to_the_bit(oracle: Oracle, tmp_path: Path) -> None:
    kinds(tmp_path)
    code = """
import os
for name in sorted(os.listdir(folder)):
    out[name] = mx.image.imread(folder + '/' + name).asnumpy()
    if name.endswith('.jpg'):
        out['gray ' + name] = mx.image.imread(folder + '/' + name, flag=0).asnumpy()
"""
    found = ask(oracle, code, tmp_path)
    assert len(found) == 15
    for name, wanted in found.items():
        color = "gray" if name.startswith("gray ") else "rgb"
        file = tmp_path / name.removeprefix("gray ")
        ours = np.asarray(gs.open_images(file, color=color, layout="NHWC"))
        assert np.array_equal(ours[0], wanted), name


PAGE = ROOT / "docs" / "images.md"
MEASURE = """
from mxnet.gluon.data.vision import transforms
path = folder + '/texture.png'
writer = mx.recordio.MXRecordIO(folder + '/t.rec', 'w')
with open(path, 'rb') as file:
    writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, 0, 0, 0), file.read()))
writer.close()
image = mx.image.imread(path)
def crop(array):
    return mx.image.center_crop(array, (64, 64))[0].asnumpy()
for i in range(5):
    out['resize_short, interp=%d' % i] = crop(mx.image.resize_short(image, 80, interp=i))
out['resize_short'] = crop(mx.image.resize_short(image, 80))
out['transforms.Resize'] = transforms.CenterCrop(64)(transforms.Resize(80, keep_ratio=True)(image)).asnumpy()
rec = {'path_imgrec': folder + '/t.rec', 'batch_size': 1, 'data_shape': (3, 64, 64), 'resize': 80}
out['ImageRecordIter'] = next(iter(mx.io.ImageRecordIter(preprocess_threads=1, **rec))).data[0].asnumpy()[0].transpose(1, 2, 0)
for more in ({}, {'inter_method': 1}):
    name = ', '.join(['ImageIter', *('%s=%s' % pair for pair in more.items())])
    out[name] = mx.image.ImageIter(**rec, **more).next().data[0].asnumpy()[0].transpose(1, 2, 0)
"""


def test_the_differences_in_the_documentation_are_measured(oracle: Oracle, tmp_path: Path) -> None:
    pictures.save(tmp_path / "texture.png", pictures.texture(375, 500))
    found = ask(oracle, MEASURE, tmp_path)

    def prepare(interpolation: str) -> Array:
        file = tmp_path / "texture.png"
        return np.asarray(
            gs.open_images(file, resize=80, crop=64, layout="NHWC", interpolation=interpolation)
        )[0]

    ours = prepare("mxnet")
    measured = {name: np.abs(ours - array) for name, array in found.items()}
    exact = found["resize_short, interp=1"]
    filters = ("nearest", "box", "bilinear", "bicubic", "lanczos")
    measured.update({f"--interpolation {name}": np.abs(prepare(name) - exact) for name in filters})
    rows = {name: f"{int(array.max())} | {array.mean():.2f}" for name, array in measured.items()}
    documented = dict(
        re.findall(r"^\| `([^`]*)` \| (\d+ \| \d+\.\d\d) \|$", PAGE.read_text(), re.M)
    )
    assert documented == rows


def test_presets_prepare_as_the_sources_do(oracle: Oracle, tmp_path: Path) -> None:
    pictures.save(tmp_path / "photo.jpg", pictures.texture(375, 500), quality=90)
    code = """
from mxnet.gluon.data.vision import transforms
image = mx.image.imread(folder + '/photo.jpg')
steps = [transforms.Resize(256, keep_ratio=True), transforms.CenterCrop(224), transforms.ToTensor()]
steps.append(transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
out['gluoncv'] = transforms.Compose(steps)(image).expand_dims(0).asnumpy()
writer = mx.recordio.MXRecordIO(folder + '/t.rec', 'w')
with open(folder + '/photo.jpg', 'rb') as file:
    writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, 0, 0, 0), file.read()))
writer.close()
rec = {'path_imgrec': folder + '/t.rec', 'batch_size': 1, 'data_shape': (3, 224, 224), 'resize': 256, 'preprocess_threads': 1}
out['imagenet1k-resnet'] = next(iter(mx.io.ImageRecordIter(**rec))).data[0].asnumpy()
mean = {'mean_r': 123.68, 'mean_g': 116.779, 'mean_b': 103.939}
out['imagenet1k-inception-bn'] = next(iter(mx.io.ImageRecordIter(**rec, **mean))).data[0].asnumpy()
"""
    for name, wanted in ask(oracle, code, tmp_path).items():
        ours = np.asarray(gs.open_images(tmp_path / "photo.jpg", preset=name))
        assert ours.shape == wanted.shape == (1, 3, 224, 224)
        assert np.abs(ours - wanted).max() < 1e-6, name


DET1 = "YYuanAnyVision+mxnet_mtcnn_face_detection__model__det1"
LEVELS = [(180, 240), (128, 170), (91, 121), (64, 86)]  # rows and columns of the pyramid


def draw_face(path: Path) -> None:
    """A face as a child draws it, on a quiet ground."""
    image = Image.new("RGB", (320, 240), (70, 90, 120))
    draw = ImageDraw.Draw(image)
    draw.ellipse((100, 40, 220, 200), fill=(224, 180, 150), outline=(90, 60, 40), width=3)
    for x in (130, 170):
        draw.ellipse((x, 90, x + 22, 104), fill=(250, 250, 250))
        draw.ellipse((x + 7, 92, x + 16, 102), fill=(40, 30, 20))
        draw.line((x - 3, 82, x + 24, 80), fill=(60, 40, 20), width=5)
    draw.polygon(((160, 105), (148, 140), (172, 140)), fill=(200, 150, 120))
    draw.chord((135, 145, 185, 175), 0, 180, fill=(180, 60, 60))
    image.save(path, quality=92)


def decode_boxes(scores: Array, offsets: Array, scale: float, threshold: float) -> Array:
    """The boxes (x1, y1, x2, y2, score) of det1's cells above a threshold: 12 pixels wide, two
    apart, moved by the offsets.
    """
    rows, columns = np.nonzero(scores[0, 1] > threshold)
    corner = np.stack([columns, rows, columns, rows], 1) * 2 + np.array([1, 1, 12, 12])
    box = np.round(corner / scale)
    size = (box[:, 2:] - box[:, :2] + 1)[:, [0, 1, 0, 1]]
    moved = box + offsets[0, :, rows, columns] * size
    return np.concatenate([moved, scores[0, 1, rows, columns][:, None]], 1)


def suppress(boxes: Array, overlap: float) -> Array:
    """The boxes that no better one overlaps by more than ``overlap`` of their union."""
    kept: list[Array] = []
    for box in boxes[np.argsort(-boxes[:, 4], kind="stable")]:
        if all(_overlap(box, other) <= overlap for other in kept):
            kept.append(box)
    return np.array(kept)


def _overlap(a: Array, b: Array) -> float:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:4], b[2:4])
    both = float(np.prod(np.maximum(high - low + 1, 0)))
    return both / (float(np.prod(a[2:4] - a[:2] + 1)) + float(np.prod(b[2:4] - b[:2] + 1)) - both)


@pytest.mark.corpus
def test_mtcnn_finds_the_boxes_that_it_finds_in_mxnet(
    corpus: Path, oracle: Oracle, tmp_path: Path
) -> None:
    draw_face(tmp_path / "face.jpg")
    graph, params = (
        corpus / "graphs" / f"{DET1}-symbol.json",
        corpus / "params" / f"{DET1}-0001.params",
    )
    code = f"""
symbol = mx.sym.load({str(graph)!r})
loaded = {{name[4:]: array for name, array in mx.nd.load({str(params)!r}).items()}}
image = mx.image.imread(folder + '/face.jpg')
for h, w in {LEVELS}:
    pixels = mx.image.imresize(image, w, h, interp=1).asnumpy()[..., ::-1].astype('float32')
    data = mx.nd.array(((pixels - 127.5) * 0.0078125).transpose(2, 0, 1)[None])
    bound = symbol.bind(mx.cpu(), args={{**loaded, 'data': data}}, grad_req='null')
    for name, array in zip(symbol.list_outputs(), bound.forward(is_train=False)):
        out['%d %s' % (h, name)] = array.asnumpy()
"""
    theirs = ask(oracle, code, tmp_path)
    boxes: tuple[list[Array], list[Array]] = ([], [])
    for height, width in LEVELS:
        feed = [
            "--feed",
            "data=face.jpg",
            "--preset",
            "mtcnn",
            "--resize",
            f"{height},{width}",
            "-o",
            "ours.npz",
        ]
        done(graphshare("run", graph, "--params", params, *feed, cwd=tmp_path))
        with np.load(tmp_path / "ours.npz") as ours:
            for name in ("prob1_output", "conv4_2_output"):
                assert np.abs(ours[name] - theirs[f"{height} {name}"]).max() < 1e-5
            boxes[0].append(
                decode_boxes(ours["prob1_output"], ours["conv4_2_output"], height / 240, 0.6)
            )
        boxes[1].append(
            decode_boxes(
                theirs[f"{height} prob1_output"],
                theirs[f"{height} conv4_2_output"],
                height / 240,
                0.6,
            )
        )
    found, wanted = (suppress(np.concatenate(side), 0.7) for side in boxes)
    assert found.shape == wanted.shape
    assert len(found) > 5
    assert np.abs(found - wanted).max() < 1e-5
