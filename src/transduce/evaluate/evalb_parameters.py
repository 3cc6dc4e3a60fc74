"""What EVALB counts, as its parameter files say; the one that papers report scores with is `COLLINS`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import ConfigError

_NUMBERS = ("DEBUG", "MAX_ERROR", "CUTOFF_LEN", "LABELED", "DISC_ONLY")
_LABELS = ("DELETE_LABEL", "DELETE_LABEL_FOR_LENGTH", "QUOTE_LABEL")
_PAIRS = ("EQ_LABEL", "EQ_WORD")


@dataclass(frozen=True)
class Parameters:
    """A parameter file; what it does not name is as here."""

    name: str
    """Shown with a score."""
    max_error: int = 10
    """EVALB lets one error more than this pass and gives up at the next."""
    cutoff_length: int = 40
    """The report has a second summary, of sentences up to this length."""
    labeled: bool = True
    """Whether a bracket must have the right label, or only the right place."""
    delete_labels: frozenset[str] = frozenset()
    """Words with these tags are left out, and brackets with these labels, but not what they hold."""
    delete_labels_for_length: frozenset[str] = frozenset()
    """Words with these tags do not count for a sentence's length; all others do."""
    quote_labels: frozenset[str] = frozenset()
    """Tags that ' " and / may be mistaken for: such a word, left out on one side only, is put back."""
    equal_labels: frozenset[tuple[str, str]] = frozenset()
    """Labels and tags that count as the same; the order in a pair means nothing."""
    equal_words: frozenset[tuple[str, str]] = frozenset()

    def same_label(self, a: str, b: str) -> bool:
        """Of two brackets or tags; equality is not handed on from one pair to the next."""
        return a == b or (a, b) in self.equal_labels or (b, a) in self.equal_labels

    def same_word(self, a: str, b: str) -> bool:
        """Of gold and test."""
        return a == b or (a, b) in self.equal_words or (b, a) in self.equal_words

    def deletes(self, label: str) -> bool:
        """Whether a bracket with this label is left out."""
        return any(self.same_label(label, deleted) for deleted in self.delete_labels)


COLLINS = Parameters(
    name="COLLINS",
    delete_labels=frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    delete_labels_for_length=frozenset({"-NONE-"}),
    equal_labels=frozenset({("ADVP", "PRT")}),
)
"""COLLINS.prm, which comes with EVALB: punctuation does not count, ADVP is as good as PRT."""


def read_parameters(path: Path) -> Parameters:
    """An EVALB parameter file (.prm), named in scores as the file is."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot read: {error}: give a parameter file of EVALB") from None
    return parse_parameters(text, name=path.name)


def parse_parameters(text: str, *, name: str) -> Parameters:
    """The lines of a parameter file: `KEYWORD value`, comments after #, others too short to be one left out.

    DEBUG is read and means nothing here. DISC_ONLY must be 0: a bracketed line has no discontinuous constituents.
    """
    numbers = {"MAX_ERROR": Parameters.max_error, "CUTOFF_LEN": Parameters.cutoff_length, "LABELED": 1}
    labels: dict[str, set[str]] = {keyword: set() for keyword in _LABELS}
    pairs: dict[str, set[tuple[str, str]]] = {keyword: set() for keyword in _PAIRS}
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#") or len(line.rstrip()) < 3:
            continue
        where = f"{name}, line {number}"
        keyword, *values = line.split()
        if keyword in _NUMBERS:
            numbers[keyword] = _whole(keyword, values, where)
        elif keyword in _LABELS:
            (label,) = _some(keyword, values, 1, where)
            labels[keyword].add(label)
        elif keyword in _PAIRS:
            one, other = _some(keyword, values, 2, where)
            pairs[keyword].add((one, other))
        else:
            known = " ".join(_NUMBERS + _LABELS + _PAIRS)
            raise ConfigError(f"{where}: EVALB has no {keyword}: take the line out, or choose from {known}")
    if numbers.get("DISC_ONLY"):
        raise ConfigError(f"{name}: DISC_ONLY: bracketed lines have no discontinuous constituents: set it to 0")
    return Parameters(
        name=name,
        max_error=numbers["MAX_ERROR"],
        cutoff_length=numbers["CUTOFF_LEN"],
        labeled=numbers["LABELED"] != 0,
        delete_labels=frozenset(labels["DELETE_LABEL"]),
        delete_labels_for_length=frozenset(labels["DELETE_LABEL_FOR_LENGTH"]),
        quote_labels=frozenset(labels["QUOTE_LABEL"]),
        equal_labels=frozenset(pairs["EQ_LABEL"]),
        equal_words=frozenset(pairs["EQ_WORD"]),
    )


def _some(keyword: str, values: Sequence[str], count: int, where: str) -> Sequence[str]:
    if len(values) != count:
        raise ConfigError(f"{where}: {keyword} takes {count}, not {len(values)}: {' '.join(values) or 'nothing'}")
    return values


def _whole(keyword: str, values: Sequence[str], where: str) -> int:
    (value,) = _some(keyword, values, 1, where)
    if not (value.isascii() and value.isdigit()):
        raise ConfigError(f"{where}: {keyword} {value}: give a whole number")
    return int(value)
