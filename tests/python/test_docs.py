"""What the documents show is run, or at least there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import run_python

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_snippets_run_one_after_the_other(document: Path) -> None:
    code = "\n".join(blocks(document, "python"))
    if not code:
        pytest.skip(f"{document.name} shows no Python")
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_readme_has_snippets_of_both_languages_and_the_rust_one_is_a_doctest() -> None:
    assert len(blocks(ROOT / "README.md", "python")) == 3
    assert len(blocks(ROOT / "README.md", "rust")) == 1
    assert 'include_str!("../README.md")' in (ROOT / "src" / "lib.rs").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_and_files_that_are_named_exist(document: Path) -> None:
    text = document.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", "\n".join(re.findall(r"`[^`]+`|\$ make .*", text)))) <= targets
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (document.parent / link).exists(), link
    for path in re.findall(r"`((?:examples|docs|tests|benches|src)/[\w/.-]+)`", text):
        assert (ROOT / path).exists(), path
