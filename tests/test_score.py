"""Scores of given pairs: the model's own numbers, whatever they are batched with."""

from __future__ import annotations

import gzip
import json
import lzma
import re
from pathlib import Path

import pytest
import torch

from command import transduce
from random_weights import randomized
from short_phrases import short_phrases
from transduce import Translator
from transduce.config import ModelConfig, SearchConfig
from transduce.decode.alignment import align
from transduce.decode.hypothesis import Request
from transduce.decode.score import score_lines, score_pairs
from transduce.decode.torch_engine import TorchEngine
from transduce.errors import UserError
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS

SIZE = 30
SEARCH = SearchConfig(batch_tokens=60)
Pairs = list[tuple[list[int], list[int]]]


def random_engine(**changes: object) -> TorchEngine:
    """Of a model in float64 whose choices are far from uniform."""
    shape = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 2, **changes}
    return TorchEngine(randomized(Transformer(ModelConfig.model_validate(shape), SIZE, SIZE)).requires_grad_(False))


def random_pairs(count: int) -> Pairs:
    generator = torch.Generator().manual_seed(3)

    def sequence() -> list[int]:
        length = int(torch.randint(0, 12, (), generator=generator))
        return torch.randint(EOS + 1, SIZE, (length,), generator=generator).tolist()

    return [(sequence(), sequence()) for _ in range(count)]


def step_by_step(model: Transformer, source: list[int], target: list[int]) -> list[float]:
    """The log-probability of each token, by one decoding step a token with a cache."""
    memory, may_attend = model.encode(torch.tensor([[*source, EOS]]))
    cache = model.start(memory)
    found = []
    for read, expected in zip([BOS, *target], [*target, EOS], strict=True):
        hidden = model.decode(torch.tensor([[read]]), None, may_attend, cache=cache)
        found.append(float(model.logits(hidden[0, -1]).log_softmax(-1)[expected]))
    return found


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle)


@pytest.fixture(scope="module")
def lines() -> tuple[list[str], list[str]]:
    """Unseen phrases, some of them beside the translation of another one."""
    found = short_phrases("test", 400)
    targets = [phrase.target for phrase in found]
    return [phrase.source for phrase in found], targets[:-9] + targets[-8:] + targets[-9:-8]


@pytest.fixture
def files(tmp_path: Path, lines: tuple[list[str], list[str]]) -> tuple[Path, Path]:
    """Twenty pairs, with blank lines among them."""
    paths = tmp_path / "a.en", tmp_path / "a.de"
    for path, side in zip(paths, lines, strict=True):
        path.write_text(
            "".join(line + "\n" for line in [*side[:7], "", *side[7:18], ""]), encoding="utf-8", newline="\n"
        )
    return paths


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"window": 4}, {"positions": "learned", "max_positions": 20}])
def test_scores_are_those_of_decoding_step_by_step_in_every_batch(changes: dict[str, object]) -> None:
    engine, pairs = random_engine(**changes), random_pairs(25)
    for (source, target), score in zip(pairs, score_pairs(engine, pairs, SEARCH), strict=True):
        assert score.ids == tuple(target)
        assert score.token_log_probabilities == pytest.approx(step_by_step(engine.model, source, target), abs=1e-9)
        (alone,) = score_pairs(engine, [(source, target)], SEARCH)
        assert alone.token_log_probabilities == pytest.approx(score.token_log_probabilities, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_what_search_found_has_the_score_that_search_gave_it(alpha: float) -> None:
    engine = random_engine()
    search = SearchConfig(beam=4, alpha=alpha, extra_length=5)
    sources = [tuple(source) for source, _ in random_pairs(12)]
    for source, hypotheses in zip(sources, engine.search([Request(s) for s in sources], search), strict=True):
        for hypothesis, score in zip(
            hypotheses, score_pairs(engine, [(source, h.ids) for h in hypotheses], search), strict=True
        ):
            assert score.log_probability == pytest.approx(hypothesis.log_probability, abs=1e-9)
            assert score.score == pytest.approx(hypothesis.score, abs=1e-9)


def test_an_ensemble_is_refused() -> None:
    model = random_engine().model
    for ask in (lambda engine: score_pairs(engine, [([5], [6])], SEARCH), lambda engine: align(engine, [5], [6])):
        with pytest.raises(UserError, match="name one of the ensemble"):
            ask(TorchEngine(model, model))


def test_no_pairs_have_no_scores() -> None:
    assert score_pairs(random_engine(), [], SEARCH) == []


def test_the_perplexity_of_all_is_the_one_of_evaluate(
    translator: Translator, lines: tuple[list[str], list[str]]
) -> None:
    sources, targets = [*lines[0], "", "A dog."], [*lines[1], "Ein Hund.", ""]
    scores = translator.score(sources, targets)
    nll, tokens = translator.likelihood(sources, targets)
    assert sum(score.tokens for score in scores) == tokens
    assert -sum(score.log_probability for score in scores) == pytest.approx(nll, rel=1e-5)


def test_a_wrong_translation_scores_less(translator: Translator, lines: tuple[list[str], list[str]]) -> None:
    right = [p.target for p in short_phrases("test", 400)][-9:]
    for wrong, better in zip(
        score_lines(translator, lines[0][-9:], lines[1][-9:]),
        score_lines(translator, lines[0][-9:], right),
        strict=True,
    ):
        assert wrong.score < better.score


def test_of_a_long_line_the_beginning_counts_and_a_warning_names_it(
    bundle: Path, lines: tuple[list[str], list[str]]
) -> None:
    heard: list[str] = []
    translator = Translator.load(bundle, warn=heard.append)
    long = " ".join(lines[0][:5])
    source, target = translator.source_codec.encode(long), translator.target_codec.encode(lines[1][0])
    limit = len(source) - 1
    translator.search = translator.search.model_copy(update={"max_input": limit})
    found = score_lines(translator, [lines[0][0], long], [lines[1][0], lines[1][0]], first_line=8)
    assert [message.partition(":")[0] for message in heard] == ["line 9"]
    (expected,) = score_pairs(translator.reference, [(source[:limit], target)], translator.search)
    assert found[1].score == pytest.approx(expected.score, abs=1e-4)


def test_a_row_a_pair_and_the_perplexity_that_evaluate_prints(bundle: Path, files: tuple[Path, Path]) -> None:
    source, target = files
    ran = transduce("score", bundle, "--source", source, "--target", target)
    assert ran.code == 0
    rows = [[float(value) for value in line.split("\t")] for line in ran.lines]
    assert len(rows) == 20
    for log_probability, score, tokens, perplexity in rows:
        assert score == pytest.approx(log_probability / ((5 + tokens) / 6) ** 0.6, abs=2e-4)
        assert perplexity == pytest.approx(2.718281828 ** (-log_probability / tokens), rel=1e-3)
    assert (rows[7][2], rows[19][2]) == (1, 1)  # a blank pair has an end token
    evaluated = transduce("evaluate", bundle, "--source", source, "--reference", target, "--beam", "1")
    assert re.search(r"^perplexity .*$", ran.err, re.MULTILINE)[0] == evaluated.lines[-1]  # type: ignore[index]


def test_tokens_add_up_to_the_row_without_them(bundle: Path, files: tuple[Path, Path]) -> None:
    options = ("--source", files[0], "--target", files[1])
    plain = [line.split("\t") for line in transduce("score", bundle, *options).lines]
    found = [json.loads(line) for line in transduce("score", bundle, *options, "--tokens").lines]
    translator = Translator.load(bundle)
    for row, table, text in zip(plain, found, files[1].read_text(encoding="utf-8").split("\n")[:-1], strict=True):
        total = sum(token["log_probability"] for token in table["tokens"])
        assert total == pytest.approx(table["log_probability"], abs=1e-4)
        assert [f"{table[key]:.4f}" for key in ("log_probability", "score")] == row[:2]
        ids = translator.target_codec.encode(text)
        assert [token["piece"] for token in table["tokens"]] == [*translator.target_codec.pieces(ids), "</s>"]


def test_compressed_files_windows_and_an_output_file_change_nothing(
    bundle: Path, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = transduce("score", bundle, "--source", files[0], "--target", files[1]).out
    packed = tmp_path / "b.en.gz", tmp_path / "b.de.xz"
    packed[0].write_bytes(gzip.compress(files[0].read_bytes()))
    packed[1].write_bytes(lzma.compress(files[1].read_bytes()))
    monkeypatch.setattr("transduce.cli.score.WINDOW", 4)
    ran = transduce("score", bundle, "--source", packed[0], "--target", packed[1], "--output", tmp_path / "out")
    assert (ran.code, ran.out) == (0, "")
    rows = [[float(x) for x in r.split("\t")] for r in (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1]]
    expected = [[float(x) for x in row.split("\t")] for row in plain.split("\n")[:-1]]
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        assert row == pytest.approx(other, rel=1e-3)


def test_alpha_changes_the_score_alone(bundle: Path, files: tuple[Path, Path]) -> None:
    ran = transduce("score", bundle, "--source", files[0], "--target", files[1], "--alpha", "0")
    assert all(row.split("\t")[0] == row.split("\t")[1] for row in ran.lines)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (["--target", "short"], r"a\.en: 20 lines, .*short: 1: line i must answer line i"),
        (["--target", "missing"], r"missing"),
        (["--output", "short"], r"short: exists"),
        (["--alignments", "--tokens"], r"--alignments has no scores"),
        (["--alignments", "--alpha", "1"], r"--alignments has no scores"),
    ],
)
def test_mistakes_are_told_in_a_line_and_write_nothing(
    bundle: Path,
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short").write_text("a\n", encoding="utf-8")
    ran = transduce("score", bundle, "--source", files[0], "--target", files[1], *change)
    assert (ran.code, ran.out) == (2, "")
    assert re.fullmatch(rf"transduce: .*{complaint}.*\n", ran.err)
    assert Path("short").read_text(encoding="utf-8") == "a\n"
