from __future__ import annotations

import pytest

from transduce.config import ModelConfig
from transduce.model.transformer import shape_only
from transduce.paper.table3_rows import ROWS, Row
from transduce.settings import load_config

VOCABULARY = 37_000  # section 5.1
MILLION = 10**6


def parameters(row: Row, vocabulary: int = VOCABULARY) -> int:
    return shape_only(ModelConfig.model_validate(row.changes), vocabulary, vocabulary).num_parameters()


def by_hand(config: ModelConfig, vocabulary: int) -> int:
    """Counted from the paper's description of the model."""
    d, h = config.d_model, config.num_heads
    attention = d * h * (2 * config.key_width + config.value_width) + h * config.value_width * d
    feed_forward = d * config.d_ff + config.d_ff + config.d_ff * d + d
    norm = 2 * d
    encoder = config.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = config.decoder_layers * (2 * attention + feed_forward + 3 * norm)
    positions = 2 * config.max_positions * d if config.positions == "learned" else 0
    return vocabulary * d + encoder + decoder + positions


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_builds_with_the_parameters_that_counting_by_hand_gives(row: Row) -> None:
    config = ModelConfig.model_validate(row.changes)
    model = shape_only(config, VOCABULARY, VOCABULARY)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert model.num_parameters() == by_hand(config, VOCABULARY)


def test_the_papers_counts_beside_ours() -> None:
    lines = [f"{row.name:20} {parameters(row) / MILLION:6.1f} M, paper: {row.printed or 'not printed'}" for row in ROWS]
    print("", *lines, sep="\n")  # `make paper` shows it
    assert len(lines) == 20
    assert lines[0] == "base                   63.0 M, paper: 65"
    assert all(line.startswith(row.name) and "M, paper: " in line for line, row in zip(lines, ROWS, strict=True))


@pytest.mark.parametrize("row", [row for row in ROWS if row.printed], ids=lambda row: row.name)
def test_with_the_papers_vocabulary_a_count_is_within_7_percent_of_the_printed_one(row: Row) -> None:
    assert row.printed is not None
    assert parameters(row) == pytest.approx(row.printed * MILLION, rel=0.07)


def fitting(row: Row) -> range:
    """The vocabularies with which the count rounds to the one that the paper prints."""
    assert row.printed is not None
    width = ModelConfig.model_validate(row.changes).d_model
    rest = parameters(row) - VOCABULARY * width
    lowest, highest = ((row.printed + half) * MILLION - rest for half in (-0.5, 0.5))
    return range(int(-(-lowest // width)), int(highest // width) + 1)


def test_one_vocabulary_of_about_41_thousand_gives_every_printed_count_but_the_big_models() -> None:
    fits = [fitting(row) for row in ROWS if row.printed and row.name != "big"]
    common = range(max(fit.start for fit in fits), min(fit.stop for fit in fits))
    assert 41_000 <= common.start < common.stop <= 41_250
    for row in ROWS:
        if row.printed and row.name != "big":
            assert {round(parameters(row, size) / MILLION) for size in (common[0], common[-1])} == {row.printed}


def test_the_big_models_count_fits_a_vocabulary_of_about_36_thousand() -> None:
    fit = fitting(ROWS[-1])
    assert 35_000 < fit.start < fit.stop < 36_500
    assert round(parameters(ROWS[-1], fit[len(fit) // 2]) / MILLION) == ROWS[-1].printed


def test_the_number_of_heads_costs_no_parameters_when_their_width_shrinks_with_it() -> None:
    assert len({parameters(row) for row in ROWS if row.name == "base" or row.name.startswith(("A", "D"))}) == 1


def test_the_base_and_big_presets_are_the_papers_rows() -> None:
    assert load_config(preset="base").model == ModelConfig()
    assert load_config(preset="big").model == ModelConfig.model_validate(ROWS[-1].changes)
