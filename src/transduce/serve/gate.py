"""Before anything else: who may ask at all, what every answer says of itself, and a line in the log.

A Host that is not the server's is refused, since a name that an attacker owns can be made to lead here. So is an
Origin that is not the server's own, unless --cors-origin names it: no other page uses the server through its reader's
browser. The log has no query strings, no keys and no text, and of a path only the route that it leads to.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.serve.addresses import parse_address, printable
from transduce.serve.answer import refusal
from transduce.serve.metrics import METHODS, Metrics
from transduce.serve.overload import Unread
from transduce.serve.settings import Settings

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none';"
    " form-action 'self'"
)
OF_EVERY_ANSWER = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
NO_ROUTE = "unknown"
SCHEMES = ("http", "https")
HUNG_UP = 499
"""What the log says of a client that did not wait for its answer."""

access = logging.getLogger("transduce.access")
errors = logging.getLogger("transduce.serve")


@dataclass
class Seen:
    """What became of a request."""

    status: int = HUNG_UP
    size: int = 0
    started: bool = False


class Gate:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._proxies = settings.trusted_networks()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it pass or refuse it; log it either way."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, headers, seen = time.monotonic(), Headers(scope=scope), Seen()
        self._believe(scope, headers)
        origin = headers.get("origin")

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status, seen.started = message["status"], True
                self._mark(MutableHeaders(scope=message), origin)
            seen.size += len(message.get("body", b""))
            await send(message)

        try:
            refused = self._refuse(scope["method"], headers)
            await (self.app if refused is None else refused)(scope, receive, answer)
        except Exception:
            errors.exception("a bug: %s %s", scope["method"][:10], route_of(scope))
            if not seen.started:
                await refusal(500, "internal error")(scope, receive, answer)
        finally:
            self._log(scope, seen, time.monotonic() - began)

    def _refuse(self, method: str, headers: Headers) -> Response | None:
        """The answer to those who have no business here, and to browsers that ask beforehand."""
        host = headers.get("host", "")
        if not self.settings.allows_host(host_name(host)):
            return refusal(400, "this server has another name: --allowed-host adds one")
        origin = headers.get("origin")
        if origin is None or own_part(origin) == host.lower():
            return None
        if origin not in self.settings.cors_origins:
            return refusal(403, "a foreign page may not use this server: --cors-origin allows one")
        if method != "OPTIONS" or "access-control-request-method" not in headers:
            return None
        allowed = headers.get("access-control-request-headers", "")
        return Response(
            status_code=204,
            headers={
                "Access-Control-Allow-Methods": "GET, POST",
                "Access-Control-Allow-Headers": "".join(c for c in allowed if c.isalnum() or c in "-, "),
                "Access-Control-Max-Age": "600",
            },
        )

    def _mark(self, headers: MutableHeaders, origin: str | None) -> None:
        """What every answer says of itself."""
        for name, value in OF_EVERY_ANSWER.items():
            headers.setdefault(name, value)
        headers.setdefault("Cache-Control", "no-store")
        if self.settings.cors_origins:
            headers.add_vary_header("Origin")
            if origin in self.settings.cors_origins:
                headers["Access-Control-Allow-Origin"] = origin
                headers["Access-Control-Expose-Headers"] = "Retry-After"

    def _believe(self, scope: Scope, headers: Headers) -> None:
        """Who asks, by which scheme, as trusted proxies tell it: the last in X-Forwarded-For that is none of them."""
        found = str(scope["client"][0]) if scope.get("client") else ""
        if self._proxies and self._trusts(found):
            scheme = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
            if scheme in SCHEMES:
                scope["scheme"] = scheme
            hops = [hop.strip() for line in headers.getlist("x-forwarded-for") for hop in line.split(",")]
            while hops and self._trusts(found):
                found = hops.pop()
        scope["client"] = (found, 0)

    def _trusts(self, address: str) -> bool:
        try:
            found = parse_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._proxies)

    def _log(self, scope: Scope, seen: Seen, seconds: float) -> None:
        route, method = route_of(scope), scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.answered(route, method, seen.status, seconds)
        led = scope.get("route")
        if isinstance(led, Unread) and led.counted:
            return
        client = printable(scope["client"][0])
        access.info("%s %s %s %d %.0f ms %d bytes", client, method, route, seen.status, 1000 * seconds, seen.size)


def route_of(scope: Scope) -> str:
    """The route that a request led to, by its pattern: what stands for a part of it is not told."""
    return str(getattr(scope.get("route"), "path", NO_ROUTE))


def host_name(host: str) -> str:
    """A Host header without the port; of IPv6 without the brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def own_part(origin: str) -> str:
    """Host and port of an Origin; the port of its scheme is left out, as in Host."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
