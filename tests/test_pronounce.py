"""Words in, phonemes out: from a dictionary to a score."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import transduce
from shared_data import shared_data
from transduce import Trainer, Translator
from transduce.bundle import open_bundle
from transduce.config import Step, TextConfig
from transduce.data.corpus import Corpus
from transduce.data.selection import survey
from transduce.errors import ConfigError
from transduce.evaluate.phonemes import pronunciation_score
from transduce.interop.onnx_translate import STEPS
from transduce.settings import load_config
from transduce.text import learn_codec
from transduce.text.codec import UNK
from transduce.text.normalize import normalize
from trials import SMALL

SOUNDS = {"a": "AE", "b": "B", "c": "K", "d": "D", "e": "EH", "o": "AA", "t": "T", "'": ""}
WORDS = [a + b + c for a in "bcdt" for b in "aeo" for c in "bcdt"] + ["dot's", "bed's"]
DICTIONARY = [(word.upper(), " ".join(filter(None, map(SOUNDS.get, word.replace("s", ""))))) for word in WORDS]
DICTIONARY += [("TOT", "T OW T"), ("BED", "B IY D")]  # second pronunciations, away from the first
GUIDE = Path(__file__).parent.parent / "docs" / "pronouncing.md"


def write(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{word}\t{phonemes}\n" for word, phonemes in pairs), encoding="utf-8", newline="\n")
    return path


@pytest.fixture(scope="module")
def pronouncer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few updates of the preset, its model made small."""
    directory = tmp_path_factory.mktemp("pronounce")
    train, valid = write(directory / "train.tsv", DICTIONARY), write(directory / "valid.tsv", DICTIONARY[:5])
    files = [f"data.pairs=['{train}']", f"data.valid_pairs=['{valid}']"]
    small = [setting for setting in SMALL if not setting.startswith("text.")]
    Trainer(directory / "run", preset="pronounce", settings=[*files, *small, "train.steps=3"]).run()
    return directory / "run"


def test_a_word_is_its_letters_whatever_its_case_and_spaces() -> None:
    codec = learn_codec("letters", ["HELLO", "don't", "naïve"], TextConfig(), seed=1).codec
    assert codec.pieces(codec.encode("Hello")) == ["h", "e", "l", "l", "o"]
    for same in ("hello", "HELLO", "h e l l o", " He llo\t"):
        assert codec.encode(same) == codec.encode("Hello")
    assert codec.encode("nai\u0308ve") == codec.encode("NAÏVE")
    assert UNK not in codec.encode("Don't")
    assert codec.encode("hex")[2] == UNK


@given(st.text())
def test_spelling_sets_every_letter_apart_and_loses_none(text: str) -> None:
    spelled = normalize(text, ["spell"])
    assert all(len(letter) == 1 for letter in spelled.split(" ") if letter)
    assert "".join(spelled.split()) == "".join(text.split())


@pytest.mark.parametrize("step", get_args(Step))
@given(text=st.text())
def test_the_script_beside_onnx_graphs_has_the_same_steps(step: Step, text: str) -> None:
    assert STEPS[step](text) == normalize(text, [step])


def test_phonemes_have_no_letters() -> None:
    with pytest.raises(ConfigError, match=r"text\.target_codec"):
        load_config(preset="pronounce", settings=["text.target_codec=letters"])
    with pytest.raises(ConfigError, match=r"text\.joint=false"):
        load_config(preset="pronounce", settings=["text.joint=true"])


def test_the_vocabularies_are_the_letters_and_the_phonemes(pronouncer: Path) -> None:
    bundle = open_bundle(pronouncer)
    source, target = bundle.source_codec, bundle.target_codec
    assert set(source.pieces(range(4, source.size))) == set("abcdeots'")
    assert set(target.pieces(range(4, target.size))) == {"AE", "B", "K", "D", "EH", "AA", "T", "OW", "IY"}


def test_translate_takes_words(pronouncer: Path) -> None:
    ran = transduce("translate", pronouncer, "--engine", "pytorch", stdin=b"bat\nBAT\n\ndot's\n")
    assert ran.code == 0
    first, same, blank, _ = ran.lines
    assert (first, blank) == (same, "")
    phonemes = {phoneme for _, said in DICTIONARY for phoneme in said.split()}
    assert {phoneme for line in ran.lines for phoneme in line.split()} <= phonemes


def test_evaluate_says_what_follows_from_the_outputs(pronouncer: Path, tmp_path: Path) -> None:
    test = write(tmp_path / "test.tsv", DICTIONARY)
    flags = ("--pronunciations", test, "--beam", "2", "--engine", "pytorch", "--output", tmp_path / "out")
    ran = transduce("evaluate", pronouncer, *flags)
    assert (ran.code, ran.err) == (0, "")
    words = list(dict.fromkeys(word for word, _ in DICTIONARY))
    outputs = [each.text for each in Translator.load(pronouncer, engine="pytorch").translate(words, beam=2)]
    assert (tmp_path / "out").read_text(encoding="utf-8") == "".join(line + "\n" for line in outputs)
    known = [[said for other, said in DICTIONARY if other == word] for word in words]
    assert ran.lines[:2] == str(pronunciation_score(outputs, known)).split("\n")
    assert re.fullmatch(r"perplexity [\d.]+ \(per token of \d+; no label smoothing\)", ran.lines[2])
    again = transduce("evaluate", "--hypothesis", tmp_path / "out", "--pronunciations", test)
    assert again.lines == ran.lines[:2]


def test_cmudict_becomes_a_dictionary_by_the_command_of_the_guide(tmp_path: Path) -> None:
    (tmp_path / "cmudict.dict").write_text(
        ";;; comment\n'bout B AW1 T\naalborg AO1 L B AO0 R G # place, danish\naalborg(2) AA1 L B AO0 R G\n"
        "d'artagnan D AH0 R T AE1 NG Y AH0 N # foreign french\n",
        encoding="utf-8",
    )
    (sed,) = re.findall(r"^sed .*$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    subprocess.run(sed, shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "cmudict.tsv").read_text(encoding="utf-8").split("\n") == [
        "'bout\tB AW T",
        "aalborg\tAO L B AO R G",
        "aalborg\tAA L B AO R G",
        "d'artagnan\tD AH R T AE NG Y AH N",
        "",
    ]


def test_the_preset_leaves_no_word_of_cmudict_out() -> None:
    path = shared_data("cmudict") / "train.tsv.gz"
    tally = survey(Corpus(pairs=(path,)), load_config(preset="pronounce").data)
    assert (tally.usable, tally.unusable) == (110_611, 0)
