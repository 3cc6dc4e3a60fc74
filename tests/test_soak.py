"""Faults that take minutes to try: `make soak`."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from short_phrases import short_phrases
from test_training import SMALL, bundle_digest
from transduce import Translator

KILLS = 8


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_killed_at_random_instants_ends_as_an_unbroken_one(tmp_path: Path, phrasebook: Path) -> None:
    flags = [flag for setting in [*SMALL, "train.steps=800"] for flag in ("--set", setting)]
    files = ["--source", str(phrasebook / "train.en"), "--target", str(phrasebook / "train.de")]
    command = [sys.executable, "-m", "transduce", "--quiet", "train"]

    def start(out: Path) -> list[str]:
        return [*command, *files, "--preset", "tiny", *flags, "--out", str(out)]

    subprocess.run(start(tmp_path / "unbroken"), check=True)
    broken, generator, kills = tmp_path / "broken", random.Random(1), 0
    while not (broken / "model" / "manifest.json").is_file():
        resumable = (broken / "config.toml").is_file()
        with subprocess.Popen([*command, "--resume", str(broken)] if resumable else start(broken)) as process:
            try:
                process.wait(timeout=generator.uniform(2, 4) if kills < KILLS else None)
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
    assert kills == KILLS
    assert bundle_digest(broken) == bundle_digest(tmp_path / "unbroken")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("tokens", [1, 300, 4096])
def test_two_thousand_sentences_do_not_depend_on_their_batches(bundle: Path, tokens: int) -> None:
    sources = [phrase.source for phrase in short_phrases("test", 11_000)][:2000]
    assert len(sources) == 2000
    translator = Translator.load(bundle)
    expected = {source: t.text for source, t in zip(sources, translator.translate(sources), strict=True)}
    shuffled = random.Random(tokens).sample(sources, len(sources))
    translator.search = translator.search.model_copy(update={"batch_tokens": tokens})
    found = translator.translate(shuffled)
    same = sum(expected[source] == t.text for source, t in zip(shuffled, found, strict=True))
    assert same >= 0.999 * len(sources)
