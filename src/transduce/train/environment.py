"""What a run runs on: versions, machine, threads, device. No path, user or host name."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from transduce.config import TrainConfig
from transduce.version import __version__

PACKAGES = ("torch", "numpy", "sentencepiece", "sacrebleu")


def environment(train: TrainConfig) -> dict[str, str]:
    """By name, in the order to be read."""
    commit = package_commit()
    return {
        "transduce": f"{__version__}, commit {commit}" if commit else __version__,
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor(),
        "cores": str(os.cpu_count()),
        **_torch(train),
    }


def package_commit() -> str | None:
    """The commit of the checkout that the package is part of, "-dirty" if changed since; None outside of one."""
    package = Path(__file__).parent.parent
    # an installed package may lie inside another repository, which does not track it
    if _git(package, "ls-files", "--error-unmatch", "version.py") is None:
        return None
    return _git(package, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def _git(directory: Path, *words: str) -> str | None:
    command = ["git", "-C", str(directory), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8", timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def processor() -> str:
    """Its name; with family and model, by which generations differ that virtual machines give one name."""
    facts: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name") or platform.processor() or platform.machine()
    numbers = [f"{key.rpartition(' ')[2]} {facts[key]}" for key in ("cpu family", "model") if facts.get(key)]
    return f"{name} ({', '.join(numbers)})" if numbers else name


def _torch(train: TrainConfig) -> dict[str, str]:
    import torch

    device = train.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    name = f"{device}: {torch.cuda.get_device_name()}" if device == "cuda" else device
    return {"threads": str(torch.get_num_threads()), "device": name, "precision": train.precision}
