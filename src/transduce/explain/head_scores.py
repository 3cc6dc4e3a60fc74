"""What a head does, in numbers from 0 to 1: how much of its weight falls where a task would have it.

A task is a list of links: a query, and the keys that it ought to look at. numpy only.
L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from transduce.data.phrasebook import Phrase
from transduce.data.verbs import MAKE

Floats = NDArray[np.float64]
Link = tuple[int, tuple[int, ...]]
"""A query and the keys that it ought to look at."""

FAR = 3
"""Words that are at least so many places apart are far from each other."""
CLAUSE_END = ".,;:?!"


def on_links(weights: NDArray[np.floating], links: Iterable[Link]) -> list[Floats]:
    """How much the query of each link gives to its keys, for every head: LH."""
    return [np.asarray(weights[:, :, query, list(keys)].sum(axis=-1), dtype=np.float64) for query, keys in links]


def at_distance(queries: int, keys: int, distance: int) -> list[Link]:
    """Every query with the key so many places further on, or before it if negative."""
    return [(query, (query + distance,)) for query in range(queries) if 0 <= query + distance < keys]


def far_away(words: int) -> list[Link]:
    """Every word with all that are far from it."""
    links = [(query, tuple(key for key in range(words) if abs(key - query) >= FAR)) for query in range(words)]
    return [(query, keys) for query, keys in links if keys]


def dependencies(phrase: Phrase) -> list[Link]:
    """Source words far from each other that belong together, the earlier with the later one.

    "make" with "more difficult", as in the paper's Figure 3, and the parts of a verb that German says in one word:
    "did ... see".
    """
    words = [word.strip(CLAUSE_END).lower() for word in phrase.source.split(" ")]
    by_target: dict[int, list[int]] = {}
    for here, there in phrase.alignment:
        by_target.setdefault(there, []).append(here)
    links: set[Link] = {
        (early, (late,))
        for together in by_target.values()
        for early in together
        for late in together
        if late - early >= FAR
    }
    forms = {MAKE.english, MAKE.third, MAKE.past, MAKE.participle}
    for place in (place for place, word in enumerate(words) if word in forms):
        for more in (place + FAR, place + FAR + 1):  # behind "the way", or a noun of two words
            if words[more : more + 1] == ["more"]:
                links.add((place, (more, more + 1)))
    return sorted(links)


def turned(links: Iterable[Link]) -> list[Link]:
    """The same links from their keys' side."""
    return [(key, (query,)) for query, keys in links for key in keys]


def antecedent(phrase: Phrase) -> list[Link]:
    """The pronoun with the noun that it stands for, in the source."""
    return [(phrase.pronoun.source, (phrase.pronoun.antecedent,))] if phrase.pronoun else []


def translated_antecedent(phrase: Phrase) -> list[Link]:
    """The step that chooses the pronoun's translation, with the noun in what was read so far: behind the start."""
    if phrase.pronoun is None:
        return []
    nouns = tuple(there + 1 for here, there in phrase.alignment if here == phrase.pronoun.antecedent)
    return [(phrase.pronoun.target, nouns)]


def antecedent_across(phrase: Phrase) -> list[Link]:
    """The step that chooses the pronoun's translation, with the noun in the source."""
    return [(phrase.pronoun.target, (phrase.pronoun.antecedent,))] if phrase.pronoun else []


def alignment(phrase: Phrase) -> list[Link]:
    """Each target word with the source words that it translates."""
    wanted: dict[int, tuple[int, ...]] = {}
    for here, there in phrase.alignment:
        wanted[there] = (*wanted.get(there, ()), here)
    return sorted(wanted.items())


def clauses(words: Sequence[str]) -> list[int]:
    """The number of each word's clause; clauses are what punctuation separates."""
    ends = [word[-1:] in CLAUSE_END and bool(word) for word in words]
    return [sum(ends[:place]) for place in range(len(words))]


def structure(sentences: Sequence[tuple[NDArray[np.floating], Sequence[int]]]) -> Floats:
    """How much more of a head's weight stays within the query's clause than its distances alone explain: LH.

    `sentences` are weights (LHWW) over words, and the clause of each word; columns beyond the words, such as the end
    token's, belong to no clause. A head that looks at the word before has 0, however local it is, as has one that looks
    everywhere alike; one that never leaves the clause has 1.
    """
    profile = _by_distance(sentences)
    reach = profile.shape[-1] // 2
    within = expected = np.zeros(profile.shape[:2])
    queries = 0
    for weights, clause in sentences:
        size = len(clause)
        own = weights[:, :, :size, :size]
        place = np.arange(size)
        blind = profile[:, :, place[None, :] - place[:, None] + reach]  # LHWW: by distance alone
        total = blind.sum(axis=-1, keepdims=True)
        blind = np.divide(blind, total, out=np.zeros_like(blind), where=total > 0) * own.sum(axis=-1, keepdims=True)
        inside = np.equal.outer(clause, clause)
        within = within + (own * inside).sum(axis=(-2, -1))
        expected = expected + (blind * inside).sum(axis=(-2, -1))
        queries += size
    room = queries - expected
    return np.divide(within - expected, room, out=np.zeros_like(room), where=room > 1e-9)


def _by_distance(sentences: Sequence[tuple[NDArray[np.floating], Sequence[int]]]) -> Floats:
    """Each head's mean weight at every distance from -(longest - 1) to longest - 1."""
    longest = max((len(clause) for _, clause in sentences), default=1)
    heads = sentences[0][0].shape[:2] if sentences else (0, 0)
    sums, counts = np.zeros((*heads, 2 * longest - 1)), np.zeros(2 * longest - 1)
    for weights, clause in sentences:
        for distance in range(1 - len(clause), len(clause)):
            along = np.diagonal(weights[:, :, : len(clause), : len(clause)], distance, axis1=-2, axis2=-1)
            sums[:, :, distance + longest - 1] += along.sum(axis=-1)
            counts[distance + longest - 1] += along.shape[-1]
    return np.asarray(sums / np.maximum(counts, 1))
