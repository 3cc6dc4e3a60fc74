"""The Transformer against the recurrent model: the same text, the same minutes, BLEU against time.

The clock is that of training: nothing is validated until both are trained. Then the checkpoints next to each mark are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from transduce.bundle import load_weights, read_weights
from transduce.config import Config
from transduce.data.phrasebook import phrases
from transduce.data.preparation import Prepared, recall
from transduce.decode.torch_engine import TorchEngine
from transduce.decode.translator import Translator
from transduce.errors import Interrupted
from transduce.evaluate.bleu import bleu, paper_bleu
from transduce.files import write_json
from transduce.model import Transformer
from transduce.paper import corpora
from transduce.paper.recurrent_training import RecurrentTrainer, new_recurrent, recipe
from transduce.settings import load_config
from transduce.train.progress import Listener
from transduce.train.state import checkpoints, read_state
from transduce.trainer import Trainer, new_model
from transduce.validation import validate

PHRASES = {"train": 20_000, "valid": 500, "test": 1000}  # of the phrasebook, where Multi30k is not at hand
NEVER = 1_000_000_000  # updates


@dataclass(frozen=True)
class Texts:
    """What both are trained, validated and tested on."""

    corpus: corpora.Texts
    test: corpora.Pairs


@dataclass(frozen=True)
class Point:
    """How good a model was after so long."""

    minutes: float
    step: int
    perplexity: float
    bleu: float


@dataclass(frozen=True)
class Curve:
    """What came of one of the two."""

    name: str
    parameters: int
    threads: int
    points: tuple[Point, ...]
    test_bleu: float
    test_paper_bleu: float
    test_signature: str
    averaged_bleu: float | None
    """On the test set, of the bundle in which the last checkpoints are averaged (section 6.1); a GRU has none."""


@dataclass(frozen=True)
class Contender:
    """One of the two: who trains it, who builds it, and the settings that are its own."""

    name: str
    trainer: type[Trainer]
    build: Callable[[Config, Prepared], Transformer]
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Race:
    """A race of `minutes` each, looked at so many times."""

    preset: str
    minutes: float
    marks: int = 5
    settings: tuple[str, ...] = ()

    @property
    def times(self) -> list[float]:
        """The marks, in minutes."""
        return [self.minutes * (mark + 1) / self.marks for mark in range(self.marks)]

    def run(self, texts: Texts, work: Path, listener: Listener) -> tuple[Curve, Curve]:
        """Train both, or go on with what is there; what is finished is read again."""
        slug = texts.corpus.name.casefold().replace(" ", "-")
        directory = work / f"{self.preset}-{slug}-{self.minutes:g}-minutes"
        directory.mkdir(parents=True, exist_ok=True)
        d_model = load_config(preset=self.preset, settings=self.settings).model.d_model
        transformer = Contender("Transformer", Trainer, new_model)
        gru = Contender("GRU", RecurrentTrainer, _recurrent, recipe(d_model))
        return (
            self._curve(transformer, texts, directory, listener),
            self._curve(gru, texts, directory, listener),
        )

    def _curve(self, contender: Contender, texts: Texts, directory: Path, listener: Listener) -> Curve:
        """The curve of one of them, trained and measured unless it was before."""
        name, run = contender.name, directory / contender.name.casefold()
        kept = directory / f"{name.casefold()}.json"
        if kept.is_file():
            return read_curve(kept)
        if (run / "config.toml").is_file():
            trainer = contender.trainer.resume(run, listener=listener)
        else:
            settings = self._settings(contender, texts, directory)
            trainer = contender.trainer(run, preset=self.preset, settings=settings, listener=listener)
        listener.note(f"{name}: {self.minutes:g} minutes of training in {run}")
        try:
            trainer.run()
        except Interrupted as stop:
            message = f"{run}: saved; the same command goes on from there"
            raise Interrupted(message, exit_code=stop.exit_code) from None
        listener.note(f"{name}: measuring {self.marks} checkpoints and the test set")
        curve = measure(contender, run, trainer.config, test=texts.test, times=self.times)
        write_json(kept, asdict(curve))
        return curve

    def _settings(self, contender: Contender, texts: Texts, directory: Path) -> list[str]:
        return [
            *texts.corpus.settings(),
            f"data.store={json.dumps(str((directory / 'data').absolute()))}",
            f"train.minutes={self.minutes}",
            f"train.validate_every={NEVER}",
            f"train.keep={NEVER}",
            *self.settings,
            *contender.settings,
        ]


def measure(contender: Contender, run: Path, config: Config, *, test: corpora.Pairs, times: list[float]) -> Curve:
    """Validation at the checkpoint nearest to each time, greedy as in every run; the test by the last one, by beam."""
    prepared = recall(run)
    model = contender.build(config, prepared).eval().requires_grad_(False)
    points: dict[Path, Point] = {}
    nearest = marked(run / "checkpoints", times)
    for path in dict.fromkeys(nearest):
        state = read_state(path)
        load_weights(model, read_weights(path / "model.safetensors"), where=path)
        found = validate(model, prepared, config, state.step)
        points[path] = Point(state.seconds / 60, state.step, found.perplexity, found.bleu)
    last = checkpoints(run / "checkpoints")[-1]
    load_weights(model, read_weights(last / "model.safetensors"), where=last)
    translator = Translator(TorchEngine(model), prepared.source_codec, prepared.target_codec, config.search)
    texts, references = translations(translator, test), [target for _, target in test]
    averaged = None
    if (run / "model").is_dir():
        averaged = bleu(translations(Translator.load(run, engine="pytorch"), test), references).value
    score = bleu(texts, references)
    return Curve(
        name=contender.name,
        parameters=model.num_parameters(),
        threads=torch.get_num_threads(),
        points=tuple(points[path] for path in nearest),
        test_bleu=score.value,
        test_paper_bleu=paper_bleu(texts, references, language=prepared.target_lang or "en").value,
        test_signature=score.signature,
        averaged_bleu=averaged,
    )


def translations(translator: Translator, test: corpora.Pairs) -> list[str]:
    """Of the sources, by the translator's own search."""
    return [translation.text for translation in translator.translate([source for source, _ in test])]


def marked(directory: Path, times: list[float]) -> list[Path]:
    """The checkpoint nearest to each time, in minutes."""
    minutes = {path: read_state(path).seconds / 60 for path in checkpoints(directory)}
    return [min(minutes, key=lambda path: abs(minutes[path] - time)) for time in times]


def read_curve(path: Path) -> Curve:
    """A curve that was kept."""
    table = json.loads(path.read_text(encoding="utf-8"))
    return Curve(**{**table, "points": tuple(Point(**point) for point in table["points"])})


def find_texts(data: Path, work: Path) -> Texts:
    """Multi30k and its test set of 2016 where they lie, else the embedded phrasebook."""
    found = corpora.multi30k(data)
    sides = tuple(data / "multi30k" / f"test_2016_flickr.{language}.gz" for language in corpora.LANGUAGES)
    if found is not None and all(path.is_file() for path in sides):
        return Texts(found, corpora.read((sides[0], sides[1])))
    found = corpora.phrasebook(work / "phrasebook", train=PHRASES["train"], valid=PHRASES["valid"])
    return Texts(found, [(phrase.source, phrase.target) for phrase in phrases("test", PHRASES["test"])])


def _recurrent(config: Config, prepared: Prepared) -> Transformer:
    return new_recurrent(config, prepared).as_transformer()
