"""From lines of text to what is searched for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from transduce.decode.glossary import Glossary, phrase
from transduce.decode.hypothesis import Request
from transduce.decode.splitting import split_long
from transduce.errors import UserError
from transduce.text.codec import Codec


@dataclass(frozen=True)
class Plan:
    """What a line is translated by: a request for each part of it, none for a blank one, or why it cannot be."""

    requests: tuple[Request, ...] = ()
    terms: tuple[str, ...] = ()
    """What the output must contain."""
    error: str | None = None

    @property
    def unmet(self) -> str:
        """What to say when a search found nothing."""
        asked = f" with {', '.join(map(repr, self.terms))}" if self.terms else ""
        return f"no output{asked} was found within the length limit: raise search.extra_length, or ask for less"


@dataclass(frozen=True)
class Planner:
    """Both codecs, the longest line in tokens that is taken whole, and who hears of longer ones."""

    source_codec: Codec
    target_codec: Codec
    max_input: int
    warn: Callable[[str], None]

    def plans(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str],
        glossary: Glossary | None,
        *,
        first_line: int = 1,
        token_scores: bool = False,
    ) -> Iterator[Plan]:
        """What to search for, line by line; a prefix is how the first part of its line begins."""
        encoded = self.source_codec.encode_many(lines)
        for number, (line, prefix, ids) in enumerate(zip(lines, prefixes, encoded, strict=True), first_line):
            texts, parts = self._parts(line, ids, number)
            start = tuple(self.target_codec.encode(prefix.rstrip())) if prefix else ()
            requests = [
                Request(tuple(part), prefix=() if place else start, token_scores=token_scores)
                for place, part in enumerate(parts)
            ]
            yield Plan(tuple(requests)) if glossary is None else self._bind(glossary, line, texts, requests)

    def _parts(self, line: str, ids: list[int], number: int) -> tuple[list[str], list[list[int]]]:
        """The texts and ids of a line, cut where it is too long."""
        if not line.strip():
            return [], []
        if len(ids) <= self.max_input:
            return [line], [ids]
        texts = split_long(line, self.source_codec, self.max_input)
        self.warn(f"line {number}: {len(ids)} tokens, over {self.max_input}: translated in {len(texts)} parts")
        return texts, self.source_codec.encode_many(texts)

    def _bind(self, glossary: Glossary, line: str, texts: list[str], requests: list[Request]) -> Plan:
        """Ask for the terms of each part."""
        try:
            terms = [glossary.matches(text) for text in texts]
            known = [term for part in terms for term in part]
            for term in glossary.matches(line):
                if term not in known:
                    raise UserError(f"the glossary's {term.source!r} is cut in two where the line is: shorten the line")
            phrases = [tuple(phrase(self.target_codec, term.target) for term in part) for part in terms]
        except UserError as error:
            return Plan(error=str(error))
        asked = (replace(request, phrases=each) for request, each in zip(requests, phrases, strict=True))
        return Plan(tuple(asked), tuple(dict.fromkeys(term.target for term in known)))
