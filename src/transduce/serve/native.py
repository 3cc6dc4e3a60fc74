"""The native API: everything that a model can do, under /api."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import Field

from transduce.decode.translation import Alternative
from transduce.errors import UserError
from transduce.serve import schema
from transduce.serve.admission import Admission
from transduce.serve.document import Document, plain, whole
from transduce.serve.errors import BadRequest, ServeError, TooLarge
from transduce.serve.keys import key_in
from transduce.serve.model import Model, Translated, too_long
from transduce.serve.service import Service, whole_characters

PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": schema.Problem, "description": "Not a request."},
    401: {"model": schema.Problem, "description": "A key is needed."},
    403: {"model": schema.Problem, "description": "A key that is not known, or a foreign page."},
    413: {"model": schema.Problem, "description": "Over a cap."},
    422: {"model": schema.Problem, "description": "A value that cannot be."},
    429: {"model": schema.Problem, "description": "Too many requests, or a full queue; Retry-After says when."},
    503: {"model": schema.Problem, "description": "The server is about to stop."},
    504: {"model": schema.Problem, "description": "Not done by the deadline."},
}
QUEUED = ("/api/translate", "/api/stream", "/api/alternatives", "/api/attend")
"""Paths that need a place in the queue."""


def routes(service: Service) -> APIRouter:
    """All of /api."""
    router = APIRouter(responses=PROBLEMS)
    add_translating(router, service)
    add_looking(router, service)
    return router


def add_translating(router: APIRouter, service: Service) -> None:
    """Routes for users of translations."""

    @router.post("/api/translate", response_model=schema.TranslateOut, response_model_exclude_none=True)
    async def translate(asked: schema.Translate, request: Request) -> Response:
        """Translate one sentence or several; with `split` texts of any length."""
        deadline = service.deadline()
        asked.check(service.caps)
        with service.admit(address(request), key_of(request), asked.texts):
            model = chosen(service, asked)
            documents = [document_of(text, asked) for text in asked.texts]
            sentences = [sentence for document in documents for sentence in document.sentences]
            found = await service.translate(model, sentences, asked.options(), deadline=deadline)
        left = iter(found)
        answer = {
            "model": model.name,
            "source": model.source_lang,
            "target": model.target_lang,
            "engine": engine_of(found, model),
            "translations": [
                answer_of(document, [next(left) for _ in document.sentences], model, asked) for document in documents
            ],
        }
        return JSONResponse(answer)

    @router.post("/api/stream", response_class=StreamingResponse)
    async def stream(asked: schema.Translate, request: Request) -> Response:
        """Translate a sentence while it is watched: server-sent events with the text so far, the last one `done`."""
        deadline = service.deadline()
        asked.check(service.caps)
        if len(asked.texts) != 1:
            raise BadRequest(f"{len(asked.texts)} texts: a stream is of one")
        options = asked.options()
        if options.off or options.n_best > 1 or options.tokens or options.alignment or options.attention:
            raise BadRequest("a stream is of the text alone: ask /api/translate for more")
        with service.admit(address(request), key_of(request), asked.texts) as admitted:
            model = chosen(service, asked)
            document = document_of(asked.texts[0], asked)

            def make() -> Iterator[str]:
                return document.growing(lambda sentence: model.stream(sentence, options))

            pieces = service.stream(model, " ".join(document.sentences), options, deadline=deadline, make=make)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        longest = max(model.lengths(document.sentences), default=0)
        last: dict[str, object] = {"model": model.name, "engine": "pytorch"}
        if warning := too_long(longest, model.translator.max_input):
            last["warning"] = warning
        told = events(service.read(pieces), last, admitted)
        return StreamingResponse(told, media_type="text/event-stream", headers=headers)

    @router.get("/api/models", response_model=list[schema.ModelOut])
    async def models() -> Response:
        """What is served."""
        return JSONResponse([about(model) for model in service.models])


def add_looking(router: APIRouter, service: Service) -> None:
    """Routes for those who look into a model."""

    @router.post("/api/alternatives", response_model=list[schema.ContinuationOut])
    async def alternatives(asked: schema.Alternatives, request: Request) -> Response:
        """The likeliest next tokens after a prefix, each with the best output that takes it."""
        deadline = service.deadline()
        asked.check(service.caps)
        with service.admit(address(request), key_of(request), [asked.text]):
            model = chosen(service, asked)
            found = await service.compute(
                model,
                asked.text,
                lambda: model.alternatives(asked.text, asked.prefix, asked.count),
                deadline=deadline,
            )
        answer = [
            {"piece": each.piece, "probability": math.exp(each.log_probability), "text": each.text} for each in found
        ]
        return JSONResponse(answer)

    async def look(asked: schema.Attend, request: Request) -> Response:
        deadline = service.deadline()
        asked.check(service.caps)
        with service.admit(address(request), key_of(request), [asked.text]):
            model = chosen(service, asked)
            (length,) = model.lengths([asked.text])
            if length > service.caps.attended:
                raise TooLarge("tokens to be looked at", length, service.caps.attended)
            off = schema.heads(asked.off)

            def attend() -> bytes:
                return model.attend(asked.text, prefix=asked.prefix, beam=asked.beam, off=off)

            record = await service.compute(model, asked.text, attend, deadline=deadline)
        return Response(record, media_type="application/json")

    @router.post("/api/attend", response_class=JSONResponse)
    async def attend(asked: schema.Attend, request: Request) -> Response:
        """What every head attends to while a sentence is translated, and the beam search as a tree."""
        return await look(asked, request)

    @router.get("/api/attend", response_class=JSONResponse)
    async def attend_link(asked: Annotated[AttendQuery, Query()], request: Request) -> Response:
        """The same as a link; `off` is kind.layer.head, as often as you like."""
        return await look(asked.body(), request)


class AttendQuery(schema.Sentence):
    """/api/attend as a query string."""

    text: str
    off: list[str] = Field(default=[])

    def body(self) -> schema.Attend:
        """The same as a body."""
        parts = [place.split(".") for place in self.off]
        try:
            off = [schema.OFF.validate_python((kind, int(layer), int(head))) for kind, layer, head in parts]
        except ValueError:
            raise BadRequest("off: write kind.layer.head, as in encoder.0.3, both from 0") from None
        return schema.Attend(**self.model_dump(exclude={"off"}), off=off)


def chosen(service: Service, asked: schema.Sentence) -> Model:
    """The model that a request names; where there is one only, it need not."""
    if asked.model is not None:
        return service.named(asked.model)
    if asked.target is not None:
        return service.find(asked.source, asked.target)
    fitting = [each for each in service.models if asked.source in (None, each.source_lang)]
    if len(fitting) != 1:
        raise BadRequest("which model? give target, source and target, or model")
    return fitting[0]


def address(request: Request) -> str:
    """Who asks."""
    return "" if request.client is None else request.client.host


def key_of(request: Request) -> str | None:
    """The key in a request's headers."""
    return key_in(request.headers)


async def events(pieces: AsyncIterator[str], last: dict[str, object], admitted: Admission) -> AsyncIterator[bytes]:
    """Server-sent events: the text so far each time, then `done` with what the last one tells, or what went wrong."""
    text = ""
    try:
        async for piece in pieces:
            text += piece
            yield event({"text": text})
        yield event({"done": True, "text": text, **last})
    except UserError as error:
        if not text:
            admitted.give_back()
        known = error if isinstance(error, ServeError) else ServeError("the model cannot be used")
        yield event({"error": str(known), "status": known.status})


def event(data: dict[str, object]) -> bytes:
    """One, as it is sent."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def document_of(text: str, asked: schema.Translate) -> Document:
    """A text as it is translated: whole, or sentence by sentence."""
    return (plain if asked.split else whole)(whole_characters(text))


def engine_of(found: Sequence[Translated], model: Model) -> str:
    """Who did it all."""
    engines = {each.engine for each in found}
    return engines.pop() if len(engines) == 1 else "mixed" if engines else model.translator.engine.name


def answer_of(
    document: Document, found: Sequence[Translated], model: Model, asked: schema.Translate
) -> dict[str, object]:
    """A text's translation, from those of its sentences."""
    if not asked.split:
        return translation(found[0], asked)
    texts, left = list(document.parts(each.text for each in found)), iter(found)
    parts = [
        {"text": text}
        if piece.sentence is None
        else {**translation(next(left), asked), "text": text, "source": piece.sentence}
        for piece, text in zip(document.pieces, texts, strict=True)
    ]
    doubts = {"warning": [each.warning for each in found], "error": [each.error for each in found]}
    told = {name: "; ".join(dict.fromkeys(each for each in all_ if each)) for name, all_ in doubts.items()}
    return {
        "text": "".join(texts),
        "score": sum(each.score for each in found),
        "log_probability": sum(each.log_probability for each in found),
        "engine": engine_of(found, model),
        "parts": parts,
        **{name: text for name, text in told.items() if text},
    }


def translation(found: Translated, asked: schema.Translate) -> dict[str, object]:
    """A translation as JSON; what was not asked for is left out."""
    answer: dict[str, object] = {**output(found), "engine": found.engine}
    if asked.n_best > 1:
        answer["n_best"] = [output(each) for each in found.alternatives]
    if asked.tokens:
        answer["tokens"] = [{"piece": t.piece, "probability": math.exp(t.log_probability)} for t in found.tokens]
    if found.links is not None:
        answer["alignment"] = found.links
    if found.attention is not None:
        answer["attention"] = found.attention
    doubts = {"warning": found.warning, "error": found.error}
    return answer | {name: text for name, text in doubts.items() if text is not None}


def output(found: Translated | Alternative) -> dict[str, object]:
    """Text and numbers."""
    return {"text": found.text, "score": found.score, "log_probability": found.log_probability}


def about(model: Model) -> dict[str, object]:
    """What a client may want to know of a model."""
    config = model.config
    return {
        "name": model.name,
        "source": model.source_lang,
        "target": model.target_lang,
        "engine": model.translator.engine.name,
        "ensemble": model.ensemble,
        "layers": config.encoder_layers,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "heads": config.num_heads,
        "d_model": config.d_model,
        "norm": config.norm,
        "beam": model.translator.search.beam,
        "max_input": model.translator.max_input,
    }
