"""One schema: what is not in it is an error that says what was meant."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import transduce
from transduce.config import Config, ModelConfig, TrainConfig
from transduce.errors import ConfigError
from transduce.settings import describe, known_keys, load_config, make_config, presets

every_preset = pytest.mark.parametrize("preset", presets())


def flat(config: Config) -> dict[str, object]:
    """Every `section.key` and its value."""
    return {key: getattr(getattr(config, key.partition(".")[0]), key.partition(".")[2]) for key in known_keys()}


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_defaults_are_the_papers_base_model() -> None:
    model, train = ModelConfig(), TrainConfig()
    assert (model.encoder_layers, model.decoder_layers, model.d_model, model.d_ff, model.num_heads) == (
        6,
        6,
        512,
        2048,
        8,
    )
    assert (model.key_width, model.value_width, model.dropout, train.label_smoothing) == (64, 64, 0.1, 0.1)
    assert (train.warmup_steps, train.beta1, train.beta2, train.adam_eps) == (4000, 0.9, 0.98, 1e-9)
    assert (Config().search.beam, Config().search.alpha, Config().search.extra_length) == (4, 0.6, 50)


@every_preset
def test_a_preset_differs_from_the_defaults_in_what_its_file_lists_and_in_nothing_else(preset: str) -> None:
    listed = tomllib.loads((files("transduce.presets") / f"{preset}.toml").read_text(encoding="utf-8"))
    defaults, values = flat(Config()), flat(load_config(preset=preset))
    differing = {key: value for key, value in values.items() if value != defaults[key]}
    assert differing == {f"{section}.{key}": value for section, keys in listed.items() for key, value in keys.items()}


@every_preset
def test_what_config_prints_loads_back_as_the_same_config(preset: str, tmp_path: Path) -> None:
    settings = ["train.minutes=20", 'data.source=["a b.en", "it\'s.en"]', "data.source_lang=en", "model.d_k=32"]
    flags = [part for setting in settings for part in ("--set", setting)]
    ran = transduce("config", "--preset", preset, *flags)
    assert (ran.code, ran.err) == (0, "")
    printed = write(tmp_path / "config.toml", ran.out)
    assert load_config(path=printed) == load_config(preset=preset, settings=settings)


def test_the_later_setting_wins(tmp_path: Path) -> None:
    path = write(tmp_path / "c.toml", 'preset = "tiny"\n[train]\nseed = 2\nkeep = 3\n[model]\nd_ff = 300\n')
    config = load_config(path=path, settings=["train.seed=4", "train.seed=5"])
    assert (config.preset, config.train.seed, config.train.keep, config.model.d_ff) == ("tiny", 5, 3, 300)
    assert config.model.d_model == load_config(preset="tiny").model.d_model
    assert load_config(preset="small", path=path).model.d_model == load_config(preset="small").model.d_model


def test_a_byte_order_mark_and_windows_line_ends_are_no_mistake(tmp_path: Path) -> None:
    path = write(tmp_path / "c.toml", b"\xef\xbb\xbf[train]\r\nseed = 7\r\n")
    assert load_config(path=path).train.seed == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nd_modle = 8\n", "c.toml: unknown key 'model.d_modle': did you mean 'model.d_model'?"),
        ("[modle]\nd_model = 8\n", "c.toml: unknown key 'modle': did you mean 'model'?"),
        ("d_model = 8\n", "c.toml: unknown key 'd_model': did you mean 'model.d_model'?"),
        ('preset = "tny"\n', "c.toml: unknown preset 'tny': did you mean 'tiny'?"),
        ("preset = 5\n", "c.toml: unknown preset 5: there are base, big,"),
        ("model = 3\n", "c.toml: model = 3: should be a table"),
        ("[model]\nd_model = true\n", "c.toml: model.d_model = True: should be a valid integer"),
        ('[model]\nd_model = "512"\n', "c.toml: model.d_model = '512': should be a valid integer"),
        ("[model]\nd_model = 0\n", "c.toml: model.d_model = 0: should be greater than 0"),
        ("[model]\nd_model = 511\nd_k = 8\nd_v = 8\n", "c.toml: model: d_model 511 must be even"),
        ("[model]\nd_model = 514\n", "c.toml: model: d_model 514 is not a multiple of num_heads 8: set d_k"),
        ("[model]\ndropout = 1.0\n", "c.toml: model.dropout = 1.0: should be less than 1"),
        ("[model]\ndropout = nan\n", "c.toml: model.dropout = nan: should be"),
        ("[train]\nlearning_rate = inf\n", "c.toml: train.learning_rate = inf: should be a finite number"),
        ('[model]\nnorm = "mid"\n', "c.toml: model.norm = 'mid': should be 'post' or 'pre'"),
        (
            '[train]\nprecision = "half"\n',
            "c.toml: train.precision = 'half': should be 'float32', 'bfloat16' or 'float16'",
        ),
        ('[data]\nsource = "a.en"\n', "c.toml: data.source = 'a.en': should be a list"),
        ("[data]\nsource = [1]\n", "c.toml: data.source.0 = 1: should be a valid string"),
        ("[text]\njoint = false\n", 'c.toml: three-way tying needs one vocabulary: set model.tying="target"'),
        ('[text]\ntarget_codec = "symbols"\n', "c.toml: text: joint = true needs source_codec = target_codec"),
        ("[train]\nseed = 1979-05-27\n", "c.toml: train.seed = datetime.date(1979, 5, 27): should be"),
        ("[model\n", "c.toml: not TOML: "),
        (b"# first line\n# \xff\n", "c.toml: line 2: not UTF-8"),
        ("x = " + "[" * 5000, "c.toml: not TOML: "),
        ("a." * 3000 + "a = 1", "c.toml: unknown key 'a'"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "bytes",
)
def test_a_mistake_in_a_file_is_named_with_its_place(text: str | bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "c.toml", text)
    with pytest.raises(ConfigError) as raised:
        load_config(path=path)
    assert str(raised.value).startswith(f"{tmp_path}/{message}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.stesp=3", "--set train.stesp=3: unknown key 'train.stesp': did you mean 'train.steps'?"),
        ("steps=3", "--set steps=3: unknown key 'steps': did you mean 'train.steps'?"),
        ("train=3", "--set train=3: unknown key 'train'"),
        ("train.steps", "--set train.steps: write section.key=value"),
        ("train.steps=many", "train.steps = 'many': should be a valid integer"),
        ("train.steps=-1", "train.steps = -1: should be greater than 0"),
        ("train.seed=3\ntrain=4", "train.seed = '3\\ntrain=4': should be a valid integer"),
        ("data.source=a.en", "data.source = 'a.en': should be a list"),
    ],
)
def test_a_mistake_in_a_setting_is_named_with_its_value(setting: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(settings=[setting])
    assert str(raised.value).startswith(message)


def test_a_word_needs_no_quotes() -> None:
    plain, quoted = (load_config(settings=[f"data.source_lang={word}"]) for word in ("en", '"en"'))
    assert plain.data.source_lang == quoted.data.source_lang == "en"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "missing.toml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=f"{path}: cannot read: {why}"):
            load_config(path=path)


@given(key=st.sampled_from(known_keys()), place=st.integers(0, 40), letter=st.sampled_from("qxz"))
def test_one_wrong_letter_leads_back_to_the_key(key: str, place: int, letter: str) -> None:
    start = key.index(".") + 1 + place % (len(key) - key.index(".") - 1)
    wrong = key[:start] + letter + key[start + 1 :]
    if wrong in known_keys():
        return
    with pytest.raises(ConfigError, match="did you mean") as raised:
        load_config(settings=[f"{wrong}=1"])
    if len(key.partition(".")[2]) > 5:  # a short name is as near to another
        assert f"did you mean {key!r}?" in str(raised.value)


@pytest.mark.parametrize("key", known_keys())
def test_every_key_is_explained_with_its_default(key: str) -> None:
    meaning, default = describe(key)
    assert meaning.endswith(".")
    assert default == flat(Config())[key]


def test_explain_and_presets_print_on_stdout() -> None:
    ran = transduce("config", "--explain", "train.warmup_steps")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == ["train.warmup_steps (default: 4000)", "Updates of linear warm-up (section 5.3)."]
    assert transduce("config", "--presets").lines == presets()
    assert transduce("config", "--explain", "data.columns").lines[0] == 'data.columns (default: ["source", "target"])'
    assert transduce("config", "--explain", "model.window").lines[0] == "model.window (default: unset)"


def test_explain_of_an_unknown_key_names_the_nearest() -> None:
    ran = transduce("config", "--explain", "warmup_steps")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean 'train.warmup_steps'?" in ran.err


def test_a_config_is_frozen_and_a_table_is_not_changed() -> None:
    table = {"data": {"source": ["a.en"]}}
    config = make_config(table, where="here")
    assert config.data.source == ("a.en",)
    assert table == {"data": {"source": ["a.en"]}}
    with pytest.raises(ValueError, match="frozen"):
        config.train.seed = 3  # type: ignore[misc]


def test_two_passes_that_are_compared_must_differ_by_dropout() -> None:
    settings = ["train.r_drop=5.0", "model.dropout=0.0"]
    with pytest.raises(ConfigError, match=r"compares equal passes: set model\.dropout or train\.r_drop=0$"):
        load_config(preset="tiny", settings=settings)
    assert load_config(preset="tiny", settings=[*settings, "model.word_dropout=0.1"]).train.r_drop == 5.0


def test_learned_positions_must_reach_the_longest_pair() -> None:
    settings = ["model.positions=learned", "model.max_positions=128"]
    with pytest.raises(ConfigError, match=r"data\.max_length 256, model\.max_positions 128"):
        load_config(settings=settings)
    assert load_config(settings=[*settings, "data.max_length=127"]).model.max_positions == 128
