"""What a user installs: the wheel, in an environment that has never seen the source tree."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import transduce

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(directory),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = directory.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of a new environment that holds the wheel and borrows its dependencies from this one."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    scripts = home / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(scripts / "python")]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", str(wheel)], check=True, capture_output=True)
    (packages,) = home.glob("lib/python*/site-packages")
    # A .pth file inside the borrowed directory is not read, so the editable install there stays out of sight.
    (packages / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return scripts


def run(command: list[str], *, cwd: Path, stdin: str = "") -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(command, cwd=cwd, env=environment, input=stdin, capture_output=True, encoding="utf-8")
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "src" / "transduce"
    files = {str(p.relative_to(ROOT / "src")) for p in package.rglob("*") if p.is_file() and p.suffix != ".pyc"}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == files


def test_the_installed_package_is_the_wheel(installed: Path, tmp_path: Path) -> None:
    found = run([str(installed / "python"), "-c", "import transduce; print(transduce.__file__)"], cwd=tmp_path)
    assert Path(found.strip()).is_relative_to(installed.parent)


def test_the_command_says_its_version_and_its_commands(installed: Path, tmp_path: Path) -> None:
    assert transduce.__version__ in run([str(installed / "transduce"), "--version"], cwd=tmp_path)
    assert "translate" in run([str(installed / "transduce"), "--help"], cwd=tmp_path)


def test_the_installed_command_translates(installed: Path, tmp_path: Path, bundle: Path) -> None:
    source = "a b c\n\nb a\n"
    translated = run([str(installed / "transduce"), "translate", str(bundle)], cwd=tmp_path, stdin=source)
    assert translated.count("\n") == source.count("\n")
