"""Starting from a model that is there: its weights, shape and vocabulary, and no need of it afterwards."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import transduce
from test_mistakes import refused
from transduce import Trainer
from transduce.bundle import WEIGHTS, open_bundle, read_weights, unique_weights, weights_digest
from transduce.data.preparation import Prepared, recall
from transduce.errors import ConfigError, CorpusError, Interrupted, RunError
from transduce.model import Transformer
from transduce.settings import make_config, read_toml
from transduce.text import Subwords, Symbols
from transduce.text.codec import UNK
from transduce.train.beginning import GIVEN
from transduce.train.lock import LOCK
from transduce.train.start import START, uncovered
from trials import Recorder, StopAfter, content

RECIPE = [
    "train.batch_tokens=300",
    "train.micro_batch_tokens=150",
    "train.warmup_steps=2",
    "train.learning_rate=0.1",
    "train.threads=1",
    "train.save_every=1",
    "train.validate_every=2",
    "search.extra_length=2",
]
"""With 8 updates, nothing of it is fitted to the budget."""


class Seen(Trainer):
    """Keeps the digest of each new model's weights."""

    digests: list[str]

    def new_model(self, prepared: Prepared) -> Transformer:
        model = super().new_model(prepared)
        self.digests = [*getattr(self, "digests", []), weights_digest(unique_weights(model))]
        return model


def started(out: Path, corpus: Path, start: Path | None, *settings: str, **options: Any) -> Seen:
    files = {"source": corpus / "train.en", "target": corpus / "train.de"}
    return Seen(out, **files, preset="tiny", start=start, settings=[*RECIPE, *settings], **options)


def digest(run: Path) -> str:
    return weights_digest(read_weights(run / "model" / WEIGHTS))


def configuration(run: Path) -> Any:
    return make_config(read_toml(run / "config.toml"), where=str(run))


def fingerprints(holder: Any) -> list[str]:
    return [holder.source_codec.fingerprint(), holder.target_codec.fingerprint()]


def test_the_first_weights_shape_and_vocabulary_are_the_models(
    tmp_path: Path, small_corpus: Path, small_run: Path
) -> None:
    listener = Recorder()
    trainer = started(tmp_path / "run", small_corpus, small_run, "train.steps=2", listener=listener)
    trainer.run()
    before = open_bundle(small_run)
    assert trainer.digests == [digest(small_run)] != [digest(tmp_path / "run")]
    assert fingerprints(recall(tmp_path / "run")) == fingerprints(before)
    config = configuration(tmp_path / "run")
    assert config.train.start == str(small_run)
    assert (config.model.d_model, config.model.d_ff, config.text) == (16, 32, before.config.text)
    assert config.model.dropout == 0.3, "which is the preset's: dropout is no shape"
    after = open_bundle(tmp_path / "run")
    assert (after.source_lang, after.target_lang) == ("en", "de")
    assert any(f"starting from {before.path}" in said for said in listener.said)
    assert not any("single bytes" in said for said in listener.said)


def test_a_run_goes_on_to_the_same_end_when_the_model_is_gone(
    tmp_path: Path, small_corpus: Path, small_run: Path
) -> None:
    start = Path(shutil.copytree(small_run / "model", tmp_path / "base"))
    unbroken = tmp_path / "unbroken"
    started(unbroken, small_corpus, start, "train.steps=8").run()
    listener = StopAfter({3}, signal.SIGINT)
    with pytest.raises(Interrupted):
        started(tmp_path / "stopped", small_corpus, start, "train.steps=8", listener=listener).run()
    unprepared = ("checkpoints", "model", "data", "data.json", "*.jsonl", "*.html")
    shutil.copytree(unbroken, tmp_path / "killed", ignore=shutil.ignore_patterns(*unprepared))
    shutil.rmtree(start)
    for name in ("stopped", "killed"):
        Trainer.resume(tmp_path / name).run()
        assert digest(tmp_path / name) == digest(unbroken), name


@pytest.mark.parametrize("by_file", [False, True])
def test_a_shape_that_the_model_does_not_have_is_refused(
    tmp_path: Path, small_corpus: Path, small_run: Path, by_file: bool
) -> None:
    (tmp_path / "own.toml").write_text("[model]\nd_model = 32\n", encoding="utf-8")
    given: dict[str, Any] = {"config": tmp_path / "own.toml"} if by_file else {}
    settings = [] if by_file else ["model.d_model=32"]
    with pytest.raises(ConfigError, match=r"model: model\.d_model is 16 there, and 32 was set: leave it out"):
        started(tmp_path / "run", small_corpus, small_run, *settings, **given)
    assert not (tmp_path / "run").exists()


def test_what_agrees_with_the_model_may_be_set_and_what_is_learned_may_not(
    tmp_path: Path, small_corpus: Path, small_run: Path
) -> None:
    agreed = ["model.d_model=16", "text.vocabulary=400", "model.dropout=0.05"]
    assert started(tmp_path / "run", small_corpus, small_run, *agreed).config.model.dropout == 0.05
    with pytest.raises(ConfigError, match=r"text\.vocabulary is 400 there, and 500 was set"):
        started(tmp_path / "run", small_corpus, small_run, "text.vocabulary=500")


def test_files_in_other_languages_are_refused_unless_that_is_said(
    tmp_path: Path, small_corpus: Path, small_run: Path
) -> None:
    files = {"source": small_corpus / "train.de", "target": small_corpus / "train.en"}
    with pytest.raises(CorpusError, match=r"from en to de, and the files are de to en: give --source and --target"):
        Trainer(tmp_path / "run", **files, preset="tiny", start=small_run)
    listener, said = Recorder(), ["data.source_lang=de", "data.target_lang=en"]
    Trainer(tmp_path / "run", **files, preset="tiny", start=small_run, settings=said, listener=listener)
    assert any("will be unlearned" in each for each in listener.said)


def test_files_without_a_language_have_the_models(tmp_path: Path, small_corpus: Path, small_run: Path) -> None:
    for name in ("train.en", "train.de"):
        shutil.copy(small_corpus / name, tmp_path / name.replace(".", "-"))
    files = {"source": tmp_path / "train-en", "target": tmp_path / "train-de"}
    config = Trainer(tmp_path / "run", **files, preset="tiny", start=small_run).config
    assert (config.data.source_lang, config.data.target_lang) == ("en", "de")


def test_the_share_of_unknown_tokens_and_bytes_is_counted() -> None:
    symbols = Symbols(["a", "b"])
    assert uncovered(symbols, np.array(symbols.encode("a b c a"))) == 1 / 4
    assert symbols.encode("c") == [UNK]
    learned = Subwords.learn(["ab ba"] * 50, vocabulary=264, seed=1, sample_lines=100).codec
    assert uncovered(learned, np.array(learned.encode("ab ba"))) == 0
    ids = learned.encode("ж")  # a space and two bytes
    assert uncovered(learned, np.array(ids)) == 2 / len(ids)
    assert uncovered(learned, np.array([], dtype=np.uint16)) == 0


def test_text_that_the_vocabulary_hardly_covers_is_warned_of(tmp_path: Path, small_run: Path) -> None:
    for side in ("en", "de"):
        lines = [f"собака {number} видит кошку\n" for number in range(60)]
        (tmp_path / f"train.{side}").write_text("".join(lines), encoding="utf-8")
    listener = Recorder()
    started(tmp_path / "run", tmp_path, small_run, "train.steps=1", listener=listener).run()
    told = [said for said in listener.said if "single bytes" in said]
    assert [said.split()[3] for said in told] == ["source", "target"]


def test_a_vocabulary_alone_goes_to_a_model_of_another_shape(
    tmp_path: Path, small_corpus: Path, small_run: Path
) -> None:
    shape = ["model.d_model=8", "model.d_ff=8", "model.num_heads=1", "model.encoder_layers=1", "model.decoder_layers=1"]
    trainer = started(tmp_path / "run", small_corpus, None, *shape, "train.steps=1", vocabulary_of=small_run)
    trainer.run()
    assert fingerprints(open_bundle(tmp_path / "run")) == fingerprints(open_bundle(small_run))
    config = configuration(tmp_path / "run")
    assert (config.model.d_model, config.train.start, config.text.vocabulary) == (8, None, 400)
    with pytest.raises(ConfigError, match="with its own vocabulary"):
        started(tmp_path / "other", small_corpus, small_run, vocabulary_of=small_run)


def test_what_a_killed_start_had_copied_is_not_taken_for_the_next_ones(
    tmp_path: Path, small_corpus: Path, small_run: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(small_run / "model", out / START)
    whole = content(out)
    with pytest.raises(RunError, match="exists and is not a run"):
        started(out, small_corpus, None)
    assert content(out) == whole, "it may be someone's model"
    (out / LOCK).touch()
    (out / f".{START}.7.tmp").mkdir()
    (out / ".config.toml.7.tmp").touch()
    (out / GIVEN).write_text("half a", encoding="utf-8")
    shape = ["model.d_model=16", "model.d_ff=8", "model.encoder_layers=1", "model.decoder_layers=1"]
    started(out, small_corpus, None, *shape, "text.vocabulary=390", "train.steps=1").run()
    assert open_bundle(out).source_codec.size == 390
    assert not [path.name for path in out.iterdir() if START in path.name or ".7." in path.name or path.name == GIVEN]


def flags(settings: Sequence[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def test_the_command_starts_from_a_run(tmp_path: Path, small_corpus: Path, small_run: Path) -> None:
    files = ("--source", small_corpus / "train.en", "--target", small_corpus / "train.de", "--preset", "tiny")
    ran = transduce("train", "--from", small_run, *files, "--steps", "1", "--out", tmp_path / "run", *flags(RECIPE))
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'run' / 'model'}\n"), ran.err
    assert open_bundle(tmp_path / "run").config.model.d_model == 16
    place = small_corpus.parent
    told = refused(place, "--quiet", "train", "--from", place / "none", *files, "--out", place / "b")
    assert "none: no such directory: give a run or a bundle" in told
    told = refused(place, "train", "--from", small_run, "--resume", tmp_path / "run")
    assert "--resume takes its settings from the run" in told
