"""Figures 3 to 5: made from a model that is given or trained, and gone on with after an interruption."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from random_bundle import random_bundle
from transduce.config import DataConfig
from transduce.errors import UserError
from transduce.explain.head import Head, all_heads
from transduce.explain.heads import SCORES, Found, Loss, Scores
from transduce.paper import demo_run, found_heads
from transduce.paper.figure3 import figure3
from transduce.paper.figure4 import Choice, choose, figure4, verdict
from transduce.paper.figure5 import figure5, task
from transduce.paper.found_heads import subject
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study
from trials import SMALL


@pytest.fixture
def study(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setitem(found_heads.READ, "tiny", 25)
    monkeypatch.setitem(found_heads.TRANSLATED, "tiny", 3)
    return Study(work=tmp_path / "work", bundles=(bundle,))


def check(result: Result, tmp_path: Path) -> dict[str, Table]:
    """The page is there, its pictures are SVG, and the claims stand beside the paper's; returns the tables."""
    assert result.write(tmp_path, "").is_file()
    for part in result.parts:
        if isinstance(part, Picture):
            ElementTree.fromstring(part.svg)
    tables = {part.name: part for part in result.parts if isinstance(part, Table)}
    assert list(tables[f"{result.name}-claims"].heading) == ["what", "paper", "here"]
    return tables


@pytest.mark.parametrize("knows_only_phrases", [True, False])
def test_a_verb_and_its_far_complement(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows_only_phrases: bool
) -> None:
    monkeypatch.setattr(found_heads, "knows_only_phrases", lambda data: knows_only_phrases)
    tables = check(figure3(study), tmp_path)
    assert len(tables["figure3-heads"].rows) == 4 + 1
    verb = "ma(de|ke|kes)" if knows_only_phrases else "making"
    assert re.match(rf"{verb} \.\.\. more \w+$", tables["figure3-claims"].rows[-1][2])


@pytest.mark.parametrize("knows_only_phrases", [True, False])
def test_a_pronoun_in_two_heads(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows_only_phrases: bool
) -> None:
    monkeypatch.setattr(found_heads, "knows_only_phrases", lambda data: knows_only_phrases)
    tables = check(figure4(study), tmp_path)
    heads = tables["figure4-heads"].rows
    assert [float(row[1]) for row in heads[:-1]] == sorted((float(row[1]) for row in heads[:-1]), reverse=True)
    names = [row[0] for row in tables["figure4-without"].rows]
    assert names[0] == "none"
    assert len(names) == len(set(names))


def scored(*heads: tuple[float, float]) -> Found:
    """Encoder heads of one layer, each with its weight on the antecedent and its share of phrases won."""
    values = dict.fromkeys(SCORES, math.nan)
    return Found(
        {
            Head("encoder", 0, place): Scores(**{**values, "anaphora": weight, "resolution": won})
            for place, (weight, won) in enumerate(heads)
        },
        {},
    )


def test_heads_that_resolve_pronouns_come_before_those_that_look_at_any_noun() -> None:
    first, second, third, fourth = (Head("encoder", 0, place) for place in range(4))
    found = scored((0.9, 0.54), (0.3, 0.77), (0.2, 0.63), (0.1, 0.42))
    assert choose(found, 100) == Choice([second, third], [first, fourth], resolving=True)
    assert choose(found, 16) == Choice([second], [fourth], resolving=True)  # 16 phrases tell less
    assert choose(found, 4) == Choice([first, second], [third, fourth], resolving=False)


def test_heads_shown_are_never_those_they_are_compared_with() -> None:
    first, second, third = (Head("encoder", 0, place) for place in range(3))
    both = scored((0.5, 0.9), (0.4, 0.9))
    assert choose(both, 100) == Choice([first, second], [], resolving=True)
    assert "no other heads" in verdict(choose(both, 100), {(): 1.0, (first,): 0.9, (first, second): 0.8}, 100)
    three = choose(scored((0.5, 0.9), (0.4, 0.9), (0.3, 0.1)), 100)
    assert three == Choice([first, second], [third], resolving=True)
    off = {(): 1.0, (first,): 0.5, (first, second): 0.2, (third,): 0.9}
    assert "Without head 1 of layer 1, 50.0 points fewer" in verdict(three, off, 100)  # one against one


@pytest.mark.parametrize(
    ("own", "other", "says"),
    [(0.4, 0.9, "the paper's claim shows."), (0.7, 0.69, "does not show."), (0.9, 0.4, "other heads do more")],
)
def test_the_verdict_follows_from_the_numbers(own: float, other: float, says: str) -> None:
    choice = choose(scored((0.5, 0.9), (0.4, 0.5)), 100)
    assert says in verdict(choice, {(): 1.0, tuple(choice.shown): own, tuple(choice.compared): other}, 100)
    nobody = choose(scored((0.5, 0.5), (0.4, 0.5)), 100)
    assert verdict(nobody, {}, 100).startswith("The paper's claim does not show in this model")


def test_a_model_of_the_phrasebook_is_known_by_its_files(tmp_path: Path) -> None:
    files = demo_run.write_phrasebook(tmp_path)
    named = DataConfig(source=(str(files["source"]),))
    assert demo_run.knows_only_phrases(named)
    assert not demo_run.knows_only_phrases(DataConfig(source=(*named.source, "news.en")))
    assert not demo_run.knows_only_phrases(DataConfig(pairs=("pairs.tsv",)))


def test_every_head_has_its_row(study: Study, tmp_path: Path) -> None:
    tables = check(figure5(study), tmp_path)
    model = subject(study).translator.reference.model
    assert [row[0] for row in tables["figure5-heads"].rows] == [str(head) for head in all_heads(model.config)]


def test_what_was_measured_before_an_interruption_is_kept(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(after: int) -> list[object]:
        measured: list[object] = []

        def without(translator: object, heads: object, corpus: object) -> Loss:
            if len(measured) == after:
                raise KeyboardInterrupt
            measured.append(heads)
            return Loss(float(len(measured)), 2.0)

        monkeypatch.setattr(found_heads, "without", without)
        return measured

    interrupted(4)
    with pytest.raises(KeyboardInterrupt):
        subject(study).losses()
    rest = interrupted(100)
    whole, found = subject(study).losses()
    assert whole == Loss(1.0, 2.0)  # of the first time
    assert len(rest) == len(found) - 3
    assert not interrupted(0)
    assert subject(study).losses() == (whole, found)


def test_a_damaged_measurement_is_named(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_heads, "without", lambda *arguments: Loss(1.0, 2.0))
    subject(study).losses()
    (kept,) = (study.work / "heads").iterdir()
    kept.write_text("[]", encoding="utf-8")
    with pytest.raises(UserError, match=r"\.json: damaged: remove it to measure again"):
        subject(study).losses()


def test_a_head_is_named_by_what_it_does_most() -> None:
    chance = Scores(*[0.1] * 10)
    assert task(Scores(0.9, 0.2, 0.1, 0.9, 0.3, 0.3, 0.1, 0.9, 0.1, 0.1), chance) == "the token before"
    assert task(Scores(0.1, 0.2, 0.1, 0.9, 0.3, 0.3, 0.7, 0.9, 0.1, 0.1), chance) == "anaphora"
    assert task(Scores(*[0.15] * 10), chance) == ""


def test_models_that_the_figures_cannot_use_are_refused(tmp_path: Path) -> None:
    random_bundle(tmp_path / "one", num_heads=1)
    with pytest.raises(UserError, match="one head a layer"):
        subject(Study(work=tmp_path, bundles=(tmp_path / "one",)))
    with pytest.raises(UserError, match="wmt14-en-de"):
        subject(Study(scale="paper", work=tmp_path))
    with pytest.raises(UserError, match="no such directory"):
        subject(Study(work=tmp_path, bundles=(tmp_path / "nowhere",)))


def test_without_a_model_one_is_trained_and_an_unfinished_run_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_run, "PAIRS", (("train", "", 300), ("valid", "valid_", 20)))
    monkeypatch.setitem(demo_run.STEPS, "tiny", (*SMALL, "train.steps=3", "train.save_every=2"))
    study = Study(work=tmp_path)
    run = demo_run.model_of(study)
    manifest = run / "model" / "manifest.json"
    first = manifest.read_bytes()
    (run / "model").rename(tmp_path / "lost")
    assert demo_run.model_of(study) == run
    assert manifest.read_bytes() == first
    stamp = manifest.stat().st_mtime_ns
    assert demo_run.model_of(study) == run
    assert manifest.stat().st_mtime_ns == stamp
