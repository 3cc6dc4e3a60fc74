"""DeepL's API, version 2, so that its client just works: /v2/translate, /v2/languages, /v2/usage.

Its client waits for ten seconds and tries again five times after 429 and from 500 on: within eight it is answered or
refused. Refusals are `{"message": ...}`. `context`, `split_sentences`, `preserve_formatting`, `formality` and
`tag_handling` are taken and change nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from transduce.serve.answer import route_class
from transduce.serve.detection import Detector, Langid, base, detect_all, sources
from transduce.serve.document import plain, translate_documents
from transduce.serve.errors import BadRequest, KeyNeeded, Late, QuotaUsed, ServeError, TooLarge, Unusable
from transduce.serve.fields import described, fields
from transduce.serve.languages import language_name
from transduce.serve.model import Model
from transduce.serve.native import address, key_of
from transduce.serve.service import Service
from transduce.serve.settings import Caps

UNLIMITED = 1_000_000_000_000
"""What DeepL tells those who have no limit."""
VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
"""Targets that its client wants to be told apart; here they are the same."""
QUEUED = ("/v2/translate",)
"""Paths that need a place in the queue."""
STATUS: Mapping[type[ServeError], int] = {KeyNeeded: 403, Unusable: 400, QuotaUsed: 456, Late: 503}
"""Where DeepL's is another than ours."""


def refuse(error: ServeError) -> JSONResponse:
    """A refusal with DeepL's status."""
    return JSONResponse({"message": str(error)}, STATUS.get(type(error), error.status), error.headers)


def routes(service: Service, detector: Detector | None = None) -> APIRouter:
    """All of /v2."""
    router, knows = APIRouter(route_class=route_class(refuse)), detector or Langid()
    texts = described(text="A list of texts.", target_lang="Code.")

    @router.post("/v2/translate", openapi_extra=texts)
    async def translate(request: Request) -> JSONResponse:
        """Translate texts of any length (DeepL)."""
        deadline = min(service.deadline(), time.monotonic() + service.caps.deepl_seconds)
        service.identify(key_of(request))
        if (size := len(await request.body())) > service.caps.deepl_body:
            raise TooLarge("bytes of a body", size, service.caps.deepl_body)
        given = await fields(request)
        texts = texts_of(given)
        target = target_of(service, code_in(given, "target_lang"))
        with service.admit(address(request), key_of(request), texts):
            documents = [plain(text) for text in texts]
            if given.get("source_lang"):
                spoken = [source_of(service, code_in(given, "source_lang"))] * len(texts)
            else:
                spoken = [each.language for each in await detect_all(service, knows, documents, target)]
            models = [model_for(service, source, target) for source in spoken]
            found = await translate_documents(service, models, documents, deadline=deadline)
        translations = [
            {"detected_source_language": base(source).upper(), "text": outputs[0], "billed_characters": len(text)}
            for source, outputs, text in zip(spoken, found, texts, strict=True)
        ]
        return JSONResponse({"translations": translations})

    @router.get("/v2/languages")
    async def languages(request: Request) -> JSONResponse:
        """What can be translated, or with `type=target` what into (DeepL)."""
        service.identify(key_of(request))
        kind = (await fields(request)).get("type") or "source"
        if kind == "source":
            return JSONResponse([{"language": base(c).upper(), "name": language_name(c)} for c in sources(service)])
        if kind != "target":
            raise BadRequest("Value for 'type' not supported: it is source or target.")
        named = [pair for code in targets(service) for pair in variants(code).items()]
        return JSONResponse([{"language": c, "name": name, "supports_formality": False} for c, name in named])

    @router.get("/v2/usage")
    async def usage(request: Request) -> JSONResponse:
        """Characters of a key: those of today, and how many they may be (DeepL)."""
        key = service.identify(key_of(request))
        count = 0 if key is None else service.used(key)
        limit = UNLIMITED if key is None or key.characters is None else key.characters
        return JSONResponse({"character_count": count, "character_limit": limit})

    return router


def texts_of(given: Mapping[str, Any]) -> list[str]:
    """`text` as a list."""
    text = given.get("text")
    texts = text if isinstance(text, list) else [] if text is None else [text]
    if not texts:
        raise BadRequest("Parameter 'text' not specified.")
    if not all(isinstance(each, str) for each in texts):
        raise BadRequest("Value for 'text' not supported: it is a list of texts.")
    return texts


def code_in(given: Mapping[str, Any], name: str) -> str:
    """A language code in small letters."""
    value = given.get(name)
    if value is None or value == "":
        raise BadRequest(f"Parameter '{name}' not specified.")
    if not isinstance(value, str):
        raise BadRequest(f"Value for '{name}' not supported: it is a language code.")
    return value[: Caps.code].lower().replace("-", "_")


def targets(service: Service) -> list[str]:
    """The languages that can be translated into."""
    return list(dict.fromkeys(model.target_lang for model in service.models))


def target_of(service: Service, code: str) -> str:
    """The served language that a target means: with its region, or without."""
    return served(code, targets(service), "target_lang")


def source_of(service: Service, code: str) -> str:
    """The served language that a source means."""
    return served(code, sources(service), "source_lang")


def served(code: str, known: list[str], name: str) -> str:
    """A code among those that are known, whole or without its region."""
    for each in (code, base(code)):
        if each in known:
            return each
    raise BadRequest(f"Value for '{name}' not supported: {', '.join(known)} are.")


def model_for(service: Service, source: str, target: str) -> Model:
    """The model between two languages."""
    try:
        return service.find(source, target)
    except BadRequest:
        names = f"{language_name(source)} to {language_name(target)}"
        raise BadRequest(f"Value for 'target_lang' not supported: there is no model from {names}.") from None


def variants(code: str) -> Mapping[str, str]:
    """The codes by which a client may name a target, with their names."""
    return VARIANTS.get(code, {code.upper().replace("_", "-"): language_name(code)})
