"""Translations that were asked for before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.serve.model import Translated

CHARACTERS = 2_000_000
"""Of all texts and options together, however many there are: long ones make way sooner."""


class Cache:
    """The translations that were used last, by model, options and text; for one thread."""

    def __init__(self, entries: int, characters: int = CHARACTERS) -> None:
        self.entries, self.characters = entries, characters
        self._held: OrderedDict[Hashable, tuple[Translated, int]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Hashable) -> Translated | None:
        """What was found before, which so becomes the latest used."""
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return self._held[key][0]

    def put(self, key: Hashable, found: Translated, *, key_size: int) -> None:
        """Keep it, and let go of those that were not used for longest; `key_size` is what the key takes."""
        size = key_size + len(found.text) + sum(len(each.text) for each in found.alternatives)
        if not self.entries or size > self.characters or key in self._held:
            return
        self._held[key] = found, size
        self._size += size
        while len(self._held) > self.entries or self._size > self.characters:
            _, (_, gone) = self._held.popitem(last=False)
            self._size -= gone
