"""Which language a text is in, of those that are asked about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from transduce.serve.document import Document, has_letters
from transduce.serve.service import Service


@dataclass(frozen=True)
class Detected:
    """A language, and how sure it is: from 0 to 100, of the languages that were asked about together."""

    language: str
    confidence: float

    def as_json(self) -> dict[str, object]:
        """As LibreTranslate tells it."""
        return {"confidence": self.confidence, "language": self.language}


class Detector(Protocol):
    """Whoever can tell languages apart."""

    def rank(self, text: str, languages: Sequence[str]) -> list[Detected]:
        """The languages, the likeliest first, each once."""
        ...


class Langid:
    """py3langid. Its data, some megabytes, are read when first needed."""

    def rank(self, text: str, languages: Sequence[str]) -> list[Detected]:
        """The likeliest first; 0 for a language that it does not know, and for all, if the text has no letter."""
        asked = list(dict.fromkeys(languages))
        known = tuple(code for code in asked if base(code) in labels()) if has_letters(text) else ()
        shares = dict(identifier(tuple(map(base, known))).rank(text)) if known else {}
        found = [Detected(code, round(100 * shares.get(base(code), 0.0), 1)) for code in asked]
        return sorted(found, key=lambda each: -each.confidence)


def sources(service: Service) -> list[str]:
    """The languages that can be translated from."""
    return list(dict.fromkeys(model.source_lang for model in service.models))


async def detect_all(
    service: Service, detector: Detector, documents: Sequence[Document], target: str
) -> list[Detected]:
    """Each document's language, of those that lead to the target; of all, if none does."""
    leading = [model.source_lang for model in service.models if model.target_lang == target] or sources(service)

    def detect() -> list[Detected]:
        return [detector.rank(" ".join(document.sentences), leading)[0] for document in documents]

    return await asyncio.to_thread(detect)


def base(code: str) -> str:
    """A language code without script and region."""
    return code.partition("_")[0].partition("-")[0]


@lru_cache(maxsize=64)
def identifier(languages: tuple[str, ...]) -> Any:
    """py3langid for some languages; for all that it knows, if none is named."""
    if languages:
        restricted = copy(identifier(()))
        restricted.set_languages(languages)
        return restricted
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def labels() -> frozenset[str]:
    """The languages that py3langid knows."""
    return frozenset(identifier(()).labels)
