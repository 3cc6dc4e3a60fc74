"""What a request gives, however it gives it: query string, JSON, form or file. For APIs that others have laid down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from transduce.serve.download import Upload
from transduce.serve.errors import BadRequest
from transduce.serve.service import whole_characters
from transduce.serve.settings import Caps

UTF_8 = (b"utf-8", b"utf8", b"us-ascii", b"ascii")


async def fields(request: Request) -> dict[str, Any]:
    """A request's fields, from its query string and its body; a name that is repeated has a list."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    found = grouped(request.query_params.multi_items())
    if kind == "application/json" or kind.endswith("+json"):
        try:
            given = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise BadRequest("Invalid request: the body is not JSON") from None
        if not isinstance(given, dict):
            raise BadRequest("Invalid request: the body is not a JSON object")
        return found | {name: readable(value) for name, value in given.items()}
    if kind == "application/x-www-form-urlencoded":
        try:
            body = (await request.body()).decode("utf-8", "replace")
            return found | grouped(parse_qsl(body, keep_blank_values=True, max_num_fields=Caps.fields))
        except ValueError:
            raise BadRequest(f"Invalid request: a form of more than {Caps.fields} fields") from None
    if kind == "multipart/form-data":
        check_charset(request.headers["content-type"])
        try:
            async with request.form(max_files=1, max_fields=Caps.fields) as form:
                return found | grouped([(name, await received(value)) for name, value in form.multi_items()])
        except HTTPException:
            raise BadRequest("Invalid request: the form cannot be read") from None
    return found


def check_charset(content_type: str) -> None:
    """Refuse a form that is not UTF-8: Python would know a hundred other codecs, and some take for ever."""
    charset = parse_options_header(content_type)[1].get(b"charset", UTF_8[0])
    if charset.lower() not in UTF_8:
        raise BadRequest("Invalid request: the form is not UTF-8: send it as UTF-8")


async def received(value: str | UploadFile) -> str | Upload:
    """A form's value, which lives no longer than the form."""
    return value if isinstance(value, str) else Upload(whole_characters(value.filename or ""), await value.read())


def grouped(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Values by name; those of a name that is repeated as a list."""
    by_name: dict[str, list[Any]] = {}
    for name, value in items:
        by_name.setdefault(name, []).append(readable(value))
    return {name: values[0] if len(values) == 1 else values for name, values in by_name.items()}


def readable(value: Any) -> Any:
    """A value whose texts can be written."""
    if isinstance(value, str):
        return whole_characters(value)
    return (
        [whole_characters(each) if isinstance(each, str) else each for each in value]
        if isinstance(value, list)
        else value
    )


def described(**about: str) -> dict[str, Any]:
    """A body for /openapi.json, which cannot see what a handler reads; all of it is needed."""
    properties = {name: {"type": "string", "description": text} for name, text in about.items()}
    schema = {"type": "object", "properties": properties, "required": list(about)}
    kind = "multipart/form-data" if "file" in about else "application/json"
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}
