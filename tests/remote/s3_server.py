"""An S3 server on the loopback address: moto's, behind a layer that counts requests and refuses
those that it is told to.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import urlopen

Request = tuple[str, str, str]
"""Method, path with its query, and Range."""


@dataclass
class S3Server:
    """``faults`` decide which requests are refused once, with ``refusal``; ``answers`` give the
    body of an answer, or None.
    """

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    refusal: tuple[str, str] = ("503 Slow Down", "SlowDown")
    faults: list[Callable[[Request], bool]] = field(default_factory=list)
    answers: list[Callable[[Request], bytes | None]] = field(default_factory=list)

    def reset(self) -> None:
        self.requests.clear()
        self.sent = 0


@contextmanager
def serve_s3() -> Iterator[S3Server]:
    """Serve S3 until the end of the block."""
    import s3fs

    # Slow to import
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    # fsspec keeps file systems: one of an earlier test would still ask the server of that test.
    s3fs.S3FileSystem.clear_instance_cache()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    site = S3Server()
    backend = DomainDispatcherApplication(create_backend_app)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        query = environ.get("QUERY_STRING", "")
        path = environ["PATH_INFO"] + (f"?{query}" if query else "")
        request = environ["REQUEST_METHOD"], path, environ.get("HTTP_RANGE", "")
        site.requests.append(request)
        for give in site.answers:
            if (body := give(request)) is not None:
                start("200 OK", [("Content-Type", "application/xml")])
                return [body]
        for fault in site.faults:
            if fault(request):
                site.faults.remove(fault)
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                status, code = site.refusal
                start(status, [("Content-Type", "application/xml")])
                return [f"<Error><Code>{code}</Code><Message>a reason</Message></Error>".encode()]
        pieces = list(backend(environ, start))
        site.sent += sum(map(len, pieces))
        return pieces

    server = make_server("127.0.0.1", 0, answer, threaded=True)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    # The objects of all servers of a process are in one place: those of an earlier test go.
    with urlopen(f"{site.url}/moto-api/reset", data=b""):  # data make it a POST
        site.reset()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
