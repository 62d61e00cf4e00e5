"""Servers on the loopback address that are no use: silent, slow, out of order or gone."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Behaviour = Callable[[socket.socket, threading.Event], None]
"""Answers one connection until the event."""
_TICK = 0.01
_HEAD = b'HTTP/1.1 206 Partial Content\r\nETag: "1"\r\nContent-Length: 4096\r\nContent-Range: bytes 0-4095/100000\r\n\r\n'


def say_nothing(connection: socket.socket, end: threading.Event) -> None:
    end.wait()


def drip_head(connection: socket.socket, end: threading.Event) -> None:
    """Send a head that never ends, byte by byte."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    _drip(connection, end)


def drip_body(connection: socket.socket, end: threading.Event) -> None:
    """Send the head of an answer, and then its body byte by byte."""
    connection.sendall(_HEAD)
    _drip(connection, end)


def _drip(connection: socket.socket, end: threading.Event) -> None:
    while not end.wait(_TICK):
        connection.sendall(b"{")


def break_chunk(connection: socket.socket, end: threading.Event) -> None:
    """Send the head of an answer in chunks, and then a chunk of a size that is not one."""
    connection.sendall(
        b"HTTP/1.1 206 OK\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes 0-4095/100000\r\n\r\n"
    )
    end.wait(0.02)  # the head is read by itself
    connection.sendall(b"4x\r\n{}\r\n")
    end.wait()


def fail(connection: socket.socket, end: threading.Event) -> None:
    """Answer every request with an error of the server."""
    connection.sendall(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
    while connection.recv(1 << 16):
        connection.sendall(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")


@contextmanager
def serve_badly(behaviour: Behaviour | None) -> Iterator[tuple[str, list[float]]]:
    """Serve until the end of the block, nothing at all for None; give the address, and the time of each connection.

    A connection without a request does not count: now and then a client opens one and closes it.
    """
    end, times = threading.Event(), list[float]()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            opened = time.monotonic()
            with suppress(OSError):
                if not self.request.recv(1 << 16):
                    return
                times.append(opened)
                if behaviour is not None:
                    behaviour(self.request, end)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(
            target=lambda: server.serve_forever(poll_interval=0.01), daemon=True
        )
        thread.start()
        if behaviour is None:
            server.shutdown()
            server.socket.close()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", times
        finally:
            end.set()
            server.shutdown()
            thread.join()
