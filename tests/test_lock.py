"""Two processes never train in one run, and one that was killed holds nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from transduce.errors import RunError
from transduce.train.beginning import refuse_other_run
from transduce.train.lock import LOCK, locked

HOLD = "import sys, time; from pathlib import Path; from transduce.train.lock import locked\n"
HOLD += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"


def test_who_comes_second_is_told_who_holds_the_run(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunError, match=f"process {holder.pid} is training in it"), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with locked(tmp_path):
            assert (tmp_path / LOCK).read_text(encoding="utf-8") == f"{os.getpid()}\n"


def test_a_run_can_be_locked_again_and_a_lock_alone_is_no_run(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path), pytest.raises(RunError), locked(tmp_path):
            pass
    refuse_other_run(tmp_path)
    (tmp_path / "mine").touch()
    with pytest.raises(RunError, match="is not a run"):
        refuse_other_run(tmp_path)
