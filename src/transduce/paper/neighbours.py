"""Nearest neighbours among embeddings: which words a model takes for alike, within a language and across.

Both languages share one matrix here, as in the paper. A word counts if it is one subword by itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from transduce.data.phrasebook import Phrase
from transduce.decode.translator import Translator
from transduce.paper.result import Table
from transduce.text import Codec

SHOWN, NEAREST, AMONG = 12, 4, 5
LETTERS = 4  # a word that is shown has at least so many


def dictionary(phrases: Sequence[Phrase]) -> dict[str, str]:
    """Each English word with the German word that it is most often aligned to, the most frequent words first."""
    together: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for phrase in phrases:
        source, target = (text.split() for text in (phrase.source, phrase.target))
        for here, there in phrase.alignment:
            pair = (source[here].strip(".,?!"), target[there].strip(".,?!"))
            if all(word.isalpha() for word in pair):
                together[pair[0]][pair[1]] += 1
    often = sorted(together.items(), key=lambda item: (-item[1].total(), item[0]))
    return {word: max(found.items(), key=lambda item: (item[1], item[0]))[0] for word, found in often}


def neighbours(translator: Translator, phrases: Sequence[Phrase]) -> dict[str, Any]:
    """The nearest English and German words of some English ones by the cosine, and how often that is a translation."""
    pairs = {
        english: german
        for english, german in dictionary(phrases).items()
        if _is_one_subword(translator.source_codec, english) and _is_one_subword(translator.target_codec, german)
    }
    if not pairs:
        return {"words": 0}
    english, german = list(pairs), sorted(set(pairs.values()))
    weights = translator.reference.model.target_embedding.tokens.weight.detach()
    here = _directions(weights, translator.source_codec, english)
    there = _directions(weights, translator.target_codec, german)
    within, across = here @ here.T, here @ there.T
    ranked = [[german[place] for place in row] for row in across.argsort(dim=1, descending=True).tolist()]
    first = [row[0] == pairs[word] for word, row in zip(english, ranked, strict=True)]
    among = [pairs[word] in row[:AMONG] for word, row in zip(english, ranked, strict=True)]
    shown = [number for number, word in enumerate(english) if len(word) >= LETTERS][:SHOWN]
    return {
        "words": len(english),
        "candidates": len(german),
        "first": sum(first) / len(english),
        "among": sum(among) / len(english),
        "examples": [
            [english[n], pairs[english[n]], _nearest(within[n], english, but=english[n]), _nearest(across[n], german)]
            for n in shown
        ],
    }


def _is_one_subword(codec: Codec, word: str) -> bool:
    return len(codec.encode(word)) == 1


def _directions(weights: torch.Tensor, codec: Codec, words: Sequence[str]) -> torch.Tensor:
    ids = torch.tensor([codec.encode(word)[0] for word in words])
    return torch.nn.functional.normalize(weights[ids], dim=1)


def _nearest(cosines: torch.Tensor, words: Sequence[str], but: str = "") -> str:
    order = [(words[n], cosines[n].item()) for n in cosines.argsort(descending=True).tolist() if words[n] != but]
    return ", ".join(f"{word} {cosine:.2f}" for word, cosine in order[:NEAREST])


def neighbour_parts(found: Mapping[str, Any]) -> list[str | Table]:
    """Examples, and how often the nearest German word of an English one is its translation."""
    title = "## Which words are alike to the model?"
    if not found["words"]:
        return [title, "No word and its translation are one subword each: the vocabulary is too small to tell."]
    chance = 1 / found["candidates"]
    text = (
        "Both languages and the output share one matrix (section 3.4), so that words of both are points in one space. "
        f"Of {found['words']} English words that are one subword and most often aligned to a German one that is too, "
        f"the nearest German word is that translation for {found['first']:.0%}, and the translation is among the "
        f"{AMONG} nearest for {found['among']:.0%}; by chance that would be {chance:.1%} and {AMONG * chance:.1%}. "
        "The paper prints nothing of the kind."
    )
    heading = ["word", "aligned to", "nearest English words (cosine)", "nearest German words (cosine)"]
    return [
        title,
        text,
        Table("neighbours", heading, found["examples"]),
    ]
