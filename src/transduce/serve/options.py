"""How a sentence shall be translated. Equal options may share a batch, and a place in the cache."""

from __future__ import annotations

from dataclasses import dataclass

from transduce.explain.head import Head

SHORT = 80
"""What a text takes besides its characters."""


@dataclass(frozen=True)
class Options:
    """Unset ones are the model's."""

    beam: int | None = None
    alpha: float | None = None
    n_best: int = 1
    prefix: str = ""
    """How every output begins."""
    glossary: tuple[tuple[str, str], ...] = ()
    """Terms and how they must be translated; a term that stays is translated by itself."""
    tokens: bool = False
    """Whether to tell the log-probability of each token."""
    alignment: bool = False
    """Whether to tell which word comes from which."""
    attention: bool = False
    """Whether to tell how much each word looked at each: what the alignment is made of."""
    off: tuple[Head, ...] = ()
    """Heads that are switched off."""
    settings: tuple[tuple[str, object], ...] = ()
    """Other keys of `SearchConfig`, with their values."""

    @property
    def size(self) -> int:
        """Characters that they take to keep, about; short texts take more than they have."""
        return len(self.prefix) + sum(2 * SHORT + len(source) + len(target) for source, target in self.glossary)

    @property
    def plain(self) -> bool:
        """Whether only texts and scores are wanted."""
        return not (self.tokens or self.alignment or self.attention or self.off)
