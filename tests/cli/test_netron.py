"""What graphshare writes opens in Netron, in a real browser."""

from __future__ import annotations

import http.server
import importlib.util
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.processes import ROOT, done, graphshare
from tests.surroundings import mark_everyday, missing

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

_SERVE = """
import sys, time, netron
print("at", *netron.start(sys.argv[1], address=("127.0.0.1", 0), browse=False), flush=True)
time.sleep(300)
"""


def _agreeing(address: str) -> http.server.HTTPServer:
    """A server that agrees to Netron's cookies, which hold for all ports of a host, and sends the browser on to it."""

    class Agree(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Set-Cookie", "consent=1; path=/")
            self.send_header("Location", address)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Agree)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def page_of(model: Path, profile: Path) -> str:
    """The page that Netron makes of a file."""
    netron = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(model)], stdout=subprocess.PIPE, text=True
    )
    assert netron.stdout is not None
    try:
        host, port = next(line.split()[1:] for line in netron.stdout if line.startswith("at "))
        server = _agreeing(f"http://{host}:{port}/")
        start = f"http://{host}:{server.server_address[1]}/"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
                   "--virtual-time-budget=30000", "--window-size=1600,3000", "--dump-dom"]  # fmt: skip
        run = subprocess.run(
            [str(BROWSER), *options, start], capture_output=True, text=True, timeout=180
        )
        server.shutdown()
        return run.stdout
    finally:
        netron.terminate()
        netron.wait()


@pytest.fixture(autouse=True)
def installed() -> None:
    if importlib.util.find_spec("netron") is None:
        missing("netron", "Netron is of the netron extra")
    if BROWSER is None:
        missing("netron", "no Chromium is installed")


@pytest.mark.slow
@pytest.mark.parametrize("mode", mark_everyday(["copy", "tie"], 2))
def test_a_duplicate_opens_in_netron(mode: str, tmp_path: Path) -> None:
    stem = str(ROOT / "fixtures" / "lenet")
    done(
        graphshare(
            "duplicate", stem, "--prefix", "sha-", "--mode", mode, "-o", "siam", cwd=tmp_path
        )
    )
    page = page_of(tmp_path / "siam-symbol.json", tmp_path / "profile")
    for operator, count in (("Convolution", 4), ("FullyConnected", 4), ("SoftmaxOutput", 2)):
        assert page.count(f">{operator}<") == count, page[-2000:]
    for name in ("data", "sha-data"):
        assert f">{name}<" in page
