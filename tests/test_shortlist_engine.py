"""Translation with a shortlist: learned from the run's pairs, kept beside the weights, and held to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from transduce import Translator
from transduce.bundle import open_bundle
from transduce.data.preparation import recall
from transduce.data.shortlist import learn_shortlist
from transduce.decode.choice import open_engine
from transduce.decode.conversion import ready
from transduce.decode.hypothesis import Request
from transduce.errors import UserError


@pytest.fixture(scope="module")
def own_run(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose conversions nobody else uses."""
    directory = tmp_path_factory.mktemp("shortlist") / "run"
    shutil.copytree(run, directory, ignore=shutil.ignore_patterns("checkpoints"))
    return directory


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few tokens that they matter with a small vocabulary."""
    monkeypatch.setattr("transduce.data.shortlist.FREQUENT", 20)
    monkeypatch.setattr("transduce.data.shortlist.BEST", 2)


@pytest.mark.usefixtures("narrow")
def test_a_line_alone_keeps_to_its_own_list(own_run: Path) -> None:
    prepared = recall(own_run)
    shortlist = learn_shortlist(prepared, frequent=20, best=2)
    translator = Translator.load(own_run, shortlist=True)
    assert translator.engine.name == "ctranslate2"
    free = Translator.load(own_run, engine="ctranslate2")
    outside = 0
    for ids in prepared.source_codec.encode_many(prepared.valid_source[:40]):
        allowed = set(shortlist.candidates(ids).tolist())
        kept, unbound = (
            each.engine.search([Request(tuple(ids))], each.search)[0][0].ids for each in (translator, free)
        )
        assert allowed.issuperset(kept)
        outside += not allowed.issuperset(unbound)
    assert outside, "a shortlist so narrow must forbid something"


def test_a_wide_list_changes_next_to_nothing(own_run: Path) -> None:
    lines = recall(own_run).valid_source
    found = [
        [translation.text for translation in Translator.load(own_run, shortlist=use).translate(lines)]
        for use in (False, True)
    ]
    same = sum(a == b for a, b in zip(*found, strict=True))
    assert same >= 0.9 * len(lines)


def test_it_stands_beside_the_plain_conversion(own_run: Path) -> None:
    said: list[str] = []
    bundle = open_bundle(own_run)
    with_list, plain = (ready(bundle, said.append, shortlist=use) for use in (True, False))
    assert (with_list / "vmap.txt").is_file()
    assert not (plain / "vmap.txt").exists()
    said.clear()
    assert ready(bundle, said.append, shortlist=True) == with_list
    assert not said, "made once"


def test_a_bundle_alone_has_no_pairs_to_learn_from(bundle: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(bundle, alone, ignore=shutil.ignore_patterns("ctranslate2"))
    with pytest.raises(UserError, match="stands alone: give the run"):
        Translator.load(alone, shortlist=True)


def test_pytorch_has_none(bundle: Path) -> None:
    with pytest.raises(UserError, match="the PyTorch engine has none"):
        open_engine(open_bundle(bundle), "pytorch", print, shortlist=True)
