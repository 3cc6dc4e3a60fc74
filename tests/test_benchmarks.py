"""The benchmarks: contenders do the same work, and what is computed from their times is what it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import choice, page, peer_translation, peers, remembered, serving_page, translators
from benchmarks.__main__ import measure
from benchmarks.batches import EOS, FIRST, PAD, Batch, other_words, random_batch, read_batches, shifted, write_batches
from benchmarks.cold import BARE, programs, start
from benchmarks.cold import OURS as OUR_COMMAND
from benchmarks.contenders import ANNOTATED, CONTENDERS, MARIAN, OURS, OURS_RESIDUAL, TORCH_NN, maker
from benchmarks.contenders.ours import Ours
from benchmarks.conversation import ContenderError
from benchmarks.corpus import Text
from benchmarks.environments import last_line
from benchmarks.flops import flops_per_token, training_flops
from benchmarks.markdown import wrapped
from benchmarks.page import BY_HAND, write_page
from benchmarks.plan import ROUNDS, plan
from benchmarks.race import Runner
from benchmarks.results import (
    Cold,
    Contest,
    Frames,
    Growth,
    Load,
    Machine,
    Race,
    Ranks,
    Rate,
    Results,
    Serving,
    Speed,
    Start,
    Startup,
    exponent,
    read_results,
    write_results,
)
from benchmarks.serving import serving
from benchmarks.shapes import BASE3, TINY, Shape
from benchmarks.translation import contest, mixed, score, turn
from benchmarks.translation_page import SINGLE, translation
from benchmarks.weights import export
from transduce.bundle import open_bundle
from transduce.data.phrasebook import phrases
from transduce.paper.grid import Failure, Outcome

SMALL = Shape("small", layers=2, d_model=32, d_ff=64, num_heads=4, dropout=0.1, vocabulary=120)
MACHINE = Machine("2026-01-31", "a processor, 2 cores", 2, "2.13.0")
HERE = [name for name in CONTENDERS if name != MARIAN]  # those that need no environment of their own

Shapes = tuple[int, ...]
every_contender = pytest.mark.parametrize("name", HERE)


def padded(lengths: list[tuple[int, int]], vocabulary: int) -> Batch:
    """Sentences of these source and target lengths, EOS included."""
    longest = [max(side) for side in zip(*lengths, strict=True)]
    sides = np.full((2, len(lengths), max(longest)), PAD)
    for row, pair in enumerate(lengths):
        for side, length in zip(sides, pair, strict=True):
            side[row, :length] = np.arange(length) % (vocabulary - FIRST) + FIRST
            side[row, length - 1] = EOS
    source, expected = (side[:, :length] for side, length in zip(sides, longest, strict=True))
    return Batch(source, shifted(expected), expected)


def in_place(total: Shapes, a: Shapes, b: Shapes, out_shape: Shapes, beta: float = 1, alpha: float = 1) -> int:
    """Of `total.addmm_(a, b)`, which the counter does not know."""
    return 2 * a[0] * a[1] * b[1]


def counted_flops(name: str, shape: Shape, batch: Batch) -> int:
    contender = maker(name)(shape)
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: in_place}) as counter:
        contender.update(batch, 0)
    return int(counter.get_total_flops())


@pytest.mark.parametrize("name", [OURS, TORCH_NN, ANNOTATED])
@pytest.mark.parametrize(("sentences", "length"), [(6, 5), (2, 48)])
def test_every_contender_does_the_flops_of_the_formula_when_there_is_no_padding(
    name: str, sentences: int, length: int
) -> None:
    batch = random_batch(sentences, length, SMALL.vocabulary)
    assert counted_flops(name, SMALL, batch) == pytest.approx(training_flops(SMALL, batch), rel=0.01)


def test_padding_does_not_count_as_useful_work() -> None:
    lengths = [(3, 9), (7, 2), (5, 5)]
    together = padded(lengths, SMALL.vocabulary)
    alone = [padded([pair], SMALL.vocabulary) for pair in lengths]
    assert training_flops(SMALL, together) == sum(training_flops(SMALL, batch) for batch in alone)
    assert flops_per_token(SMALL, alone) == pytest.approx(training_flops(SMALL, together) / 16)


@every_contender
def test_every_contender_learns_a_batch_by_heart(name: str) -> None:
    contender = maker(name)(replace(SMALL, dropout=0.0))
    if isinstance(contender, Ours):
        contender.rate = 3e-3
    else:
        contender.optimizer.param_groups[0]["lr"] = 3e-3  # type: ignore[attr-defined]
    batch = padded([(4, 6), (6, 5)], SMALL.vocabulary)
    losses = [float(contender.update(batch, number)) for number in range(60)]
    assert losses[-1] < losses[0] / 2


def test_the_annotated_loss_is_the_divergence_from_the_smoothed_distribution() -> None:
    from benchmarks.contenders.annotated import annotated

    loop = annotated(SMALL)
    expected = torch.tensor([[5, 7, PAD]])
    log_probabilities = torch.randn(1, 3, SMALL.vocabulary).log_softmax(dim=-1)
    total = 0.0
    for place, gold in ((0, 5), (1, 7)):
        for word in range(SMALL.vocabulary):
            wanted = 0.9 if word == gold else 0.0 if word == PAD else 0.1 / (SMALL.vocabulary - 2)
            if wanted:
                total += wanted * (np.log(wanted) - float(log_probabilities[0, place, word]))
    assert float(loop.loss(log_probabilities, expected)) == pytest.approx(total / 2, rel=1e-5)


def test_dropout_is_where_torch_has_it_or_where_the_paper_has_it() -> None:
    everywhere, residual = BASE3.model_config(), BASE3.residual_dropout_config()
    assert {everywhere.dropout, everywhere.attention_dropout, everywhere.relu_dropout} == {BASE3.dropout}
    assert (residual.dropout, residual.attention_dropout, residual.relu_dropout) == (BASE3.dropout, 0.0, 0.0)


def test_batches_are_read_as_they_were_written(tmp_path: Path) -> None:
    batches = [random_batch(2, 5, 50), padded([(3, 4), (6, 2)], 50)]
    write_batches(tmp_path / "batches.npz", batches)
    for read, written in zip(read_batches(tmp_path / "batches.npz"), batches, strict=True):
        for name in ("source", "target", "expected"):
            assert np.array_equal(getattr(read, name), getattr(written, name))


def test_other_words_keep_lengths_and_stay_in_the_vocabulary() -> None:
    batch = padded([(30, 40), (60, 20)], 50)
    drawn = other_words(batch, 37_000, seed=1)
    for before, after in ((batch.source, drawn.source), (batch.expected, drawn.expected)):
        assert np.array_equal(before < FIRST, after < FIRST)
        assert 50 < after.max() < 37_000
    later = drawn.expected[:, 1:] != PAD
    assert np.array_equal(drawn.target[:, 1:][later], drawn.expected[:, :-1][later])


@given(
    power=st.floats(-1, 3),
    factor=st.floats(1e-6, 1e3),
    sizes=st.lists(st.integers(1, 10**6), min_size=2, max_size=8, unique=True),
)
def test_the_exponent_of_a_power_law_is_found(power: float, factor: float, sizes: list[int]) -> None:
    assert exponent(sizes, [factor * size**power for size in sizes]) == pytest.approx(power, abs=1e-4)


def test_a_worker_trains_and_tells_its_memory(tmp_path: Path) -> None:
    shape = replace(TINY, vocabulary=60_000, layers=1)
    path = tmp_path / "batches.npz"
    write_batches(path, [random_batch(2, 4, shape.vocabulary)] * 2)
    with Runner(OURS, shape, path) as runner:
        assert runner.train([0, 1]) > 0
        held = runner.peak_memory()
    embedding = 4 * shape.vocabulary * shape.d_model
    assert held > 4 * embedding, "the weights, their gradients and Adam's two moments"
    assert runner.process.poll() is not None


def test_a_contender_that_dies_says_why(tmp_path: Path) -> None:
    path = tmp_path / "batches.npz"
    write_batches(path, [random_batch(2, 4, SMALL.vocabulary)])
    with Runner(OURS, SMALL, path) as runner, pytest.raises(ContenderError, match="failed: IndexError"):
        runner.train([7])


def test_the_worker_needs_neither_the_package_nor_what_it_needs() -> None:
    blocked = "import sys; sys.modules.update(dict.fromkeys(['transduce', 'pydantic', 'matplotlib']))"
    program = f"{blocked}; import benchmarks.worker, benchmarks.contenders.loop"
    environment = {**os.environ, "PYTHONPATH": str(page.DOCS.parent)}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0


def results() -> Results:
    speeds = [
        Speed(OURS, [200.0, 330.0, 420.0], 500 * 2**20),
        Speed(OURS_RESIDUAL, [300.0, 330.0, 520.0], 400 * 2**20),
        Speed(TORCH_NN, [100.0, 110.0, 105.0], 900 * 2**20),
        Speed(MARIAN, reason="did not install: ERROR: no | matching distribution"),
    ]
    return Results(
        training={"tiny 10k": Race(MACHINE, TINY, "Multi30k", 4, 1e7, 1e11, speeds)},
        peers={"tiny 10k": [Speed("eole", [50.0, 52.5], beside=[90.0, 100.0, 110.0])]},
        growth={"length": Growth(MACHINE, "an update", "tokens", [8, 16, 32], [[1.0, 1.1], [2.0, 2.0], [4.0, 4.4]])},
        preparation={"doctor": Growth(MACHINE, "the doctor", "pairs", [100, 200], [[0.1], [0.2]])},
        ranks=Ranks(MACHINE, "Multi30k", {1: [100.0, 110.0], 2: [150.0, 220.0]}),
        startup=Startup(MACHINE, "Multi30k", 29_000, [9.0, 11.0, 10.0], [2.0, 2.5, 3.0]),
        translation={"beam 4": contest_record([500.0, 660.0, 600.0]), SINGLE: contest_record([200.0, 300.0, 250.0])},
        translation_peers=[Rate("eole", [60.0, 100.0], beside=[11_800.0, 12_200.0], lines=500)],
        serving={"tiny": Serving(MACHINE, "wrk", 2, 4_000, [400.0, 500.0], {8: [load(8, 300.0), load(8, 400.0)]})},
        frames=Frames(MACHINE, 128, 6, 8, {"slider": [16.0, 17.0, 18.0, 60.0]}),
        cold=Cold(MACHINE, {OUR_COMMAND: [Start(0.7, 110 * 2**20), Start(0.9, None), Start(0.75, 130 * 2**20)]}),
    )


def load(clients: int, rate: float) -> Load:
    return Load(clients, answers=int(rate * 10), seconds=10.0, p50=0.02, p99=0.05, errors=1, cpu=2.0)


def contest_record(ours: list[float]) -> Contest:
    rates = [
        Rate(translators.OURS, ours, 50 * 2**20, lines=10_000, bleu=30.12, words=11.25),
        Rate(translators.BEST, [500.0, 600.0, 600.0], 40 * 2**20, lines=10_000, bleu=30.1, words=11.2),
        Rate(translators.DEFAULTS, [200.0, 200.0, 200.0], lines=1_000),
        Rate(translators.GENERATE, reason="failed: No module | named transformers", lines=1_000),
    ]
    return Contest(MACHINE, {"ctranslate2": "4.8.4"}, "Multi30k", "test_2016_flickr", 4, rates)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_results(tmp_path / "new" / "results.json", results())
    assert read_results(tmp_path / "new" / "results.json") == results()


def test_a_part_measured_again_replaces_what_has_its_name_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    write_results(path, results())
    answers = {"eole": peers.PeerSpeed("eole", [60.0], None), "joeynmt": "did not install: ERROR: no wheel"}
    monkeypatch.setattr(peers, "measure", lambda name, shape, corpus, directory: answers[name])
    monkeypatch.setattr("benchmarks.plan.race", lambda *_, **__: results().training["tiny 10k"])
    measure([task for task in plan(["peers"], ROUNDS, full=False) if "tiny" in task.title], path)
    expected = results()
    ours = expected.training["tiny 10k"].speeds[0].rounds
    expected.peers["tiny 10k"] = [
        Speed("eole", [60.0], beside=[*ours, *ours]),
        Speed("joeynmt", reason="did not install: ERROR: no wheel"),
    ]
    assert read_results(path) == expected


def test_ratios_are_taken_round_by_round_and_by_way_of_ours_for_those_who_did_not_take_turns() -> None:
    race = results().training["tiny 10k"]
    assert race.ratios(race.speeds[0]) == [2.0, 3.0, 4.0]
    assert race.ratios(race.speeds[2]) == [1.0, 1.0, 1.0]
    assert race.ratios(Speed("eole", [50.0, 60.0], beside=[90.0, 100.0, 110.0])) == pytest.approx([1.5, 1.8])
    assert race.ratios(Speed("eole", [52.5])) == [0.5]


def test_the_page_shows_what_was_measured_and_keeps_what_was_written_by_hand(tmp_path: Path) -> None:
    write_page(results(), tmp_path)
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    kept = (page.DOCS / "performance.md").read_text(encoding="utf-8").partition(BY_HAND)
    assert kept[1]
    assert text.endswith(kept[1] + kept[2])
    assert "| tiny | 10,000 | transduce | 330 | 200 - 420 | 3.00 | 2.00 - 4.00 | 3% | 500 MB |" in text
    assert "did not install: ERROR: no \\| matching distribution" in text
    assert f"| tiny: {OURS} to {TORCH_NN} | >= 2.0x | 3.00x | 2.00x - 4.00x | yes |" in text
    assert f"| tiny: {OURS} to eole | >= 2.5x | 1.95x | 1.90x - 2.00x | no |" in text
    assert "| tiny: MFU | >= 40 % | 3 % | 2 % - 4 % | no |" in text
    assert f"| tiny: peak memory to that of the {TORCH_NN} | <= 0.45 x | 0.56 x | 0.56 x | no |" in text
    assert "a processor, 2 cores" in text
    assert "| 10.0 s | 9.0 s - 11.0 s |" in text
    assert "| 2 | 185 | 150 - 220 | 1.75 (1.50 - 2.00) |" in text
    for line in text.split("\n"):
        if line.startswith("!["):
            name = line.partition("](")[2].removesuffix(")")
            assert (tmp_path / name).read_text(encoding="utf-8").startswith("<?xml")


def test_the_same_numbers_give_the_same_page(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_page(results(), tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert len(files) == 5
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes() for file in files)


def test_paragraphs_and_bullets_are_filled_and_stay_apart() -> None:
    text = "# Head\n\nA word\nand another.\n\n- one\n  more\n- two\n"
    assert wrapped(text) == "# Head\n\nA word and another.\n\n- one more\n- two\n"
    long = wrapped("- " + "word " * 60 + "\n")
    assert max(map(len, long.split("\n"))) <= 120
    assert long.split("\n")[1].startswith("  word")


def test_parts_that_were_not_measured_have_no_section(tmp_path: Path) -> None:
    write_page(Results(startup=results().startup), tmp_path)
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert "## The first update" in text
    assert "## Training" not in text
    assert "![" not in text.partition(BY_HAND)[0]


@given(st.text())
def test_the_last_line_of_an_error_is_one_line(text: str) -> None:
    assert "\n" not in last_line(text)
    assert last_line(text + "\nERROR: the reason\n\n") == "ERROR: the reason"


@pytest.fixture(scope="module")
def weights(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tests' bundle as all translators take it."""
    directory = tmp_path_factory.mktemp("weights")
    shutil.copytree(bundle, directory / "run")
    export(open_bundle(directory / "run"), directory)
    return directory


@pytest.fixture
def pairs(phrasebook: Path) -> list[tuple[str, str]]:
    sides = [(phrasebook / f"valid.{lang}").read_text(encoding="utf-8").split("\n")[:24] for lang in ("en", "de")]
    return list(zip(*sides, strict=True))


@pytest.mark.parametrize(
    "names",
    [(translators.OURS, translators.BEST, translators.DEFAULTS), (translators.OURS_TORCH, translators.GENERATE)],
)
def test_translators_of_one_precision_say_the_same(
    names: tuple[str, ...], weights: Path, pairs: list[tuple[str, str]]
) -> None:
    lines = [source for source, _ in pairs]
    made = [translators.maker(name)(weights) for name in names]
    first, *others = [contender.translate(lines, beam=1) for contender in made]
    assert all(other == first for other in others), "greedy search has nothing to rank"
    first, *others = [contender.translate(lines, beam=4) for contender in made]
    for other in others:
        assert np.mean([mine == its for mine, its in zip(first, other, strict=True)]) > 0.8, "length penalties differ"


def test_a_contest_scores_and_times_each_and_goes_on_without_one_who_fails(
    weights: Path, pairs: list[tuple[str, str]]
) -> None:
    test, lines = Text("test", pairs), {"nobody": 3, translators.OURS: 3}
    nobody, ours = contest(weights, Text("corpus", pairs), test, lines, beam=1, rounds=2).speeds
    assert nobody == Rate("nobody", reason="failed: KeyError: 'nobody'", lines=3)
    said = translators.maker(translators.OURS)(weights).translate([source for source, _ in pairs], beam=1)
    assert ours.bleu == score(said, test)
    assert len(ours.rounds) == 2
    assert min(ours.rounds) > 0


@given(st.lists(st.text(), min_size=1), st.integers(0, 9), st.integers(1, 9), st.integers(1, 9))
def test_the_slow_get_the_first_lines_of_the_fast_and_rounds_follow_one_another(
    pool: list[str], number: int, fast: int, slow: int
) -> None:
    fast = max(fast, slow)
    assert turn(pool, number, slow, step=fast) == turn(pool, number, fast, step=fast)[:slow]
    whole = turn(pool, 0, (number + 1) * fast, step=fast)
    assert turn(pool, number, fast, step=fast) == whole[number * fast :]
    assert whole == (pool * len(whole))[: len(whole)]


def test_lines_are_mixed_and_all_there() -> None:
    corpus, test = Text("corpus", [(f"{i}", "") for i in range(90)]), Text("test", [(f"t{i}", "") for i in range(10)])
    found = mixed(corpus, test)
    assert sorted(found) == sorted(source for source, _ in [*corpus.pairs, *test.pairs])
    assert found[:10] != [source for source, _ in test.pairs]
    assert found == mixed(corpus, test)


def test_the_page_shows_translators_peers_and_what_was_aimed_at(tmp_path: Path) -> None:
    write_page(results(), tmp_path)
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    ratios = "1.00 (1.00 - 1.10) | 3.00 (2.50 - 3.30)"
    assert f"| {translators.OURS} | 10,000 | 600 | 500 - 660 | {ratios} |  | 30.12 | 11.2 | 50 MB |" in text
    assert "| failed: No module \\| named transformers |" in text
    assert "| eole | 500 | 80 | 60 - 100 | 1,600 | 12,000 | 8.0 |" in text
    assert f"{translators.OURS} to eole | >= 4.0x | 8.00x | 6.00x - 10.00x | yes |" in text
    assert f"| {translators.OURS} | 100 | 4.0 | 3.3 - 5.0 |" not in text, "as many lines as were given"
    assert f"| {translators.OURS} | 10,000 | 4.0 | 3.3 - 5.0 | 0.42 (0.40 - 0.50) |" in text
    assert f"| {OUR_COMMAND} | 0.75 s | 0.70 s - 0.90 s | 120 MB | 110 MB - 130 MB |" in text
    assert f"| beam 4: {translators.OURS} to {translators.BEST} | >= 1.0x | 1.00x | 1.00x - 1.10x | yes |" in text
    assert "| >= 1.2x | 1.25x | 1.00x - 1.50x | yes |" in text
    assert "| cold start | <= 0.8 s | 0.75 s | 0.70 s - 0.90 s | yes |" in text
    assert translators.GENERATE not in text.partition("| target | aim |")[2].partition("\n\n")[0], "never faked"


def test_the_page_shows_the_server_beside_its_engine_and_the_frames(tmp_path: Path) -> None:
    write_page(results(), tmp_path)
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert "| tiny | 8 | 350 | 300 - 400 | 450 | 78% | 20.0 | 50.0 | 10% | 2 |" in text
    assert "| slider | 17.5 |" in text
    none = Frames(MACHINE, 128, 6, 8, reason="no chromium: make browser installs it")
    assert "Not measured: no chromium" in serving_page.frames(none)


def test_a_server_under_load_answers_every_client(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.serving.CLIENTS", (4,))
    found = serving(bundle, ["the dog sleeps"] * 20, rounds=1, seconds=1.0)
    [seen] = found.loads[4]
    assert seen.answers > 0
    assert seen.errors == 0
    assert found.raw[0] > 0


def test_a_target_that_is_missed_is_told() -> None:
    missed = Results(translation={"beam 4": contest_record([300.0, 300.0, 300.0])})
    assert "| >= 1.0x | 0.50x | 0.50x - 0.60x | no |" in translation(missed)


def test_a_cold_start_ends_with_the_first_translation(weights: Path) -> None:
    for name in (OUR_COMMAND, BARE):
        found = start(programs(weights)[name])
        assert found.seconds > 0
        assert found.memory is None or found.memory > 2**20
    with pytest.raises(RuntimeError, match="no translation: ValueError: why"):
        start(["-c", "raise ValueError('why')"])


PYTHON_THAT_ECHOES = """#!{python}
import json, shutil, sys
settings = json.load(open(sys.argv[-1]))
if "src" in settings:
    shutil.copy(settings["src"], settings["output"])
elif "translate" in sys.argv:
    sys.stdout.write(sys.stdin.read())
"""


@pytest.mark.parametrize("name", peer_translation.WAYS)
def test_peers_translate_in_our_subwords_by_their_own_commands(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(PYTHON_THAT_ECHOES.format(python=sys.executable), encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(peer_translation, "interpreter", lambda name: python)
    monkeypatch.setitem(peer_translation.VOCABULARIES, "phrasebook", 400)
    corpus = Text("phrasebook", [(phrase.source, phrase.target) for phrase in phrases("train", 400)])
    lines = [source for source, _ in corpus.pairs[:5]]
    peer = peer_translation.Peer(name, corpus)
    found, _ = peer.translate(lines, beam=4)
    assert [peer.codec.decode([int(token) for token in tokens]) for tokens in found] == lines


def test_a_peer_that_does_not_install_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_translation, "interpreter", lambda name: "did not install: ERROR: no wheel")
    found = peer_translation.measure("eole", Text("phrasebook", []), Text("test", []), beam=4, rounds=1)
    assert found == Rate("eole", reason="did not install: ERROR: no wheel", lines=peer_translation.LINES)


def test_other_translators_need_nothing_of_the_package() -> None:
    blocked = "import sys; sys.modules.update(dict.fromkeys(['transduce', 'pydantic', 'matplotlib']))"
    program = f"{blocked}; import benchmarks.translators.__main__, benchmarks.translators.bare"
    environment = {**os.environ, "PYTHONPATH": str(page.DOCS.parent)}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")
def test_memory_and_time_of_what_is_remembered_are_those_of_a_process() -> None:
    label, memory, seconds = remembered.row("few", remembered.MANY, updates=2)
    assert label == "few"
    assert 0 < int(memory.removesuffix(" MB").replace(",", "")) < 5000
    assert float(seconds.removesuffix(" s")) > 0


def test_the_page_of_choices_marks_the_best_and_what_train_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [each for each in choice.entries() if each.course.pairs == 29_000]
    outcomes: dict[str, Outcome] = {each.name: {"bleu": 30.0, "updates": 1000} for each in found}
    best, failed = found[0].name, found[2].name
    outcomes |= {best: {"bleu": 31.0, "updates": 1000}, failed: Failure("no memory")}
    for epochs, taken in ((8.0, "tiny, dropout 0.1"), (80.0, "tiny")):
        monkeypatch.setattr(choice, "epochs", lambda run, seen=epochs: seen)
        rows = [line.strip("| ").split(" | ") for line in choice.page(found, outcomes, Path()).split("\n")[2:-1]]
        cells = {row[3]: row[4:] for row in rows}
        assert [label for label, row in cells.items() if row[-1] == "chosen"] == [taken]
        assert cells["tiny"][:3] == ["1,000", f"{epochs:.1f}", "**31.0**"]
        assert "failed" in cells[found[2].label]
