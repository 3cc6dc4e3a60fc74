"""The part of the embedded corpus that the tests' small bundle is trained for."""

from pathlib import Path

from transduce.data.phrasebook import Phrase, Split, phrases

LONGEST = 6  # words: short phrases are learned in seconds


def short_phrases(split: Split, count: int) -> list[Phrase]:
    """The short ones among `count` phrases."""
    return [phrase for phrase in phrases(split, count) if phrase.source.count(" ") < LONGEST]


def write_phrasebook(directory: Path, *, train: int, valid: int) -> None:
    """Files train.en, train.de, valid.en and valid.de."""
    directory.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", train), ("valid", valid)):
        found = short_phrases(split, count)
        (directory / f"{split}.en").write_text("".join(p.source + "\n" for p in found), encoding="utf-8", newline="\n")
        (directory / f"{split}.de").write_text("".join(p.target + "\n" for p in found), encoding="utf-8", newline="\n")
