"""Answers that are refusals, for any client: those of LibreTranslate read `error`, those of DeepL `message`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from transduce.serve.errors import ServeError

NONE: Mapping[str, str] = {}


def refusal(status: int, message: str, headers: Mapping[str, str] = NONE) -> JSONResponse:
    """As both read it."""
    return JSONResponse({"error": message, "message": message}, status, dict(headers))


def refuse(error: ServeError) -> JSONResponse:
    """What the service refused, as the native API tells it."""
    return JSONResponse({"error": str(error)}, error.status, error.headers)


async def serve_error(request: Request, error: Exception) -> JSONResponse:
    """The same, for a handler of exceptions."""
    assert isinstance(error, ServeError)
    return refuse(error)


async def http_error(request: Request, error: Exception) -> JSONResponse:
    """No such route, or not with this method."""
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, str(error.detail), error.headers or NONE)


async def invalid(request: Request, error: Exception) -> JSONResponse:
    """A body that is not what the native API expects: where, and what is wrong, but not what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return JSONResponse({"error": "the body is not JSON"}, 400)
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
    message = f"{place[:100]}: {first['msg']}" if place else f"the body: {first['msg']}"
    return JSONResponse({"error": message.encode("utf-8", "replace").decode()}, 422)


def route_class(refuse: Callable[[ServeError], Response]) -> type[APIRoute]:
    """Routes of an API that others have laid down: what the service refuses is told in its shape."""

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handler = super().get_route_handler()

            async def answer(request: Request) -> Response:
                try:
                    return await handler(request)
                except ServeError as error:
                    return refuse(error)

            return answer

    return Route
