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


def showing(language: str) -> list[Path]:
    return [document for document in DOCUMENTS if blocks(document, language)]


@pytest.mark.parametrize("document", showing("python"), ids=lambda path: path.name)
def test_python_snippets_run_one_after_the_other(document: Path) -> None:
    result = run_python("\n".join(blocks(document, "python")))
    assert result.returncode == 0, result.stderr


def test_readme_has_snippets_of_both_languages() -> None:
    assert all(blocks(ROOT / "README.md", language) for language in ("python", "rust"))


@pytest.mark.parametrize("document", showing("rust"), ids=lambda path: path.name)
def test_rust_snippets_are_doctests(document: Path) -> None:
    assert f'include_str!("../{document.relative_to(ROOT)}")' in (ROOT / "src" / "lib.rs").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_and_files_that_are_named_exist(document: Path) -> None:
    text = document.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", "\n".join(re.findall(r"`[^`]+`|\$ make .*", text)))) <= targets
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (document.parent / link).exists(), link
    for path in re.findall(r"`((?:examples|docs|tests|benches|src)/[\w/.-]+)`", text):
        assert (ROOT / path).exists(), path
