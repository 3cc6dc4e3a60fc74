"""A request that was let in: until it is done a server does not leave, and its characters count if it is answered."""

from __future__ import annotations

from collections.abc import Callable

from transduce.serve.keys import Key
from transduce.serve.rates import Usage


class Admission:
    """To be used with `with`: what is raised in the block is a refusal, and a refusal costs no characters.

    They count from the beginning, so that requests at the same time cannot have more than there are.
    """

    def __init__(self, usage: Usage, key: Key | None, characters: int, pending: Callable[[int], None]) -> None:
        """`pending` hears how many more requests are under way."""
        self.key = key
        self._usage, self._characters, self._pending = usage, characters, pending
        if key is not None:
            usage.add(key.digest, characters)

    def __enter__(self) -> Admission:
        self._pending(1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: object) -> None:
        self._pending(-1)
        if kind is not None:
            self.give_back()

    def give_back(self) -> None:
        """There is no answer; told twice it counts once."""
        if self.key is not None:
            self._usage.add(self.key.digest, -self._characters)
        self._characters = 0
