"""Duplicating a large ``.params`` file against ``cat f f > g && sync g``; both end with the data on the disk.

    python benchmarks/params_duplicate.py [--size MIB] [--rounds N] [--directory DIR]

The tool's time includes the index, the check of what was written and putting it in place. Prints seconds, the ratio of the
medians and the peak memory in MiB (making the source takes most of it). Needs three times the size on the disk.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import struct
import subprocess
import tempfile
import time

from graphshare.formats.atomic import staged_outputs
from graphshare.formats.parameter_files import read_index
from graphshare.workflows.params_files import rewrite_params

ARRAYS = 64


def write_source(path: str, size: int) -> None:
    count = size // ARRAYS // 4
    names = b"".join(struct.pack("<Q", 6) + b"arg:%02d" % number for number in range(ARRAYS))
    with open(path, "wb") as file:
        file.write(struct.pack("<QQQ", 0x112, 0, ARRAYS))
        for _ in range(ARRAYS):
            file.write(struct.pack("<Iiiqiii", 0xF993FAC9, 0, 1, count, 1, 0, 0) + os.urandom(count * 4))
        file.write(struct.pack("<Q", ARRAYS) + names)
        file.flush()
        os.fsync(file.fileno())


def duplicate(source: str, target: str) -> None:
    file = read_index(source)
    plan = [(record, f"{prefix}{record.key}") for prefix in ("", "sha-") for record in file.records]
    with staged_outputs() as stage:
        rewrite_params(file, plan, stage, target)
        stage.commit()


def cat(source: str, target: str) -> None:
    subprocess.run(f"cat '{source}' '{source}' > '{target}' && sync '{target}'", shell=True, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="duplicate a .params file against cat")
    parser.add_argument("--size", type=int, default=500, help="MiB of the source")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="where to write; the disk matters")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        source, target = os.path.join(directory, "source.params"), os.path.join(directory, "target.params")
        write_source(source, options.size << 20)
        seconds: dict[str, list[float]] = {"cat": [], "graphshare": []}
        for _ in range(options.rounds):
            for name, run in (("cat", cat), ("graphshare", duplicate)):
                if os.path.exists(target):
                    os.unlink(target)
                os.sync()
                start = time.perf_counter()
                run(source, target)
                seconds[name].append(time.perf_counter() - start)
        for name, taken in seconds.items():
            print(f"{name:10s} median {statistics.median(taken):.2f} s, best {min(taken):.2f} s")
        print(f"ratio of the medians {statistics.median(seconds['graphshare']) / statistics.median(seconds['cat']):.2f}")
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    main()
