"""One bundle at work, or an ensemble: everything that a worker thread does with it.

Greedy and beam search run in the engine that was opened for it, CTranslate2 where it can. What that lacks, PyTorch
does, which is loaded when first needed. Heads are switched off in weights of their own, loaded when first needed too:
nobody else has to do without them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from transduce.bundle import open_bundle
from transduce.config import ModelConfig, SearchConfig
from transduce.decode.ctranslate2_engine import Ctranslate2Engine
from transduce.decode.glossary import Glossary, Term
from transduce.decode.hypothesis import Phrase, Request
from transduce.decode.translation import Translation
from transduce.decode.translator import Continuation, Translator
from transduce.errors import UserError
from transduce.explain.head import Head, check_head
from transduce.serve.errors import Unusable
from transduce.serve.options import Options
from transduce.serve.settings import Served

if TYPE_CHECKING:
    from transduce.decode.alignment import Alignment

PYTORCH: Literal["pytorch"] = "pytorch"
SOMETHING = (Phrase(((0,),)),)
"""Stands for any phrases in the question who can do it."""


@dataclass(frozen=True)
class Translated(Translation):
    """A translation, who made it, and what more was asked for."""

    engine: str = ""
    links: tuple[tuple[int, int], ...] | None = None
    """(source word, target word); words are what spaces separate."""
    attention: tuple[tuple[float, ...], ...] | None = None
    """How much each target word (rows) looked at each source word."""


@dataclass(frozen=True)
class Prepared:
    """Options as a translator takes them."""

    settings: dict[str, object]
    search: SearchConfig
    glossary: Glossary | None


class Model:
    """A translator with a name and two languages."""

    def __init__(
        self, translator: Translator, *, name: str, source_lang: str, target_lang: str, ensemble: bool = False
    ) -> None:
        self.translator, self.name, self.ensemble = translator, name, ensemble
        self.source_lang, self.target_lang = source_lang, target_lang
        self._loading = threading.Lock()
        self._switching = threading.Lock()
        if isinstance(translator.engine, Ctranslate2Engine):
            translator.engine.workers = 1  # a batch is the work of one; the queue has as many as there are cores

    @classmethod
    def load(cls, served: Served, *, say: Callable[[str], None]) -> Model:
        """The model at a path; its languages are the command line's, else the bundle's."""
        path = served.paths[0]
        bundle = open_bundle(path)
        source, target = served.source or bundle.source_lang, served.target or bundle.target_lang
        if source is None or target is None:
            raise UserError(f"{path}: does not tell its languages: name them, as in --pair en-de={path}")
        ensemble = len(served.paths) > 1
        if ensemble:
            translator = Translator.load_ensemble(served.paths, warn=_nobody)
        else:
            translator = Translator.load(path, warn=_nobody, say=say)
        directory = bundle.path.resolve()
        name = directory.parent.name if directory.name == "model" else directory.name
        languages = {"source_lang": source.lower(), "target_lang": target.lower()}
        return cls(translator, name=name, ensemble=ensemble, **languages)

    @property
    def config(self) -> ModelConfig:
        """What the model is like."""
        assert self.translator.bundle is not None
        return self.translator.bundle.config.model

    def prepare(self, options: Options) -> Prepared:
        """Refuse what cannot be, before anyone waits for it."""
        settings = dict(options.settings)
        settings |= {k: v for k, v in (("beam", options.beam), ("alpha", options.alpha)) if v is not None}
        try:
            search = SearchConfig.model_validate({**self.translator.search.model_dump(), **settings})
            terms = [Term(source, target, line) for line, (source, target) in enumerate(options.glossary, 1)]
            glossary = Glossary(terms) if terms else None
            for head in options.off:
                check_head(head, self.config)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise Unusable(f"{key}: {first['msg'].removeprefix('Value error, ')}".removeprefix(": ")) from None
        except UserError as error:
            raise Unusable(str(error)) from None
        if self.ensemble and (options.off or options.alignment or options.attention):
            raise Unusable(f"{self.name}: attention is that of one model, and this is an ensemble: leave it out")
        if options.n_best > search.beam and not search.sampling:
            raise Unusable(f"n_best {options.n_best} is more than the beam of {search.beam}: raise beam")
        if glossary is not None and (search.sampling or search.groups > 1):
            raise Unusable("a glossary needs plain beam search: without sampling and groups")
        return Prepared(settings, search, glossary)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Of each text, in tokens."""
        return list(map(len, self.translator.source_codec.encode_many(texts)))

    def translate(self, texts: list[str], options: Options) -> list[Translated]:
        """One translation a text; the texts are of one batch."""
        prepared = self.prepare(options)
        if options.off:
            return self._without(options.off, lambda own: self._translate(own, texts, options, prepared))
        return self._translate(self.translator, texts, options, prepared)

    def stream(self, text: str, options: Options) -> Iterator[str]:
        """A text's translation in pieces; PyTorch."""
        prepared = self.prepare(options)
        return self.reference.stream(
            text, prefix=options.prefix, glossary=prepared.glossary, settings=prepared.settings
        )

    def alternatives(self, text: str, prefix: str, count: int) -> list[Continuation]:
        """The likeliest tokens after a prefix, each with the best output that takes it; PyTorch."""
        return self.reference.alternatives(text, prefix, count)

    def attend(self, text: str, *, prefix: str, beam: int | None, off: tuple[Head, ...]) -> bytes:
        """All that there is to see of a sentence, as JSON; PyTorch."""
        from transduce.explain.sentence_record import sentence_record

        if not off:
            record = sentence_record(self.reference, text, prefix=prefix, beam=beam)
        else:
            with self._switching:
                record = sentence_record(self._own, text, prefix=prefix, beam=beam, off=off)
        languages = {"source": self.source_lang, "target": self.target_lang}
        facts = record["model"]
        assert isinstance(facts, dict)
        return json.dumps(record | {"model": facts | languages}, ensure_ascii=False, allow_nan=False).encode()

    @property
    def reference(self) -> Translator:
        """The same model in PyTorch."""
        with self._loading:
            return self._reference

    @cached_property
    def _reference(self) -> Translator:
        of = self.translator
        if of.engine.name == PYTORCH:
            return of
        return Translator(of.reference, of.source_codec, of.target_codec, of.search, bundle=of.bundle)

    @cached_property
    def _own(self) -> Translator:
        """With weights of its own, whose heads may be switched off."""
        assert self.translator.bundle is not None
        return Translator.load(self.translator.bundle.path, engine=PYTORCH)

    def _without(self, off: tuple[Head, ...], work: Callable[[Translator], list[Translated]]) -> list[Translated]:
        """Work of a translator some of whose heads are switched off; one after the other."""
        from transduce.explain.ablation import switched_off

        with self._switching, switched_off(self._own.reference.model, off):
            return work(self._own)

    def _translate(
        self, translator: Translator, texts: list[str], options: Options, prepared: Prepared
    ) -> list[Translated]:
        encoded = translator.source_codec.encode_many(texts)
        engines = [self._engine(translator, *each, options, prepared) for each in zip(texts, encoded, strict=True)]
        if PYTORCH in engines:
            assert self.reference  # loaded by one thread while the others wait
        found = translator.translate(
            texts,
            n_best=options.n_best,
            prefix=options.prefix,
            glossary=prepared.glossary,
            tokens=options.tokens,
            settings=prepared.settings,
        )
        alignments: Sequence[Alignment | None] = [None] * len(texts)
        if options.alignment or options.attention:
            alignments = self._align(translator, texts, [each.text for each in found])
        warnings = [too_long(len(ids), translator.max_input) for ids in encoded]
        rows = zip(found, engines, alignments, warnings, strict=True)
        return [_translated(each, engine, alignment, warning, options) for each, engine, alignment, warning in rows]

    def _align(self, translator: Translator, texts: list[str], outputs: list[str]) -> Sequence[Alignment]:
        from transduce.decode.alignment import align_lines

        return align_lines(translator if translator is not self.translator else self.reference, texts, outputs)

    def _engine(
        self, translator: Translator, text: str, ids: Sequence[int], options: Options, prepared: Prepared
    ) -> str:
        """Who translates a text."""
        if not text.strip():
            return translator.engine.name
        request = Request(
            tuple(ids[: translator.max_input]),
            prefix=tuple(translator.target_codec.encode(options.prefix.rstrip())),
            phrases=SOMETHING if prepared.glossary is not None and _has_terms(prepared.glossary, text) else (),
            token_scores=options.tokens,
        )
        return translator.engine.name if translator.engine.lacks([request], prepared.search) is None else PYTORCH


def _has_terms(glossary: Glossary, text: str) -> bool:
    try:
        return bool(glossary.matches(text))
    except UserError:  # the translation will tell
        return False


def too_long(tokens: int, most: int) -> str | None:
    """What is told of a text that was cut."""
    if tokens <= most:
        return None
    return f"{tokens} tokens are more than the {most} that this model reads at once: cut, and translated part by part"


def _translated(
    found: Translation, engine: str, alignment: Alignment | None, warning: str | None, options: Options
) -> Translated:
    links = attention = None
    if alignment is not None and options.alignment:
        links = tuple(alignment.links)
    if alignment is not None and options.attention:
        attention = tuple(tuple(round(weight, 4) for weight in row) for row in alignment.soft.tolist())
    return Translated(
        found.text,
        found.score,
        found.log_probability,
        found.alternatives,
        found.tokens,
        "; ".join(each for each in (warning, found.warning) if each) or None,
        found.error,
        engine=engine,
        links=links,
        attention=attention,
    )


def _nobody(message: str) -> None:
    """Warnings of translators name lines of a file and hold text: a server has neither to tell."""
