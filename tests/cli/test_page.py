"""``draw --to html`` in a real browser: what a reader sees, finds, clicks and folds."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.drawing.layout.arrange import arrange
from graphshare.drawing.layout.placement import place
from graphshare.drawing.palette import DARK, LIGHT
from tests.processes import ROOT, done, graphshare, write_json
from tests.surroundings import mark_everyday, missing
from tests.symbols import document, operator, variable
from tests.unit.drawing.test_layout import residual_net

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
HOSTILE = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 1">'


class Reader:
    """A page in the browser, with what a reader does; ``requests`` and ``errors`` are what the page caused."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "console",
            lambda message: self.errors.append(message.text) if message.type == "error" else None,
        )
        page.goto(path.as_uri())
        self.settle()

    def settle(self) -> None:
        self.page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def get(self, script: str) -> Any:
        return self.page.evaluate(
            f"(() => {{ const {{ data, view, open }} = window.graphshare; return {script}; }})()"
        )

    def screen(self, title: str, *, mark: bool = False) -> tuple[float, float]:
        """The middle of the first box or open scope with a title, or its fold mark, on the screen."""
        script = """([title, mark]) => {
          const { view } = window.graphshare, canvas = view.canvas.getBoundingClientRect();
          const boxes = view.items.map((item) => ({ ...item, title: item.texts[0] }));
          const found = [...boxes, ...view.scopes].find((item) => item.title === title);
          const [x, y, w, h] = found.rect, at = mark ? [x + 13, y + 13] : [x + w / 2, y + h / 2];
          const top = view.y + at[1] * view.scale;
          if (top < 0 || top > canvas.height) view.center(found.vertex);
          return [canvas.x + view.x + at[0] * view.scale, canvas.y + view.y + at[1] * view.scale];
        }"""
        x, y = self.page.evaluate(script, [title, mark])
        return x, y

    def click(self, title: str, *, mark: bool = False) -> None:
        self.page.mouse.click(*self.screen(title, mark=mark))
        self.settle()

    def titles(self) -> list[str]:
        found: list[str] = self.get("view.items.map((item) => item.texts[0])")
        return found

    def panel(self) -> str:
        return re.sub(r"\n+", "\n", self.page.inner_text("#content"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if importlib.util.find_spec("playwright") is None:
        missing("browser", "Playwright is of the browser extra")
    if BROWSER is None:
        missing("browser", "no Chromium is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield running
        running.close()


@pytest.fixture
def read(browser: Any) -> Iterator[Any]:
    pages = []

    def open_page(path: Path, scheme: str = "light") -> Reader:
        pages.append(
            browser.new_page(viewport={"width": 1400, "height": 1000}, color_scheme=scheme)
        )
        return Reader(pages[-1], path)

    yield open_page
    for page in pages:
        page.close()


@pytest.fixture(scope="module")
def siam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("siam")
    lenet = str(ROOT / "fixtures" / "lenet")
    done(
        graphshare(
            "duplicate", lenet, "--prefix", "sha-", "--mode", "tie", "-o", "siam", cwd=folder
        )
    )
    done(graphshare("draw", "siam", "--shape", "data=1,1,28,28", "-o", "siam.html", cwd=folder))
    return folder / "siam.html"


@pytest.fixture(scope="module")
def scoped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scoped")
    write_json(folder / "net.json", residual_net(200, "stage{0}/unit{1}/"))
    done(graphshare("draw", "net.json", "--depth", "9", "-o", "net.html", cwd=folder))
    return folder / "net.html"


def test_search_finds(siam: Path, read: Any) -> None:
    reader = read(siam)
    reader.page.keyboard.press("/")
    reader.page.keyboard.type("SHA- fc")
    assert reader.page.inner_text("#results").split("\n")[:4] == [
        "sha-fc1",
        "FullyConnected",
        "sha-fc2",
        "FullyConnected",
    ]
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.panel().startswith("sha-fc2\nFullyConnected")
    stage = reader.page.query_selector("#stage").bounding_box()
    x, y = reader.page.evaluate("""() => {
      const { view } = window.graphshare, [x, y, w, h] = view.placed.rects[view.selected];
      return [view.x + (x + w / 2) * view.scale, view.y + (y + h / 2) * view.scale];
    }""")
    assert abs(x - stage["width"] / 2) < 200
    assert abs(y - stage["height"] / 2) < 2
    reader.page.fill("#search", "no such name")
    assert reader.page.inner_text("#results") == "no name contains this"
    assert reader.errors == []


@pytest.mark.large
def test_a_parameter_is_found_where_it_is_used(siam: Path, read: Any) -> None:
    reader = read(siam)
    reader.page.fill("#search", "conv2_weight")
    reader.page.keyboard.press("Enter")
    assert "conv2_weight shared by 2" in reader.panel()


def test_a_click_shows_attributes_shapes_and_statistics(siam: Path, read: Any) -> None:
    reader = read(siam)
    reader.click("conv1")
    text = reader.panel()
    for part in (
        "Convolution",
        "kernel\t(5, 5)",
        "1×8×24×24",
        "1×1×28×28",
        "conv1_weight shared by 2",
        "shape\t8×1×5×5",
    ):
        assert part in text, text
    statistics_of = (
        gs.measure_params(ROOT / "fixtures" / "lenet-0000.params", select=["arg:conv1_weight"])
        .arrays[0]
        .statistics
    )
    assert statistics_of is not None
    assert f"mean\t{statistics_of.mean:.5g}" in text
    reader.page.keyboard.press("Escape")
    assert reader.page.is_hidden("#panel")


@pytest.mark.large
def test_a_link_leads_to_the_input(siam: Path, read: Any) -> None:
    reader = read(siam)
    reader.click("tanh1")
    reader.page.click("#content .link >> text=bn1")
    assert reader.panel().startswith("bn1\nBatchNorm")


@pytest.mark.large
def test_what_a_selected_box_feeds_is_marked(siam: Path, read: Any) -> None:
    reader = read(siam)
    assert reader.get("view.placed.routes.filter((route) => view.isMarked(route)).length") == 0
    reader.click("bn1")
    marked = reader.get(
        "view.placed.routes.filter((route) => view.isMarked(route)).map((route) => route.kind)"
    )
    assert sorted(marked) == ["data", "data", "shared"]


def test_a_scope_folds_and_unfolds_to_where_it_was(scoped: Path, read: Any) -> None:
    reader = read(scoped)
    before = reader.get("view.placed.rects")
    assert "unit3" not in reader.titles()
    reader.click("unit3", mark=True)
    assert "unit3" in reader.titles()
    assert len(reader.titles()) == 200 - 10 + 2
    assert reader.get("view.placed.size[1]") < max(r[1] + r[3] for r in before if r)
    reader.click("unit3", mark=True)
    assert reader.get("view.placed.rects") == before
    reader.page.click("#fold")
    reader.settle()
    assert set(reader.titles()) == {
        "data",
        "stage0/unit19/relu198_output",
        *(f"unit{i}" for i in range(20)),
    }
    reader.page.mouse.dblclick(*reader.screen("unit1"))
    reader.settle()
    assert len(reader.titles()) == 20 + 10 + 1
    assert reader.errors == []


@pytest.mark.large
def test_folded_branches_have_one_box_of_shared_parameters(siam: Path, read: Any) -> None:
    reader = read(siam)
    assert reader.titles().count("4 shared parameters") == 2
    reader.page.click("#fold")
    assert sorted(reader.titles()) == ["16 shared parameters", "original", "sha-"]
    reader.click("16 shared parameters")
    assert reader.panel().count("shared by 2") == 16


@pytest.mark.large
def test_search_opens_the_scopes_around_what_it_finds(scoped: Path, read: Any) -> None:
    reader = read(scoped)
    reader.page.click("#fold")
    reader.page.fill("#search", "unit7/ mul")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.panel().startswith("stage0/unit7/elemwise_mul73")
    assert "elemwise_mul73" in reader.titles()


@pytest.mark.parametrize("direction", mark_everyday(["TB", "LR", "BT", "RL"], 4))
def test_the_page_places_as_the_layout_does(
    direction: str, siam: Path, read: Any, tmp_path: Path
) -> None:
    """``page/placement.js`` and ``layout/placement.py`` are one algorithm in two languages."""
    nets = (
        siam.parent / "siam",
        write_json(tmp_path / "net.json", residual_net(120, "s{0}/u{1}/")),
    )
    for net in nets:
        drawn = gs.draw(gs.load(net), to="html", depth=9, direction=direction)  # type: ignore[arg-type]
        path = tmp_path / "page.html"
        path.write_bytes(drawn.data)
        placed = read(path).get("view.placed.rects")
        ours = place(arrange(drawn.picture), direction=direction).rects
        for v, rect in ours.items():
            assert placed[v] == pytest.approx(
                [rect.x, rect.y, rect.width, rect.height], abs=0.01
            ), v


@pytest.mark.large
def test_drag_and_wheel_move_and_zoom(siam: Path, read: Any) -> None:
    reader = read(siam)
    x, y, scale = reader.get("[view.x, view.y, view.scale]")
    reader.page.mouse.move(60, 500)
    reader.page.mouse.down()
    reader.page.mouse.move(90, 540, steps=4)
    reader.page.mouse.up()
    assert reader.get("[view.x, view.y]") == pytest.approx([x + 30, y + 40], abs=0.1)
    reader.page.mouse.wheel(0, -300)
    reader.settle()
    assert reader.get("view.scale") > scale * 1.3
    reader.page.click("#fit")
    assert reader.get("view.scale") < scale


@pytest.mark.large
@pytest.mark.parametrize(("scheme", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_light_and_dark_follow_the_reader_and_the_button(
    scheme: str, palette: Any, siam: Path, read: Any
) -> None:
    reader = read(siam, scheme)

    def background() -> str:
        script = (
            "[...view.context.getImageData(2, 2, 1, 1).data].slice(0, 3).map((c) => "
            "c.toString(16).padStart(2, '0')).join('')"
        )
        color: str = reader.get(script)
        return "#" + color

    assert background() == palette.background
    reader.page.click("#theme")
    reader.settle()
    assert background() == (LIGHT if palette is DARK else DARK).background
    reader.page.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    reader.settle()
    assert reader.errors == []


def test_names_stay_data(read: Any, tmp_path: Path) -> None:
    names = [
        HOSTILE,
        "a\"b'c`${1}\\",
        "n" * 10_000,
        "tab\tnul\x00bell\x07\u2028line",
        "@@data@@",
        "卷积层",
        "__proto__",
    ]
    nodes = [variable(HOSTILE + "/x")]
    for name in names:
        nodes.append(
            operator("relu", name, [len(nodes) - 1], attrs={HOSTILE: HOSTILE, "__proto__": "x"})
        )
    write_json(tmp_path / "net.json", document(nodes, [len(nodes) - 1]))
    done(graphshare("draw", "net.json", "-o", "net.html", cwd=tmp_path))
    text = (tmp_path / "net.html").read_text(encoding="utf-8")
    assert text.count("</script>") == 2
    reader = read(tmp_path / "net.html")
    assert reader.page.evaluate("window.broken") is None
    for name in names:
        assert reader.page.evaluate(
            "(name) => window.graphshare.data.nodes.some((node) => node.name === name)",
            expected(name),
        )
    reader.page.fill("#search", "onerror")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert HOSTILE in reader.panel()
    assert reader.page.evaluate("document.querySelectorAll('img').length") == 0
    assert reader.page.evaluate("window.broken") is None
    assert reader.errors == []


def expected(name: str) -> str:
    """A name as the page has it: control characters as escapes, cut."""
    escaped = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
    return escaped if len(escaped) <= 2000 else escaped[:1997] + "..."


def test_the_page_needs_no_network(siam: Path, read: Any) -> None:
    reader = read(siam)
    reader.click("conv1")
    assert [url for url in reader.requests if not url.startswith("data:")] == [siam.as_uri()]
    text = re.sub(
        r'<script type="application/json".*?</script>',
        "",
        siam.read_text(encoding="utf-8"),
        flags=re.S,
    )
    assert re.findall(r"""(?:src|href)=["']?([^"' >]*)|https?://|url\(|@import""", text) == [
        "data:,"
    ]
    assert "default-src 'none'" in text


def test_another_script_does_not_run(siam: Path, read: Any, tmp_path: Path) -> None:
    """The content security policy allows the page's own script alone."""
    changed = tmp_path / "changed.html"
    changed.write_text(
        siam.read_text(encoding="utf-8").replace(
            "</body>", "<script>window.broken = 1</script></body>"
        ),
        encoding="utf-8",
    )
    reader = read(changed)
    assert reader.page.evaluate("window.broken") is None
    assert any("Content Security Policy" in error for error in reader.errors)


def test_all_scopes_fold_around_what_is_selected(scoped: Path, read: Any) -> None:
    reader = read(scoped)
    reader.click("elemwise_mul73")
    reader.page.click("#fold")
    reader.settle()
    assert "unit7" in reader.titles()
    assert reader.page.is_hidden("#panel")
    assert reader.errors == []


def test_a_weight_has_a_histogram(siam: Path, read: Any) -> None:
    reader = read(siam)
    reader.click("conv1")
    weight = reader.get(
        "data.parameters.conv1_weight.rows.find(([name]) => name === 'histogram')[1]"
    )
    assert sum(weight) == 200
    bars = reader.page.evaluate(
        "[...document.querySelector('.chart').children].map((bar) => bar.offsetHeight)"
    )
    assert len(bars) == len(weight)
    assert bars[weight.index(max(weight))] == max(bars)
    assert all((bar > 0) == (count > 0) for bar, count in zip(bars, weight, strict=True))


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two graphs: an operator is gone, another has a new attribute, and names try to be markup."""
    folder = tmp_path_factory.mktemp("changed")
    nodes = [variable("x"), operator("relu", HOSTILE, [0]), operator("tanh", "gone", [1])]
    write_json(
        folder / "a.json", document([*nodes, operator("mean", "y", [2], attrs={"axis": "0"})], [3])
    )
    write_json(
        folder / "b.json",
        document([*nodes[:2], operator("mean", "y", [1], attrs={"axis": HOSTILE})], [2]),
    )
    run = graphshare("diff", "a.json", "b.json", "--format", "html", cwd=folder)
    assert run.returncode == 1, run.stderr
    (folder / "changed.html").write_bytes(run.stdout)
    return folder / "changed.html"


def test_a_page_of_two_graphs_lists_what_was_found_and_leads_there(
    changed: Path, read: Any
) -> None:
    reader = read(changed)
    assert reader.panel().startswith("DIFFERENT: 1 node removed, 1 node changed")
    reader.page.click("#content .link >> text=tanh gone")
    reader.settle()
    assert reader.panel().startswith("gone\ntanh")
    reader.page.click("#findings")
    reader.page.click("#content .link >> text=mean y")
    reader.settle()
    assert f"attribute axis: 0 -> {HOSTILE}" in reader.panel()
    legend = reader.page.inner_text("#legend")
    for word in ("removed", "changed", "only in the first", "only in the second"):
        assert word in legend
    kinds = set(reader.get("view.placed.routes.map((route) => route.kind)"))
    assert kinds == {"added", "data", "removed"}
    assert reader.page.evaluate("window.broken") is None
    assert [url for url in reader.requests if not url.startswith("data:")] == [changed.as_uri()]
    assert reader.errors == []


@pytest.mark.parametrize("direction", mark_everyday(["TB", "LR", "BT", "RL"], 2))
@pytest.mark.parametrize("net", mark_everyday(["deep", "wide", "folded"], 2))
def test_the_first_view_shows_the_input_of_a_large_graph(
    net: str, direction: str, read: Any, tmp_path: Path
) -> None:
    if net == "wide":
        branches = [operator("relu", f"branch{i}", [0]) for i in range(60)]
        last = operator("add_n", "sum", list(range(1, 61)), attrs={"num_args": "60"})
        graph = document([variable("x"), *branches, last], [61])
    else:
        graph = residual_net(300, "s{0}/u{1}/" if net == "folded" else "")
    write_json(tmp_path / "net.json", graph)
    done(graphshare("draw", "net.json", "--direction", direction, "-o", "net.html", cwd=tmp_path))
    seen = read(tmp_path / "net.html").get(IN_WINDOW)
    assert "input" in seen
    assert len(seen) > 1


IN_WINDOW = """view.items.filter(({ rect: [x, y, w, h] }) => {
  const { clientWidth, clientHeight } = view.canvas, [left, top] = [view.x + x * view.scale, view.y + y * view.scale];
  return left < clientWidth && top < clientHeight && left + w * view.scale > 0 && top + h * view.scale > 0;
}).map(({ box }) => box.kind)"""


@pytest.mark.large
@pytest.mark.parametrize("scope", ["", "stage{0}/unit{1}/"])
def test_a_frame_draws_only_what_is_on_the_screen(scope: str, read: Any, tmp_path: Path) -> None:
    """What a frame of 5,000 nodes costs is counted here; ``benchmarks/pages.py`` measures it."""
    write_json(tmp_path / "net.json", residual_net(5000, scope))
    done(graphshare("draw", "net.json", "--depth", "9", "-o", "net.html", cwd=tmp_path))
    reader = read(tmp_path / "net.html")
    assert len(reader.titles()) == 5000 + 1  # and the output
    texts = [reader.page.evaluate(COUNT_TEXTS, zoom) for zoom in (1.0, 0.3, 0.05, 0.01)]
    assert 0 < texts[0] < 300
    assert max(texts) < 2000
    assert texts[-1] < 300  # of boxes that are a pixel high no text is drawn


COUNT_TEXTS = """async (zoom) => {
  const { view } = window.graphshare, [w, h] = view.placed.size, draw = CanvasRenderingContext2D.prototype.fillText;
  view.scale = zoom;
  view.x = view.canvas.clientWidth / 2 - w / 2 * zoom;
  view.y = -h / 2 * zoom;
  let count = 0;
  CanvasRenderingContext2D.prototype.fillText = function (...given) { count += 1; return draw.apply(this, given); };
  view.draw();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  CanvasRenderingContext2D.prototype.fillText = draw;
  return count;
}"""


def test_a_wide_row_is_painted_in_small_paths_and_arrows_only_in_the_window(
    read: Any, tmp_path: Path
) -> None:
    branches = [operator("relu", f"branch{i}", [0]) for i in range(2000)]
    last = operator("add_n", "sum", list(range(1, 2001)), attrs={"num_args": "2000"})
    write_json(tmp_path / "net.json", document([variable("x"), *branches, last], [2001]))
    done(graphshare("draw", "net.json", "-o", "net.html", cwd=tmp_path))
    arrows, parts = read(tmp_path / "net.html").page.evaluate(COUNT_PARTS)
    # All that end at the sum, and those of the few branches that are seen
    assert 2000 < arrows < 2100
    assert 1 < parts <= 500


COUNT_PARTS = """async () => {
  const { view } = window.graphshare, { moveTo, beginPath } = CanvasRenderingContext2D.prototype, { traceArrow } = view;
  let arrows = 0, parts = 0, most = 0;
  const context = CanvasRenderingContext2D.prototype;
  context.moveTo = function (...given) { most = Math.max(most, ++parts); return moveTo.apply(this, given); };
  context.beginPath = function () { parts = 0; return beginPath.apply(this); };
  view.traceArrow = (route) => { arrows += 1; return traceArrow.call(view, route); };
  view.draw();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  Object.assign(context, { moveTo, beginPath });
  return [arrows, most];
}"""


@pytest.mark.parametrize("scheme", mark_everyday(["light", "dark"], 2))
def test_a_siamese_net_opens_in_light_and_dark(scheme: str, siam: Path, read: Any) -> None:
    assert read(siam, scheme).get("view.items.length") == 38


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("scheme", mark_everyday(["light", "dark"], 2))
@pytest.mark.parametrize("name", mark_everyday(["zoo_resnet50_v2", "nlp_bert_small"], 2))
def test_real_graphs_open_in_light_and_dark(
    name: str, scheme: str, corpus: Path, read: Any, tmp_path: Path
) -> None:
    done(
        graphshare("draw", str(corpus / "graphs" / f"{name}.json"), "-o", "net.html", cwd=tmp_path)
    )
    reader = read(tmp_path / "net.html", scheme)
    assert reader.get("view.items.length") > 10
    assert reader.errors == []


def test_a_page_in_a_notebook_is_a_frame(siam: Path) -> None:
    drawn = gs.draw(gs.load(siam.parent / "siam"), to="html")
    frame = drawn._repr_html_()
    assert frame is not None
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc=')
    assert drawn._repr_svg_() is None
    data = re.search(r'id="data">(.*?)</script>', drawn.text, re.S)
    assert data is not None
    assert len(json.loads(data[1])["nodes"]) == 46


def test_a_page_in_a_frame_works_and_cannot_reach_the_notebook(siam: Path, browser: Any) -> None:
    frame = gs.draw(gs.load(siam.parent / "siam"), to="html")._repr_html_()
    page = browser.new_page()
    page.set_content(f"<title>notebook</title>{frame}")
    inner = page.frames[1]
    assert inner.evaluate("window.graphshare.view.items.length") > 10
    title = inner.evaluate(
        "(() => { try { return parent.document.title } catch (error) { return error.name } })()"
    )
    assert title == "SecurityError"
    page.close()


@pytest.mark.large
def test_a_page_in_a_frame_that_is_shown_later_has_its_picture_in_the_middle(
    siam: Path, browser: Any
) -> None:
    frame = gs.draw(gs.load(siam.parent / "siam"), to="html")._repr_html_()
    page = browser.new_page()
    page.set_content(f'<div id="cell" style="display:none">{frame}</div>')
    page.evaluate("document.getElementById('cell').style.display = 'block'")
    inner = page.frames[1]
    inner.wait_for_function("window.graphshare.view.canvas.width > 0")
    sides = inner.evaluate(
        "(() => { const v = window.graphshare.view; return [v.x, v.canvas.clientWidth - v.x - "
        "v.placed.size[0] * v.scale] })()"
    )
    assert sides[0] > 0
    assert abs(sides[0] - sides[1]) < 1
    page.close()


@pytest.mark.parametrize(("width", "height"), [(1400, 1000), (420, 800)])
def test_a_page_of_two_graphs_begins_at_the_first_difference(
    width: int, height: int, browser: Any, tmp_path: Path
) -> None:
    """The graph stays in view beside the list, on a phone too, where the list lies below it."""
    nodes = [variable("x"), *(operator("relu", f"r{i}", [i]) for i in range(60))]
    write_json(tmp_path / "a.json", document(nodes, [60]))
    nodes[50] = operator("tanh", "r49", [49])
    write_json(tmp_path / "b.json", document(nodes, [60]))
    assert graphshare("diff", "a.json", "b.json", "-o", "d.html", cwd=tmp_path).returncode == 1
    page = browser.new_page(viewport={"width": width, "height": height})
    reader = Reader(page, tmp_path / "d.html")
    x, y = page.evaluate("""() => {
      const { view } = window.graphshare, canvas = view.canvas.getBoundingClientRect();
      const [left, top, w, h] = view.items.find((item) => item.texts[0] === "r49").rect;
      return [canvas.x + view.x + (left + w / 2) * view.scale, canvas.y + view.y + (top + h / 2) * view.scale];
    }""")
    panel = page.locator("#panel").bounding_box()
    assert reader.panel().startswith("DIFFERENT")
    assert 0 < x < (panel["x"] if panel["x"] else width)
    assert 0 < y < (height if panel["x"] else panel["y"])
    assert panel["height"] <= (height if panel["x"] else 0.4 * height)
    page.close()
