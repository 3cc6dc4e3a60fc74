"""The page's own files over HTTP."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request, Response

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True)
class File:
    """What is sent for one name."""

    body: bytes
    media_type: str
    etag: str

    @classmethod
    def read(cls, source: Traversable) -> File:
        """A file of the package."""
        body = source.read_bytes()
        return cls(body, TYPES[source.name.rpartition(".")[2]], f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def static_files() -> dict[str, File]:
    """Every file of the page by its name. Only these are ever sent: no name leads anywhere else."""
    directory = files("transduce.serve") / "static"
    return {
        each.name: File.read(each)
        for each in directory.iterdir()
        if each.is_file() and each.name.rpartition(".")[2] in TYPES
    }


def routes() -> APIRouter:
    """`GET /` is the page, `GET /static/NAME` what it consists of."""
    known, router = static_files(), APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    def page(request: Request) -> Response:
        return answer(known["index.html"], request)

    @router.api_route("/static/{name:path}", methods=["GET", "HEAD"])
    def static(name: str, request: Request) -> Response:
        if name not in known:
            return Response("no such file\n", status_code=404, media_type="text/plain")
        return answer(known[name], request)

    return router


def answer(file: File, request: Request) -> Response:
    """The file, or that the browser's copy is still good."""
    headers = {"ETag": file.etag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    held = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if held & {file.etag, "*"}:
        return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)
