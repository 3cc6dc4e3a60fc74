"""The scripts of published results: what they keep, what they leave alone, what they write."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runs import cmudict, craft_parser, multi30k, options, student, tatoeba
from runs.arm import WEIGHT, Arm, BackTranslated
from runs.command import RESULTS, Order
from runs.page import MARK, PAGE, SECTIONS, page
from runs.recipe import Recipe
from runs.record import changed
from toy_treebank import SETTINGS as TREES
from toy_treebank import write_treebank
from transduce import Translator
from transduce.bundle import open_bundle
from transduce.config import Config, DataConfig, TrainConfig
from transduce.decode.ctranslate2_engine import cores
from transduce.decode.job import record_of
from transduce.errors import Interrupted, UserError
from transduce.evaluate.bleu import bleu, lowercased_moses_bleu
from transduce.paper.craft import CRAFT
from transduce.paper.grid import Failure
from transduce.paper.result import Table
from transduce.paper.study import Study
from transduce.paper.table4 import RECIPES, table4
from transduce.settings import load_config
from transduce.train.history import read_history
from transduce.train.loop import Loop
from trials import SMALL, Recorder, StopAfter, content

SHORT = "search.extra_length=3"
QUICK = (*SMALL, "train.steps=4", "train.validate_every=2", "train.save_every=1", "search.beam=2", SHORT)
PARTS = {"train": 120, "val": 6, "dev": 6, "test": 6, **dict.fromkeys(multi30k.TESTS, 5)}


@pytest.fixture
def order(tmp_path: Path, phrasebook: Path) -> Order:
    """A place for everything, and a few phrases in place of each corpus."""
    data = tmp_path / "data"
    for language in ("en", "de"):
        lines = (phrasebook / f"train.{language}").read_text(encoding="utf-8").split("\n")
        for start, (part, count) in enumerate(PARTS.items()):
            for corpus in ("multi30k", "tatoeba-en-de"):
                (data / corpus).mkdir(parents=True, exist_ok=True)
                text = "".join(line + "\n" for line in lines[200 * start : 200 * start + count])
                (data / corpus / f"{part}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "work").mkdir()
    return Order(tmp_path / "work", data=data, results=tmp_path / "results")


@pytest.fixture
def finished(run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of all trainings: a run that is there."""
    monkeypatch.setattr(Recipe, "train", lambda *arguments: run)
    for module in (multi30k, options):
        monkeypatch.setattr(module, "SETTINGS", ("search.beam=2", SHORT))
    return run


def trying(order: Order, *settings: str) -> Order:
    return Order(order.work, settings, order.data, order.results)


def written(order: Order, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((order.results / f"{name}.json").read_text(encoding="utf-8"))
    return found


def refuse(what: str) -> Callable[..., None]:
    def refused(*arguments: object, **options: object) -> None:
        raise AssertionError(what)

    return refused


def test_a_result_says_how_it_came_about(order: Order, finished: Path) -> None:
    multi30k.publish(order)
    record = written(order, "multi30k")
    made = {"date", "command", "seed", "preset", "config", "updates", "seconds", "validations", "environment"}
    assert made | {"scores"} == set(record)
    assert record["command"] == "python -m runs.multi30k --work DIRECTORY"
    assert record["config"]["data.source"] == ["train.en"]
    assert record["config"]["train.steps"] == record["updates"] == open_bundle(finished).config.train.steps
    assert record["validations"][-1][0] <= record["updates"]
    assert record["environment"] == read_history(finished).environment
    for path in (order.work, finished, Path.home()):
        assert str(path) not in json.dumps(record)


def test_a_result_says_how_its_outputs_were_searched_for(order: Order, finished: Path) -> None:
    assert open_bundle(finished).config.search.beam != 2
    multi30k.publish(order)
    config = written(order, "multi30k")["config"]
    assert (config["search.beam"], config["search.extra_length"]) == (2, 3)


def test_scores_are_those_of_the_outputs(order: Order, finished: Path) -> None:
    multi30k.publish(order)
    lines = {}
    for language in ("en", "de"):
        data = gzip.decompress((order.data / "multi30k" / f"test_2016_flickr.{language}.gz").read_bytes())
        lines[language] = data.decode().removesuffix("\n").split("\n")
    translator = Translator.load(finished, engine="pytorch")
    settings = {"beam": 2, "extra_length": 3}
    texts = [each.text for each in translator.translate(lines["en"], settings=settings)]
    moses, sacre = written(order, "multi30k")["scores"]["test_2016_flickr"]
    assert moses["value"] == lowercased_moses_bleu(texts, lines["de"], language="de").value
    assert sacre["value"] == bleu(texts, lines["de"], lowercase=True).value


@pytest.mark.usefixtures("finished")
def test_what_was_translated_is_not_translated_again(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    multi30k.publish(order)
    first = written(order, "multi30k")["scores"]
    monkeypatch.setattr(Translator, "load", refuse("translated again"))
    multi30k.publish(order)
    assert written(order, "multi30k")["scores"] == first


@pytest.mark.usefixtures("finished")
def test_a_trial_leaves_test_sets_and_results_alone(order: Order) -> None:
    for path in order.data.rglob("test*"):
        path.unlink()
    multi30k.publish(trying(order, "search.beam=1"))
    assert not order.results.exists()


def test_another_recipe_is_another_run_and_another_search_is_not(tmp_path: Path) -> None:
    def place(*tried: str) -> Path:
        return Recipe("name", "tiny", ("train.steps=4", "search.beam=5"), tried).directory(tmp_path)

    assert place("search.beam=1") == place()
    assert len({place(), place("train.ema=0.9"), place("train.ema=0.99")}) == 3
    assert Recipe("name", "tiny", ("search.beam=5",), ("search.beam=1",)).search == {"beam": 1}


def test_a_preset_that_changed_and_another_teacher_are_other_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = {Recipe("name", "tiny", (), beside=teacher).directory(tmp_path) for teacher in ("", "one", "another")}
    assert len(taught) == 3
    changed = load_config(preset="tiny", settings=["train.warmup_steps=7"])
    monkeypatch.setattr("runs.recipe.load_config", lambda **asked: changed)
    assert Recipe("name", "tiny", ()).directory(tmp_path) not in taught


def test_a_script_that_was_broken_off_goes_on_to_the_same_end(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi30k, "SETTINGS", QUICK)
    recipe = Recipe("multi30k", "tiny", QUICK)
    files = multi30k.corpus(order.data)
    whole = recipe.train(order.work / "unbroken", files, order.listener)
    with pytest.raises(Interrupted):
        recipe.train(order.work, files, StopAfter({2}, 15))
    multi30k.publish(order)
    broken = recipe.directory(order.work)
    assert (broken / "model" / "model.safetensors").read_bytes() == (whole / "model/model.safetensors").read_bytes()
    assert written(order, "multi30k")["config"]["train.steps"] == 4


def test_what_time_buys_is_what_the_checkpoints_held_then(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [each for each in QUICK if not each.startswith("train.steps")]
    monkeypatch.setattr(tatoeba, "SETTINGS", (*settings, "train.minutes=6", "train.average_count=2"))
    monkeypatch.setattr(tatoeba, "MILESTONES", (2.5, 4))
    monkeypatch.setattr(Loop, "seconds", property(lambda loop: 60.0 * loop.state.step))  # an update takes a minute
    tatoeba.publish(order)
    found = written(order, "tatoeba")["scores"]["test"]
    assert [(row["minutes"], row["updates"]) for row in found] == [(2.5, 2), (4, 4), (6, 6)]
    assert [row["checkpoints"] for row in found] == [2, 2, 2]
    (run,) = order.work.glob("tatoeba-*")
    shorter = Recipe("shorter", tatoeba.PRESET, (*settings, "train.steps=4", "train.average_count=2"))
    ended = shorter.train(order.work, tatoeba.corpus(order.data), order.listener)
    assert (run / "milestones/4/model.safetensors").read_bytes() == (ended / "model/model.safetensors").read_bytes()


def test_a_shorter_trial_is_scored_at_the_times_that_it_has(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [each for each in QUICK if not each.startswith("train.steps")]
    monkeypatch.setattr(tatoeba, "SETTINGS", (*settings, "train.average_count=2"))
    monkeypatch.setattr(tatoeba, "MILESTONES", (2.5, 4))
    monkeypatch.setattr(Loop, "seconds", property(lambda loop: 60.0 * loop.state.step))
    heard = Recorder()
    tatoeba.publish(Order(order.work, ("train.minutes=3",), order.data, order.results, heard))
    assert [line.partition(":")[0] for line in heard.said if "development BLEU" in line] == ["2.5 minutes", "3 minutes"]


def test_a_time_without_a_checkpoint_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"before 15 minutes: lower train\.save_every"):
        tatoeba.milestone(tmp_path, 15)


@pytest.mark.parametrize(
    ("effect", "seeds", "expected"),
    [
        (0.3, [40.0, 40.5, 40.2], "noise"),
        (-0.5, [40.0, 40.5, 40.2], "noise"),
        (0.6, [40.0, 40.5, 40.2], "better"),
        (-0.6, [40.0, 40.5, 40.2], "worse"),
    ],
)
def test_an_effect_within_the_spread_of_seeds_is_noise(effect: float, seeds: list[float], expected: str) -> None:
    assert options.verdict(effect, seeds) == expected


def test_options_are_scored_on_validation_alone_and_gone_on_with(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in order.data.rglob("test*"):
        path.unlink()
    monkeypatch.setattr(options, "SETTINGS", QUICK)
    monkeypatch.setattr(options, "ARMS", {"ema": ("train.ema=0.5",)})
    monkeypatch.setattr(options, "cores", lambda: 1)  # in this process, where SETTINGS are those above
    options.publish(order)
    first = written(order, "options")
    assert [row["seed"] for row in first["rows"]] == [1, 2, 3, 1, 1, 1, 1]
    assert [row["option"] for row in first["rows"][:4]] == ["none"] * 3 + ["ema"]
    assert all(row["updates"] == 4 and row["score"]["sentences"] == PARTS["val"] for row in first["rows"])
    runs = {
        path.parent.name.rpartition("-")[0]: open_bundle(path.parent) for path in order.work.glob("options/*/model")
    }
    assert runs["distillation-from-the-first-run"].config.data.target[0].endswith(".teacher.de")
    assert runs["back-translation-of-Tatoeba-s-German"].config.data.corpora[0].weight == WEIGHT
    assert runs["fine-tuned-from-Tatoeba"].source_codec.size == runs["Tatoeba"].source_codec.size
    assert (runs["from-German-to-English"].source_lang, runs["from-German-to-English"].target_lang) == ("de", "en")
    lines = options.show(first).split("\n")
    assert sum(line.startswith("| none |") for line in lines) == 3
    assert sum(line.endswith(("| noise |", "| better |", "| worse |")) for line in lines) == 4
    monkeypatch.setattr(Loop, "run", refuse("trained again"))
    options.publish(order)
    assert written(order, "options")["rows"] == first["rows"]
    with pytest.raises(UserError, match="change them in the script"):
        options.publish(trying(order, "train.ema=0.9"))


def test_a_whole_back_translation_is_not_made_again(
    order: Order, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[str, ...]] = []
    monkeypatch.setattr(Arm, "train", lambda arm, out, listener, *more: trained.append(more))
    monkeypatch.setattr("runs.arm.app", refuse("made again"))
    arm = BackTranslated("arm", order.data, (), (), reverse=str(run))
    (tmp_path / "arm.en-de.tsv").write_text("a\tb\n", encoding="utf-8")
    arm.train(tmp_path / "arm", order.listener)
    assert "arm.en-de.tsv" in trained[0][0]
    monkeypatch.setattr("runs.arm.app", lambda words, standalone_mode: 130)
    record_of(tmp_path / "arm.en-de.tsv").touch()
    with pytest.raises(KeyboardInterrupt):
        arm.train(tmp_path / "arm", order.listener)
    assert len(trained) == 1, "what was broken off is not trained on"


def test_an_arm_that_failed_is_named() -> None:
    with pytest.raises(UserError, match="ema: no space: the same command tries it again"):
        options.row("ema", 1, Failure("no space"))


def test_every_arm_is_a_configuration() -> None:
    scripts = (multi30k, cmudict, tatoeba, student, craft_parser)
    asked = [(script.PRESET, script.SETTINGS) for script in scripts]
    asked += [(multi30k.PRESET, (*options.SETTINGS, *settings)) for settings in options.ARMS.values()]
    for preset, settings in asked:
        train = load_config(preset=preset, settings=settings).train
        assert train.minutes or train.steps


def test_teacher_student_and_one_without_are_measured_on_the_same_lines(
    order: Order, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(student, "students", lambda order, teacher: {student.STUDENT: teacher, student.ALONE: teacher})
    monkeypatch.setattr(student, "ROUNDS", 2)
    student.publish(order)
    rows = written(order, "student")["rows"]
    assert written(order, "student")["teacher"] == changed(open_bundle(finished).config)  # whose search it taught by
    models = ("teacher", student.STUDENT, student.ALONE)
    assert [(row["model"], row["beam"]) for row in rows] == [(model, beam) for model in models for beam in (1, 5)]
    assert rows[0]["score"] == rows[2]["score"] == rows[4]["score"]  # one run stands for all
    assert {row["workers"] for row in rows} == {cores()}
    assert all(len(row["seconds"]) == 2 and row["score"]["sentences"] == 5 for row in rows)
    assert rows[0]["parameters"] == Translator.load(finished).reference.model.num_parameters()


def test_a_student_learns_from_its_teacher_and_its_like_from_the_corpus(
    order: Order, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(student, "SETTINGS", QUICK)
    monkeypatch.setattr(student, "PRESET", "tiny")
    monkeypatch.setattr(student, "cores", lambda: 1)
    taught, alone = (open_bundle(path).config.data.target[0] for path in student.students(order, run).values())
    assert taught.endswith(".teacher.de")
    assert alone == "train.de.gz"
    monkeypatch.setattr(Loop, "run", refuse("trained again"))
    assert len(student.students(order, run)) == 2


@pytest.mark.usefixtures("finished")
def test_a_search_that_no_student_would_have_is_refused(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(student, "students", refuse("trained for it"))
    with pytest.raises(UserError, match="all are searched as their teacher is"):
        student.publish(trying(order, "search.alpha=1.0"))


def test_paths_stay_out_of_a_result() -> None:
    data = DataConfig(source=("/home/me/a.en", "b.en"), store="/home/me/store")
    found = changed(Config(data=data, train=TrainConfig(start="/home/me/run", seed=7)))
    assert found == {
        "data.source": ["a.en", "b.en"],
        "data.store": "store",
        "train.start": "run",
        "train.seed": 7,
    }


@pytest.mark.usefixtures("finished")
def test_the_page_has_what_was_published_and_keeps_what_is_written_by_hand(order: Order) -> None:
    by_hand = "# Results\n\nBy hand."
    assert page(by_hand, order.results) == f"{by_hand}\n\n{MARK}\n"
    multi30k.publish(order)
    shown = page(by_hand, order.results)
    assert shown.startswith(f"{by_hand}\n\n{MARK}\n\n## Multi30k")
    assert shown.count("## ") == 1
    for part, (moses, sacre) in written(order, "multi30k")["scores"].items():
        (row,) = [line for line in shown.split("\n") if line.startswith(f"| {part} |")]
        assert f"{moses['value']:.2f}" in row
        assert f"{sacre['value']:.2f}" in row
    assert page(shown, order.results) == shown


def test_the_published_page_is_that_of_the_published_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, RESULTS) == text
    assert {path.stem for path in RESULTS.glob("*.json")} <= set(SECTIONS)


def test_runs_that_are_there_are_not_touched(order: Order, finished: Path) -> None:
    before = content(finished / "model")
    multi30k.publish(order)
    assert content(finished / "model") == before


@pytest.mark.usefixtures("finished")
def test_pronunciations_are_scored_on_development_words_before_test_words(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cmudict, "SETTINGS", (SHORT,))
    (order.data / "cmudict").mkdir()
    for part, text in (("dev", "The\tDH AH\nThe\tDH IY\ndog\tD AO G\n"), ("test", "cat\tK AE T\n")):
        (order.data / "cmudict" / f"{part}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    cmudict.publish(order)
    scores = written(order, "cmudict")["scores"]
    assert (scores["dev"]["words"], scores["dev"]["several"], scores["test"]["words"]) == (2, 1, 1)
    assert scores["test"]["wer"] == 100
    assert "| ours | 100.00 |" in cmudict.show(written(order, "cmudict"))


@pytest.fixture
def parsing(order: Order, monkeypatch: pytest.MonkeyPatch) -> Order:
    """A treebank of our own in place of CRAFT, and two updates."""
    write_treebank(order.data / "craft-treebank", train=60, dev=5, test=6)
    quick = (*TREES, "train.steps=2", "search.beam=2", "search.extra_length=30")
    monkeypatch.setattr(craft_parser, "SETTINGS", quick)
    monkeypatch.setitem(RECIPES, "small", replace(RECIPES["small"], preset="parsing-tiny", settings=quick))
    monkeypatch.setattr(craft_parser, "PRESET", "parsing-tiny")
    return order


def test_the_parser_is_scored_each_way_and_shown_by_the_study(
    parsing: Order, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    craft_parser.publish(parsing)
    scores = written(parsing, "craft_parser")["scores"]
    ways = ["right-branching", "plain search, beam 2", "search that keeps to trees, beam 2"]
    assert [list(scores[part]) for part in ("dev", "test")] == [ways, ways]
    assert scores["test"][ways[-1]]["malformed"] == 0
    for found in scores["test"].values():
        assert sum(part["sentences"] for part in found["by_length"].values()) == found["sentences"] == 6
    monkeypatch.chdir(tmp_path)
    CRAFT.parent.mkdir(parents=True)
    CRAFT.write_bytes((parsing.results / "craft_parser.json").read_bytes())
    kept = {path: path.stat().st_mtime_ns for path in parsing.work.rglob("parsed/**/*.json")}
    result = table4(Study(scale="small", work=parsing.work, data=parsing.data))
    (shown,) = (part for part in result.parts if isinstance(part, Table) and part.name == "table4-craft")
    assert len(shown.rows) == 2 * len(ways)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # nothing was parsed twice
    parsed = {path.parent for path in parsing.work.rglob("parsed/**/*.json")} - {path.parent for path in kept}
    assert sorted(path.name for path in parsed) == ["plain-search-greedy", "search-that-keeps-to-trees-greedy"]
    assert "| test | plain search, beam 2 | 6 |" in craft_parser.show(written(parsing, "craft_parser"))


def test_what_another_search_parsed_is_not_published(parsing: Order) -> None:
    def parsed() -> set[Path]:
        return {path for path in parsing.work.rglob("parsed/**/*.json") if "beam" in path.parent.name}

    craft_parser.publish(trying(parsing, "search.alpha=5.0"))
    of_the_trial = parsed()
    craft_parser.publish(trying(parsing, "search.alpha=4.0"))
    of_both = parsed()
    assert len(of_both) == 2 * len(of_the_trial) > 0
    craft_parser.publish(parsing)
    assert len(parsed() - of_both) == 2 * len(of_the_trial), "dev and test trees, all parsed anew"


def test_a_trial_of_the_parser_leaves_the_test_trees_alone(parsing: Order) -> None:
    (parsing.data / "craft-treebank" / "test.trees").write_text("damaged\n", encoding="utf-8")
    craft_parser.publish(trying(parsing, "search.beam=1"))
    assert not parsing.results.exists()
