"""A release of Hermes Agent on the package index: its archives, downloaded by pip and kept in a folder."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

PROJECT = "hermes-agent"
# Releases before this one have no session module.
OLDEST = "0.13.0"

_MEMBER = "gateway/session_context.py"
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!]*")


class ReleaseError(RuntimeError):
    """A release could not be had; the message says which and why, in one line."""


@dataclass(frozen=True)
class Release:
    """One version, and the folder in which its archives are kept.

    Each method returns a file in *cache* and downloads only what is not there yet; all raise
    :class:`ReleaseError` with pip's reason if the download fails, and ``OSError`` if the folder cannot be used.
    """

    version: str
    cache: Path

    def source_distribution(self) -> Path:
        """The archive of the sources, tests included."""
        return self._download(f"hermes_agent-{self.version}.tar.gz", "--no-binary=:all:")

    def wheel(self) -> Path:
        """The archive that is installed."""
        # The session module asks nothing of the interpreter, so what the release allows does not matter.
        return self._download(
            f"hermes_agent-{self.version}-py3-none-any.whl", "--only-binary=:all:", "--ignore-requires-python"
        )

    def session_module(self) -> Path:
        """The session module of the wheel, unchanged."""
        file = self.cache / f"session_context-{self.version}.py"
        if file.exists():
            return file
        wheel = self.wheel()
        try:
            with zipfile.ZipFile(wheel) as members, tempfile.TemporaryDirectory(dir=self.cache) as folder:
                return Path(members.extract(_MEMBER, folder)).replace(file)
        except (KeyError, zipfile.BadZipFile) as error:
            raise ReleaseError(f"{PROJECT} {self.version}: no {_MEMBER} in {wheel}: {error}") from error

    def _download(self, name: str, *options: str) -> Path:
        archive = self.cache / name
        if archive.exists():
            return archive
        if not _VERSION.fullmatch(self.version):
            raise ReleaseError(f"{PROJECT} {self.version}: this is not a version")
        self.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            wanted = f"{PROJECT}=={self.version}"
            _pip("download", f"{PROJECT} {self.version}", "--no-deps", *options, "--dest", folder, wanted)
            (downloaded,) = Path(folder).iterdir()
            # Into place in one step, so that an interrupted run leaves no half archive to be trusted later.
            return downloaded.replace(archive)


def released_versions() -> list[str]:
    """Every version from :data:`OLDEST` on that pip finds, the oldest first; raises :class:`ReleaseError`."""
    answer = _pip("index", f"the releases of {PROJECT}", "versions", "--ignore-requires-python", PROJECT)
    listed = re.search(r"^Available versions: (.+)$", answer, re.MULTILINE)
    versions = listed[1].split(", ") if listed else []
    found = [version for version in reversed(versions) if _numbers(version) >= _numbers(OLDEST)]
    if not found:
        raise ReleaseError(f"the releases of {PROJECT}: pip lists none from {OLDEST} on")
    return found


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _pip(command: str, subject: str, *arguments: str) -> str:
    """What pip prints. Raises :class:`ReleaseError` about *subject* with the first thing that pip calls an error."""
    call = [sys.executable, "-m", "pip", "--disable-pip-version-check", command, *arguments]
    done = subprocess.run(call, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
        reason = next((line for line in lines if line.startswith("ERROR: ")), lines[-1])
        raise ReleaseError(f"{subject}: pip {command} failed: {reason.removeprefix('ERROR: ')}")
    return done.stdout
