"""``hermes-env-bridge doctor``: what is installed here, whether the drop-in can be, and what is wrong."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from hermes_env_bridge import InstallError, Profile, __version__, _core, explain_all, install, profile
from hermes_env_bridge._find import HERMES, find
from hermes_env_bridge.commands.program import ProgramError, find_program, on_path
from hermes_env_bridge.parity.progress import paint_for
from hermes_env_bridge.parity.report import Paint

DESCRIPTION = """\
Says what is installed in this interpreter, whether the drop-in can take the place of Hermes' session module, what of it
is native, which names of Hermes the environment has, and what to do about what is wrong.

examples:
  hermes-env-bridge doctor
  hermes-env-bridge doctor --json                        for a program
  hermes-env-bridge doctor >report.txt || echo "look"    for a script

exit status: 0 if all is well, 1 if there is advice, 2 if the drop-in cannot be installed
"""

_DISTRIBUTION = "hermes-agent"
_WIDTH = 100


@dataclass(frozen=True)
class Hermes:
    """The Hermes of this interpreter: the version that pip knows, and the file of the session module, if any."""

    version: str | None
    path: str | None


@dataclass(frozen=True)
class Name:
    """One of Hermes' names in the environment; the value is only there if it was asked for."""

    name: str
    is_session: bool
    value: str | None

    def to_json(self) -> dict[str, Any]:
        """The name as plain data."""
        return vars(self) if self.value is not None else {"name": self.name, "is_session": self.is_session}

    def __str__(self) -> str:
        """The name for a person."""
        value = "" if self.value is None else f"={self.value!r}"
        return f"{self.name}{value}{' (a session)' if self.is_session else ''}"


@dataclass(frozen=True)
class Diagnosis:
    """What holds in this interpreter. ``error`` says why the drop-in cannot be installed, and is None if it can."""

    hermes: Hermes
    error: str | None
    profile: Profile
    engaged: bool
    environment: tuple[Name, ...]
    advice: tuple[str, ...]

    @property
    def status(self) -> int:
        """The exit status: 0 if all is well, 1 if there is advice, 2 if the drop-in cannot be installed."""
        return 2 if self.error is not None else int(bool(self.advice))

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as plain data."""
        return {
            "interpreter": {
                "implementation": platform.python_implementation(),
                "version": platform.python_version(),
                "executable": sys.executable,
            },
            "extension": {"version": __version__, "file": _core.__file__},
            "hermes": vars(self.hermes),
            "installable": self.error is None,
            "error": self.error,
            "profile": self.profile.to_json(),
            "engaged": self.engaged,
            "environment": [name.to_json() for name in self.environment],
            "advice": list(self.advice),
            "status": self.status,
        }

    def to_text(self, *, paint: Paint) -> str:
        """The diagnosis for a person."""
        lines = []
        for label, told in self._rows(paint):
            wrapped = textwrap.wrap(told, _WIDTH, break_long_words=False, break_on_hyphens=False)
            lines += [f"{head:12} {line}" for head, line in zip([label, *[""] * len(wrapped)], wrapped, strict=False)]
        return "\n".join(lines)

    def _rows(self, paint: Paint) -> Iterator[tuple[str, str]]:
        yield "interpreter", f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
        yield "extension", f"{__version__}, {_core.__file__}"
        known = f"{_DISTRIBUTION} {self.hermes.version}" if self.hermes.version else f"no {_DISTRIBUTION} known to pip"
        yield "Hermes", f"{known}, {self.hermes.path or 'no session module'}"
        can = "can be installed" if self.error is None else f"cannot be installed: {self.error}"
        yield "drop-in", paint(can, self.error is None)
        yield "module", self.profile.module
        yield "ours", _listed(variable.name for variable in self.profile.variables if variable.ours)
        yield "not ours", _listed(variable.name for variable in self.profile.variables if not variable.ours)
        yield "native", _listed(verb.name for verb in self.profile.verbs if verb.native)
        yield "own code", _listed(f"{verb.name} ({verb.reason})" for verb in self.profile.verbs if not verb.native)
        yield "latch", f"{'sessions were' if self.engaged else 'no session was ever'} bound in this process"
        for name in self.environment or ("none",):
            yield "environment", str(name)
        for advice in self.advice or ("nothing, all is well",):
            yield "advice", paint(advice, not self.advice)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``doctor`` to *parser*."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--show-values", action="store_true", help="show the values of the environment's names, which may be secrets"
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of what made it impossible")


def run(arguments: argparse.Namespace) -> int:
    """Print the diagnosis and return its status."""
    diagnosis = diagnose(values=arguments.show_values, debug=arguments.debug)
    if arguments.json:
        print(json.dumps(diagnosis.to_json(), indent=2))
    else:
        print(diagnosis.to_text(paint=paint_for(sys.stdout)))
    return diagnosis.status


def diagnose(*, values: bool = False, debug: bool = False) -> Diagnosis:
    """Look at this process, and install the drop-in in it to see whether that works.

    With *debug*, what keeps it from being installed is raised.
    """
    # Before the install, which is found first from then on.
    hermes = Hermes(_version(_DISTRIBUTION), _path())
    error = None
    try:
        install()
    except InstallError as refused:
        if debug:
            raise
        error = str(refused)
    learnt = profile()
    environment = tuple(_names(learnt, values))
    advice = (*_advice_on_hermes(hermes, error), *_advice_on_what_is_ours(learnt), *_advice_on_environment(environment))
    return Diagnosis(hermes, error, learnt, explain_all().engaged, environment, advice)


def _advice_on_hermes(hermes: Hermes, error: str | None) -> Iterator[str]:
    if hermes == Hermes(None, None):
        yield (
            f"Hermes is not in this interpreter: pip install {_DISTRIBUTION}, or use the interpreter of your Hermes; "
            "without Hermes, import hermes_env_bridge.session_context"
        )
    elif error is not None:
        yield "run your Hermes without the drop-in, on its own session module: it behaves the same"
    elif (known := _file_known_to_pip()) and hermes.path and not os.path.samefile(known, hermes.path):
        yield f"gateway is imported from {hermes.path}, not from what pip installed ({known}): look at PYTHONPATH"
    if on_path("hermes") is not None:
        try:
            find_program(["hermes"])
        except ProgramError as elsewhere:
            yield f"the command hermes is not this interpreter's: {elsewhere}"


def _advice_on_what_is_ours(learnt: Profile) -> Iterator[str]:
    known = _version("hermes-env-bridge")
    if known not in (None, __version__):
        yield f"the extension is of version {__version__}, the package of {known}: install the package again"
    odd = [variable.name for variable in learnt.variables if not variable.ours]
    if odd:
        yield f"{_listed(odd)}: not made with ContextVar in {learnt.path}, so not bound and cleared with the rest"


def _advice_on_environment(environment: tuple[Name, ...]) -> Iterator[str]:
    sessions = [name.name for name in environment if name.is_session]
    if sessions:
        yield (
            f"{_listed(sessions)}: in the environment, so reads outside a session answer with it, and children of a "
            "process that has never bound a session inherit it; unset it before you start a long-lived process"
        )


def _names(learnt: Profile, values: bool) -> Iterator[Name]:
    sessions = {variable.name for variable in learnt.variables}
    for name, value in sorted(os.environ.items()):
        if name in sessions or name.startswith("HERMES_"):
            yield Name(name, name in sessions, value if values else None)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _path() -> str | None:
    try:
        return find(HERMES)
    except InstallError:
        return None


def _file_known_to_pip() -> str | None:
    """The session module that came with the distribution; None if there is none, as in a development install."""
    try:
        file = distribution(_DISTRIBUTION).locate_file(HERMES.replace(".", "/") + ".py")
    except PackageNotFoundError:
        return None
    return str(file) if Path(str(file)).is_file() else None


def _listed(names: Iterator[str] | list[str]) -> str:
    return ", ".join(names) or "none"
