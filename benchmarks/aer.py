"""Alignment error on the phrasebook, whose true alignments are known: `python -m benchmarks.aer RUN`.

Each layer's cross-attention by itself, at the step that produces a word and at the one that reads it, beside the rule
of `decode/alignment.py` and a diagonal.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from transduce import Translator
from transduce.data.phrasebook import phrases
from transduce.decode.alignment import Alignment, align_lines, cross_attention, words
from transduce.evaluate.alignment import Reference, alignment_error, diagonal

PHRASES = 1000  # of the test split


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aer", description=__doc__)
    parser.add_argument("run", type=Path, help="a run or bundle trained on the phrasebook, as by `make demo`")
    translator = Translator.load(parser.parse_args().run, engine="pytorch")
    found = phrases("test", PHRASES)
    references = [Reference.of(phrase.alignment) for phrase in found]
    source, target = [phrase.source for phrase in found], [phrase.target for phrase in found]
    table = layers(translator, source, target)
    table["the rule"] = [alignment.links for alignment in align_lines(translator, source, target)]
    for name, links in table.items():
        print(f"{name:32} {alignment_error(links, references)}")


def layers(translator: Translator, sources: list[str], targets: list[str]) -> dict[str, list[list[tuple[int, int]]]]:
    """The links of each pair, by where they come from."""
    table: dict[str, list[list[tuple[int, int]]]] = {}
    codecs = translator.source_codec, translator.target_codec
    for lines in zip(sources, targets, strict=True):
        ids = codecs[0].encode(lines[0]), codecs[1].encode(lines[1])
        groups = [words(codec, side) for codec, side in zip(codecs, ids, strict=True)]
        table.setdefault("diagonal", []).append(list(diagonal(*map(len, groups))))
        for number, layer in enumerate(cross_attention(translator.reference, [ids]), 1):
            steps = layer[0, :, : len(ids[0])]
            for name, rows in (("produces", steps[:-1]), ("reads", steps[1:])):
                links = Alignment(rows).merge(*groups).links
                table.setdefault(f"layer {number}, the step that {name}", []).append(list(links))
    return table


if __name__ == "__main__":
    main()
