"""`transduce serve` as a process: the URL, keys that are read again, signals, and mistakes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from command import ENVIRONMENT
from random_bundle import random_bundle
from serving import PATIENCE, until
from transduce.errors import UserError
from transduce.serve.app import create_app
from transduce.serve.settings import Served, Settings

PROGRAM = """
from transduce.cli import app, main
from transduce.cli.serve import serve
if not any(each.callback is serve for each in app.registered_commands):
    app.command()(serve)
main()
"""


@contextmanager
def serving(*flags: str | Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-c", PROGRAM, "serve", "--port", "0", *map(str, flags)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def translate(url: str, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(url + "api/translate", json={"text": "a b c"}, headers=headers, timeout=PATIENCE).status_code


def test_a_server_starts_reads_its_keys_again_and_leaves(tmp_path: Path) -> None:
    random_bundle(tmp_path / "bundle")
    keys = tmp_path / "keys"
    keys.write_text("old\n", encoding="utf-8")
    with serving("--pair", f"en-de={tmp_path / 'bundle'}", "--api-keys", keys) as (url, process):
        assert httpx.get(url + "api/models", timeout=PATIENCE).json()[0]["engine"] == "ctranslate2"
        assert (translate(url, "old"), translate(url, "new")) == (200, 403)
        keys.write_text("new\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        until(lambda: translate(url, "new") == 200)
        assert translate(url, "old") == 403
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "POST /api/translate 200" in said
    assert "Traceback" not in said


def test_a_mistake_is_one_line_and_exit_code_2() -> None:
    with serving() as (url, process):
        _, said = process.communicate(timeout=PATIENCE)
    assert (url, process.returncode) == ("", 2)
    assert said == "transduce: no model to serve: give a run, or --pair en-de=run/\n"


def test_mistakes_are_told_before_a_model_is_loaded(tmp_path: Path) -> None:
    random_bundle(tmp_path / "bundle")
    silent, pair = Served((tmp_path / "bundle",)), Served((tmp_path / "bundle",), "en", "de")
    for settings, named in (
        (Settings(models=(silent,)), "--pair en-de="),
        (Settings(models=(Served((tmp_path / "nowhere",)),)), "no such directory"),
        (Settings(models=(pair,), api_keys=tmp_path / "nowhere"), "--api-keys"),
    ):
        with pytest.raises(UserError, match=named):
            create_app(settings)
    assert not (tmp_path / "bundle" / "ctranslate2").exists()


def test_help_loads_neither_torch_nor_the_server() -> None:
    program = "import sys, transduce.cli.serve; print([m for m in ('torch', 'fastapi', 'uvicorn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
