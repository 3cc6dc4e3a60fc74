"""How the server is: for load balancers, for Prometheus, and for clients that want to know its limits."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from transduce.serve.download import FORMATS
from transduce.serve.languages import language_name
from transduce.serve.service import Service


def routes(service: Service) -> APIRouter:
    """/health, /ready, /metrics and /frontend/settings."""
    router = APIRouter()

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    async def health() -> dict[str, str]:
        """It lives."""
        return {"status": "ok"}

    @router.head("/ready", include_in_schema=False)
    @router.get("/ready", responses={503: {"description": "It is about to stop."}})
    async def ready() -> JSONResponse:
        """It takes requests; from SIGTERM on it does not."""
        if service.draining:
            return JSONResponse({"status": "draining"}, 503, {"Retry-After": "5"})
        return JSONResponse({"status": "ready"})

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(service.metrics.page(), media_type=CONTENT_TYPE_LATEST)

    @router.get("/frontend/settings")
    async def frontend_settings() -> JSONResponse:
        """What a client may send; LibreTranslate's names first, the caps of all fields after them."""
        return JSONResponse(describe(service))

    return router


def describe(service: Service) -> dict[str, object]:
    """The limits of a server, and its first pair of languages."""
    caps, first = service.caps, service.models[0]
    languages = {"source": first.source_lang, "target": first.target_lang}
    return {
        "charLimit": caps.characters,
        "frontendTimeout": 500,
        "apiKeys": service.keys is not None,
        "keyRequired": service.keys is not None,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": list(FORMATS),
        "language": {side: {"code": code, "name": language_name(code)} for side, code in languages.items()},
        "textLimit": caps.texts,
        "bodyLimit": caps.body,
        "timeLimit": caps.seconds,
        "prefixLimit": caps.prefix,
        "termLimit": caps.terms,
        "termCharLimit": caps.term,
        "beamLimit": caps.beam,
        "attendLimit": caps.attended,
        "lengthLimit": caps.length,
        "offLimit": caps.off,
        "alternativesLimit": caps.alternatives,
        "codeCharLimit": caps.code,
        "modelCharLimit": caps.name,
        "fieldLimit": caps.fields,
        "headLimit": caps.head,
        "deeplBodyLimit": caps.deepl_body,
        "deeplTimeLimit": min(caps.seconds, caps.deepl_seconds),
        "requestsPerMinute": service.settings.requests_per_minute,
    }
