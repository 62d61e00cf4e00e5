"""How long pages of graphs take: to write, to open in Chromium, and each frame while a reader drags.

    python benchmarks/pages.py GRAPH ...

Prints seconds of ``draw --to html``, seconds until the page has drawn itself (light and dark), and
the median and longest of 30 frames at four zooms, in milliseconds. Needs Playwright (the extra
``browser``) and Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ZOOMS = (1.0, 0.3, 0.05, 0.01)
DRAG = """async (zoom) => {
  const { view } = window.graphshare, [w, h] = view.placed.size, frames = [];
  view.scale = zoom;
  view.x = view.canvas.clientWidth / 2 - w / 2 * zoom;
  view.y = -h / 2 * zoom;
  let last = performance.now();
  for (let i = 0; i < 30; i++) {
    view.x += 3;
    view.y -= 5;
    view.draw();
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - last);
    last = performance.now();
  }
  return frames;
}"""
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def measure(browser: Any, graph: str, folder: Path) -> str:
    """Return the figures of one graph in a line."""
    page = folder / "page.html"
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "graphshare", "draw", graph, "-q", "-o", str(page)], check=True
    )
    wrote = time.perf_counter() - start
    opened, frames = [], []
    for scheme in ("light", "dark"):
        tab = browser.new_page(viewport={"width": 1400, "height": 1000}, color_scheme=scheme)
        start = time.perf_counter()
        tab.goto(page.as_uri())
        tab.evaluate(DRAWN)
        opened.append(time.perf_counter() - start)
        frames += [frame for zoom in ZOOMS for frame in tab.evaluate(DRAG, zoom)]
        tab.close()
    median, longest = statistics.median(frames), max(frames)
    size = page.stat().st_size / 1e6
    return (
        f"{wrote:6.2f} {size:8.2f} {opened[0]:10.2f} {opened[1]:9.2f} {median:10.1f} "
        f"{longest:11.1f}  {Path(graph).name}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="+", metavar="GRAPH")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    print("draw s  page MB  light s  dark s  median ms  longest ms")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for graph in options.graphs:
            print(measure(browser, graph, Path(folder)), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
