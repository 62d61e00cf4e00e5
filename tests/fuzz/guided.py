"""One reader under atheris, in a process of its own; :mod:`tests.fuzz.reads` starts it.

    python -m tests.fuzz.guided READER FOLDER SECONDS SEED

libFuzzer keeps the inputs that reach something new in ``FOLDER/corpus``. What escapes from the reader is written to
``FOLDER/failures``, the input and beside it what happened, and the campaign goes on; only a crash or a hang ends it.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

import atheris

from tests.fuzz.sandbox import describe, sort_of

STARTED = time.monotonic()

with atheris.instrument_imports(
    include=[
        "graphshare.files",
        "graphshare.fleet.manifest",
        "graphshare.formats",
        "graphshare.checkpoint",
        "graphshare.rewrite.rules",
        "graphshare.checks.config",
        "zipfile",
        "tomllib",
    ]
):
    from tests.fuzz.readers import COUNTS, READERS


def main(words: Sequence[str]) -> None:
    """Attack a reader; never returns."""
    name, folder, seconds, seed = words[0], Path(words[1]), words[2], words[3]
    reader = READERS[name]
    _write_corpus(folder, reader.seeds(), reader.words)
    warnings.simplefilter("error")
    counts = open(folder / "counts", "w+b", buffering=0)  # noqa: SIM115 (open as long as the process)
    numbers = [0, 0]
    sorts: set[str] = set()

    def attack(data: bytes) -> None:
        numbers[0] += 1
        try:
            numbers[1] += reader.read_or_refuse(data)
        except BaseException as error:
            sort = sort_of(error)
            if sort not in sorts:
                sorts.add(sort)
                stem = folder / "failures" / str(len(sorts))
                stem.with_suffix(".input").write_bytes(data)
                what = f"{sort}\n{describe(error)}\n{traceback.format_exc()}"
                stem.with_suffix(".what").write_text(what, errors="backslashreplace")
        if numbers[0] % 64 == 0:
            counts.seek(0)
            counts.write(COUNTS.pack(*numbers))

    left = max(1, round(float(seconds) - (time.monotonic() - STARTED)))
    options = [f"-max_total_time={left}", f"-seed={seed}", "-timeout=10", "-rss_limit_mb=1536", "-max_len=4096", "-verbosity=0",
               f"-artifact_prefix={folder}/", f"-dict={folder}/words"]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(folder / "corpus")], attack)
    atheris.Fuzz()


def _write_corpus(folder: Path, seeds: Sequence[bytes], words: Sequence[bytes]) -> None:
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    (folder / "failures").mkdir(exist_ok=True)
    for number, seed in enumerate(seeds):
        (folder / "corpus" / f"seed{number}").write_bytes(seed)
    lines = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in words]
    (folder / "words").write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
