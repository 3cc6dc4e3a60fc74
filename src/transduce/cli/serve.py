"""`transduce serve`: models behind HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import require
from transduce.serve.settings import Caps, Settings, parse_pair
from transduce.serve.settings import Served as Serving

EXTRA = "serve"
DEFAULTS = Settings(models=())
CAPS = Caps()
MANY = "; several times if you like."


def serve(
    context: typer.Context,
    models: Annotated[
        list[Path] | None, typer.Argument(help="Runs or bundles, one for each pair of languages.")
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(metavar="EN-DE=RUN", help="A model that does not tell its languages; RUN1,RUN2: an ensemble."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0: every one.")] = DEFAULTS.host,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = DEFAULTS.port,
    api_keys: Annotated[Path | None, typer.Option(help="A file of keys, one a line; SIGHUP reads it again.")] = None,
    allowed_host: Annotated[list[str] | None, typer.Option(help="A name that the server has" + MANY)] = None,
    cors_origin: Annotated[list[str] | None, typer.Option(help="A page that may use the server" + MANY)] = None,
    trusted_proxy: Annotated[
        list[str] | None, typer.Option(help="An address or network whose X-Forwarded-For is believed" + MANY)
    ] = None,
    root_path: Annotated[str, typer.Option(help="Path under which a proxy shows the server.")] = DEFAULTS.root_path,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads that translate; unset: one a core.")] = None,
    queue: Annotated[int, typer.Option(min=1, help="Sentences that may wait.")] = DEFAULTS.queue,
    cache: Annotated[int, typer.Option(min=0, help="Translations that are kept; 0: none.")] = DEFAULTS.cache,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="From one address; unset: any number.")] = None,
    max_characters: Annotated[int, typer.Option(min=1, help="Of all texts of a request.")] = CAPS.characters,
    max_texts: Annotated[int, typer.Option(min=1, help="Of a request.")] = CAPS.texts,
    max_body: Annotated[int, typer.Option(min=1000, help="Bytes of a request.")] = CAPS.body,
    seconds: Annotated[float, typer.Option(min=0.1, help="From a request to its answer.")] = CAPS.seconds,
    drain_seconds: Annotated[float, typer.Option(min=0, help="To finish after SIGTERM.")] = DEFAULTS.drain_seconds,
) -> None:
    """Serve one model or several: a JSON API, a page to look into them, metrics.

    SIGTERM finishes what was accepted and leaves; every route is listed at /reference.
    """
    display: Display = context.obj
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        require(module, extra=EXTRA)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # cores share sentences, not operations
    settings = Settings(
        models=(*(Serving((path,)) for path in models or ()), *map(parse_pair, pair or ())),
        host=host,
        port=port,
        api_keys=api_keys,
        allowed_hosts=tuple(allowed_host or ()),
        cors_origins=tuple(cors_origin or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        root_path=root_path,
        workers=workers,
        queue=queue,
        cache=cache,
        requests_per_minute=requests_per_minute,
        drain_seconds=drain_seconds,
        caps=Caps(characters=max_characters, texts=max_texts, body=max_body, seconds=seconds),
    )
    from transduce.serve.app import create_app
    from transduce.serve.server import listen, log_to_stderr, make_server, url_of

    with listen(settings) as listening:
        app = create_app(settings, say=display.note)
        log_to_stderr(quiet=display.quiet)
        typer.echo(url_of(listening))
        make_server(app, settings).run(sockets=[listening])
