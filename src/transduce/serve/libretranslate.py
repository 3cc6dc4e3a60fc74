"""LibreTranslate's API, so that its clients just work: /translate, /detect, /languages, /translate_file.

Every POST takes JSON, a form or a query string; unknown fields are ignored. Texts of any length are cut into sentences
(`serve/document.py`). Refusals are `{"error": ...}` in LibreTranslate's words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from transduce.serve.answer import route_class
from transduce.serve.detection import Detector, Langid, detect_all, sources
from transduce.serve.document import Document, plain, translate_documents
from transduce.serve.download import Downloads, text_file
from transduce.serve.errors import (
    BadRequest,
    KeyNeeded,
    Overloaded,
    ServeError,
    TooLarge,
    TooMany,
    UnknownLanguage,
    UnknownPair,
    Unusable,
)
from transduce.serve.fields import described, fields
from transduce.serve.gate import own_part
from transduce.serve.languages import language_name
from transduce.serve.markup import markup
from transduce.serve.model import Model
from transduce.serve.native import address, key_of
from transduce.serve.service import Service
from transduce.serve.settings import Caps

AUTO = "auto"
POSTS = ("/translate", "/detect", "/translate_file")
"""Paths that take a body."""
QUEUED = ("/translate", "/translate_file")
"""Paths that need a place in the queue."""
FORMATS = {"text": plain, "html": markup}


def refuse(error: ServeError) -> JSONResponse:
    """A refusal with LibreTranslate's status and words."""
    status, message = error.status, str(error)
    if isinstance(error, TooLarge):
        status, message = 400, f"Invalid request: request ({error.given}) exceeds text limit ({error.limit})"
    elif isinstance(error, TooMany | Overloaded):
        message = f"Slowdown: {message}"
    elif isinstance(error, KeyNeeded | Unusable):
        status = 400
    return JSONResponse({"error": message}, status, error.headers)


def routes(service: Service, detector: Detector | None = None) -> APIRouter:
    """All of it; /health and /frontend/settings are in `serve/status.py`."""
    router = APIRouter(route_class=route_class(refuse))
    add_texts(router, service, detector or Langid())
    add_files(router, service, detector or Langid())
    return router


def add_texts(router: APIRouter, service: Service, detector: Detector) -> None:
    """Routes for texts."""

    @router.post("/translate", openapi_extra=described(q="Text.", source="Code, or auto.", target="Code."))
    async def translate(request: Request) -> JSONResponse:
        """Translate a text, or a list of texts, of any length (LibreTranslate)."""
        deadline = service.deadline()
        given = await fields(request)
        service.identify(own_key(given, request))
        texts = texts_of(given)
        source, target = needed(given, "source"), needed(given, "target")
        read, alternatives = format_of(given), alternatives_of(given, service.caps.beam - 1)
        with service.admit(address(request), own_key(given, request), texts):
            documents = [read(text) for text in texts]
            detected = await detect_all(service, detector, documents, target) if source == AUTO else []
            spoken = [each.language for each in detected] or [source] * len(texts)
            models = [model_for(service, each, target) for each in spoken]
            found = await translate_documents(service, models, documents, alternatives=alternatives, deadline=deadline)
        answer: dict[str, object] = {"translatedText": [outputs[0] for outputs in found]}
        if detected:
            answer["detectedLanguage"] = [each.as_json() for each in detected]
        if alternatives:
            answer["alternatives"] = [outputs[1:] for outputs in found]
        if isinstance(given["q"], str):
            answer = {name: of_each[0] for name, of_each in answer.items() if isinstance(of_each, list)}
        return JSONResponse(answer)

    @router.post("/detect", openapi_extra=described(q="Text."))
    async def detect(request: Request) -> JSONResponse:
        """Tell which of the served languages a text is in, best first (LibreTranslate)."""
        given = await fields(request)
        service.identify(own_key(given, request))
        texts = texts_of(given)
        with service.admit(address(request), own_key(given, request), texts):
            ranked = await asyncio.to_thread(detector.rank, " ".join(texts), sources(service))
        return JSONResponse([each.as_json() for each in ranked])

    @router.get("/languages")
    async def languages() -> JSONResponse:
        """What can be translated into what (LibreTranslate)."""
        return JSONResponse(
            [
                {
                    "code": code,
                    "name": language_name(code),
                    "targets": sorted({model.target_lang for model in service.models if model.source_lang == code}),
                }
                for code in codes(service)
            ]
        )


def add_files(router: APIRouter, service: Service, detector: Detector) -> None:
    """Routes for files."""
    downloads = Downloads()

    @router.post(
        "/translate_file", openapi_extra=described(file="A .txt file.", source="Code, or auto.", target="Code.")
    )
    async def translate_file(request: Request) -> JSONResponse:
        """Translate a text file; it can be fetched for half an hour (LibreTranslate)."""
        deadline = service.deadline()
        given = await fields(request)
        service.identify(own_key(given, request))
        name, text = text_file(given.get("file"))
        source, target = needed(given, "source"), needed(given, "target")
        with service.admit(address(request), own_key(given, request), [text]):
            document = plain(text)
            if source == AUTO:
                (detected,) = await detect_all(service, detector, [document], target)
                source = detected.language
            model = model_for(service, source, target)
            ((output,),) = await translate_documents(service, [model], [document], deadline=deadline)
        place = downloads.put(name, output.encode())
        return JSONResponse({"translatedFileUrl": f"{own_address(request)}download_file/{quote(place)}"})

    @router.get("/download_file/{place}")
    async def download_file(place: str) -> Response:
        """A translated file, by the address that its sender was told (LibreTranslate)."""
        waiting = downloads.get(place)
        if waiting is None:
            return JSONResponse({"error": "there is no such file, or not any more"}, 404)
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(waiting.name)}"}
        return Response(waiting.body, media_type="text/plain; charset=utf-8", headers=headers)


def own_address(request: Request) -> str:
    """The server's, as whoever asks sees it: its own page says by its Origin whether there is TLS before it."""
    base, origin = str(request.base_url), request.headers.get("origin", "")
    tls = origin.startswith("https://") and own_part(origin) == request.headers.get("host", "").lower()
    return base.replace("http://", "https://", 1) if tls else base


def needed(given: Mapping[str, Any], name: str) -> str:
    """A field that must be there."""
    value = given.get(name)
    if value is None or value == "":
        raise BadRequest(f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise BadRequest(f"Invalid request: {name} parameter is not a string")
    return value[: Caps.code].lower()


def texts_of(given: Mapping[str, Any]) -> list[str]:
    """`q` as a list."""
    q = given.get("q")
    if q is None or q in ("", []):
        raise BadRequest("Invalid request: missing q parameter")
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest("Invalid request: q parameter is not a string or a list of strings")
    return texts


def format_of(given: Mapping[str, Any]) -> Callable[[str], Document]:
    """How a text is read."""
    name = given.get("format") or "text"
    if not isinstance(name, str) or name not in FORMATS:
        raise BadRequest(f"{str(name)[: Caps.code]} format is not supported")
    return FORMATS[name]


def alternatives_of(given: Mapping[str, Any], most: int) -> int:
    """How many other translations are wanted."""
    value = given.get("alternatives")
    if value is None or value == "":
        return 0
    try:
        count = int(value) if isinstance(value, str | int) else -1
    except ValueError:
        raise BadRequest("Invalid request: alternatives parameter is not a number") from None
    if not 0 <= count <= most:
        raise BadRequest(f"Invalid request: alternatives parameter must be a whole number from 0 to {most}")
    return count


def own_key(given: Mapping[str, Any], request: Request) -> str | None:
    """The API key: a field, or in the headers."""
    key = given.get("api_key")
    return key_of(request) if key is None or key == "" else str(key)


def codes(service: Service) -> list[str]:
    """All languages."""
    return list(dict.fromkeys([*sources(service), *(model.target_lang for model in service.models)]))


def model_for(service: Service, source: str, target: str) -> Model:
    """The model between two languages."""
    for code in (source, target):
        if code not in codes(service):
            raise UnknownLanguage(f"{code} is not supported")
    try:
        return service.find(source, target)
    except BadRequest:
        names = [f"{language_name(code)} ({code})" for code in (target, source)]
        raise UnknownPair(f"{names[0]} is not available as a target language from {names[1]}") from None
