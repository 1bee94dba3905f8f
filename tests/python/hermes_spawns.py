"""Runs spawn sites of the installed Hermes, with the guard on, as one of two sessions; a program of its own.

Another session has written its id to the process-wide mirror, by Hermes' own ``set_current_session_id``. The programs
that are spawned are stand-ins on ``PATH`` that write down the id that they got. Writes to ``told.json`` for each
site: how many spawns the guard saw, which functions leaked which variables, and the ids that the children had.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(sys.argv[1] if __name__ == "__main__" else os.devnull)
CHILDREN = ROOT / "children"

# What the sites start, by name.
PROGRAMS = """
agent-browser apptainer aplay brv bws claude codex cosign cua-driver docker ffmpeg ffplay ffprobe fuser gh git go gs
hermes inkscape lsof node npm npx op paplay ps rg rsvg-convert scp sox ssh ss sudo systemctl tirith tmux uv wl-paste
xclip
"""

NAME = "HERMES_SESSION_ID"
OURS, OTHERS = "this session's", "another session's"


def stand_ins() -> None:
    """A folder of programs that write down what they got."""
    folder = ROOT / "bin"
    folder.mkdir()
    script = f'#!/bin/sh\nprintf "%s\\n" "${{{NAME}-nothing}}" >> {CHILDREN}\nexec cat >/dev/null 2>&1 </dev/null\n'
    for program in PROGRAMS.split():
        (folder / program).write_text(script)
        (folder / program).chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


NOTE = f'printf "%s\\n" "${{{NAME}-nothing}}" >> {CHILDREN}'


def of(module: str, name: str) -> Any:
    """What *module* has under *name*, which may have dots."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def bare(module: str, name: str) -> Any:
    """An object of a class that nobody has initialised, for a method that needs little of it."""
    return object.__new__(of(module, name))


def file(name: str, content: bytes = b"x") -> str:
    path = ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def call(module: str, name: str, *args: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: of(module, name)(*args, **keywords)


def program(name: str) -> str:
    return str(ROOT / "bin" / name)


def until_told() -> None:
    """Wait for a child to have written down what it got."""
    end = time.monotonic() + 5
    while time.monotonic() < end and not (CHILDREN.exists() and CHILDREN.read_text().endswith("\n")):
        time.sleep(0.01)


def terminal() -> None:
    of("tools.environments.local", "LocalEnvironment")(cwd=str(ROOT), timeout=20).execute(NOTE)


def terminal_in_the_background(use_pty: bool) -> None:
    registry = of("tools.process_registry", "ProcessRegistry")()
    session = registry.spawn_local(NOTE, cwd=str(ROOT), use_pty=use_pty)
    registry.wait(session.id, timeout=20)


def shell_hook() -> None:
    spec = of("agent.shell_hooks", "ShellHookSpec")(event="pre_tool_call", command=program("hermes"))
    of("agent.shell_hooks", "_spawn")(spec, "{}")


def cron_script() -> None:
    script = Path(os.environ["HERMES_HOME"]) / "scripts" / "job.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(NOTE)
    of("cron.scheduler", "_run_job_script")("job.sh")


def webhook_script() -> None:
    script = Path(os.environ["HERMES_HOME"]) / "scripts" / "route.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(NOTE)
    of("gateway.platforms.webhook_filters", "WebhookRouteProcessor")().run_route_script("route.sh", {})


def codex_server() -> None:
    client = of("agent.transports.codex_app_server", "CodexAppServerClient")(codex_bin=program("codex"))
    until_told()
    client.close()


def git_reference() -> None:
    reference = SimpleNamespace(raw="@diff", kind="diff", target="")
    of("agent.context_references", "_expand_git_reference")(reference, ROOT, ["diff"], "diff")


def compute_host() -> None:
    supervisor = of("tui_gateway.host_supervisor", "HostSupervisor")(argv=[program("hermes")])
    try:
        with contextlib.suppress(Exception):
            supervisor._spawn_locked(reason="test")
    finally:
        supervisor.shutdown()


@contextlib.contextmanager
def stand_in_for_python() -> Iterator[None]:
    executable, sys.executable = sys.executable, program("hermes")
    try:
        yield
    finally:
        sys.executable = executable


def slash_worker() -> None:
    with stand_in_for_python():
        worker = of("tui_gateway.server", "_SlashWorker")("key", "model")
    until_told()
    worker.close()


def profile_skills() -> None:
    with stand_in_for_python():
        of("hermes_cli.profiles", "seed_profile_skills")(ROOT, True)


class Blank(SimpleNamespace):
    """An object on which every attribute that nobody gave is None."""

    def __getattr__(self, name: str) -> None:
        return None


def kanban_worker() -> None:
    module = importlib.import_module("hermes_cli.kanban_db")
    given = {"id": "t1", "title": "t", "body": "", "assignee": "default", "skills": [], "goal_mode": False}
    task = Blank(**given, current_run_id=1, claim_lock="l")
    with stand_in_for_python():
        module._default_spawn(task, str(ROOT))


def tool_server() -> None:
    """A tool server over standard input and output, started as the tool does it."""
    safe = of("tools.mcp_tool", "_build_safe_env")({})
    import anyio

    async def start() -> None:
        process = await anyio.open_process([program("node")], env=safe)
        await process.wait()

    asyncio.run(start())


def with_environment_of(module: str, builder: str, *args: Any) -> Callable[[], Any]:
    """For a site that needs a browser, or somebody's approval: the environment that it builds, on a stand-in."""
    return lambda: subprocess.run([program("node")], env=of(module, builder)(*args), check=False)


def lsp_server() -> None:
    client = of("agent.lsp.client", "LSPClient")(
        server_id="s", workspace_root=str(ROOT), command=[program("gs")], env={}, cwd=str(ROOT)
    )

    async def start() -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(client._spawn(), 10)
        if client._proc is not None:
            await client._proc.wait()

    asyncio.run(start())


def awaited(module: str, name: str, *args: Any) -> Callable[[], Any]:
    async def main() -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(of(module, name)(*args), 10)

    return lambda: asyncio.run(main())


# Which site, and how it is run. Names are those of the functions in which the spawn stands.
SITES: dict[str, Callable[[], Any]] = {
    "tools/environments/local.py:LocalEnvironment._run_bash": terminal,
    "tools/process_registry.py:ProcessRegistry.spawn_local": lambda: terminal_in_the_background(False),
    "tools/process_registry.py:ProcessRegistry.spawn_local (pty)": lambda: terminal_in_the_background(True),
    "tools/code_execution_tool.py:_scrub_child_env": with_environment_of(
        "tools.code_execution_tool", "_scrub_child_env", os.environ
    ),
    "tools/code_execution_tool.py:_scrub_child_env (passed through)": with_environment_of(
        "tools.code_execution_tool", "_scrub_child_env", os.environ, lambda name: name == NAME
    ),
    "tools/browser_tool.py:_build_browser_env": with_environment_of("tools.browser_tool", "_build_browser_env"),
    "tools/mcp_tool.py:_build_safe_env": tool_server,
    "tools/computer_use/cua_backend.py:_resolve_mcp_invocation": call(
        "tools.computer_use.cua_backend", "_resolve_mcp_invocation", program("cua-driver")
    ),
    "tools/computer_use/permissions.py:_run": call(
        "tools.computer_use.permissions", "_run", program("cua-driver"), "x", timeout=5
    ),
    "cron/scheduler.py:_run_job_script": cron_script,
    "gateway/platforms/webhook_filters.py:WebhookRouteProcessor.run_route_script": webhook_script,
    "agent/transports/codex_app_server.py:CodexAppServerClient.__init__": codex_server,
    "agent/secret_sources/base.py:run_secret_cli": call(
        "agent.secret_sources.base", "run_secret_cli", [program("op"), "x"]
    ),
    "agent/secret_sources/onepassword.py:_run_op_read": call(
        "agent.secret_sources.onepassword", "_run_op_read", Path(program("op")), "op://a/b/c"
    ),
    "agent/secret_sources/bitwarden.py:_run_bws_list": call(
        "agent.secret_sources.bitwarden", "_run_bws_list", Path(program("bws")), "token", "project"
    ),
    "tui_gateway/server.py:_SlashWorker.__init__": slash_worker,
    "tui_gateway/host_supervisor.py:HostSupervisor._spawn_locked": compute_host,
    "hermes_cli/kanban_db.py:_default_spawn": kanban_worker,
    "agent/shell_hooks.py:_spawn": shell_hook,
    "agent/skill_preprocessing.py:run_inline_shell": call(
        "agent.skill_preprocessing", "run_inline_shell", NOTE, ROOT, 10
    ),
    "agent/coding_context.py:_git": call("agent.coding_context", "_git", ROOT, "status"),
    "agent/context_references.py:_expand_git_reference": git_reference,
    "agent/context_references.py:_rg_files": call("agent.context_references", "_rg_files", ROOT, ROOT, 5),
    "agent/trace_upload.py:build_trace_jsonl": call(
        "agent.trace_upload", "build_trace_jsonl", [], session_id="s", cwd=str(ROOT)
    ),
    "agent/anthropic_adapter.py:_detect_claude_code_version": call(
        "agent.anthropic_adapter", "_detect_claude_code_version"
    ),
    "agent/transports/codex_app_server.py:check_codex_binary": call(
        "agent.transports.codex_app_server", "check_codex_binary", program("codex")
    ),
    "agent/lsp/client.py:LSPClient._spawn": lsp_server,
    "agent/lsp/install.py:_install_npm": call("agent.lsp.install", "_install_npm", "pkg", "no-such-binary"),
    "agent/lsp/install.py:_install_go": call("agent.lsp.install", "_install_go", "pkg", "no-such-binary"),
    "tools/checkpoint_manager.py:_run_git": lambda: of("tools.checkpoint_manager", "_run_git")(
        ["status"], ROOT / "store", str(ROOT)
    ),
    "tools/env_probe.py:_run": call("tools.env_probe", "_run", [program("uv")]),
    "tools/code_execution_tool.py:_is_usable_python": call(
        "tools.code_execution_tool", "_is_usable_python", program("uv")
    ),
    "tools/environments/local.py:_bash_starts": call("tools.environments.local", "_bash_starts", program("hermes")),
    "tools/environments/base.py:_popen_bash": lambda: of("tools.environments.base", "_popen_bash")(
        [program("docker")]
    ).wait(),
    "tools/environments/docker.py:_ensure_docker_available": call(
        "tools.environments.docker", "_ensure_docker_available"
    ),
    "tools/environments/docker.py:_cgroup_limits_available": call(
        "tools.environments.docker", "_cgroup_limits_available", "image"
    ),
    "tools/environments/docker.py:reap_orphan_containers": call(
        "tools.environments.docker", "reap_orphan_containers", docker_exe=program("docker")
    ),
    "tools/environments/singularity.py:_ensure_singularity_available": call(
        "tools.environments.singularity", "_ensure_singularity_available"
    ),
    "tools/skills_hub.py:GitHubAuth._try_gh_cli": lambda: bare("tools.skills_hub", "GitHubAuth")._try_gh_cli(),
    "tools/terminal_tool.py:_sudo_nopasswd_works": call("tools.terminal_tool", "_sudo_nopasswd_works"),
    "tools/tirith_security.py:_verify_cosign": lambda: of("tools.tirith_security", "_verify_cosign")(
        file("sums"), file("sig"), file("cert")
    ),
    "tools/tts_tool.py:_run_command_tts": call("tools.tts_tool", "_run_command_tts", NOTE, 10),
    "tools/tts_tool.py:_convert_to_opus": lambda: of("tools.tts_tool", "_convert_to_opus")(file("speech.mp3")),
    "tools/transcription_tools.py:_run_command_stt": call("tools.transcription_tools", "_run_command_stt", NOTE, 10),
    "tools/transcription_tools.py:_prepare_local_audio": lambda: of(
        "tools.transcription_tools", "_prepare_local_audio"
    )(file("voice.ogg"), str(ROOT)),
    "tools/vision_tools.py:_rasterize_svg_to_png": lambda: of("tools.vision_tools", "_rasterize_svg_to_png")(
        Path(file("a.svg", b"<svg/>")), ROOT / "a.png"
    ),
    "tools/voice_mode.py:play_audio_file": lambda: of("tools.voice_mode", "play_audio_file")(file("a.mp3")),
    "gateway/run.py:_probe_audio_duration": awaited("gateway.run", "_probe_audio_duration", str(ROOT / "a.ogg")),
    "gateway/platforms/signal.py:_remux_aac_to_m4a": call("gateway.platforms.signal", "_remux_aac_to_m4a", b"aac"),
    "gateway/shutdown_forensics.py:spawn_async_diagnostic": lambda: of(
        "gateway.shutdown_forensics", "spawn_async_diagnostic"
    )(ROOT / "diagnostic.log", "SIGTERM"),
    "hermes_constants.py:node_tool_runnable": call("hermes_constants", "node_tool_runnable", program("npm")),
    "hermes_constants.py:agent_browser_runnable": call(
        "hermes_constants", "agent_browser_runnable", program("agent-browser")
    ),
    "plugins/memory/byterover/__init__.py:_run_brv": call("plugins.memory.byterover", "_run_brv", ["status"]),
    "plugins/platforms/whatsapp/adapter.py:_listener_pids_on_port": call(
        "plugins.platforms.whatsapp.adapter", "_listener_pids_on_port", 1
    ),
    "plugins/platforms/telegram/adapter.py:_probe_voice_duration_seconds": call(
        "plugins.platforms.telegram.adapter", "_probe_voice_duration_seconds", str(ROOT / "a.ogg")
    ),
    "plugins/platforms/discord/voice_mixer.py:decode_to_pcm": call(
        "plugins.platforms.discord.voice_mixer", "decode_to_pcm", str(ROOT / "a.mp3")
    ),
    "plugins/platforms/discord/adapter.py:VoiceReceiver.pcm_to_wav": call(
        "plugins.platforms.discord.adapter", "VoiceReceiver.pcm_to_wav", b"pcm", str(ROOT / "a.wav")
    ),
    "plugins/memory/honcho/client.py:HonchoClientConfig._git_repo_name": call(
        "plugins.memory.honcho.client", "HonchoClientConfig._git_repo_name", str(ROOT)
    ),
    "tui_gateway/git_probe.py:run_git": call("tui_gateway.git_probe", "run_git", str(ROOT), "status"),
    "tui_gateway/server.py:_list_repo_files": call("tui_gateway.server", "_list_repo_files", str(ROOT)),
    "tui_gateway/compute_host.py:_build_sha": call("tui_gateway.compute_host", "_build_sha"),
    "hermes_cli/web_git.py:_git": call("hermes_cli.web_git", "_git", str(ROOT), ["status"]),
    "hermes_cli/web_git.py:_gh": call("hermes_cli.web_git", "_gh", str(ROOT), ["status"]),
    "hermes_cli/kanban_db.py:_git_toplevel": call("hermes_cli.kanban_db", "_git_toplevel", ROOT),
    "hermes_cli/banner.py:_git_stdout": lambda: of("hermes_cli.banner", "_git_stdout")(["log"], cwd=ROOT),
    "hermes_cli/dump.py:_get_git_commit": call("hermes_cli.dump", "_get_git_commit", ROOT),
    "hermes_cli/clipboard.py:_xclip_has_image": call("hermes_cli.clipboard", "_xclip_has_image"),
    "hermes_cli/clipboard.py:_wayland_has_image": call("hermes_cli.clipboard", "_wayland_has_image"),
    "hermes_cli/profiles.py:seed_profile_skills": profile_skills,
}


def run(site: Callable[[], Any]) -> dict[str, Any]:
    """Run *site* as this session, and say what came of it."""
    from hermes_env_bridge import report

    report(reset=True)
    CHILDREN.unlink(missing_ok=True)
    failed = ""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            site()
        except Exception as error:
            failed = f"{type(error).__name__}: {error}"
    seen = report()
    if seen.spawns:
        until_told()
    got = sorted(set(CHILDREN.read_text().splitlines())) if CHILDREN.exists() else []
    # A site that is this program's own is that of the environment's builder.
    leaks = {f"{each.site.file.partition('site-packages/')[2]}:{each.site.function}": each.names for each in seen.sites}
    return {"spawns": seen.spawns, "leaks": leaks, "got": got, "failed": failed}


def main() -> None:
    import hermes_env_bridge

    os.environ["HERMES_HOME"] = str(ROOT / "home")
    (ROOT / "home").mkdir()
    stand_ins()
    session_context = hermes_env_bridge.install()
    hermes_env_bridge.guard("warn", reads="off")
    contextvars.Context().run(session_context.set_current_session_id, OTHERS)
    told = {}

    def turn() -> None:
        session_context.set_session_vars(platform="telegram", chat_id="1", session_key="k", session_id=OURS)
        for name, site in SITES.items():
            if not sys.argv[2:] or name in sys.argv[2:]:
                told[name] = run(site)

    contextvars.Context().run(turn)
    (ROOT / "told.json").write_text(json.dumps(told))
    sys.stdout.flush()
    os._exit(0)  # whatever threads Hermes has started


if __name__ == "__main__":
    main()
