"""A bundle's CTranslate2 model: made once, checked whenever it is used, found without torch.

It stands in the bundle, as `ctranslate2/int8/` (`ctranslate2/int8-shortlist/` with a shortlist), or, where nothing can
be written there, in the user's cache (`$XDG_CACHE_HOME` or `~/.cache`, then `transduce/ctranslate2/`). One that is
damaged, or was made of other weights or by another CTranslate2, is made again. The cache keeps the `KEPT` conversions
that were used last.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

from transduce.bundle import MANIFEST, Bundle, read_manifest, write_manifest
from transduce.errors import BundleError, UserError, require
from transduce.files import sha256, take_lock, write_directory, write_json
from transduce.interop.ctranslate2 import EXTRA, VMAP, WEIGHTS, convert, refusal, tokens

if TYPE_CHECKING:
    from transduce.data.preparation import Prepared

FOLDER = "ctranslate2"
COMPUTE_TYPE = "int8"
ORIGIN = "origin.json"  # of what and by what a conversion was made
LOCK = "lock"
KEPT = 8


def ready(
    bundle: Bundle,
    say: Callable[[str], None],
    warn: Callable[[str], None] | None = None,
    *,
    compute_type: str = COMPUTE_TYPE,
    shortlist: bool = False,
) -> Path:
    """The directory of a whole conversion of this bundle, which is made if there is none; `warn` hears of damage.

    With a shortlist, one is learned from the training pairs of the bundle's run and stands beside the weights.
    """
    origin = _origin(bundle, compute_type, shortlist)
    places = _places(bundle, origin)
    for place in places:
        if _is_whole(place, origin, warn or say):
            _mark_used(place)
            return place
    for place in places:
        try:
            lock = _open_lock(place.parent)
        except OSError:  # nothing can be written there
            continue
        with lock:
            take_lock(lock, wait=True)
            if not _is_whole(place, origin, _ignore):  # nobody else has made it meanwhile
                say(f"{place}: converting the model for CTranslate2, once")
                _make(bundle, place, origin, say)
            if place != places[0]:
                _forget_oldest(place)
        return place
    tried = " nor in ".join(str(place.parent) for place in places)
    raise UserError(f"no place for the CTranslate2 model: cannot write in {tried}: set XDG_CACHE_HOME to one")


def convert_early(bundle: Bundle, say: Callable[[str], None]) -> None:
    """Convert a bundle that can be, so that its first translation need not wait."""
    if find_spec("ctranslate2") is not None and refusal(bundle.config.model) is None:
        ready(bundle, say)


def _origin(bundle: Bundle, compute_type: str, shortlist: bool) -> dict[str, str]:
    version = require("ctranslate2", extra=EXTRA).__version__
    origin = {"bundle": sha256(bundle.path / MANIFEST), "ctranslate2": version, "compute_type": compute_type}
    if not shortlist:
        return origin
    from transduce.data.shortlist import BEST, FREQUENT

    return {**origin, "shortlist": f"{FREQUENT} and {BEST}"}


def _places(bundle: Bundle, origin: dict[str, str]) -> list[Path]:
    """Where a conversion may stand, the bundle itself first."""
    key = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()
    places = [bundle.path / FOLDER / (origin["compute_type"] + "-shortlist" * ("shortlist" in origin))]
    with suppress(RuntimeError):  # nobody's home: there is no cache
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        places.append(cache / "transduce" / FOLDER / key)
    return places


def _is_whole(place: Path, origin: dict[str, str], say: Callable[[str], None]) -> bool:
    if not place.is_dir():
        return False
    try:
        read_manifest(place, needs=[WEIGHTS, ORIGIN])
    except BundleError:
        say(f"{place}: damaged: the model will be converted again")
        return False
    return bool(json.loads((place / ORIGIN).read_text(encoding="utf-8")) == origin)


def _open_lock(directory: Path) -> IO[str]:
    directory.mkdir(parents=True, exist_ok=True)
    return (directory / LOCK).open("a", encoding="utf-8")


def _make(bundle: Bundle, place: Path, origin: dict[str, str], say: Callable[[str], None]) -> None:
    def fill(directory: Path) -> None:
        if "shortlist" in origin:
            from transduce.data.shortlist import BEST, FREQUENT, learn_shortlist

            say("learning the shortlist from the training pairs, once")
            found = learn_shortlist(_trained_on(bundle), frequent=FREQUENT, best=BEST)
            directory.mkdir(parents=True, exist_ok=True)
            found.write_vmap(directory / VMAP, tokens(bundle.source_codec), tokens(bundle.target_codec))
        convert(bundle, directory, origin["compute_type"])
        write_json(directory / ORIGIN, origin)
        write_manifest(directory, {})

    write_directory(place, fill)


def _trained_on(bundle: Bundle) -> Prepared:
    """The data of the run that a bundle stands in."""
    from transduce.data.preparation import RECORD, recall

    run = bundle.path.parent
    if not (run / RECORD).is_file():
        raise UserError(
            f"{bundle.path}: a shortlist is learned from a run's training pairs, and this bundle stands alone:"
            " give the run that it came from, or leave --shortlist out"
        )
    prepared = recall(run)
    for found, own in ((prepared.source_codec, bundle.source_codec), (prepared.target_codec, bundle.target_codec)):
        if found.fingerprint() != own.fingerprint():
            raise UserError(
                f"{run}: its training pairs have another vocabulary than {bundle.path}: leave --shortlist out"
            )
    return prepared


def _mark_used(place: Path) -> None:
    with suppress(OSError):  # not ours to touch
        os.utime(place)


def _forget_oldest(place: Path) -> None:
    """Remove all conversions of the cache but the `KEPT` that were used last; `place` is one of these."""
    _mark_used(place)
    others = sorted((p for p in place.parent.iterdir() if p.is_dir() and p != place), key=_last_used)
    for old in others[: max(0, len(others) - (KEPT - 1))]:
        shutil.rmtree(old, ignore_errors=True)


def _last_used(place: Path) -> float:
    return place.stat().st_mtime


def _ignore(message: str) -> None:
    """Nobody listens."""
