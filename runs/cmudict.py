"""The published pronouncer: CMUdict's standard split, 110 minutes of one core.

    python -m runs.cmudict --work DIRECTORY
    python -m runs.cmudict --work DIRECTORY --set search.beam=8

The second form tries a setting: it tells the error rates of the development words and leaves the test words alone.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from runs.command import Order, obey
from runs.recipe import Recipe, files, outputs
from runs.record import Record, budget, section, write_record
from transduce.data.corpus import Corpus, read_pairs
from transduce.evaluate.phonemes import PronunciationScore, pronunciation_score, pronunciations
from transduce.paper.result import Table

NAME, PRESET = "cmudict", "pronounce"
SETTINGS = (
    "train.minutes=110",
    "train.threads=1",
    "train.precision=bfloat16",
    "train.cooldown=0.5",
    "train.ema=0.999",
    "train.average=best_bleu",
    "search.beam=8",
)
PUBLISHED = (
    ("Phonetisaurus, a WFST", "24.4", ""),
    ("Transformer, 3 layers, d_model 256 (tensor2tensor)", "20.6", ""),
    ("Transformer, 4 + 4 layers (Yolchuyeva et al. 2019)", "22.1", "5.23"),
)
TEXT = (
    "{words:,} test words of the standard split, no stress marks; [pronouncing.md](pronouncing.md) says how they are "
    "scored. The first two are from the README of GitHub cmusphinx/g2p-seq2seq, the third is quoted from memory. The "
    "test words are scored once for each model that is published: the one before this, of 60 minutes with dropout 0.25 "
    "and without a cool-down, had a WER of 25.15."
)


def publish(order: Order) -> None:
    """Train, score the development words, and, if nothing is only tried, the test words."""
    recipe = Recipe(NAME, PRESET, SETTINGS, order.tried)
    data = order.data / "cmudict"
    named = files(pairs=data / "train.tsv.gz", valid_pairs=data / "dev.tsv.gz")
    run = recipe.train(order.work, named, order.listener)
    dev = score(order, run, "dev", recipe)
    order.listener.note(f"development words: {dev}")
    if order.tried:
        return
    test = score(order, run, "test", recipe)
    found = {part: {**asdict(each), "wer": each.wer, "per": each.per} for part, each in (("dev", dev), ("test", test))}
    record = write_record(order.results, NAME, run, search=recipe.search, scores=found)
    order.listener.note(show(record))


def score(order: Order, run: Path, part: str, recipe: Recipe) -> PronunciationScore:
    """WER and PER of one part's words, each pronounced once."""
    dictionary = Corpus(pairs=(order.data / "cmudict" / f"{part}.tsv.gz",))
    known = pronunciations((pair.source, pair.target) for pair in read_pairs(dictionary))
    return pronunciation_score(outputs(order.work, run, list(known), recipe.search), list(known.values()))


def show(record: Record) -> str:
    """The result for docs/results.md."""
    dev, test = (record["scores"][part] for part in ("dev", "test"))
    ours = ["ours", f"{test['wer']:.2f}", f"{test['per']:.2f}"]
    other = [f"ours, {dev['words']:,} development words", f"{dev['wer']:.2f}", f"{dev['per']:.2f}"]
    table = Table(NAME, ["", "WER", "PER"], [*PUBLISHED, ours, other])
    title = f"CMUdict, pronunciations, {budget(record)}"
    return section(record, title=title, text=TEXT.format(words=test["words"]), table=table)


if __name__ == "__main__":
    obey(__doc__, publish)
