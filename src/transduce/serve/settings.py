"""What a server is told at its start; defaults have their home here."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import UserError
from transduce.serve.addresses import Network, parse_network

PAIR = re.compile(r"(?P<source>[A-Za-z]{2,3}(?:_[A-Za-z]+)*)-(?P<target>[A-Za-z]{2,3}(?:_[A-Za-z]+)*)=(?P<paths>.+)")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = ("0.0.0.0", "::", "")


@dataclass(frozen=True)
class Served:
    """A run or bundle, or several as an ensemble, and its languages where the command line tells them."""

    paths: tuple[Path, ...]
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Caps:
    """The most that one request may ask for."""

    characters: int = 5_000
    """Of all its texts together."""
    texts: int = 64
    body: int = 1 << 20
    """Bytes."""
    seconds: float = 30.0
    """From a request's arrival to its answer."""
    prefix: int = 1_000
    """Characters."""
    terms: int = 100
    """Of a glossary."""
    term: int = 200
    """Characters of each side of one of them."""
    beam: int = 16
    attended: int = 128
    """Tokens of a sentence whose attention is shown."""
    length: int = 1_000
    """Tokens that an output may be made longer, shorter or as long as."""
    off: int = 1_000
    """Heads that are switched off, repeated ones counted."""
    alternatives: int = 50
    """Of the next token."""
    code: int = 35
    """Characters of a language code."""
    name: int = 255
    """Characters of a model's name."""
    fields: int = 1_000
    """Of a form or a query string."""
    head: int = 1 << 16
    """Bytes of a request's first line and headers."""
    deepl_body: int = 128 * 1024
    """Bytes, of DeepL's API."""
    deepl_seconds: float = 8.0
    """The same as `seconds`, of DeepL's API: its client waits for ten."""


@dataclass(frozen=True)
class Settings:
    """One server."""

    models: tuple[Served, ...]
    host: str = "127.0.0.1"
    port: int = 5000
    api_keys: Path | None = None
    """A key file (`serve/keys.py`); without it any key or none will do."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which the server may be called, besides the loopback's and the address that it listens on."""
    cors_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks whose X-Forwarded-For is believed."""
    root_path: str = ""
    """Under which a proxy shows the server."""
    workers: int | None = None
    """Threads that translate; None: one for each core."""
    queue: int = 256
    """Sentences that may wait."""
    batch_tokens: int = 1024
    """Source tokens of a batch, padding included."""
    cache: int = 4096
    """Translations that are kept."""
    requests_per_minute: int | None = None
    """From one address."""
    drain_seconds: float = 30.0
    """After SIGTERM, for what has been accepted."""
    caps: Caps = Caps()

    def __post_init__(self) -> None:
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            raise UserError(f"--root-path {self.root_path}: begin it with / and end it without, as in /translate")
        for origin in self.cors_origins:
            if not re.fullmatch(r"https?://[^/\s]+", origin):
                raise UserError(f"--cors-origin {origin}: give scheme and host, as in https://example.org")
        self.trusted_networks()

    def trusted_networks(self) -> tuple[Network, ...]:
        """The proxies' addresses."""
        try:
            return tuple(parse_network(each) for each in self.trusted_proxies)
        except ValueError as error:
            raise UserError(f"--trusted-proxy: {error}: give an address, or a network as in 10.0.0.0/8") from None

    def allows_host(self, name: str) -> bool:
        """Whether a Host header's name, without the port, is the server's: others would be a rebound name's.

        Whoever listens on every address has no list of them: there any address will do, but no name.
        """
        name = name.lower().rstrip(".")
        if "*" in self.allowed_hosts or name in (*LOOPBACK, self.host.lower()):
            return True
        if name in (each.lower() for each in self.allowed_hosts):
            return True
        return self.host in ANY_ADDRESS and _is_address(name)


def parse_pair(text: str) -> Served:
    """`en-de=run/`, or `en-de=run1/,run2/` for an ensemble."""
    match = PAIR.fullmatch(text)
    if match is None:
        raise UserError(f"--pair {text}: write it as en-de=run/, or en-de=run1/,run2/ for an ensemble")
    paths = tuple(Path(path) for path in match["paths"].split(",") if path)
    return Served(paths, match["source"].lower(), match["target"].lower())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
