"""``graphshare check`` as a user runs it."""

from __future__ import annotations

import ast
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import onnx.parser
import pytest

from graphshare.checks.document import BOM
from graphshare.checks.engine import RULES, run_rules
from graphshare.checks.rule import Example, ExampleRecord, operator, symbol, variable
from graphshare.cli.commands.check import _explain
from graphshare.files.schema import find_violations
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.compare import compare_structure
from graphshare.text.format import format_dims
from tests.processes import ROOT, done, environment, files_in, graphshare, keys_of, refused
from tests.symbols import mxnet_text, siamese, two_layers
from tests.unit.checks.examples import graph_bytes, params_file, read_context

FIXES = sorted(code for code, rule in RULES.items() if rule.fix)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound file, one with a warning, one with an error, in a folder of their own below."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "good-symbol.json").write_text(mxnet_text(siamese()))
    (tmp_path / "models" / "warned-symbol.json").write_bytes(graph_bytes(RULES["GS108"].fails))
    (tmp_path / "models" / "wrong-symbol.json").write_bytes(graph_bytes(RULES["GS303"].fails))
    return tmp_path


def check(*arguments: str | Path, cwd: Path, code: int = 0, data: bytes = b"", **more: str) -> str:
    run = graphshare("check", *arguments, cwd=cwd, data=data, **more)
    assert run.returncode == code, run.stderr.decode() + run.stdout.decode()
    assert b"Traceback" not in run.stderr
    return run.stdout.decode()


def codes(text: str) -> list[str]:
    return [finding["code"] for finding in json.loads(text)["findings"]]


def test_exit_codes(folder: Path) -> None:
    assert check("models/good", cwd=folder) == "1 file: no findings\n"
    check("models/warned", cwd=folder)
    check("models/warned", "--strict", cwd=folder, code=1)
    check("models/wrong", cwd=folder, code=1)
    refused(
        graphshare("check", "models/none", "models/good", "nothing*", cwd=folder),
        "models/none",
        "matches no file",
    )
    refused(graphshare("check", cwd=folder), "nothing to check")
    refused(
        graphshare("check", "models/good", "--select", "GS9", "--ignore", "nonsense", cwd=folder),
        "'GS9'",
        "'nonsense'",
    )
    refused(
        graphshare("check", "models", "--params", "a.params", cwd=folder),
        "--params needs a single graph",
    )


@pytest.mark.parametrize(
    "words",
    [["models"], ["models/*.json"], ["**/*-symbol.json"], ["models/good", "models/w*", "models"]],
)
def test_folders_and_globs(words: list[str], folder: Path) -> None:
    found = json.loads(check(*words, "--format", "json", cwd=folder, code=1))
    assert found["files"] == [f"models/{name}-symbol.json" for name in ("good", "warned", "wrong")]
    assert [finding["code"] for finding in found["findings"]] == ["GS108", "GS303"]


def test_a_broken_graph_is_a_finding(folder: Path) -> None:
    text = mxnet_text(siamese())[:-40]
    (folder / "cut.json").write_text(text)
    line, column = text.count("\n") + 1, text.rindex('"') - text.rindex("\n")
    said = check("cut.json", cwd=folder, code=1)
    assert said.startswith(
        f"cut.json:{line}:{column}: error GS001 ends inside the graph: the file is truncated\n"
    )
    (folder / "empty.json").write_text("")
    assert codes(check("empty.json", "--format", "json", cwd=folder, code=1)) == ["GS001"]
    assert codes(check("-", "--format", "json", cwd=folder, code=1, data=b"{}")) == ["GS002"]


def test_a_finding_of_several_parameter_files_is_reported_once(tmp_path: Path) -> None:
    """The newest comes first; what another one adds to the graph's findings names that file."""
    (tmp_path / "a-symbol.json").write_bytes(graph_bytes(RULES["GS108"].fails))
    lacks, holds = RULES["GS402"].fails, RULES["GS402"].passes
    more = (*(holds.params or ()), ExampleRecord("arg:more"))
    for epoch, example in enumerate((lacks, msgspec.structs.replace(holds, params=more), holds)):
        (tmp_path / f"a-{epoch:04}.params").write_bytes(params_file(example))
    found = json.loads(check(".", "--format", "json", cwd=tmp_path, code=1))["findings"]
    places = [
        (finding["code"], finding["file"], finding["message"].partition(" (")[2])
        for finding in found
    ]
    assert [tuple(part.replace("\\", "/") for part in place) for place in places] == [
        ("GS108", "./a-symbol.json", ""),
        ("GS403", "./a-0001.params", ""),
        ("GS402", "./a-symbol.json", "./a-0000.params)"),
    ]


def test_selection(folder: Path) -> None:
    assert codes(check("models", "--select", "GS1", "--format", "json", cwd=folder)) == ["GS108"]
    assert codes(
        check(
            "models",
            "--select",
            "GS1,GS3",
            "--ignore",
            "arg-nodes",
            "--format",
            "json",
            cwd=folder,
            code=1,
        )
    ) == ["GS303"]


def test_findings_say_where(folder: Path) -> None:
    said = check("models/wrong", cwd=folder, code=1)
    line = (folder / "models" / "wrong-symbol.json").read_text().splitlines()[4]
    column = line.index('"no_bais"') + len('"no_bais": ') + 1
    assert f"models/wrong-symbol.json:5:{column}: error GS303 unknown attribute 'no_bais'" in said
    assert '  at $.nodes[3].attrs.no_bais (node "fc")' in said
    assert "  hint: did you mean 'no_bias'" in said


def test_github_is_found_by_itself(folder: Path) -> None:
    said = check("models/wrong", cwd=folder, code=1, GITHUB_ACTIONS="true")
    assert said.startswith(
        "::error file=models/wrong-symbol.json,line=5,col=82,title=GS303::unknown attribute"
    )


@pytest.mark.parametrize("format_", ["text", "json", "github", "junit", "sarif"])
def test_a_report_goes_to_a_file(format_: str, folder: Path) -> None:
    said = check("models", "--format", format_, cwd=folder, code=1)
    assert check("models", "--format", format_, "-o", "report", cwd=folder, code=1) == ""
    assert (folder / "report").read_text() == said
    if format_ in ("json", "sarif"):
        assert find_violations(json.loads(said), "report" if format_ == "json" else "sarif") == []


def test_suppression_in_a_file(folder: Path) -> None:
    text = (folder / "models" / "wrong-symbol.json").read_text()
    for value, code in (("GS303", 0), ("GS104 GS3", 0), ("*", 0), ("GS104", 1), ("", 1)):
        (folder / "a.json").write_text(
            text.replace('"num_hidden"', f'"__graphshare_ignore__": "{value}", "num_hidden"')
        )
        found = json.loads(check("a.json", "--format", "json", cwd=folder, code=code))
        assert found["suppressed"] == 1 - code


@pytest.mark.parametrize("words", ["", "--ignore GS401", "--select GS2"])
@pytest.mark.parametrize("path", ["none.params", "models"])
def test_a_named_parameter_file_that_cannot_be_opened_is_an_error_for_every_choice_of_rules(
    path: str, words: str, folder: Path
) -> None:
    line = ["check", "models/good-symbol.json", "--params", path, *words.split()]
    refused(graphshare(*line, cwd=folder), path)


def test_a_baseline(folder: Path) -> None:
    (folder / "ci").mkdir()
    assert check("models", "--write-baseline", "ci/known.json", cwd=folder) == ""
    assert (
        find_violations(json.loads((folder / "ci" / "known.json").read_text()), "check-baseline")
        == []
    )
    assert (
        check("models", "--baseline", "ci/known.json", cwd=folder)
        == "3 files: no findings (2 in the baseline)\n"
    )
    text = (folder / "models" / "wrong-symbol.json").read_text()
    moved = "\n\n" + text.replace('"num_hidden"', '"more": "1", "num_hidden"')
    (folder / "models" / "wrong-symbol.json").write_text(moved)
    found = json.loads(
        check("models", "--baseline", "ci/known.json", "--format", "json", cwd=folder, code=1)
    )
    assert (found["known"], [f["path"] for f in found["findings"]]) == (
        2,
        ["$.nodes[3].attrs.more"],
    )
    (folder / "bad.json").write_text('{"version": 1, "findings": [{"code": 7}]}')
    refused(
        graphshare("check", "models", "--baseline", "bad.json", cwd=folder), "$.findings[0].code"
    )
    refused(
        graphshare("check", "models", "--baseline", "none.json", cwd=folder),
        "cannot be read",
        "--write-baseline",
    )


def test_jobs_change_nothing(folder: Path) -> None:
    for i in range(40):
        source = ("good", "warned", "wrong")[i % 3]
        (folder / f"{i:02}-symbol.json").write_bytes(
            (folder / "models" / f"{source}-symbol.json").read_bytes()
        )
    one = check(".", "--format", "json", cwd=folder, code=1)
    assert check(".", "--format", "json", "--jobs", "2", cwd=folder, code=1) == one
    assert len(json.loads(one)["files"]) == 43


def toml() -> None:
    """TOML is read by Python 3.11 and later, or by the package tomli."""
    from graphshare.files.toml import toml_reader

    if toml_reader() is None:
        pytest.skip("this Python reads no TOML; pip install tomli")


@pytest.mark.parametrize(
    ("name", "table"), [("graphshare.toml", "check"), ("pyproject.toml", "tool.graphshare.check")]
)
def test_configuration(name: str, table: str, folder: Path) -> None:
    toml()
    (folder / name).write_text(
        f'[{table}]\nselect = ["GS1", "GS3"]\nstrict = true\n[{table}.per-path-ignore]\n"models/wrong*" = ["GS303"]\n'
    )
    assert codes(check("models", "--format", "json", cwd=folder, code=1)) == ["GS108"]
    assert codes(check(".", "--format", "json", cwd=folder / "models", code=1)) == ["GS108"]
    assert codes(check("models", "--ignore", "GS108", "--format", "json", cwd=folder)) == []
    assert codes(check("models", "--isolated", "--format", "json", cwd=folder, code=1)) == [
        "GS108",
        "GS303",
    ]
    assert (
        codes(check("models", "--config", name, "--select", "GS3", "--format", "json", cwd=folder))
        == []
    )


def test_a_configuration_is_refused(folder: Path) -> None:
    toml()
    (folder / "graphshare.toml").write_text('[check]\nselect = "GS1"\nfoo = 1\n')
    said = refused(graphshare("check", "models", cwd=folder), "graphshare.toml: $.check.select")
    assert "foo" in said
    (folder / "graphshare.toml").write_text('[check]\nignore = ["GS777"]\n')
    refused(graphshare("check", "models", cwd=folder), "graphshare.toml: there is no rule 'GS777'")
    (folder / "graphshare.toml").write_text("[check\n")
    refused(graphshare("check", "models", cwd=folder), "is not TOML")


@pytest.mark.parametrize("code", FIXES)
def test_fixes(code: str, tmp_path: Path) -> None:
    """--fix takes the finding away and leaves the graph what it is; --diff shows it and writes nothing."""
    example = RULES[code].fails
    before = read_context(example, tmp_path)
    files = files_in(tmp_path)
    kept = [(tmp_path / name).read_bytes() for name in files]
    arguments = (
        ("a", "--select", code)
        if example.params is not None
        else ("a-symbol.json", "--select", code)
    )
    shown = check(*arguments, "--diff", cwd=tmp_path, code=1)
    assert [(tmp_path / name).read_bytes() for name in files] == kept
    assert shown.startswith("--- a-")
    assert "(1 fixed)" in check(*arguments, "--fix", cwd=tmp_path)
    assert files_in(tmp_path) == files
    after = (tmp_path / "a-symbol.json").read_bytes()
    assert compare_structure(before.graph.heads, read_symbol(after).heads)
    assert check(*arguments, "--diff", cwd=tmp_path) == ""


def test_a_fix_keeps_to_what_is_selected(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(BOM + graph_bytes(RULES["GS108"].fails))
    check("a.json", "--fix", "--select", "GS003", cwd=tmp_path)
    assert (tmp_path / "a.json").read_bytes() == graph_bytes(RULES["GS108"].fails)
    refused(graphshare("check", "-", "--fix", cwd=tmp_path), "standard input")


def test_files_without_a_fix_stay_as_they_are(tmp_path: Path) -> None:
    """ONNX models, packed ones too, and parameter files of no graph."""
    (tmp_path / "a.onnx").write_bytes(graph_bytes(RULES["GS603"].fails))
    (tmp_path / "b.onnx.gz").write_bytes(gzip.compress(graph_bytes(RULES["GS603"].fails)))
    (tmp_path / "c.params").write_bytes(params_file(RULES["GS409"].fails))
    before = {name: (tmp_path / name).read_bytes() for name in files_in(tmp_path)}
    found = check(*before, "--format", "json", cwd=tmp_path)
    assert codes(found) == ["GS603", "GS603", "GS409"]
    assert check(*before, "--fix", "--format", "json", cwd=tmp_path) == found
    assert {name: (tmp_path / name).read_bytes() for name in files_in(tmp_path)} == before


def test_a_diff_shows_the_byte_order_mark_that_goes(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(BOM + graph_bytes(RULES["GS003"].passes))
    shown = check("a.json", "--diff", "--select", "GS003", cwd=tmp_path, code=1).splitlines()
    assert shown[3:5] == ['-\\ufeff{"nodes": [', '+{"nodes": [']


@pytest.mark.parametrize(
    "words", [["-o", "none/report.txt"], ["--baseline", "good"], ["--write-baseline", "none/b"]]
)
def test_all_files_are_fixed_or_none(words: list[str], tmp_path: Path) -> None:
    """Whatever fails after the first file was fixed puts all of them back."""
    for name in "ab":
        (tmp_path / f"{name}.json").write_bytes(graph_bytes(RULES["GS108"].fails))
    (tmp_path / "good").write_bytes(b"")
    before = (tmp_path / "a.json").read_bytes()
    run = graphshare("check", "a.json", "b.json", *words, "--fix", cwd=tmp_path)
    assert run.returncode == 2, run.stderr
    assert files_in(tmp_path) == ["a.json", "b.json", "good"]
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes() == before
    check("a.json", "b.json", "--fix", "-o", "report.txt", cwd=tmp_path)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes() != before
    assert "2 fixed" in (tmp_path / "report.txt").read_text()


def test_a_second_file_that_cannot_be_fixed_leaves_the_first(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.json").write_bytes(graph_bytes(RULES["GS108"].fails))
    before = (tmp_path / "a" / "x.json").read_bytes()
    script = (
        "import os, errno, sys; real = os.replace\n"
        "def failing(source, target):\n"
        "    if target.endswith('b/x.json') and source.endswith('.tmp'): raise OSError(errno.EIO, 'bad')\n"
        "    return real(source, target)\n"
        "os.replace = failing\n"
        "from graphshare.cli.main import main; main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, "check", "a/x.json", "b/x.json", "--fix"],
        cwd=tmp_path, capture_output=True, env=environment(), check=False,
    )  # fmt: skip
    refused(run, "b/x.json: cannot be written")
    assert (tmp_path / "a" / "x.json").read_bytes() == before
    assert files_in(tmp_path) == ["a/x.json", "b/x.json"]


def test_a_parameter_file_of_two_graphs_is_fixed_once(tmp_path: Path) -> None:
    example = RULES["GS404"].fails
    for name in ("a-symbol.json", "b-symbol.json"):
        (tmp_path / name).write_bytes(graph_bytes(example))
    (tmp_path / "a-0000.params").write_bytes(params_file(example))
    (tmp_path / "b-0000.params").symlink_to("a-0000.params")
    check("a", "b", "--fix", cwd=tmp_path)
    assert keys_of(tmp_path / "b-0000.params") == [
        "arg:bn_gamma",
        "arg:bn_beta",
        "aux:bn_moving_mean",
        "aux:bn_moving_var",
    ]


@pytest.mark.parametrize(("op", "counts"), [("relu", [0, 1, 2]), ("Mine", None)])
def test_a_fix_counts_outputs_where_every_operator_is_known(
    op: str, counts: list[int] | None, tmp_path: Path
) -> None:
    text = symbol(variable("data"), operator(op, "a", 0), node_row_ptr=[0, 1])
    (tmp_path / "a.json").write_text(text)
    check("a.json", "--fix", "--select", "GS109", cwd=tmp_path)
    assert json.loads((tmp_path / "a.json").read_bytes()).get("node_row_ptr") == counts


@pytest.mark.parametrize(
    ("rule", "sums"),
    [("GS104", [0, 1, 2]), ("GS108", [0, 1, 2, 5]), ("GS108,GS109", [0, 1, 2, 3])],
)
def test_a_fix_counts_outputs_again_where_the_nodes_change(
    rule: str, sums: list[int], tmp_path: Path
) -> None:
    nodes = variable("data"), operator("relu", "a", 0), operator("relu", "b", 0)
    (tmp_path / "a.json").write_text(
        symbol(*nodes, heads=[1], arg_nodes=[], node_row_ptr=[0, 1, 2, 5])
    )
    check("a.json", "--fix", "--select", rule, cwd=tmp_path)
    assert json.loads((tmp_path / "a.json").read_bytes())["node_row_ptr"] == sums


def test_parameter_files_with_the_same_keys_are_each_fixed(tmp_path: Path) -> None:
    example = RULES["GS404"].fails
    for stem in ("a", "b"):
        (tmp_path / f"{stem}-symbol.json").write_bytes(graph_bytes(example))
        (tmp_path / f"{stem}-0000.params").write_bytes(params_file(example))
    check("a", "b", "--fix", cwd=tmp_path)
    assert keys_of(tmp_path / "a-0000.params") == keys_of(tmp_path / "b-0000.params")
    assert "aux:bn_moving_mean" in keys_of(tmp_path / "b-0000.params")


@pytest.mark.parametrize(("rules", "keeps"), [("GS108", True), ("GS003,GS108", False)])
def test_a_fix_keeps_the_byte_order_mark_unless_it_is_selected(
    rules: str, keeps: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_bytes(BOM + graph_bytes(RULES["GS108"].fails))
    check("a.json", "--fix", "--select", rules, cwd=tmp_path)
    assert (tmp_path / "a.json").read_bytes().startswith(BOM) is keeps


def test_an_epoch_is_of_a_stem(tmp_path: Path) -> None:
    example = RULES["GS402"]
    (tmp_path / "a-symbol.json").write_bytes(graph_bytes(example.fails))
    for i, each in enumerate((example.fails, example.passes)):
        (tmp_path / f"a-{i:04}.params").write_bytes(params_file(each))
    for epoch, expected in (("0", ["GS402"]), ("1", [])):
        assert (
            codes(
                check("a", "--epoch", epoch, "--format", "json", cwd=tmp_path, code=len(expected))
            )
            == expected
        )
    refused(
        graphshare("check", "a-symbol.json", "--epoch", "0", cwd=tmp_path), "--epoch 0 needs a stem"
    )
    params = ("--params", "a-0000.params", "--format", "json")
    assert codes(check("a-symbol.json", *params, cwd=tmp_path, code=1)) == ["GS402"]


def test_a_fix_of_keys(tmp_path: Path) -> None:
    example = RULES["GS404"].fails
    (tmp_path / "a-symbol.json").write_bytes(graph_bytes(example))
    (tmp_path / "a-0000.params").write_bytes(params_file(example))
    check("a", "--fix", cwd=tmp_path)
    assert keys_of(tmp_path / "a-0000.params") == [
        "arg:bn_gamma",
        "arg:bn_beta",
        "aux:bn_moving_mean",
        "aux:bn_moving_var",
    ]


def test_bare_keys_get_the_prefixes_that_the_graph_decides(tmp_path: Path) -> None:
    example = RULES["GS404"].passes
    bare = [msgspec.structs.replace(record, key=record.key[4:]) for record in example.params or ()]
    (tmp_path / "a-symbol.json").write_bytes(graph_bytes(example))
    (tmp_path / "a-0000.params").write_bytes(
        params_file(msgspec.structs.replace(example, params=(*bare, ExampleRecord("x"))))
    )
    found = check("a", cwd=tmp_path)
    assert "GS405 all keys have neither" in found
    assert "hint: --fix adds them" in found
    left = check("a", "--fix", cwd=tmp_path)
    assert "GS405 1 of 5 keys have neither arg: nor aux:, 'x' first" in left
    assert "--fix" not in left
    fixed = ["arg:bn_gamma", "arg:bn_beta", "aux:bn_moving_mean", "aux:bn_moving_var", "x"]
    assert keys_of(tmp_path / "a-0000.params") == fixed


def test_rules_explain_themselves(tmp_path: Path) -> None:
    listed = check("--list", cwd=tmp_path).splitlines()
    assert [line[:5] for line in listed] == list(RULES)
    found: Any = json.loads(check("--list", "--format", "json", cwd=tmp_path))
    assert find_violations(found, "check-rules") == []
    rows = [
        (rule.code, rule.name, rule.level.value, rule.summary, rule.fix or None)
        for rule in RULES.values()
    ]
    assert [
        tuple(row[key] for key in ("code", "name", "level", "summary", "fix")) for row in found
    ] == rows
    for code in ("GS012", "gs404", "not-json"):
        run = graphshare("check", "--explain", code, cwd=tmp_path)
        if code == "GS012":
            refused(run, "there is no rule 'GS012'")
        else:
            assert "fails:" in done(run).stdout.decode()
    for code, rule in RULES.items():
        shown = (
            json.loads(check("--explain", code, "--format", "json", cwd=tmp_path))
            if code < "GS003"
            else None
        )
        assert shown is None or (
            find_violations(shown, "check-rules") == [] and shown["why"] == rule.why
        )


@pytest.mark.parametrize("code", list(RULES))
def test_an_explanation_shows_each_array_of_its_examples(code: str) -> None:
    text = "\n".join(_explain(RULES[code]))
    for example in (RULES[code].fails, RULES[code].passes):
        for record in example.params or ():
            size = (
                "never filled"
                if record.shape is None
                else f"{record.dtype}  {format_dims(record.shape)}  all {record.value:g}"
            )
            assert f"    {record.key}  {size}" in text


def test_an_example_may_be_copied_from_the_explanation(tmp_path: Path) -> None:
    shown = json.loads(check("--explain", "GS105", "--format", "json", cwd=tmp_path))
    for key, expected in (("fails", ["GS105"]), ("passes", [])):
        context = read_context(Example(shown[key]), tmp_path)
        assert [finding.code for finding in run_rules(context)[0]] == expected


def test_an_example_of_onnx_may_be_copied_from_the_explanation(tmp_path: Path) -> None:
    """It is in ONNX's own text, and in escapes where that package cannot read it or is not there."""
    shown = json.loads(check("--explain", "GS611", "--format", "json", cwd=tmp_path))
    for key, expected in (("fails", ["GS611"]), ("passes", [])):
        context = read_context(
            Example(onnx.parser.parse_model(shown[key]).SerializeToString()), tmp_path
        )
        assert [finding.code for finding in run_rules(context)[0]] == expected
    whole = check("--explain", "GS611", cwd=tmp_path)
    assert (
        "    graph (float[2] x, float[3] w) => (float[2] y) {\n       y = Add (x, w)\n    }\n"
        in whole
    )
    cut = json.loads(check("--explain", "GS601", "--format", "json", cwd=tmp_path))["fails"]
    assert ast.literal_eval(cut) == RULES["GS601"].fails.graph


def test_format_check_reports(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(two_layers()))
    for format_ in ("json", "sarif"):
        run = graphshare(
            "format", "a.json", "--layout", "mxnet", "--check", "--format", format_, cwd=tmp_path
        )
        assert run.returncode == 1
        assert (
            find_violations(json.loads(run.stdout), "report" if format_ == "json" else "sarif")
            == []
        )
        assert b"is not laid out as mxnet" in run.stdout
    run = graphshare(
        "format", "a.json", "--layout", "mxnet", "--check", "--format", "json", cwd=tmp_path
    )
    (finding,) = json.loads(run.stdout)["findings"]
    assert (finding["line"], finding["column"], finding["fixable"]) == (1, 1, True)
    assert (
        graphshare("format", "a.json", "--check", "--format", "junit", cwd=tmp_path).returncode == 0
    )


def test_check_needs_no_numpy_without_parameters(folder: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from graphshare.cli.main import run; run(['check', 'models/good', '--isolated']);"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'jsonschema', 'rich')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, check=False).returncode == 0
    assert (ROOT / "graphshare").is_dir()


@pytest.mark.parametrize("how", ["tie", "separate"])
def test_the_hint_mends_what_was_meant_as_one(how: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(graph_bytes(RULES["GS206"].fails))
    assert codes(check("a.json", "--format", "json", cwd=tmp_path, code=1)) == ["GS201", "GS206"]
    done(graphshare("share", "a.json", "--doctor", how, "-o", "b.json", cwd=tmp_path))
    assert "GS201" not in codes(check("b.json", "--format", "json", cwd=tmp_path))
