"""The bodies of the native API, in and out. An unknown field is an error: a typo should not pass for an option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from transduce.explain.head import Head
from transduce.explain.record import Kind
from transduce.serve.errors import TooLarge, Unusable
from transduce.serve.options import Options
from transduce.serve.settings import Caps

Off = tuple[Kind, Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
"""A head: encoder, decoder or cross, then layer and head from 0."""
OFF: TypeAdapter[Off] = TypeAdapter(Off)


class Body(BaseModel):
    """One JSON object."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SearchOptions(Body):
    """Keys of `search` in a run's configuration; unset ones are the model's."""

    penalty: Literal["gnmt", "length"] | None = None
    coverage: float | None = Field(default=None, ge=0, le=100)
    extra_length: int | None = Field(default=None, ge=1)
    min_length: int | None = Field(default=None, ge=0)
    max_length: int | None = Field(default=None, ge=1)
    no_repeat: int | None = Field(default=None, ge=0, le=100)
    groups: int | None = Field(default=None, ge=1)
    diversity: float | None = Field(default=None, ge=0, le=100)
    sampling: bool | None = None
    temperature: float | None = Field(default=None, gt=0, le=100)
    top_k: int | None = Field(default=None, ge=1)
    top_p: float | None = Field(default=None, gt=0, le=1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = Field(default=None, ge=0, lt=1 << 63)

    def check(self, caps: Caps) -> None:
        """Refuse outputs longer than is allowed."""
        for length in (self.extra_length, self.min_length, self.max_length):
            if length is not None and length > caps.length:
                raise TooLarge("tokens of length", length, caps.length)


class Sentence(Body):
    """Which text, by which model: by its name, by its languages, or, if there is one only, by neither."""

    source: str | None = Field(default=None, max_length=Caps.code, description="Language code.")
    target: str | None = Field(default=None, max_length=Caps.code, description="Language code.")
    model: str | None = Field(
        default=None, max_length=Caps.name, description="A name of /api/models, instead of languages."
    )
    prefix: str = Field(default="", description="How the output begins.")
    beam: int | None = Field(default=None, ge=1, description="Beam size; 1 is greedy.")

    def check(self, caps: Caps) -> None:
        """Refuse what is over a cap."""
        if len(self.prefix) > caps.prefix:
            raise TooLarge("characters of prefix", len(self.prefix), caps.prefix)
        if self.beam is not None and self.beam > caps.beam:
            raise TooLarge("beams", self.beam, caps.beam)


class Translate(Sentence):
    """The body of /api/translate, and of /api/stream with one text."""

    text: str | list[str] = Field(description="A sentence, or several.")
    split: bool = Field(
        default=False, description="Texts of any length: cut them into sentences, join the translations."
    )
    alpha: float | None = Field(default=None, ge=0, le=100, description="Length penalty.")
    n_best: int = Field(default=1, ge=1, description="How many outputs to tell.")
    glossary: list[tuple[str, str]] = Field(default=[], description="Terms and how they must be translated.")
    keep: list[str] = Field(default=[], description="Terms that stay as they are.")
    tokens: bool = Field(default=False, description="Tell the probability of each token.")
    alignments: bool = Field(default=False, description="Tell which word comes from which.")
    attention: bool = Field(default=False, description="Tell how much each word looked at each.")
    off: list[Off] = Field(default=[], description="Heads to switch off.")
    search: SearchOptions | None = Field(default=None, description="Other settings of the search.")

    @property
    def texts(self) -> list[str]:
        """As a list, always."""
        return [self.text] if isinstance(self.text, str) else self.text

    def check(self, caps: Caps) -> None:
        """Refuse what is over a cap."""
        super().check(caps)
        if self.search is not None:
            self.search.check(caps)
        if self.n_best > caps.beam:
            raise TooLarge("outputs of a sentence", self.n_best, caps.beam)
        if len(self.glossary) + len(self.keep) > caps.terms:
            raise TooLarge("terms", len(self.glossary) + len(self.keep), caps.terms)
        longest = max(map(len, [*self.keep, *(side for term in self.glossary for side in term)]), default=0)
        if self.split and self.prefix:
            raise Unusable("a prefix is of one sentence: leave out prefix, or split")
        if longest > caps.term:
            raise TooLarge("characters of a term", longest, caps.term)
        check_off(self.off, caps)

    def options(self) -> Options:
        """As a model takes them."""
        terms = [*self.glossary, *((term, term) for term in self.keep)]
        return Options(
            beam=self.beam,
            alpha=self.alpha,
            n_best=self.n_best,
            prefix=self.prefix,
            glossary=tuple((source.strip(), target.strip()) for source, target in terms),
            tokens=self.tokens,
            alignment=self.alignments,
            attention=self.attention,
            off=heads(self.off),
            settings=() if self.search is None else tuple(self.search.model_dump(exclude_none=True).items()),
        )


class Alternatives(Sentence):
    """The body of /api/alternatives."""

    text: str
    count: int = Field(default=5, ge=1, le=Caps.alternatives)


class Attend(Sentence):
    """The body of /api/attend."""

    text: str
    off: list[Off] = Field(default=[], description="Heads to switch off.")

    def check(self, caps: Caps) -> None:
        """Refuse what is over a cap."""
        super().check(caps)
        check_off(self.off, caps)


class Problem(BaseModel):
    """Why a request was refused."""

    error: str


class TokenOut(BaseModel):
    """A piece of an output and its probability, given all before it; the end token is the last."""

    piece: str
    probability: float


class OutputOut(BaseModel):
    """One of the n best."""

    text: str
    score: float
    log_probability: float


class Details(BaseModel):
    """What is told of a translation if it is asked for, and what is wrong with it."""

    n_best: list[OutputOut] | None = None
    tokens: list[TokenOut] | None = None
    alignment: list[tuple[int, int]] | None = None
    attention: list[list[float]] | None = None
    warning: str | None = None
    error: str | None = None


class PartOut(Details):
    """A sentence of a text, or with `text` alone what stands between two."""

    text: str
    source: str | None = None
    score: float | None = None
    log_probability: float | None = None
    engine: str | None = None


class TranslationOut(OutputOut, Details):
    """The translation of one text; what was not asked for is left out.

    Of a text that was split, `parts` has the sentences with their details and what stands between them; the texts of
    all parts are its text, and its numbers are the sums of theirs.
    """

    engine: str
    parts: list[PartOut] | None = None


class TranslateOut(BaseModel):
    """The answer of /api/translate; the engine is that of all texts, or `mixed`."""

    model: str
    source: str
    target: str
    engine: str
    translations: list[TranslationOut]


class ModelOut(BaseModel):
    """A model that is served."""

    name: str
    source: str
    target: str
    engine: str
    ensemble: bool
    layers: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    d_model: int
    norm: str
    beam: int
    max_input: int


class ContinuationOut(BaseModel):
    """A token that may come next, and the output that takes it."""

    piece: str
    probability: float
    text: str


def check_off(off: Sequence[Off], caps: Caps) -> None:
    """Refuse more heads than any model has."""
    if len(off) > caps.off:
        raise TooLarge("heads to switch off", len(off), caps.off)


def heads(off: list[Off]) -> tuple[Head, ...]:
    """Each once, in order."""
    return tuple(sorted({Head(*place) for place in off}))
