"""A web server that lies, for every command that takes a URL: it answers or refuses, in time, and
asks for nothing else.

Lengths, ranges, redirects, pages of links, entity tags and bodies are wrong, or have no end;
locations of external data and the links of pages lead out of the folder; manifests have changed
bytes. ``python -m tests.fuzz.servers SEED NUMBER`` repeats one.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import os
import random
import re
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock
from urllib.parse import unquote, urlsplit

import msgspec

from graphshare.api.params import convert as convert_params
from graphshare.files.remote import ranges, retries
from tests.fuzz import graphs
from tests.fuzz.collect import Collector
from tests.fuzz.readers import READERS
from tests.fuzz.reads import change
from tests.fuzz.sandbox import HANG, run_cases
from tests.fuzz.totals import Totals
from tests.onnx_files.made import MADE
from tests.remote.web_server import Handler, WebServer, serve
from tests.surroundings import ROOT

FOLDER = "/models/"
USER = "name:passphrase"
QUERY = "token=unspoken"
COMMANDS = tuple(
    line.split()
    for line in """
    inspect URL/lenet-symbol.json
    inspect URL/lenet --names --format json
    inspect URL/lenet?QUERY --epoch 0
    inspect URL/ext.onnx
    inspect zip://lenet-symbol.json::URL/lenet.zip
    check URL/lenet --isolated --format json
    check URL/ext.onnx --isolated
    check URL/**/*.json --isolated
    draw URL/lenet-symbol.json --to svg -o out/out.svg
    diff URL/lenet URL/ext.onnx
    duplicate URL/lenet --prefix x- -o out/out.json
    rename URL/ext.onnx --prefix y_ -o out/out.onnx
    rename URL/lenet --map URL/map.json -o out/out.json
    compare URL/ext.onnx URL/ext.onnx --time-limit 5
    run URL/ext.onnx --seed 1 --time-limit 5 --max-memory 200M
    run URL/lenet --shape data=1,1,28,28 --seed 1 --feed data=URL/feed.npy
    params list URL/lenet-0000.params
    params stats URL/lenet.npz?QUERY
    params list URL/lenet.safetensors
    params convert URL/lenet-0000.params out/out.npz
    params convert URL/lenet.npz out/out.params
    foreach URL/ --time-limit 5 -- inspect {}
    foreach URL/ --time-limit 5 -o out -- rename {} --prefix y-
    foreach URL/** --time-limit 5 --manifest run.jsonl -- check {} --isolated
    foreach URL/*-symbol.json --time-limit 5 --manifest run.jsonl -o out -- duplicate {} --prefix x- --mode tie
    """.strip().splitlines()
)
OUTSIDE = ("%2e%2e/", ".%2e/", "..%2f", "%252e%252e/", ".\t./", "..\\", "../", "a/../../", "/", "//{other}/", "http://{other}/",
           "..;/", "%09../", "%2e%2e%5c", "&#46;./", ".&Tab;./", "http:///", "http:../", "?/../", "#/../", "\x1b[31m../",
           ". ./", "%c0%ae./", "\u2024\u2024/", "\uff0e\uff0e/")  # fmt: skip
"""Beginnings of names that some client may take for a way out."""
NUMBERS = (
    "0",
    "1",
    "-1",
    "9",
    "2147483648",
    "9223372036854775807",
    "9" * 30,
    "9" * 5000,
    "1e3",
    "0x10",
    "+5",
    "\u0663",
    "",
    "*",
    "x",
)
RATES = (0.0, 0.1, 0.5, 0.9)
"""How often a server lies in a case."""
HONEST = {"cut", "reset", "unavailable", "chunk", "close", "information", "dribble"}
"""Lies after which what was read is right, if a command says that it is done."""


def run(minutes: float, seed: int, keep: Path) -> Totals:
    """Run the campaign."""
    collector, before = Collector(keep.absolute()), os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.callback(os.chdir, before)
        cases = Cases(seed, Path(folder))
        for outcome in run_cases(cases.run, minutes, seconds=90, memory=4 << 30):
            if outcome.status == "failed":
                words = cases.make_words(outcome.number)
                sort = f"{words[0]} {outcome.sort}" if outcome.sort == HANG else outcome.sort
                again = ["python", "-m", "tests.fuzz.servers", str(seed), str(outcome.number)]
                collector.fail(sort, f"{outcome.what}\n{' '.join(words)}", again, {})
            else:
                collector.count(1, outcome.status == "done")
    collector.totals.counts |= {"commands": len(COMMANDS), "lies": len(LIES)}
    return collector.totals


class Cases:
    """The cases of a seed, by number; each has a server of its own."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.site, self.work = folder / "site", folder / "a" / "b" / "work"
        self.work.mkdir(parents=True)
        write_site(self.site)
        self.bodies = {
            path.name: path.read_bytes()
            for path in (self.site / "models").iterdir()
            if path.is_file()
        }
        self.converted = {}
        for name, target in (("lenet-0000.params", "out.npz"), ("lenet.npz", "out.params")):
            convert_params(self.site / "models" / name, folder / target)
            self.converted[target] = (folder / target).read_bytes()

    def make_words(self, number: int) -> list[str]:
        """Return the words of case ``number``, with URL in place of the server's."""
        return list(COMMANDS[number % len(COMMANDS)])

    def run(self, number: int) -> tuple[str, str]:
        """Run case ``number``."""
        os.chdir(self.work)
        chance = random.Random(f"{self.seed} {number}")
        manifest = (
            change(chance, READERS["manifest"].seeds(), READERS["manifest"].words)
            if chance.random() < 0.5
            else None
        )
        if manifest is not None:
            Path("run.jsonl").write_bytes(manifest)
        with contextlib.ExitStack() as stack:
            for name, value in {
                "SILENCE": 0.5,
                "CONNECT": 0.5,
                "DELAYS": (0.0, 0.0),
                "PER_PAGE": 0.2,
                "PACE": 100_000,
            }.items():
                stack.enter_context(mock.patch.object(retries, name, value))
            stack.enter_context(mock.patch.object(ranges, "MAX_WITHOUT_RANGES", 4 << 20))
            other, site = (stack.enter_context(serve(self.site)) for _ in range(2))
            liar = Liar(f"{self.seed} {number}", site, other, self.bodies)
            url = site.url.replace("://", f"://{USER}@") + FOLDER.rstrip("/")
            words = [
                word.replace("URL", url).replace("QUERY", QUERY) for word in self.make_words(number)
            ]
            code, errors = graphs.call(words, output := io.BytesIO())
        status, what = graphs.judge(words, code, errors)
        if status != "failed":
            what = (
                liar.find_request()
                or find_secret(errors + output.getvalue().decode())
                or self.find_file(code, manifest, set(liar.told))
            )
        for path in sorted(self.work.parents[1].rglob("*"), reverse=True):
            if path != self.work and path not in self.work.parents:
                path.rmdir() if path.is_dir() else path.unlink()
        if what:
            return "failed", f"{what}\n{liar.told}\n{site.requests}\n{errors}"
        return status, what

    def find_file(self, code: object, manifest: bytes | None, lies: set[str]) -> str:
        """Return what is wrong with the files that a command has left; an empty text for nothing."""
        files = {
            str(path.relative_to(self.work.parents[1])): path
            for path in self.work.parents[1].rglob("*")
            if path.is_file()
        }
        for name in files:
            if not name.startswith(("b/work/out/", "b/work/run.jsonl")):
                return f"{name} is not below the folder of outputs"
        for name, data in self.converted.items():
            written = files.get(f"b/work/out/{name}")
            if code == 2 and written is not None:
                return f"refused, and {name} was written"
            if (
                code == 0
                and lies <= HONEST
                and written is not None
                and written.read_bytes() != data
            ):
                return f"{name} is not what the server has"
        if manifest is not None:
            whole = manifest[: manifest.rfind(b"\n") + 1]
            now = files["b/work/run.jsonl"].read_bytes()
            if not now.startswith(manifest) and not (
                whole and now.startswith(whole) and READERS["manifest"].read_or_refuse(manifest)
            ):
                return "the manifest has lost a line"
        return ""


class Liar:
    """Answers requests of a server; each answer depends on the seed of the case, the request, and
    how often it was sent.
    """

    def __init__(
        self, seed: str, site: WebServer, other: WebServer, bodies: Mapping[str, bytes]
    ) -> None:
        self.site, self.other, self.bodies = site, other, bodies
        self.told: list[str] = []
        self.secrets: list[str] = []
        self._seed, self._counts = seed, Counter[str]()
        self.choice = random.Random(seed)
        self.rate = self.choice.choice(RATES)
        self.kinds = self.choice.choices(list(LIES), k=self.choice.choice((1, 2, 4, len(LIES))))
        site.faults.append(self.answer)
        other.faults.append(self.hear)

    def answer(self, handler: Handler) -> bool:
        """Lie, or let the server answer."""
        key = f"{handler.path} {handler.headers.get('Range')}"
        self._counts[key] += 1
        chance = random.Random(f"{self._seed} {key} {self._counts[key]}")
        path = urlsplit(handler.path).path
        if path == f"{FOLDER}ext.onnx" and self.rate and chance.random() < 0.5:
            model = MADE["external"]()
            model.graph.initializer[0].external_data[0].value = (
                self.choice.choice(OUTSIDE) + "private/w.bin"
            )
            send(handler, chance, 200, model.SerializeToString(), {"ETag": '"1"'})
        elif path.endswith("/") and self.rate and chance.random() < 0.7:
            send(handler, chance, 200, self.make_page(chance), {"Content-Type": "text/html"})
        elif chance.random() < self.rate:
            name = chance.choice(self.kinds)
            self.told.append(name)
            body = self.bodies.get(unquote(path).rpartition("/")[2], b"<html>not here</html>")
            with contextlib.suppress(OSError):
                LIES[name](self, handler, chance, body)
            handler.close_connection = True
        else:
            return False
        self.site.faults.append(self.answer)  # the server forgets what has answered
        return True

    def hear(self, handler: Handler) -> bool:
        """Note what another server is told of the user."""
        if "Authorization" in handler.headers or QUERY in handler.path:
            self.secrets.append(f"{handler.path} {handler.headers.get('Authorization')}")
        return False

    def make_page(self, chance: random.Random) -> bytes:
        """Return a page of links, some of which lead elsewhere."""
        links = ["../", "?C=N", "lenet-symbol.json", "lenet-0000.params", "ext.onnx", "deep/"]
        links += [chance.choice(OUTSIDE) + chance.choice(("private/", "private/a-symbol.json", "x-symbol.json", ""))
                  for _ in range(chance.choice((1, 5, 50)))]  # fmt: skip
        page = "".join(
            f'<a href="{link.replace("{other}", self.other.url[7:])}">x</a>\n' for link in links
        ).encode()
        return page if chance.random() < 0.7 else change(chance, [page], READERS["page"].words)

    def find_request(self) -> str:
        """Return a request that should not have been sent; an empty text where there is none."""
        if self.secrets:
            return f"another server gets {self.secrets[0]}"
        for _, path, _ in self.site.requests:
            parts = (
                re.sub(r"[\0-\x20\x7f]", "", unquote(unquote(path)))
                .replace("\\", "/")
                .partition("?")[0]
                .split("/")
            )
            if "redirected" not in path and (not path.startswith(FOLDER) or ".." in parts):
                return f"{path!r} was requested"
        return next(
            (
                f"{path!r} of another server was requested"
                for _, path, _ in self.other.requests
                if "redirected" not in path
            ),
            "",
        )


def find_secret(text: str) -> str:
    """Return what stands in messages and reports that should not; an empty text for nothing."""
    words = (
        "passphrase",
        "unspoken",
        base64.b64encode(USER.encode()).decode(),
        "\x1b",
        "\x07",
        "\r",
    )
    return next((f"{word!r} is in what was printed" for word in words if word in text), "")


def write_site(folder: Path) -> None:
    """Write what the server has: models in several formats, and files outside of their folder."""
    models = folder / "models"
    for path in (models / "deep", folder / "private"):
        path.mkdir(parents=True)
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        (models / name).write_bytes((ROOT / "fixtures" / name).read_bytes())
    for suffix in ("npz", "safetensors"):
        convert_params(models / "lenet-0000.params", models / f"lenet.{suffix}")
    with zipfile.ZipFile(models / "lenet.zip", "w") as archive:
        archive.write(models / "lenet-symbol.json", "lenet-symbol.json")
    (models / "deep" / "net-symbol.json").write_bytes((models / "lenet-symbol.json").read_bytes())
    (models / "ext.onnx").write_bytes(MADE["external"]().SerializeToString())
    (models / "map.json").write_bytes(msgspec.json.encode({"conv1": "first"}))
    (models / "feed.npy").write_bytes(READERS["npy"].seeds()[0])
    for place in (models, folder / "private"):
        (place / "w.bin").write_bytes(bytes(64))
    (folder / "private" / "a-symbol.json").write_bytes((models / "lenet-symbol.json").read_bytes())


Lie = Callable[[Liar, Handler, random.Random, bytes], None]


def send(
    handler: Handler,
    chance: random.Random,
    status: int,
    body: bytes,
    headers: Mapping[str, str] = {},
) -> None:
    """Send an answer whose headers may be anything; a length of its own where none is stated."""
    head = {"Content-Length": str(len(body)), **headers}
    lines = [
        f"HTTP/1.1 {status} OK",
        *(f"{name}: {value}" for name, value in head.items() if value != "-"),
    ]
    handler.wfile.write("\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + body)
    handler.close_connection = True


def part(handler: Handler, body: bytes) -> tuple[int, bytes]:
    """Return where the range of a request begins, and its bytes."""
    bounds = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers.get("Range", ""))
    return (int(bounds[1]), body[int(bounds[1]) : int(bounds[2]) + 1]) if bounds else (0, body)


def answer_part(
    handler: Handler, chance: random.Random, body: bytes, data: bytes | None = None, **more: str
) -> None:
    """Send the range of a request as it should be, but for ``data`` or headers in its place."""
    start, own = part(handler, body)
    headers = {"ETag": '"1"', "Content-Range": f"bytes {start}-{start + len(own) - 1}/{len(body)}"}
    given = {name.replace("_", "-"): value for name, value in more.items()}
    send(handler, chance, 206, own if data is None else data, {**headers, **given})


def tell_status(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    status = chance.choice(
        (
            200,
            201,
            204,
            205,
            206,
            304,
            400,
            401,
            403,
            404,
            405,
            407,
            410,
            412,
            416,
            418,
            429,
            501,
            505,
            999,
        )
    )
    ranges = chance.choice(("-", f"bytes */{chance.choice(NUMBERS)}", "bytes */0"))
    send(
        handler,
        chance,
        status,
        chance.choice((b"", body, b"\x1b[31mx")),
        {"Content-Range": ranges, "WWW-Authenticate": "Basic"},
    )


def redirect(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    places = (f"{handler.path}?redirected", "/private/a-symbol.json?redirected", f"{liar.other.url}/private/w.bin?redirected",
              "", "x",
              f"//{liar.other.url[7:]}{FOLDER}lenet-symbol.json?redirected", "file:///etc/passwd", "ftp://127.0.0.1/x?redirected",
              "http://[?redirected", "http://127.0.0.1:1/?redirected", "http://127.0.0.1:99999/?redirected", "javascript:x",
              "x" * 9000,
              "\x1b[31m?redirected", f"http://{'a' * 300}.invalid/?redirected", "//?redirected")  # fmt: skip
    send(
        handler,
        chance,
        chance.choice((301, 302, 303, 307, 308, 300, 310)),
        b"",
        {"Location": chance.choice(places)},
    )


def tell_length(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    answer_part(
        handler,
        chance,
        body,
        Content_Length=chance.choice((*NUMBERS, "5\r\nContent-Length: 7", str(len(body) + 1))),
    )


def tell_range(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    start, own = part(handler, body)
    first, last, size = (chance.choice((str(true), str(true), str(true + 1), chance.choice(NUMBERS)))
                         for true in (start, start + len(own) - 1, len(body)))  # fmt: skip
    answer_part(
        handler,
        chance,
        body,
        Content_Range=chance.choice((f"bytes {first}-{last}/{size}", f"bytes */{size}", "x", "-")),
    )


def tell_tag(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    answer_part(
        handler,
        chance,
        body,
        ETag=chance.choice(('"2"', 'W/"1"', "", "x" * 7000, '"\x1b"', "\u00e9", '""')),
    )


def tell_other_bytes(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    data = change(chance, [body], [b"\xff" * 8, b"PK\x03\x04", b"\x1b[31m", b'"', b"{", bytes(8)])
    if chance.random() < 0.5:
        send(handler, chance, 200, data)
    else:
        answer_part(handler, chance, data)


def send_without_end(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    start, _ = part(handler, body)
    kind = chance.randrange(4)
    headers = (
        "Content-Length: 99999999999\r\n",
        "Transfer-Encoding: chunked\r\n",
        "",
        f"Content-Range: bytes {start}-9999999999/{10**10}\r\n",
    )
    handler.wfile.write(f"HTTP/1.1 {206 if kind == 3 else 200} OK\r\n{headers[kind]}\r\n".encode())
    piece = b"<a href='a/'>" * 5000 if handler.path.endswith("/") else bytes(65000)
    for _ in range(2000):
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if kind == 1 else piece)


def send_compressed(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    coding = chance.choice(("gzip", "gzip", "deflate", "br", "zstd", "gzip, gzip", "x"))
    data = chance.choice(
        (
            gzip.compress(body),
            gzip.compress(bytes(200 << 20), 9) if chance.random() < 0.1 else b"\x1f\x8b",
            body,
        )
    )
    if chance.random() < 0.5:
        send(handler, chance, 200, data, {"Content-Encoding": coding})
    else:
        answer_part(handler, chance, body, data, Content_Encoding=coding)


def tell_headers(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    more = chance.choice(({"X": "x" * 100_000}, {f"X{i}": "x" for i in range(5000)}, {"X": "\x1b[31m\0"},
                          {"Set-Cookie": "a=b; Domain=."},
                          {"Content-Type": "text/html; charset=\x1b"}, {" X": "y"}, {"": "y"}, {"Date": "x"},
                          {"Link": "</private/w.bin>; rel=preload"}, {"Refresh": "0; url=/private/w.bin"},
                          {"Last-Modified": "x" * 5000}, {"Accept-Ranges": "none"},
                          {"Upgrade": "h2c", "Connection": "Upgrade"}))  # fmt: skip
    answer_part(handler, chance, body, **more)


def send_nonsense(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    red = b"\x1b[31mred"
    answers = (b"", bytes(100), b"HTTP/1.1\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 200 " + red + b"\r\n\r\n",
               b"SSH-2.0-x\r\n",
               b"HTTP/1.1 -1 x\r\n\r\n", b"HTTP/1.1 2000 x\r\n\r\n", b"HTTP/1.1 500 " + red + b"\r\nContent-Length: 0\r\n\r\n",
               b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-\r\n\r\n", b"\x16\x03\x01", b"HTTP/1.1 200 OK\nX", body)  # fmt: skip
    handler.wfile.write(chance.choice(answers))


def cut(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    _, own = part(handler, body)
    answer_part(
        handler,
        chance,
        body,
        own[: chance.randint(0, len(own))],
        Content_Length=str(len(own)),
        ETag="-",
    )


def reset(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    handler.connection.close()


def refuse_for_now(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    send(
        handler,
        chance,
        chance.choice((500, 502, 503, 504, 429)),
        b"later",
        {"Retry-After": chance.choice(NUMBERS)},
    )


def send_chunks(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    """Send chunks whose sizes are true, or one that is not."""
    start, own = part(handler, body)
    bounds = f"bytes {start}-{start + len(own) - 1}/{len(body)}"
    handler.wfile.write(
        f"HTTP/1.1 206 OK\r\nTransfer-Encoding: chunked\r\nContent-Range: {bounds}\r\n\r\n".encode()
    )
    size = chance.choice(
        (b"%x", b"%X;x=y", b"0%x", b"-%x", b"0x%x", b"%xg", b"fffffffffffffff%x")
    ) % len(own)
    handler.wfile.write(size + b"\r\n" + own + b"\r\n0\r\n\r\n")


def close_delimited(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    answer_part(handler, chance, body, Content_Length="-", Connection="close", ETag="-")


def send_information(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    """Send answers of the kind 1xx before the true one, or without an end."""
    for _ in range(chance.choice((1, 10, 100_000))):
        handler.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </private/w.bin>\r\n\r\n")
    answer_part(handler, chance, body, ETag="-")


def dribble(liar: Liar, handler: Handler, chance: random.Random, body: bytes) -> None:
    """Send a byte now and then."""
    handler.wfile.write(
        chance.choice(
            (b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n")
        )
    )
    end = time.monotonic() + 20
    while time.monotonic() < end:
        handler.wfile.write(b"{")
        time.sleep(0.05)


LIES: Mapping[str, Lie] = {
    "status": tell_status,
    "redirect": redirect,
    "length": tell_length,
    "range": tell_range,
    "tag": tell_tag,
    "bytes": tell_other_bytes,
    "endless": send_without_end,
    "compressed": send_compressed,
    "headers": tell_headers,
    "nonsense": send_nonsense,
    "cut": cut,
    "reset": reset,
    "unavailable": refuse_for_now,
    "chunk": send_chunks,
    "close": close_delimited,
    "information": send_information,
    "dribble": dribble,
}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(*Cases(int(sys.argv[1]), Path(scratch)).run(int(sys.argv[2])))
