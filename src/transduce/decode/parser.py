"""Sentences in, trees out: a model that was trained on a treebank, and search that keeps to trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.bundle import load_model, open_bundle
from transduce.config import SearchConfig
from transduce.decode.engine import go_on
from transduce.decode.hypothesis import Request
from transduce.decode.well_formed import Grammar
from transduce.errors import ConfigError, UserError
from transduce.text.codec import Codec
from transduce.text.trees import Tree, restore

if TYPE_CHECKING:
    from transduce.decode.torch_engine import TorchEngine

BRACKETS = {"(": "-LRB-", ")": "-RRB-"}
"""How the treebanks write them, as brackets mean trees."""
AGAINST_TREES = ("no_repeat", "min_length")
"""Settings that can leave no tree."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Parse:
    """What became of a line: its best tree; none for a line without words, or where `error` says why."""

    words: tuple[str, ...]
    tree: Tree | None = None
    score: float = 0.0
    """By which the tree was ranked."""
    log_probability: float = 0.0
    error: str | None = None


def split_words(line: str) -> list[str]:
    """The words of a line: what stands between spaces, control characters being such; brackets as treebanks write them.

    A full stop at the end is a word of its own only if a space stands before it, as in the treebanks.
    """
    found = [word for word in _CONTROL.sub(" ", line).split(" ") if word.strip()]
    return [re.sub("[()]", lambda match: BRACKETS[match[0]], word) for word in found]


class Parser:
    """A parser with its codecs: `Parser.load("run").parse(["Dogs bark ."])[0].tree`."""

    def __init__(
        self,
        engine: TorchEngine,
        source_codec: Codec,
        target_codec: Codec,
        search: SearchConfig | None = None,
        *,
        between: Callable[[], None] = go_on,
    ) -> None:
        """`between` is called before each batch and may raise; a ValueError says why the outputs are no trees."""
        self.engine, self.source_codec, self.target_codec = engine, source_codec, target_codec
        self.search, self.between = search or SearchConfig(), between
        self.grammar = Grammar(target_codec)

    @classmethod
    def load(cls, path: str | Path) -> Parser:
        """The parser of a bundle or a run; PyTorch runs it, as no other engine keeps to trees."""
        from transduce.decode.torch_engine import TorchEngine

        bundle = open_bundle(Path(path))
        try:
            Grammar(bundle.target_codec)  # before the weights are read
        except ValueError as error:
            raise UserError(
                f"{path}: not a parser: {error}: train one by `transduce train --trees FILE --preset parsing-small`"
            ) from None
        return cls(TorchEngine(load_model(bundle)), bundle.source_codec, bundle.target_codec, bundle.config.search)

    def parse(self, lines: Sequence[str], *, search: SearchConfig | None = None) -> list[Parse]:
        """The best tree of each line, in order; `search` takes the place of the bundle's settings.

        Whatever the model thinks, it is a tree over the line's words. It does not depend on the other lines.
        """
        search = search or self.search
        for name in AGAINST_TREES:
            if getattr(search, name):
                raise ConfigError(f"search.{name} = {getattr(search, name)}: may leave no tree: set it to 0 to parse")
        sentences = [split_words(line) for line in lines]
        requests = [self._request(words, self.grammar) for words in sentences]
        places = [place for place, words in enumerate(sentences) if words and self._fits(requests[place], search)]
        found = self.engine.search([requests[place] for place in places], search, between=self.between)
        best = {place: hypotheses[0] for place, hypotheses in zip(places, found, strict=True) if hypotheses}
        parses = []
        for place, words in enumerate(sentences):
            if hypothesis := best.get(place):
                tree = restore(self.target_codec.pieces(hypothesis.ids), words)
                parses.append(Parse(tuple(words), tree, hypothesis.score, hypothesis.log_probability))
            else:
                parses.append(Parse(tuple(words), error=self._why_not(requests[place], search) if words else None))
        return parses

    def unguided(self, lines: Sequence[str], *, search: SearchConfig | None = None) -> list[list[str]]:
        """The best tokens of each line by plain search, which nothing keeps to trees."""
        requests = [self._request(split_words(line), None) for line in lines]
        found = self.engine.search(requests, search or self.search, between=self.between)
        return [self.target_codec.pieces(hypotheses[0].ids) for hypotheses in found]

    def _request(self, words: Sequence[str], grammar: Grammar | None) -> Request:
        source = tuple(self.source_codec.encode(" ".join(words)))
        return Request(source, trees=None if grammar is None else grammar.over(words))

    def _fits(self, request: Request, search: SearchConfig) -> bool:
        positions = self.engine.max_positions
        return len(request.source) <= (search.max_input if positions is None else min(search.max_input, positions - 1))

    def _why_not(self, request: Request, search: SearchConfig) -> str:
        if not self._fits(request, search):
            return f"{len(request.source)} tokens are more than the model takes together: cut the sentence"
        assert request.trees is not None
        return f"a tree has {request.trees.shortest} tokens or more: raise search.max_length, or cut the sentence"
