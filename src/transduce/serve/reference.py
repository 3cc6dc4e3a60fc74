"""A page that lists every route, made from /openapi.json: nothing is loaded from anywhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse, Response

METHODS = ("get", "post", "put", "delete")


def routes(app: FastAPI) -> APIRouter:
    """/reference and its style sheet."""
    router = APIRouter(include_in_schema=False)
    style = (files("transduce.serve") / "reference.css").read_bytes()

    @router.get("/reference")
    async def reference() -> HTMLResponse:
        return HTMLResponse(page(app.openapi()))

    @router.get("/reference.css")
    async def reference_style() -> Response:
        return Response(style, media_type="text/css")

    return router


def page(openapi: Mapping[str, Any]) -> str:
    """The whole page."""
    title = f"{openapi['info']['title']} {openapi['info']['version']}"
    schemas = openapi.get("components", {}).get("schemas", {})
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{escape(title)}</title><link rel="stylesheet" href="reference.css"></head><body><main>',
        f"<h1>{escape(title)}</h1><p>{escape(openapi['info'].get('description', ''))}</p>",
        '<p>The same for programs: <a href="openapi.json">openapi.json</a>.</p>',
    ]
    for path, methods in openapi["paths"].items():
        for method in METHODS:
            if method in methods:
                parts += operation(path, method, methods[method], schemas)
    return "".join([*parts, "</main></body></html>\n"])


def operation(path: str, method: str, what: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    """One method of a route: what it is for, what it takes, and what it answers."""
    yield f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
    yield f"<p>{escape(what.get('description') or what.get('summary', ''))}</p>"
    rows = [(each["name"], each.get("required", False), each["schema"]) for each in what.get("parameters", [])]
    for content in what.get("requestBody", {}).get("content", {}).values():
        body = resolve(content["schema"], schemas)
        needed = body.get("required", [])
        rows += [(name, name in needed, field) for name, field in body.get("properties", {}).items()]
    if rows:
        yield "<table><thead><tr><th>field</th><th>type</th><th>what it is</th></tr></thead><tbody>"
        for name, needed, field in sorted(rows, key=lambda row: not row[1]):
            kind = escape(kind_of(field, schemas)) + (", needed" if needed else "")
            about = escape(field.get("description", ""))
            yield f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{about}</td></tr>"
        yield "</tbody></table>"
    answers = (
        f"{status} {escape(each.get('description', '').rstrip('.'))}" for status, each in what["responses"].items()
    )
    yield f"<p class='answers'>{' · '.join(answers)}</p></section>"


def resolve(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference leads to."""
    found: Mapping[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def kind_of(field: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """A field's type in a few words."""
    if "$ref" in field:
        inner = resolve(field, schemas).get("properties", {})
        return "object of " + ", ".join(inner) if inner else "object"
    if "anyOf" in field:
        kinds = (kind_of(each, schemas) for each in field["anyOf"] if each.get("type") != "null")
        return " or ".join(kinds)
    if "enum" in field or "const" in field:
        return " or ".join(json.dumps(value) for value in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        if "prefixItems" in field:
            return "[" + ", ".join(kind_of(each, schemas) for each in field["prefixItems"]) + "]"
        return "list of " + kind_of(field.get("items", {}), schemas)
    bounds = [f"{word} {field[key]:g}" for key, word in BOUNDS.items() if key in field]
    return " ".join([field.get("type", "any"), *bounds])


BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
