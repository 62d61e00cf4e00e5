"""Models on a web server: what is requested, and what is said when a request fails."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import graphshare as gs
from graphshare.api.params import convert as convert_params
from graphshare.cli import main
from graphshare.errors import InputError
from graphshare.files.byte_source import ListedFile
from graphshare.files.remote import ranges, retries
from graphshare.files.remote.listing import find_files, find_links
from graphshare.formats.params.format import read_index
from tests import params_bytes as build
from tests.effort import ends
from tests.onnx_files.made import MADE
from tests.processes import ROOT, environment
from tests.remote import web_server
from tests.remote.web_server import WebServer
from tests.surroundings import size_of_day

LENET = ROOT / "fixtures" / "lenet-symbol.json"


@pytest.fixture
def lenet(tmp_path: Path) -> Path:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    return tmp_path


def inspect(*words: str) -> int:
    return main.run(["inspect", *words])


def test_a_graph_is_one_request(
    site: WebServer, lenet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(f"{site.url}/lenet-symbol.json") == 0
    remote = capsys.readouterr().out.replace(f"{site.url}/", f"{lenet}{os.sep}")
    assert [path for _, path, _ in site.requests] == ["/lenet-symbol.json"]
    assert inspect(str(lenet / "lenet-symbol.json")) == 0
    assert capsys.readouterr().out == remote


def test_a_stem_takes_its_parameters_along(site: WebServer, lenet: Path) -> None:
    here, there = gs.load(lenet / "lenet"), gs.load(f"{site.url}/lenet")
    assert there.params["conv1_weight"].tobytes() == here.params["conv1_weight"].tobytes()
    assert there.stem == f"{site.url}/lenet"
    site.listing = False  # without a page of links the first epoch is tried
    assert gs.load(f"{site.url}/lenet").parameter_file is not None
    assert gs.load(f"{site.url}/lenet", epoch=0).parameter_file is not None


def test_the_query_stays_behind_the_name_and_out_of_messages(
    site: WebServer, lenet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = site.url.replace("http://", "http://me:secret@")
    assert inspect(f"{address}/lenet?token=hidden", "--epoch", "0") == 0
    assert {path for _, path, _ in site.requests} == {
        "/lenet-symbol.json?token=hidden",
        "/lenet-0000.params?token=hidden",
    }
    assert inspect(f"{address}/lenot-symbol.json?token=hidden") == 2
    site.faults += [lambda handler: handler.answer(403, b"") or True] * 2
    assert inspect(f"{address}/lenet-symbol.json?token=hidden") == 2
    out, said = capsys.readouterr()
    assert "hidden" not in out + said
    assert "secret" not in out + said
    assert "/lenot-symbol.json?...: does not exist" in said
    assert "refuses access (403)" in said


def test_a_missing_file_suggests_others(
    site: WebServer, lenet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(f"{site.url}/lenett") == 2
    assert f"did you mean '{site.url}/lenet'?" in capsys.readouterr().err
    assert inspect(f"{site.url}/lenet", "--epoch", "3") == 2
    assert "there are epochs 0" in capsys.readouterr().err


def _write_large(path: Path, records: int, size: int, name: str = "arg:stage{}_weight") -> None:
    """Write a parameter file of ``records`` arrays of ``size`` bytes each, whose data takes no room on the disk."""
    with path.open("wb") as file:
        file.write(struct.pack("<QQQ", 0x112, 0, records))
        for _ in range(records):
            file.write(
                struct.pack("<Iii", build.V2, 0, 1)
                + struct.pack("<q", size // 4)
                + struct.pack("<iii", 1, 0, 0)
            )
            file.seek(size, os.SEEK_CUR)
        file.write(struct.pack("<Q", records))
        for number in range(records):
            key = name.format(number).encode()
            file.write(struct.pack("<Q", len(key)) + key)


def test_inspect_of_a_gigabyte_reads_little(site: WebServer, lenet: Path) -> None:
    shutil.move(lenet / "lenet-symbol.json", lenet / "large-symbol.json")
    _write_large(lenet / "large-0000.params", 100, 10 << 20)
    assert (lenet / "large-0000.params").stat().st_size > 1e9
    found = gs.load(f"{site.url}/large", epoch=0).parameter_file
    assert found is not None
    assert len(found.records) == 100
    requests = [wanted for _, path, wanted in site.requests if path.endswith(".params")]
    assert len(requests) <= 100 + 3
    bounds = [wanted.removeprefix("bytes=").split("-") for wanted in requests]
    assert all(int(last) - int(first) < 4096 for first, last in bounds)
    assert sum(site.sent) < 1_000_000


def test_a_long_list_of_names_is_one_request(site: WebServer, tmp_path: Path) -> None:
    _write_large(tmp_path / "large.params", 30, 1 << 20, f"arg:{'stage_' * 100}{{}}")
    assert len(read_index(f"{site.url}/large.params").records) == 30
    assert len(site.requests) <= 30 + 3


@pytest.mark.parametrize("format_", ["npz", "safetensors"])
def test_other_formats_take_few_requests(site: WebServer, lenet: Path, format_: str) -> None:
    convert_params(lenet / "lenet-0000.params", lenet / f"lenet.{format_}")
    here = read_index(lenet / f"lenet.{format_}")
    there = read_index(f"{site.url}/lenet.{format_}")
    assert there.records == here.records
    assert len(site.requests) <= 3


def test_the_headers_of_a_large_archive_are_requested_together(
    site: WebServer, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"arg:w{number}": rng.integers(0, 255, 60_000, "uint8") for number in range(10)}
    np.savez(
        tmp_path / "large.npz", **arrays, **{f"aux:m{number}": np.zeros(8) for number in range(100)}
    )
    np.savez_compressed(tmp_path / "deflated.npz", **arrays)
    # At least two requests are under way at the same time
    barrier = threading.Barrier(2, timeout=5)

    def meet(handler: web_server.Handler) -> bool:
        start = int(handler.headers["Range"].removeprefix("bytes=").partition("-")[0])
        if 0 < start < 150_000:  # two arrays
            barrier.wait()
        return False

    site.faults.append(meet)
    for name, count in (("large", 110), ("deflated", 10)):
        site.reset()
        there = read_index(f"{site.url}/{name}.npz")
        assert len(there.records) == count
        assert there.records == read_index(tmp_path / f"{name}.npz").records
        assert len(site.requests) <= 2 + 10  # the shapes are beside the arrays
        assert sum(site.sent) < 100_000


def test_headers_inside_of_an_archive_are_compared_with_its_directory(
    site: WebServer, tmp_path: Path
) -> None:
    np.savez(
        tmp_path / "good.npz",
        **{f"arg:w{number}": np.full(100_000, number, "uint8") for number in range(3)},
    )
    good = (tmp_path / "good.npz").read_bytes()
    name = good.index(b"arg:w1.npy")
    (tmp_path / "name.npz").write_bytes(good[:name] + b"arg:w9.npy" + good[name + 10 :])
    (tmp_path / "mark.npz").write_bytes(good[: name - 30] + b"PK\3\5" + good[name - 26 :])
    listing = gs.list_params(f"{site.url}/good.npz")
    assert [array.key for array in listing.arrays] == ["arg:w0", "arg:w1", "arg:w2"]
    # The ends of the file, and the headers of the two arrays that are not at its start
    assert len(site.requests) == 4
    for file, reason in (
        ("name", "File name in directory 'arg:w1.npy'"),
        ("mark", "Bad magic number for file header"),
    ):
        for place in (str(tmp_path), site.url):
            with pytest.raises(
                gs.GraphshareError, match=f'{file}.npz: record 1 "arg:w1": cannot be read: {reason}'
            ):
                gs.list_params(f"{place}/{file}.npz")


@pytest.mark.parametrize("size", ["9" * 20, "9" * 5000, "\u0663" * 3, "*"])
def test_a_range_of_a_size_that_no_file_has(
    size: str, site: WebServer, lenet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def send_range(handler: web_server.Handler) -> bool:
        handler.wfile.write(
            f"HTTP/1.1 206 OK\r\nContent-Length: 9\r\nContent-Range: bytes 0-8/{size}\r\n\r\n123456789".encode()
        )
        return True

    site.faults.append(send_range)
    assert inspect(f"{site.url}/lenet-symbol.json") == 2
    assert (
        capsys.readouterr().err
        == f"error: {site.url}/lenet-symbol.json: the server sent a different range from the requested one\n"
    )


@pytest.mark.parametrize("size", ["9" * 8000, "\u00b2"])
def test_a_length_of_too_many_digits_is_none(size: str) -> None:
    pieces = [b"x", b""]

    async def read(size: int) -> bytes:
        return pieces.pop(0)

    response = SimpleNamespace(headers={"Content-Length": size}, content=SimpleNamespace(read=read))
    assert asyncio.run(ranges._read_whole(response, "http://h/x")) == b"x"


def test_requests_that_fail_are_repeated(site: WebServer, lenet: Path) -> None:
    site.faults += [web_server.unavailable, web_server.reset_in_body]
    assert gs.load(f"{site.url}/lenet-symbol.json").graph.nodes
    assert site.faults == []
    # The client repeats a request by itself when a connection that it kept is gone
    assert len(site.requests) >= 3


def test_a_server_that_stays_unavailable_is_named(
    site: WebServer, lenet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.faults += [web_server.unavailable] * (len(retries.DELAYS) + 1)
    assert inspect(f"{site.url}/lenet-symbol.json") == 2
    assert "the server answered 503" in capsys.readouterr().err
    site.faults.clear()
    assert inspect("http://127.0.0.1:9/lenet-symbol.json") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_server_that_says_nothing_is_left(
    site: WebServer,
    lenet: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(retries, "SILENCE", 0.02)
    site.faults += [lambda handler: time.sleep(0.1) or True] * 8
    assert inspect(f"{site.url}/lenet-symbol.json") == 2
    assert "Timeout" in capsys.readouterr().err


def test_another_server_gets_no_credentials(
    site: WebServer, lenet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A redirect is followed, without the name, the password and the query of the URL."""
    heard: list[str | None] = []

    def hear(handler: web_server.Handler) -> bool:
        heard.append(handler.headers.get("Authorization"))
        return False

    with web_server.serve(lenet) as other:
        other.faults.append(hear)
        site.faults.append(
            lambda handler: (
                handler.answer(302, b"", {"Location": f"{other.url}/lenet-symbol.json"}) or True
            )
        )
        assert (
            inspect(site.url.replace("//", "//me:secret@") + "/net-symbol.json?token=hidden") == 0
        )
        assert [path for _, path, _ in other.requests] == ["/lenet-symbol.json"]
    assert heard == [None]


OUTSIDE = (
    "%2e%2e/private/w.bin",
    ".%2e/private/w.bin",
    "..%2fprivate%2fw.bin",
    ".\t./private/w.bin",
    "%252e%252e/private/w.bin",
)


@pytest.mark.parametrize(
    "location", [*OUTSIDE, "%2e%2e%5cprivate%5cw.bin", "a/%2e%2e/.%2e/private/w.bin"]
)
def test_external_data_at_a_url_stays_in_the_folder(
    location: str, site: WebServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("private", "models"):
        (tmp_path / folder).mkdir()
    (tmp_path / "private" / "w.bin").write_bytes(bytes(1 << 16))
    model = MADE["external"]()
    model.graph.initializer[0].external_data[0].value = location
    (tmp_path / "models" / "net.onnx").write_bytes(model.SerializeToString())
    assert main.run(["inspect", site.url.replace("//", "//me:secret@") + "/models/net.onnx"]) == 2
    assert "which is not in the model's directory" in capsys.readouterr().err
    assert {path for _, path, _ in site.requests} == {"/models/net.onnx"}


@pytest.mark.parametrize(
    "link",
    [
        "%2e%2e/",
        ".%2e/",
        "..%2fprivate%2fa-symbol.json",
        "%252e%252e%252fprivate%252fa-symbol.json",
    ],
)
def test_links_of_a_page_stay_in_the_folder(link: str, site: WebServer, lenet: Path) -> None:
    (lenet / "models").mkdir()

    def send_links(handler: web_server.Handler) -> bool:
        handler.answer(200, f'<a href="{link}">x</a> <a href="b-symbol.json">b</a>'.encode())
        return True

    site.faults.append(send_links)
    assert [file.path for file in find_files(f"{site.url}/models/")] == [
        f"{site.url}/models/b-symbol.json"
    ]
    assert [path for _, path, _ in site.requests] == ["/models/"]


def test_links_of_a_page_are_found_as_servers_write_them() -> None:
    page = b"""<A class="x"
      HREF = 'a'>a</A><a title="x"href="b">b</a> <a data-href="no">no</a><abbr href="no"> <a href=""> <a>href="no"</a>
      <a href="c?x"><a href="d#e"><a href="f" href="no"><!-- <a --> <a href="g"""
    assert list(find_links(page)) == [b"a", b"b", b"f"]


@pytest.mark.parametrize(
    "piece",
    [
        b"<a ",
        b"<a href",
        b"<a href ",
        b"<a href=",
        b"<a href=x'",
        b" href =x'",
        b" ",
        b"<a href='&#9",
    ],
)
@ends()
def test_pages_that_hang_a_backtracking_search(piece: bytes) -> None:
    count = (size_of_day(1, 4) << 20) // len(piece)
    assert list(find_links(b"<a " + piece * count + b"> <a href='b'>"))[-1] == b"b"


def send_page(page: bytes) -> web_server.Fault:
    def send(handler: web_server.Handler) -> bool:
        handler.answer(200, page)
        return True

    return send


def test_a_page_of_links_is_bounded(site: WebServer) -> None:
    site.faults.append(send_page(b"<a href='b'>" + b" " * (4 << 20)))
    with pytest.raises(InputError, match=r"has 4\.2 MB, and at most 4\.2 MB are read"):
        find_files(f"{site.url}/models/")


def test_links_that_are_no_names_are_left_out(site: WebServer) -> None:
    site.faults.append(
        send_page(
            b"<a href='&#%s;'> <a href='%s'> <a href='//[x/'> <a href='b'>"
            % (b"9" * 5000, b"x" * 3000)
        )
    )
    # A page states no sizes
    assert find_files(f"{site.url}/models/") == [ListedFile(f"{site.url}/models/b", -1, "")]


def test_folders_that_come_slowly_are_left(
    site: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SILENCE", "PER_PAGE"):
        monkeypatch.setattr(retries, name, 0.05)

    def send_slowly(handler: web_server.Handler) -> bool:
        time.sleep(0.04)
        site.faults.append(send_slowly)
        handler.answer(200, b"".join(b"<a href='%d/'>" % i for i in range(100)))
        return True

    monkeypatch.setattr(retries, "PER_PAGE", 0.001)
    site.faults.append(send_slowly)
    with pytest.raises(InputError, match="its folders come too slowly"):
        find_files(f"{site.url}/models/")
    assert len(site.requests) < 20


def test_the_time_limit_holds_over_listings(
    site: WebServer, lenet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def wait(handler: web_server.Handler) -> bool:
        if handler.path == "/":
            time.sleep(1)
        return handler.path == "/"  # for other requests it stays

    site.faults.append(wait)
    assert main.run(["verify", f"{site.url}/lenet", "--prefix", "sha-", "--time-limit", "0.3"]) == 2
    assert "the time limit of 0.3 s has passed" in capsys.readouterr().err


def test_findings_at_urls_are_known_by_them(site: WebServer, lenet: Path, tmp_path: Path) -> None:
    graph = (lenet / "lenet-symbol.json").read_bytes()
    (lenet / "bad-symbol.json").write_bytes(graph.replace(b'"op": "Flatten"', b'"op": "Flattenn"'))
    url = f"{site.url}/bad-symbol.json"
    assert main.run(["check", url, "-o", str(tmp_path / "bad.sarif"), "--format", "sarif"]) == 1
    assert f'"uri": "{url}"' in (tmp_path / "bad.sarif").read_text()
    assert (
        main.run(["check", f"{url}?token=hidden", "--write-baseline", str(tmp_path / "known.json")])
        == 0
    )
    assert "hidden" not in (tmp_path / "known.json").read_text()
    assert (
        main.run(["check", f"{url}?token=other", "--baseline", str(tmp_path / "known.json")]) == 0
    )


@pytest.mark.parametrize("tags", [True, False])
def test_an_object_that_changes_while_it_is_read(site: WebServer, lenet: Path, tags: bool) -> None:
    path = lenet / "lenet-0000.params"

    def replace(handler: web_server.Handler) -> bool:
        if "bytes=0-" in handler.headers["Range"]:
            return False
        path.write_bytes(path.read_bytes()[:-9] if not tags else bytes(path.stat().st_size))
        return False

    def change(handler: web_server.Handler) -> bool:
        replace(handler)
        return False

    site.tags = tags
    site.faults.append(change)
    with pytest.raises(InputError, match="changed while it was being read"):
        read_index(f"{site.url}/lenet-0000.params")


def test_an_object_that_changes_after_it_was_indexed(site: WebServer, lenet: Path) -> None:
    model = gs.load(f"{site.url}/lenet")
    os.utime(lenet / "lenet-0000.params", ns=(1, 1))
    with pytest.raises(InputError, match="changed since it was indexed"):
        model.params["conv1_weight"]


def test_a_small_parameter_file_is_read_once(site: WebServer, lenet: Path) -> None:
    assert main.run(["check", f"{site.url}/lenet"]) == 0
    requests = [wanted for _, path, wanted in site.requests if path.endswith(".params")]
    assert requests.count(f"bytes=0-{(lenet / 'lenet-0000.params').stat().st_size - 1}") == 1


def test_a_server_without_ranges(
    site: WebServer, lenet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.ranges = False
    assert len(read_index(f"{site.url}/lenet-0000.params").records) == 16
    assert len(site.requests) == 1
    monkeypatch.setattr(ranges, "MAX_WITHOUT_RANGES", 40_000)
    with pytest.raises(InputError, match=r"has 49.3 kB, and the server does not send ranges"):
        read_index(f"{site.url}/lenet-0000.params")
    assert site.sent[-1] < 49_000 or len(site.requests) == 2  # refused by its length


def test_without_the_extra_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert inspect("s3://models/nin") == 2
    assert "pip install fsspec aiohttp s3fs" in capsys.readouterr().err
    assert main.run(["upgrade", str(LENET), "-o", "s3://models/nin-symbol.json"]) == 2
    assert "pip install fsspec aiohttp s3fs" in capsys.readouterr().err


def test_paths_do_not_import_fsspec() -> None:
    code = f"""
import sys
import threading
import time
from graphshare.cli.main import run
run(['inspect', {str(LENET)!r}])
print([name for name in sys.modules if name.split('.')[0] in ('fsspec', 'aiohttp', 's3fs') or '.remote' in name])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environment(), check=True
    )
    assert done.stdout.splitlines()[-1] == b"[]"


def test_a_file_url_is_a_path(
    lenet: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert inspect(f"file://{lenet}/lenet") == 0
    assert str(lenet / "lenet-0000.params") in capsys.readouterr().out


@pytest.mark.parametrize("error", [TimeoutError(), asyncio.TimeoutError(), type("ReadTimeoutError", (Exception,), {})(),
                                   type("ConnectTimeoutError", (Exception,), {})()])  # fmt: skip
def test_limits_that_a_server_did_not_keep_are_told(error: Exception) -> None:
    assert retries.describe_timeout(error).startswith("Timeout: no connection in ")
    assert retries.describe_timeout(error).endswith(
        f"or less than {retries.PACE / 1000:g} kB per second"
    )
    assert retries.describe_timeout(ValueError()) == retries.describe_timeout(OSError()) == ""
