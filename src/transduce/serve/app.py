"""The server as an ASGI application: routers, the gate before them, and what they answer when they refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from transduce.errors import UserError
from transduce.serve import deepl, libretranslate, native, page, reference, status
from transduce.serve.answer import http_error, invalid, refuse, serve_error
from transduce.serve.body import WholeBody
from transduce.serve.errors import ServeError
from transduce.serve.gate import Gate
from transduce.serve.keys import Keys
from transduce.serve.model import Model
from transduce.serve.overload import Overload, Refuse
from transduce.serve.service import Service
from transduce.serve.settings import Settings
from transduce.version import __version__


def create_app(settings: Settings, *, say: Callable[[str], None] = lambda message: None) -> FastAPI:
    """Load the models and put everything together; `say` hears which model got which engine."""
    if settings.api_keys is not None:
        Keys.read(settings.api_keys)  # a mistake in it is told before the models are loaded
    return app_of(Service(load_models(settings, say), settings))


def load_models(settings: Settings, say: Callable[[str], None]) -> list[Model]:
    """Every model that is served; no two have the same name."""
    if not settings.models:
        raise UserError("no model to serve: give a run, or --pair en-de=run/")
    models: list[Model] = []
    for served in settings.models:
        model = Model.load(served, say=say)
        names = [each.name for each in models]
        if model.name in names:
            model.name = next(name for n in range(2, len(names) + 3) if (name := f"{model.name}-{n}") not in names)
        say(f"{model.name}: {model.source_lang} to {model.target_lang}")
        models.append(model)
    return models


def app_of(service: Service) -> FastAPI:
    """A service behind HTTP; `app.state.service` is it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="transduce",
        version=__version__,
        description="A Transformer behind HTTP. Texts are sentences; everything is JSON in UTF-8.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers={
            ServeError: serve_error,
            RequestValidationError: invalid,
            HTTPException: http_error,
        },
    )
    app.state.service = service
    for router in (
        native.routes(service),
        libretranslate.routes(service),
        deepl.routes(service),
        status.routes(service),
        reference.routes(app),
        page.routes(),
    ):
        app.include_router(router)
    app.add_middleware(WholeBody, caps=service.caps, others=libretranslate.POSTS)
    app.add_middleware(
        Overload,
        queue=service.queue,
        refusals=refusals(),
        identify=service.identify,
        keys_inside=libretranslate.QUEUED,
    )
    app.add_middleware(Gate, settings=service.settings, metrics=service.metrics)
    return app


def refusals() -> dict[str, Refuse]:
    """The paths that need a place in the queue, and how each API refuses."""
    return {
        **dict.fromkeys(native.QUEUED, refuse),
        **dict.fromkeys(libretranslate.QUEUED, libretranslate.refuse),
        **dict.fromkeys(deepl.QUEUED, deepl.refuse),
    }
