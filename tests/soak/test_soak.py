"""The faults of test_faults.py, many times over: `make soak`. Each test enters what it did into the table."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from command import ENVIRONMENT, command
from garbage import read_garbage, write_garbage
from short_phrases import short_phrases
from test_files import Crash
from test_translate_files import kept_of
from test_world import ended, process_of, torchrun, train, until
from transduce import Trainer, Translator
from transduce.bundle import load_model, open_bundle, unique_weights, write_bundle
from transduce.decode.hypothesis import Request
from transduce.decode.job import part_of, record_of
from transduce.errors import Interrupted, UserError
from transduce.files import write_directory, write_file
from transduce.text.codec import EOS
from transduce.train.state import checkpoints, read_state
from transduce.verify.batches import check_batches
from transduce.verify.resume import check_resume, ending
from trials import (
    HOSTILE,
    Order,
    StopAfter,
    content,
    copy_of,
    disk_with,
    faults_in_a_save,
    flips,
    hostile,
    train_through,
    truncations,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(14_400)]
Record = Callable[[int, str, str, str], None]
Times = Callable[[int], int]
KILLS_A_RUN = 12  # as many as a run of forty steps has room for


@pytest.fixture
def saved(run: Path, tmp_path: Path) -> Path:
    """The last two checkpoints of a run that has learned something, to be damaged."""
    for path in checkpoints(run / "checkpoints")[-2:]:
        shutil.copytree(path, tmp_path / "checkpoints" / path.name)
    return tmp_path / "checkpoints"


def test_a_run_killed_again_and_again_ends_as_an_unbroken_one(small_run: Path, times: Times, record: Record) -> None:
    wanted, kills, in_saves, runs = times(100), 0, 0, 0
    while kills < wanted:
        found = check_resume(small_run, steps=40, kills=min(KILLS_A_RUN, wanted - kills), note=print, seed=runs)
        assert found.kills
        assert found.holds
        kills, in_saves, runs = kills + found.kills, in_saves + found.in_saves, runs + 1
    tried = f"{kills} kills in {runs} runs, {in_saves} inside a save"
    record(1, "`kill -9`", tried, "each run ended with the unbroken run's digests; no checkpoint was damaged")


def test_many_resumes_within_an_epoch_repeat_and_skip_nothing(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: Times, record: Record
) -> None:
    stops, steps = times(40), 2 * times(40) + 10
    whole, parts = (copy_of(small_run, tmp_path / name, steps=steps, save_every=1) for name in ("whole", "parts"))
    order = Order(monkeypatch)
    Trainer.resume(whole).run()
    expected, order.pairs = order.pairs, []
    chosen = set(random.Random(0).sample(range(1, steps), stops))
    assert train_through(parts, StopAfter(chosen, signal.SIGTERM)) == stops
    assert order.pairs == expected
    pairs = sum(map(len, expected))
    record(
        2, "resumes within an epoch", f"{stops} in {steps} updates", f"{pairs:,} pairs in the order of an unbroken run"
    )


def test_a_signal_at_any_instant_saves_and_stops(small_run: Path, tmp_path: Path, times: Times, record: Record) -> None:
    signals, generator = times(40), random.Random(0)
    steps = 100 * signals
    runs = [copy_of(small_run, tmp_path / name, steps=steps, save_every=20, validate_every=15) for name in "ab"]
    subprocess.run(command("--quiet", "train", "--resume", runs[0]), env=ENVIRONMENT, check=True)
    stops: list[tuple[int, float]] = []
    while len(stops) < signals and (stop := stop_once(runs[1], generator)):
        stops.append(stop)
    subprocess.run(command("--quiet", "train", "--resume", runs[1]), env=ENVIRONMENT, check=True)
    assert stops
    assert ending(runs[0]) == ending(runs[1])
    codes = " and ".join(sorted({str(code) for code, _ in stops}))
    slowest = max(seconds for _, seconds in stops)
    found = f"exit codes {codes}, out within {slowest:.1f} s, the digests of the unbroken run"
    record(3, "SIGINT and SIGTERM", f"{len(stops)} at random instants", found)


def stop_once(run: Path, generator: random.Random) -> tuple[int, float] | None:
    """Go on with a run and send it a signal; its exit code and seconds to stop, or None if it was done before."""
    number, before = generator.choice([signal.SIGINT, signal.SIGTERM]), set((run / "checkpoints").glob("step-*"))
    with subprocess.Popen(
        command("--quiet", "train", "--resume", run),
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        while process.poll() is None and set((run / "checkpoints").glob("step-*")) <= before:
            time.sleep(0.005)
        time.sleep(generator.uniform(0, 0.3))
        process.send_signal(number)
        start = time.monotonic()
        _, said = process.communicate()
        took = time.monotonic() - start
    if process.returncode == 0:
        return None
    assert process.returncode == 128 + number, said.decode()
    return process.returncode, took


def remake(saved: Path) -> Callable[[], None]:
    """Write the newest of some checkpoints anew, as a save would."""
    newest = checkpoints(saved)[-1]
    files = content(newest)
    shutil.rmtree(newest)

    def fill(directory: Path) -> None:
        for name, data in files.items():
            write_file(directory / name, data)

    return lambda: write_directory(newest, fill)


def test_a_disk_that_fills_up_at_any_byte_harms_nothing(saved: Path, times: Times, record: Record) -> None:
    size = sum(map(len, content(checkpoints(saved)[-1]).values()))
    save, trials, generator = remake(saved), times(100), random.Random(0)
    told = r"cannot write [\d,]+ bytes: No space left on device"
    before = content(saved)
    for _ in range(trials):
        with disk_with(generator.randrange(size)), pytest.raises(UserError, match=told):
            save()
        assert content(saved) == before
        assert not list(saved.glob(".*"))
    found = "error with the file and its bytes; the checkpoint before as it was; nothing left behind"
    record(4, "disk full", f"{trials} times, within a save of {size:,} bytes", found)


def test_a_fault_at_every_step_of_a_save_leaves_the_old_or_the_new(saved: Path, record: Record) -> None:
    save = remake(saved)
    tried, kept = 0, {"old": 0, "new": 0}
    for error in (Crash(), OSError(errno.EIO, "Input/output error")):
        found = faults_in_a_save(save, saved, error)
        shutil.rmtree(checkpoints(saved)[-1])
        tried += found.total()
        kept = {name: number + found[name] for name, number in kept.items()}
    assert kept["old"] + kept["new"] == tried > 0
    outcome = f"the old checkpoint {kept['old']} times, the new one {kept['new']} times, never neither"
    record(5, "fault at an fsync or rename", f"{tried}: a crash and an error at each", outcome)


def test_no_damage_is_loaded(saved: Path, times: Times, record: Record) -> None:
    cut, flipped = truncations(saved, times(200)), flips(saved, times(500))
    assert cut.harmless == 0
    tried = f"{cut.detected} truncations, {flipped.detected + flipped.harmless} flipped bits"
    harmless = f"; {flipped.harmless} in white space of the manifest change nothing" if flipped.harmless else ""
    record(6, "damaged checkpoint", tried, f"{cut.detected + flipped.detected} detected, the one before used{harmless}")


def test_a_rank_killed_again_and_again_ends_all_and_the_run_goes_on(
    small_run: Path, tmp_path: Path, times: Times, record: Record
) -> None:
    kills, generator, slowest = times(20), random.Random(0), 0.0
    runs = [copy_of(small_run, tmp_path / name, steps=40 * kills + 40, save_every=5) for name in "ab"]
    whole = train("--resume", runs[0])
    assert whole.code == 0, whole.err
    for _ in range(kills):
        before, rank = set((runs[1] / "checkpoints").glob("step-*")), generator.randrange(2)
        with torchrun("-m", "transduce", "train", "--resume", runs[1]) as process:
            until(lambda before=before: not set((runs[1] / "checkpoints").glob("step-*")) <= before)
            time.sleep(generator.uniform(0, 0.1))
            os.kill(process_of(rank, process), signal.SIGKILL)
            start = time.monotonic()
            broken = ended(process)
            slowest = max(slowest, time.monotonic() - start)
        assert re.search(rf"rank +: {rank} \(local_rank: {rank}\)", broken.err), broken.err
        assert slowest < 30
    last = train("--resume", runs[1])
    assert last.code == 0, last.err
    assert ending(runs[0]) == ending(runs[1])
    found = f"all down within {slowest:.1f} s, torchrun names it; the digests of the unbroken run"
    record(8, "one of two processes killed", f"{kills} times, at random instants", found)


def test_a_hostile_bundle_is_refused_at_once(bundle: Path, tmp_path: Path, record: Record) -> None:
    slowest = 0.0
    for kind in HOSTILE:
        copy = hostile(shutil.copytree(bundle, tmp_path / kind / "bundle"), kind)
        start = time.monotonic()
        with pytest.raises(UserError):
            load_model(open_bundle(copy))
        slowest = max(slowest, time.monotonic() - start)
        assert not (tmp_path / kind / "harmed").exists()
    tried = "a pickle, a header of 1 TB, `../`, a symbolic link"
    record(7, "hostile bundle", tried, f"nothing run or written; refused within {slowest:.2f} s")


def test_other_threads_or_processes_cost_no_more_than_another_seed(
    small_run: Path, tmp_path: Path, times: Times, record: Record
) -> None:
    steps = max(4, times(100))
    recipe = {"batch_tokens": 2400, "micro_batch_tokens": 1200, "validate_every": steps, "save_every": steps // 2}

    def perplexity(name: str, *, seed: int, then: int) -> float:
        run = copy_of(small_run, tmp_path / name, steps=steps, seed=seed, **recipe)
        assert train_through(run, Switch(run, steps // 2, threads=then)) == 1
        return read_state(checkpoints(run / "checkpoints")[-1]).validations[-1][1]

    def perplexity_of_two_processes() -> float:
        run = copy_of(small_run, tmp_path / "processes", steps=steps, seed=1, **recipe)
        with pytest.raises(Interrupted):
            Trainer.resume(run, listener=StopAfter({steps // 2}, signal.SIGTERM)).run()
        ran = train("--resume", run)
        assert ran.code == 0, ran.err
        assert "processes 1 -> 2" in ran.err
        return read_state(checkpoints(run / "checkpoints")[-1]).validations[-1][1]

    seeds = [perplexity(f"{seed}", seed=seed, then=1) for seed in (1, 2, 3)]
    others = [perplexity("threads", seed=1, then=2), perplexity_of_two_processes()]
    spread, difference = max(seeds) - min(seeds), max(abs(other - seeds[0]) for other in others)
    assert difference <= spread
    found = f"validation perplexity differs by {difference:.1e}; 3 seeds spread over {spread:.1e}"
    record(9, "resumed with 2 threads or 2 processes instead of 1", f"{steps} steps, half of them before", found)


class Switch(StopAfter):
    """Stops a run once and changes its number of threads."""

    def __init__(self, run: Path, step: int, *, threads: int) -> None:
        super().__init__({step}, signal.SIGTERM)
        self.path, self.threads = run / "config.toml", threads

    def saved(self, path: Path, step: int) -> None:
        if step in self.steps:
            config = self.path.read_text(encoding="utf-8")
            assert "threads = 1\n" in config
            self.path.write_text(config.replace("threads = 1\n", f"threads = {self.threads}\n"), encoding="utf-8")
        super().saved(path, step)


def test_a_million_lines_with_garbage_are_read_in_little_memory(tmp_path: Path, times: Times, record: Record) -> None:
    lines = times(1_000_000)
    wrong = write_garbage(tmp_path, lines)
    found = read_garbage(tmp_path)
    megabytes = found["kilobytes"] / 1000
    assert found["misaligned"] == 0
    assert found["dropped"] == {kind: len(places) for kind, places in wrong.items()}
    assert megabytes < 300
    unusable = sum(found["dropped"].values())
    outcome = f"{unusable:,} left out for {len(wrong)} reasons, none misaligned; {megabytes:.0f} MB above import"
    record(12, "garbage in a corpus", f"{lines:,} lines, 1 % garbage", outcome)


def test_a_translation_killed_again_and_again_ends_with_the_same_bytes(
    bundle: Path, tmp_path: Path, times: Times, record: Record
) -> None:
    lines, wanted, generator = times(100_000), times(20), random.Random(0)
    sources = [phrase.source for phrase in short_phrases("test", 20_000)]
    text = "".join(f"{sources[number % len(sources)]}\n" for number in range(lines))
    (tmp_path / "in").write_text(text, encoding="utf-8", newline="\n")
    whole, output = tmp_path / "whole", tmp_path / "broken"
    greedy = command("--quiet", "translate", bundle, tmp_path / "in", "--beam", "1", "-o")
    subprocess.run([*greedy, str(whole)], env=ENVIRONMENT, check=True)
    kills: Counter[str] = Counter()
    while kills.total() < wanted and not output.exists():
        instant = generator.choice(["starting", "in a window", "in a window", "as a window was written"])
        kills[instant] += killed_once([*greedy, str(output)], output, instant, generator)
    if not output.exists() or record_of(output).exists():
        subprocess.run([*greedy, str(output)], env=ENVIRONMENT, check=True)
    assert kills.total()
    assert output.read_bytes() == whole.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"in", "whole", "broken"}
    instants = ", ".join(f"{number} {instant}" for instant, number in sorted(kills.items()))
    tried = f"{lines:,} lines, {kills.total()} kills: {instants}"
    record(15, "`kill -9` while translating a file", tried, "the same command went on; the bytes of an unbroken work")


def killed_once(words: list[str], output: Path, instant: str, generator: random.Random) -> bool:
    """Go on with a translation and kill it; False if it was done before."""
    before = kept_of(output)[0]
    with subprocess.Popen(words, env=ENVIRONMENT) as process:
        if instant == "starting":
            time.sleep(generator.uniform(0, 2))
        else:
            while process.poll() is None and kept_of(output)[0] <= before:
                time.sleep(0.001)
            time.sleep(generator.uniform(0, 0.5) if instant == "in a window" else 0)
        if instant == "as a window was written":
            with suppress(FileNotFoundError):
                while process.poll() is None and part_of(output).stat().st_size <= kept_of(output)[1]:
                    time.sleep(0.0005)
        process.kill()
    assert kept_of(output)[0] >= before or output.exists()
    return process.returncode == -signal.SIGKILL


def test_a_model_that_never_ends_stops_at_its_limit(
    small_run: Path, tmp_path: Path, times: Times, record: Record
) -> None:
    never = tmp_path / "never"
    write_endless(small_run, never)
    sources = [phrase.source for phrase in short_phrases("test", 8 * times(1000))][: times(1000)]
    (tmp_path / "in").write_text("".join(source + "\n" for source in sources), encoding="utf-8", newline="\n")
    for beam in ("1", "4"):
        output = tmp_path / f"out{beam}"
        done = subprocess.run(
            command("--quiet", "translate", never, tmp_path / "in", "--beam", beam, "-o", output),
            env=ENVIRONMENT,
            check=False,
        )
        assert done.returncode == 0
        assert output.read_bytes().count(b"\n") == len(sources)
        translator = Translator.load(never)
        search = translator.search.model_copy(update={"beam": int(beam)})
        requests = [Request(tuple(ids)) for ids in translator.source_codec.encode_many(sources)]
        for request, hypotheses in zip(requests, translator.reference.search(requests, search), strict=True):
            assert {len(each.ids) for each in hypotheses} == {len(request.source) + search.extra_length}
    tried = f"{len(sources):,} sentences, greedy and with a beam of 4"
    found = f"each output has its input's tokens and {search.extra_length} more, its limit; exit code 0"
    record(16, "a model that never ends", tried, found)


def write_endless(run: Path, path: Path) -> None:
    """A run's model as a bundle in which the end token is less probable than any other, always."""
    opened = open_bundle(run)
    bias = torch.zeros(opened.target_codec.size)
    bias[EOS] = -10_000
    model = opened.config.model.model_copy(update={"output_bias": True})
    write_bundle(
        path,
        config=opened.config.model_copy(update={"model": model}),
        source_codec=opened.source_codec,
        target_codec=opened.target_codec,
        languages=(opened.source_lang, opened.target_lang),
        weights={**unique_weights(load_model(opened)), "projection.bias": bias},
        card="",
    )


def test_sentences_do_not_depend_on_their_batches(bundle: Path, times: Times, record: Record) -> None:
    sources = list(dict.fromkeys(phrase.source for phrase in short_phrases("test", 11_000)))[: times(2000)]
    found = check_batches(bundle, sources)
    assert found.holds, found.differences[:5]
    tried = f"{found.sentences:,} sentences in batches of 1, 7, 64 and shuffled"
    record(17, "other sentences in the batch", tried, f"{found.share:.2%} the same text")
