"""The paper's corpora, fetched by mtdata where there is internet: WMT14, newstest2013 and newstest2014.

News commentary is version 9.1 of OPUS and the UN's texts are MultiUN: the nearest that mtdata has to the files of 2014.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from transduce.errors import CorpusError, MissingExtra
from transduce.paper.corpora import Sides


@dataclass(frozen=True)
class Recipe:
    """What mtdata is asked for, by its own names."""

    languages: tuple[str, str]
    """ISO 639-3, in which mtdata names files."""
    train: tuple[str, ...]
    valid: str
    test: str


RECIPES = {
    "en-de": Recipe(
        ("eng", "deu"),
        (
            "Statmt-europarl_wmt13-7-deu-eng",
            "Statmt-commoncrawl_wmt13-1-deu-eng",
            "OPUS-news_commentary-v9.1-deu-eng",
        ),
        valid="Statmt-newstest-2013-eng-deu",
        test="Statmt-newstest_deen-2014-deu-eng",
    ),
    "en-fr": Recipe(
        ("eng", "fra"),
        (
            "Statmt-europarl_wmt13-7-fra-eng",
            "Statmt-commoncrawl_wmt13-1-fra-eng",
            "OPUS-news_commentary-v9.1-eng-fra",
            "OPUS-multiun-v1-eng-fra",
            "OPUS-giga_fren-v2-eng-fra",
        ),
        valid="Statmt-newstest-2013-eng-fra",
        test="Statmt-newstest_fren-2014-fra-eng",
    ),
}


@dataclass(frozen=True)
class Fetched:
    """Where the parts of a corpus lie."""

    train: Sides
    valid: Sides
    test: Sides

    def missing(self) -> list[Path]:
        """Files that are not there."""
        return [path for path in (*self.train, *self.valid, *self.test) if not path.is_file()]


def arguments(pair: str, out: Path) -> list[str]:
    """What to type: `mtdata` and its arguments. Sentences of the test sets are kept out of training."""
    recipe = RECIPES[pair]
    names = ["--train", *recipe.train, "--dev", recipe.valid, "--test", recipe.test]
    return ["mtdata", "get", "-l", "-".join(recipe.languages), *names, "--merge", "--drop-tests", "-o", str(out)]


def locate(pair: str, out: Path) -> Fetched:
    """Where mtdata puts the parts."""

    def sides(part: str) -> Sides:
        source, target = (out / f"{part}.{language}" for language in RECIPES[pair].languages)
        return source, target

    return Fetched(sides("train"), sides("dev"), sides("test1"))


def fetch(pair: str, out: Path) -> Fetched:
    """Download what is not there yet: gigabytes, for which mtdata shows its own progress."""
    found = locate(pair, out)
    if not found.missing():
        return found
    command = " ".join(arguments(pair, out))
    if find_spec("mtdata") is None:
        raise MissingExtra(f"mtdata is not installed: pip install '.[fetch]' brings it; it would run: {command}")
    try:
        done = subprocess.run([sys.executable, "-m", *arguments(pair, out)], check=False, stdout=sys.stderr)
    except OSError as error:
        raise CorpusError(f"{out}: cannot run mtdata: {error.strerror or error}: by hand: {command}") from None
    if done.returncode != 0:
        ended = f"mtdata ended with exit code {done.returncode}"
        raise CorpusError(f"{out}: {ended}: is there internet? The same command goes on where it was: {command}")
    if missing := found.missing():
        raise CorpusError(f"{missing[0]}: mtdata did not write it: look at what it said, and try by hand: {command}")
    return found


def training(pair: str, out: Path, preset: str) -> str:
    """What to type to train on it with 8 GPUs."""
    found, (source, target) = locate(pair, out), pair.split("-")
    files = f"--source {found.train[0]} --target {found.train[1]}"
    valid = f"--valid-source {found.valid[0]} --valid-target {found.valid[1]}"
    flags = f"--preset {preset} {files} {valid} --source-lang {source} --target-lang {target} --out run-{preset}/"
    return f"torchrun --nproc-per-node 8 -m transduce train {flags}"


def settings(pair: str, fetched: Fetched) -> list[str]:
    """Those of a run on a fetched corpus."""
    files = {"source": fetched.train[0], "target": fetched.train[1]}
    files |= {"valid_source": fetched.valid[0], "valid_target": fetched.valid[1]}
    languages = zip(("source_lang", "target_lang"), pair.split("-"), strict=True)
    return [
        *(f"data.{key}={json.dumps([str(path.absolute())])}" for key, path in files.items()),
        *(f"data.{key}={json.dumps(code)}" for key, code in languages),
    ]
