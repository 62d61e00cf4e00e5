"""A baseline of known findings and the configuration file: what each counts, and which file it is of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphshare.checks.baseline import drop_known, format_baseline, read_baseline
from graphshare.checks.config import CheckConfig, find_config
from graphshare.errors import InputError
from graphshare.reports.model import Finding, Level

TEXT = """{
  "version": 1,
  "findings": [
    {
      "code": "GS001",
      "file": "models/a.json",
      "node": null,
      "message": "m",
      "count": 1
    },
    {
      "code": "GS301",
      "file": "models/a.json",
      "node": "n",
      "message": "m",
      "count": 2
    }
  ]
}
"""


def finding(path: Path, code: str = "GS301", node: str | None = "n", message: str = "m") -> Finding:
    return Finding(code=code, level=Level.ERROR, message=message, where=str(path), node=node)


def test_a_baseline_is_indented_text_with_counts(tmp_path: Path) -> None:
    model, path = tmp_path / "models" / "a.json", tmp_path / "known.json"
    text = format_baseline(
        [finding(model), finding(model, "GS001", None), finding(model)], str(path)
    )
    assert text == TEXT
    path.write_text(text)
    assert read_baseline(str(path)) == {
        ("GS001", "models/a.json", None, "m"): 1,
        ("GS301", "models/a.json", "n", "m"): 2,
    }


@pytest.mark.parametrize(("times", "fresh"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2)])
def test_a_finding_more_than_the_baseline_has_is_new(
    times: int, fresh: int, tmp_path: Path
) -> None:
    model, path = tmp_path / "models" / "a.json", tmp_path / "known.json"
    path.write_text(TEXT)
    other = finding(model, message="other")
    left, known = drop_known(
        [other, *[finding(model)] * times], read_baseline(str(path)), str(path)
    )
    assert left == [other, *[finding(model)] * fresh]
    assert known == times - fresh
    moved = finding(tmp_path / "elsewhere" / "a.json")
    assert drop_known([moved], read_baseline(str(path)), str(path)) == ([moved], 0)


def test_the_counts_of_a_finding_that_is_listed_twice_add_up(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_text(TEXT.replace('"GS001"', '"GS301"').replace("null", '"n"'))
    assert list(read_baseline(str(path)).values()) == [3]


def test_a_baseline_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_baseline(str(tmp_path))
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        read_baseline(str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match="is not a baseline"):
        read_baseline(str(tmp_path / "bad.json"))


@pytest.mark.parametrize(
    ("file", "codes"),
    [
        ("a.json", ("G1",)),
        ("models/a.json", ("G1", "G2")),
        ("models/deep/a.json", ("G1", "G2")),
        ("models/b.json", ("G2",)),
        ("b.json", ()),
    ],
)
def test_a_glob_is_of_the_path_below_the_configuration_or_of_the_name(
    file: str, codes: tuple[str, ...], tmp_path: Path
) -> None:
    config = CheckConfig(
        per_path_ignore={"a.json": ("G1",), "models/*": ("G2",)}, folder=str(tmp_path)
    )
    assert config.list_ignored_codes(str(tmp_path / file)) == codes


OWN, SHARED = "graphshare.toml", "pyproject.toml"


@pytest.mark.parametrize(
    ("files", "ignored"),
    [
        ({}, ()),
        ({OWN: '[check]\nignore = ["GS301"]'}, ("GS301",)),
        ({SHARED: '[tool.graphshare.check]\nignore = ["GS302"]'}, ("GS302",)),
        (
            {
                OWN: '[check]\nignore = ["GS301"]',
                SHARED: '[tool.graphshare.check]\nignore = ["GS302"]',
            },
            ("GS301",),
        ),
        ({SHARED: '[tool.other]\nignore = ["GS302"]'}, ()),
        ({f"sub/{SHARED}": "[tool.other]", OWN: '[check]\nignore = ["GS301"]'}, ("GS301",)),
        ({f"sub/{SHARED}": "this is [not TOML", OWN: '[check]\nignore = ["GS301"]'}, ("GS301",)),
        ({f"sub/{OWN}": "", OWN: '[check]\nignore = ["GS301"]'}, ()),
    ],
)
def test_the_nearest_configuration_counts(
    files: dict[str, str], ignored: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert find_config(str(tmp_path / "sub" / "deep")).ignore == ignored


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            OWN,
            '[tool.graphshare.check]\nignore = ["GS301"]',
            r"\$\.tool: is a table that graphshare does not know",
        ),
        (OWN, "[chek]", r"\$\.chek: is a table that graphshare does not know"),
        (
            OWN,
            'ignore = ["GS301"]',
            r"\$\.ignore: is a setting outside the table of check\n  hint: settings stand in the table \[check\]",
        ),
        (
            SHARED,
            "[tool.graphshare]\nstrict = true",
            r"hint: settings stand in the table \[tool\.graphshare\.check\]",
        ),
        (
            SHARED,
            "[tool.graphshare.chek]",
            r"\$\.tool\.graphshare\.chek: is a table that graphshare does not know",
        ),
        (OWN, "check = 3", r"\$\.check: is an integer \(3\), not an object"),
        (
            OWN,
            '[check]\nignroe = ["GS301"]',
            r"\$\.check: has 'ignroe', which is not known\n  hint: did you mean 'ignore'\?",
        ),
        (
            OWN,
            "[check]\nxyz = 1",
            r"hint: known: select, ignore, strict, baseline, per-path-ignore",
        ),
    ],
)
def test_what_a_configuration_does_not_know_is_refused(
    file: str, text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match=said):
        find_config(str(tmp_path))


def test_the_fault_of_a_configuration_names_its_place(tmp_path: Path) -> None:
    for name, table, place in (
        (OWN, "check", "$.check.ignore"),
        (SHARED, "tool.graphshare.check", "$.tool.graphshare.check.ignore"),
    ):
        (tmp_path / name).write_text(f"[{table}]\nignore = 3\n")
        with pytest.raises(InputError, match=re.escape(place)):
            find_config(str(tmp_path))
        (tmp_path / name).write_text(f'[{table}.per-path-ignore]\n"$b" = 3\n')
        with pytest.raises(InputError) as caught:
            find_config(str(tmp_path))
        assert caught.value.faults[0].path.endswith("['$b']")
        (tmp_path / name).unlink()
