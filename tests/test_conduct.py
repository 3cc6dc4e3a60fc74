"""How the command behaves in a shell: streams, signals, pipes, exit codes, help and completion."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from command import ENVIRONMENT, command, spawn, transduce
from transduce.bundle import read_manifest
from transduce.cli import app
from transduce.cli.lines import open_output
from transduce.errors import UserError

COMMANDS = [each.name or each.callback.__name__ for each in app.registered_commands if each.callback]
SCRIPT = Path(sysconfig.get_path("scripts")) / "transduce"
HEAVY = ("torch", "numpy", "fastapi", "ctranslate2", "matplotlib")
COLOUR = re.compile(r"\x1b\[(\d+;)*[349]\d(;\d+)*m")


def start(*arguments: str | Path, **streams: int) -> subprocess.Popen[bytes]:
    wanted = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    # a shell that runs the tests in the background lets its children ignore SIGINT: heed it again
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        command(*arguments),
        env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **wanted,
    )


def broken_pipe() -> int:
    """A pipe to write to, whose reader has gone away."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def test_help_imports_nothing_heavy_and_shows_an_example() -> None:
    code = """
import io, json, sys
from contextlib import redirect_stdout
from transduce.cli import main

pages = {}
for words in json.loads(sys.argv[1]):
    sys.argv = ["transduce", *words, "--help"]
    with redirect_stdout(io.StringIO()) as page:
        try:
            main()
        except SystemExit as end:
            assert end.code == 0
    pages[" ".join(words)] = page.getvalue()
heavy = [name for name in json.loads(sys.stdin.read()) if name in sys.modules]
print(json.dumps([pages, heavy]))
"""
    words = json.dumps([[], *([name] for name in COMMANDS)])
    run = subprocess.run(
        [sys.executable, "-c", code, words], input=json.dumps(HEAVY), capture_output=True, check=True, encoding="utf-8"
    )
    pages, heavy = json.loads(run.stdout)
    assert heavy == []
    assert len(pages) == len(COMMANDS) + 1
    for name, page in pages.items():
        assert f"Example: transduce {name}" in page
    assert all(name in pages[""] for name in COMMANDS)


def test_the_module_runs_as_the_command_does() -> None:
    from transduce import __version__

    assert spawn("--version").out == transduce("--version").out == f"transduce {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bogus"], "No such option: --bogus"),
        (["trian"], "Did you mean 'train'?"),
        (["train", "--stpes", "3"], "--steps"),
        (["translate"], "Missing argument 'model'"),
        (["train", "--steps", "many"], "Invalid value for '--steps'"),
        (["translate", "x", "--beam", "0"], "Invalid value for '--beam'"),
        (["translate", "x", "--alpha", "nan"], "Invalid value for '--alpha'"),
        (["config", "extra"], "unexpected extra argument"),
        (["train", "--out"], "requires an argument"),
    ],
    ids=" ".join,
)
def test_a_wrong_option_is_answered_on_stderr(arguments: list[str], message: str) -> None:
    ran = transduce(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_more_alternatives_than_the_beam_has_are_refused(bundle: Path) -> None:
    ran = transduce("translate", bundle, "--beam", "2", "--n-best", "3", stdin=b"a\n")
    assert (ran.code, ran.out) == (2, "")
    assert "3 is more than the beam: raise --beam" in ran.err


def test_no_arguments_show_the_help() -> None:
    ran = transduce()
    assert ran.code == 2
    assert "Usage: transduce [OPTIONS] COMMAND" in ran.out


@pytest.mark.parametrize(("begun", "offered"), [("tr", {"train", "translate"}), ("", set(COMMANDS)), ("x", set())])
def test_the_shell_completes_commands(begun: str, offered: set[str]) -> None:
    request = {"_TRANSDUCE_COMPLETE": "complete_bash", "COMP_WORDS": f"transduce {begun}", "COMP_CWORD": "1"}
    ran = subprocess.run([SCRIPT], env=ENVIRONMENT | request, capture_output=True, check=True, encoding="utf-8")
    assert set(ran.stdout.split()) == offered


def test_completion_is_shown_for_the_shell_in_use() -> None:
    ran = subprocess.run(
        ["bash", "-c", f"{SCRIPT} --show-completion; exit $?"], env=ENVIRONMENT, capture_output=True, encoding="utf-8"
    )
    assert ran.returncode == 0, ran.stderr
    assert "complete -o default -F _transduce_completion transduce" in ran.stdout
    assert "--install-completion" in transduce("--help").out


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["config"], ["config", "--presets"], ["train", "--help"]])
def test_a_reader_that_went_away_is_no_failure(words: list[str]) -> None:
    writer = broken_pipe()
    process = start(*words, stdout=writer)
    os.close(writer)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")


def test_a_reader_that_takes_one_line_is_no_failure(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"The dog sees a bird.\n" * 6000)
    process = start("translate", bundle, tmp_path / "in", "--beam", "1")
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline().endswith(b"\n")
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr.read() == b""
    process.communicate()


@pytest.fixture
def noisy(tmp_path: Path) -> list[str | Path]:
    """A command that warns on stderr."""
    (tmp_path / "text").write_bytes(b"bad \xff bytes\n")
    return ["--quiet", "evaluate", "--hypothesis", tmp_path / "text", "--reference", tmp_path / "text"]


def test_a_listener_on_stderr_that_went_away_is_no_failure(noisy: list[str | Path]) -> None:
    writer = broken_pipe()
    process = start(*noisy, stderr=writer)
    os.close(writer)
    process.communicate()
    assert process.returncode == 0


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        process = start("config", stdout=full.fileno())
        _, err = process.communicate()
    assert (process.returncode, err) == (2, b"transduce: No space left on device\n")


def test_a_full_disk_under_a_translation_names_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=Full()))
    with pytest.raises(UserError, match="stdout: cannot write: No space left on device"), open_output(None) as out:
        out.write(b"x")


@pytest.mark.parametrize(("redirection", "message"), [("<&-", "stdin is closed"), (">&-", "stdout is closed")])
def test_a_closed_stream_is_one_line(bundle: Path, redirection: str, message: str) -> None:
    shell = ["bash", "-c", f'"$@" {redirection}', "bash", *command("translate", bundle)]
    run = subprocess.run(shell, env=ENVIRONMENT, input=b"a\n", capture_output=True)
    assert run.returncode == 2
    assert re.fullmatch(rf"transduce: {message}.*\n", run.stderr.decode())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_translation_with_its_own_exit_code(bundle: Path, tmp_path: Path, number: int) -> None:
    process = start("translate", bundle, "--output", tmp_path / "out")
    while not list(tmp_path.iterdir()):  # the output is begun, and the command waits for input
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (128 + number, b"", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_training_that_has_saved(phrasebook: Path, tmp_path: Path, number: int) -> None:
    shape = ("model.d_model=16", "model.d_ff=16", "model.encoder_layers=1", "model.decoder_layers=1")
    recipe = ("train.steps=100000", "train.validate_every=100000", "train.save_every=20", "train.threads=1")
    sets = [part for setting in (*shape, *recipe, "text.vocabulary=400") for part in ("--set", setting)]
    files = ("--source", phrasebook / "valid.en", "--target", phrasebook / "valid.de", "--out", tmp_path / "run")
    process = start("--verbose", "train", *files, "--preset", "tiny", *sets)
    assert process.stderr
    while b"saved step-" not in (line := process.stderr.readline()):
        assert line
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out) == (128 + number, b"")
    found = re.search(rb"transduce: SIG(INT|TERM): saved at step (\d+)", err)
    assert found, err
    assert b"Traceback" not in err
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert newest.name == f"step-{int(found[2]):08d}"
    read_manifest(newest)


BUG = """
import sys
from transduce import settings
from transduce.cli import main

def presets():
    raise ZeroDivisionError("ours")

settings.presets = presets
main()
"""


def test_a_bug_of_ours_is_a_traceback_and_exit_code_1() -> None:
    run = subprocess.run([sys.executable, "-c", BUG, "config"], capture_output=True, encoding="utf-8", env=ENVIRONMENT)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("Traceback")
    assert run.stderr.endswith("ZeroDivisionError: ours\n")


def test_a_mistake_of_the_users_is_one_line_and_with_verbose_a_traceback_above_it() -> None:
    plain = transduce("translate", "nowhere")
    verbose = transduce("--verbose", "translate", "nowhere")
    assert (plain.code, plain.out) == (verbose.code, verbose.out) == (2, "")
    assert plain.err == "transduce: nowhere: no such directory: give a run or a bundle\n"
    assert verbose.err.startswith("Traceback")
    assert verbose.err.endswith(plain.err)


def test_a_message_is_one_line_whatever_it_names() -> None:
    ran = transduce("translate", "no\nwhere")
    assert ran.err == "transduce: no where: no such directory: give a run or a bundle\n"


@pytest.mark.parametrize("no_color", [True, False])
def test_no_color_is_heeded_in_a_terminal(noisy: list[str | Path], no_color: bool) -> None:
    terminal, side = pty.openpty()
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    if no_color:
        environment["NO_COLOR"] = "1"
    subprocess.run(command(*noisy), env=environment, stdout=subprocess.DEVNULL, stderr=side, check=True)
    os.close(side)
    shown = os.read(terminal, 10_000).decode()
    os.close(terminal)
    assert "warning:" in shown
    assert bool(COLOUR.search(shown)) is not no_color
