"""A web server on the loopback address, with ranges and entity tags, that counts what it sends and
fails when it is told to.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

Fault = Callable[["Handler"], bool]
"""Answers a request in place of the server and returns True, or leaves it alone."""


@dataclass
class WebServer:
    """Serves the files below ``root``.

    ``requests`` has the method, path and Range of each request, ``sent`` its bytes.
    """

    root: Path
    ranges: bool = True
    tags: bool = True
    listing: bool = True
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    url: str = ""

    def reset(self) -> None:
        self.requests.clear()
        self.sent.clear()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    site: WebServer

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        site, wanted = self.site, self.headers.get("Range", "")
        site.requests.append((self.command, self.path, wanted))
        site.sent.append(0)
        for fault in site.faults:
            if fault(self):
                site.faults.remove(fault)
                return
        path = site.root / unquote(urlsplit(self.path).path).lstrip("/")
        if path.is_dir():
            self.send_listing(path)
            return
        if not path.is_file():
            self.answer(404, b"<html>not here</html>")
            return
        status = path.stat()
        tag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
        headers = {"ETag": tag} if site.tags else {}
        if self.headers.get("If-Match", tag) != tag:
            self.answer(412, b"")
            return
        bounds = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted) if site.ranges else None
        if bounds is None:
            self.answer(200, path, headers, size=status.st_size)
        elif int(bounds[1]) >= status.st_size:
            self.answer(416, b"", {**headers, "Content-Range": f"bytes */{status.st_size}"})
        else:
            start, stop = int(bounds[1]), min(int(bounds[2]) + 1, status.st_size)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{status.st_size}"
            self.answer(206, path, headers, start=start, size=stop - start)

    def send_listing(self, folder: Path) -> None:
        if not self.site.listing:
            self.answer(403, b"no listing")
            return
        names = sorted(
            f"{entry.name}/" if entry.is_dir() else entry.name for entry in folder.iterdir()
        )
        links = "".join(f'<a href="{name}">{name}</a>\n' for name in ["../", "?C=N", *names])
        self.answer(200, f"<html>{links}</html>".encode(), {"Content-Type": "text/html"})

    def answer(
        self,
        status: int,
        body: bytes | Path,
        headers: dict[str, str] | None = None,
        *,
        start: int = 0,
        size: int | None = None,
    ) -> None:
        length = len(body) if isinstance(body, bytes) else size or 0
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):
            if isinstance(body, bytes):
                self.send(body)
                return
            with body.open("rb") as file:
                file.seek(start)
                while length and (piece := file.read(min(length, 1 << 16))):
                    self.send(piece)
                    length -= len(piece)

    def send(self, data: bytes) -> None:
        self.wfile.write(data)
        self.site.sent[-1] += len(data)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # connections that are made at the same time


@contextmanager
def serve(root: Path, **settings: bool) -> Iterator[WebServer]:
    """Serve the files below ``root`` until the end of the block."""
    site = WebServer(root, **settings)
    server = _Server(("127.0.0.1", 0), type("SiteHandler", (Handler,), {"site": site}))
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def unavailable(handler: Handler) -> bool:
    """Answer once that the server has too much to do."""
    handler.answer(503, b"later")
    return True


def reset_in_body(handler: Handler) -> bool:
    """Announce a range, send a part of it and reset the connection."""
    handler.send_response(206)
    handler.send_header("Content-Length", "4096")
    handler.send_header("Content-Range", "bytes 0-4095/100000")
    handler.end_headers()
    handler.wfile.write(b"{" * 100)
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()
    return True
