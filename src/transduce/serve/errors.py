"""What a request can be refused for. Each has its HTTP status; each API writes it in its own shape.

    ServeError
    ├── BadRequest         400   says what is wrong with it
    │   ├── UnknownLanguage      a code that no model has
    │   └── UnknownPair          two codes, but no model from one to the other
    ├── KeyNeeded          401   a key file is in use
    ├── BadKey             403
    ├── TooLarge           413   over a cap
    ├── Unusable           422   options that contradict each other or the model
    ├── TooMany            429   over the limit of a key or an address
    │   └── QuotaUsed            the key's characters of today
    ├── Overloaded         429   the queue is full
    ├── Draining           503   the server is about to stop
    └── Late               504   the deadline passed

`headers` holds Retry-After where waiting helps.
"""

from __future__ import annotations

import math

from transduce.errors import UserError


class ServeError(UserError):
    """A request that is refused; the message is for whoever sent it."""

    status = 500

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.headers = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}


class BadRequest(ServeError):  # noqa: N818 - the names say what is wrong
    """A request that is not one."""

    status = 400


class UnknownLanguage(BadRequest):
    """A language code that no model has on that side."""


class UnknownPair(BadRequest):
    """Two languages that are known, but no model from one to the other."""


class KeyNeeded(ServeError):  # noqa: N818
    """No key, where one is needed."""

    status = 401


class BadKey(ServeError):  # noqa: N818
    """A key that is not in the key file."""

    status = 403


class TooLarge(ServeError):  # noqa: N818
    """More than a cap allows."""

    status = 413

    def __init__(self, what: str, given: int, limit: int) -> None:
        super().__init__(f"{given} {what}: at most {limit} are taken: send less at a time")
        self.given, self.limit = given, limit


class Unusable(ServeError):  # noqa: N818
    """Options that contradict each other, or that the model cannot follow."""

    status = 422


class TooMany(ServeError):  # noqa: N818
    """More requests than a key or an address may send."""

    status = 429


class QuotaUsed(TooMany):
    """A key's characters of today are used up."""


class Overloaded(ServeError):  # noqa: N818
    """The queue is full."""

    status = 429


class Draining(ServeError):  # noqa: N818
    """The server finishes what it has and takes nothing more."""

    status = 503


class Late(ServeError):  # noqa: N818
    """The deadline of a request passed before it was done."""

    status = 504
