"""From text files to a store: in stages that a kill cannot spoil, in memory that the corpus does not decide."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path

import pytest

from transduce.config import Config, CorpusConfig, DataConfig, TextConfig
from transduce.data import pace
from transduce.data.batching import Batching
from transduce.data.preparation import prepare, recall
from transduce.settings import load_config

STAGES = ["counting", "holding out", "learning the vocabulary", "encoding"]


def write(folder: Path, name: str, pairs: int, *, words: int = 8) -> list[Path]:
    rng = random.Random(name)
    known = [f"{name}{number}" for number in range(200)]
    source = [" ".join(rng.choices(known, k=words)) for _ in range(pairs)]
    paths = [folder / f"{name}.en", folder / f"{name}.de"]
    paths[0].write_text("".join(f"{line}\n" for line in source), encoding="utf-8")
    paths[1].write_text("".join(f"{line.upper()}\n" for line in source), encoding="utf-8")
    return paths


def config(source: Path, target: Path) -> Config:
    data = DataConfig(source=(str(source),), target=(str(target),))
    return Config(data=data, text=TextConfig(vocabulary=400, sample_lines=2000))


def digest(run: Path) -> dict[str, str]:
    files = [path for path in (run / "data").rglob("*") if path.is_file()] + [run / "data.json"]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def stages(configuration: Config, run: Path) -> list[str]:
    """The stages that a start goes through."""
    run.mkdir(exist_ok=True)
    seen: dict[str, None] = {}
    prepare(configuration, run, lambda note: None, lambda done, total, what: seen.setdefault(what))
    return list(seen)


KILLED = """
import os, signal, sys
from pathlib import Path
from transduce.data.preparation import prepare
from transduce.settings import make_config, read_toml

def progress(done, total, what):
    if what == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

run = Path(sys.argv[1])
prepare(make_config(read_toml(run / "config.toml"), where="config.toml"), run, lambda note: None, progress)
"""


@pytest.mark.parametrize("number", range(len(STAGES)))
def test_after_a_kill_only_what_was_not_done_is_done_again(tmp_path: Path, number: int) -> None:
    wanted = config(*write(tmp_path, "w", 3000))
    run, unbroken = tmp_path / "run", tmp_path / "unbroken"
    run.mkdir()
    (run / "config.toml").write_text(wanted.to_toml(), encoding="utf-8")
    killed = subprocess.run([sys.executable, "-c", KILLED, run, STAGES[number]], check=False)
    assert killed.returncode == -9
    assert not (run / "data.json").exists()
    # counting and holding out are one stage: their result is the survey
    assert stages(wanted, run) == STAGES[number if number > 1 else 0 :]
    assert stages(wanted, unbroken) == STAGES
    assert digest(run) == digest(unbroken), "and nothing half-written is left"


def test_a_second_start_reads_no_text(tmp_path: Path) -> None:
    wanted = config(*write(tmp_path, "w", 1000))
    stages(wanted, tmp_path / "run")
    assert stages(wanted, tmp_path / "run") == []


def test_pairs_carry_the_weight_of_their_corpus_into_the_store(tmp_path: Path) -> None:
    one, two = write(tmp_path, "w", 600), write(tmp_path, "v", 300)
    tables = [
        f"[[data.corpora]]\nsource = ['{source}']\ntarget = ['{target}']\nweight = {weight}\n"
        for (source, target), weight in ((one, 1), (two, 2.5))
    ]
    (tmp_path / "mix.toml").write_text("[text]\nvocabulary = 400\n" + "".join(tables), encoding="utf-8")
    stages(load_config(path=tmp_path / "mix.toml"), tmp_path / "run")
    store = recall(tmp_path / "run").train
    first, second = store.parts
    assert (first.weight, second.weight) == (1.0, 2.5)
    assert (first.start, first.end, second.end) == (0, second.start, len(store))
    assert store.lines[first.end - 1] <= 600 < store.lines[second.start]
    updates = Batching.of(store, batch_tokens=500, micro_batch_tokens=500, seed=1).epoch(0)
    seen = sum(len(cut) for update in updates for cut in update)
    assert abs(seen - (first.end + 2.5 * (len(store) - first.end))) < 1


def test_long_work_is_told_of_with_the_time_that_is_left() -> None:
    now, told = [0.0], list[str]()
    notes = pace.Notes(told.append, clock=lambda: now[0])
    for second in range(101):
        now[0] = second
        notes(second * 1_000_000, 100_000_000, "encoding")
    assert told[0] == "encoding: 15% of 100 MB, about 0:01:25 left"
    assert len(told) == 100 // pace.NOTE_EVERY


MEMORY = """
import sys
from pathlib import Path
from transduce.data import store
from transduce.data.batching import Batching
from transduce.data.corpus import training_corpus
from transduce.data.doctor import examine
from transduce.data.preparation import prepare
from transduce.settings import make_config, read_toml

store.CHUNK = 500
run = Path(sys.argv[1])
config = make_config(read_toml(run / "config.toml"), where="config.toml")
examine(training_corpus(config.data), data=config.data)
train = prepare(config, run, lambda note: None).train
Batching.of(train, batch_tokens=4000, micro_batch_tokens=4000, seed=1).epoch(0)
status = Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.split("\\n") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process's memory from /proc")
def test_memory_does_not_grow_with_the_number_of_pairs(tmp_path: Path) -> None:
    peaks, sizes = [], []
    for pairs in (4_000, 40_000):
        files = write(tmp_path, f"w{pairs}", pairs, words=40)
        run = tmp_path / f"run{pairs}"
        run.mkdir()
        (run / "config.toml").write_text(config(*files).to_toml(), encoding="utf-8")
        done = subprocess.run([sys.executable, "-c", MEMORY, run], capture_output=True, check=True, encoding="utf-8")
        peaks.append(1024 * int(done.stdout))
        sizes.append(sum(path.stat().st_size for path in files))
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) / 2, "so the text is not held"


def test_pairs_are_held_out_of_the_plain_files_where_other_corpora_stand_beside_them(tmp_path: Path) -> None:
    """What a model made, or an older corpus mixed in, must not decide which checkpoint is best."""
    (source, target), other = write(tmp_path, "real", 400), write(tmp_path, "made", 800)
    alone = config(source, target)
    (tmp_path / "first").mkdir()
    first = prepare(alone, tmp_path / "first", lambda note: None).valid_source[0]
    other[0].write_text(other[0].read_text(encoding="utf-8").replace("\n", f"\n{first}\n", 1), encoding="utf-8")
    other[1].write_text(other[1].read_text(encoding="utf-8").replace("\n", f"\n{first}\n", 1), encoding="utf-8")
    more = CorpusConfig(source=(str(other[0]),), target=(str(other[1]),), weight=0.25)
    mixed = alone.model_copy(update={"data": alone.data.model_copy(update={"corpora": (more,)})})
    equal = mixed.model_copy(update={"data": DataConfig(corpora=(more, more))})
    held, trained = dict[str, list[str]](), dict[str, int]()
    for name, each in (("alone", alone), ("mixed", mixed), ("equal", equal)):
        (tmp_path / name).mkdir()
        notes: list[str] = []
        prepared = prepare(each, tmp_path / name, notes.append)
        held[name], trained[name] = prepared.valid_source, len(prepared.train)
        assert any("only those 1 that have such a source" in note for note in notes) == (name == "mixed")
    assert held["mixed"] == held["alone"]
    assert trained["mixed"] == trained["alone"] + 801 - 1, "the made pair with a held-out source is left out, and told"
    assert 20 < len(held["mixed"]) < 60  # a tenth
    assert len(held["equal"]) > 100
