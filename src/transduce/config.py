"""Every setting of a run, once. The defaults are the paper's base model and recipe; presets list only what differs."""

from __future__ import annotations

from typing import Annotated, Literal

import tomli_w
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

Layers = Annotated[int, Field(gt=0, le=1024)]
Width = Annotated[int, Field(gt=0, le=65536)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Step = Literal["nfc", "nfkc", "lower", "squeeze", "spell"]


class Section(BaseModel):
    """A frozen table of settings in which an unknown key is an error, and no value is taken for what it is not."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class ModelConfig(Section):
    """The shape of the Transformer and the variations that the paper names."""

    encoder_layers: Layers = 6
    """N of the encoder (section 3.1)."""
    decoder_layers: Layers = 6
    """N of the decoder (section 3.1)."""
    d_model: Width = 512
    """Width of embeddings and of every sub-layer's output."""
    d_ff: Width = 2048
    """Inner width of the feed-forward networks (section 3.3)."""
    num_heads: Width = 8
    """Attention heads h (section 3.2.2)."""
    d_k: Width | None = None
    """Width of a head's queries and keys; unset: d_model / num_heads (Table 3 B varies it)."""
    d_v: Width | None = None
    """Width of a head's values; unset: d_model / num_heads."""
    dropout: Probability = 0.1
    """P_drop: on each sub-layer's output before it is added, and on embedding + position (section 5.4)."""
    attention_dropout: Probability = 0.0
    """Dropout on attention weights: not in the paper's translation models; its parser used it."""
    relu_dropout: Probability = 0.0
    """Dropout inside the feed-forward network: not in the paper."""
    word_dropout: Probability = 0.0
    """Share of input words whose whole embedding is left out (Gal & Ghahramani 2016): not in the paper."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Position encodings (section 3.5; Table 3 E compares the two)."""
    max_positions: Annotated[int, Field(gt=0, le=1 << 20)] = 1024
    """Rows of the learned position table, and so the longest sequence; sinusoids have no limit."""
    norm: Literal["post", "pre"] = "post"
    """post: LayerNorm(x + Sublayer(x)), the paper's; pre: x + Sublayer(LayerNorm(x)), and a norm after each stack."""
    layer_norm_eps: float = Field(default=1e-5, gt=0)
    """Added to the variance in layer normalisation (not in the paper)."""
    attention: Literal["scaled", "unscaled", "additive"] = "scaled"
    """What the softmax is of: q.k / sqrt(d_k), q.k, or a network with one hidden layer (section 3.2.1)."""
    attention_bias: bool = False
    """Biases on the attention projections: not in the paper; imported models have them."""
    window: PositiveInt | None = None
    """Restricted self-attention: a position sees a neighbourhood of this size (r in Table 1); unset: all of it."""
    tying: Literal["three-way", "target", "none"] = "three-way"
    """Which matrices are one: both embeddings and the output projection (the paper), the target's two, or none."""
    activation: Literal["relu", "gelu", "silu"] = "relu"
    """Non-linearity of the feed-forward network; the paper's is relu."""
    output_bias: bool = False
    """A bias on the output projection: not in the paper; imported models have one."""

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelConfig:
        if (self.d_k is None or self.d_v is None) and self.d_model % self.num_heads:
            raise ValueError(f"d_model {self.d_model} is not a multiple of num_heads {self.num_heads}: set d_k and d_v")
        if self.d_model % 2:
            raise ValueError(f"d_model {self.d_model} must be even: sinusoids come in pairs")
        return self

    @property
    def key_width(self) -> int:
        """d_k, resolved."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def value_width(self) -> int:
        """d_v, resolved."""
        return self.d_v or self.d_model // self.num_heads


class TextConfig(Section):
    """How strings become token ids."""

    source_codec: Literal["subwords", "symbols", "letters", "words"] = "subwords"
    """subwords: byte-pair encoding by SentencePiece; symbols: the whitespace-separated symbols seen in training;
    letters: each letter of a word is a symbol, whatever its case; words: each word has one id, a rare one that of its
    shape."""
    target_codec: Literal["subwords", "symbols"] = "subwords"
    """As source_codec, for the target side."""
    joint: bool = True
    """One vocabulary learned on both sides and used for both (the paper's; needed for three-way tying)."""
    vocabulary: Annotated[int, Field(ge=8)] = 37000
    """Number of subwords, specials and bytes included; of words, at most so many; ignored by symbols."""
    normalize: tuple[Step, ...] = ()
    """Steps applied to every line before encoding, in order; none: text stays as it is."""
    sample_lines: PositiveInt = 2_000_000
    """Subwords are learned from at most this many lines, drawn by the seed."""

    @model_validator(mode="after")
    def _joint_codecs_agree(self) -> TextConfig:
        if self.joint and self.source_codec != self.target_codec:
            raise ValueError("joint = true needs source_codec = target_codec: set text.joint=false")
        return self


class CorpusConfig(Section):
    """One of several corpora: a `[[data.corpora]]` table."""

    source: tuple[str, ...] = ()
    """Source files, as data.source."""
    target: tuple[str, ...] = ()
    """Target files, line i the translation of line i."""
    pairs: tuple[str, ...] = ()
    """Instead of source and target: .tsv or .jsonl files, as data.pairs."""
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """How often an epoch sees each pair; 0.25: a quarter of the pairs in one epoch, the next quarter in the next."""


class DataConfig(Section):
    """Where the pairs come from and which are used."""

    source: tuple[str, ...] = ()
    """Source files, one sentence a line, plain, .gz or .xz."""
    target: tuple[str, ...] = ()
    """Target files, line i the translation of line i."""
    pairs: tuple[str, ...] = ()
    """Instead of source and target: .tsv or .jsonl files, plain, .gz or .xz, that hold both; or .trees files, one tree
    a line: words in, brackets out."""
    columns: tuple[str, str] = ("source", "target")
    """JSONL keys of the two sides; a TSV's are its first two columns."""
    corpora: tuple[CorpusConfig, ...] = ()
    """More corpora, each with a weight: [[data.corpora]] tables with source and target, or pairs."""
    valid_source: tuple[str, ...] = ()
    """Validation source files; without any, pairs are held out of the training data."""
    valid_target: tuple[str, ...] = ()
    """Validation target files."""
    valid_pairs: tuple[str, ...] = ()
    """Validation pairs in one file."""
    source_lang: str | None = None
    """Language code of the source; unset: from the file suffix (train.en.gz)."""
    target_lang: str | None = None
    """Language code of the target."""
    max_length: PositiveInt = 256
    """Pairs with a side of more tokens than this are left out of training, and counted."""
    max_characters: PositiveInt = 5000
    """Pairs with a longer side are unusable."""
    max_ratio: Annotated[float, Field(gt=1)] = 9.0
    """Pairs in which one side has this many times the other's characters, and more than 20, are unusable."""
    strict: bool = False
    """Any unusable pair is an error, not only more than 5 %."""
    store: str | None = None
    """Directory for the token ids, shared by runs; unset: data/ in the run."""


class TrainConfig(Section):
    """The recipe (section 5)."""

    seed: Annotated[int, Field(ge=0)] = 1
    """Order of data, initial weights and dropout follow from it."""
    batch_tokens: PositiveInt = 25000
    """Source tokens and target tokens of one update, each at most about this (section 5.1)."""
    micro_batch_tokens: PositiveInt = 8192
    """What is in memory at once; gradients are accumulated up to batch_tokens."""
    warmup_steps: PositiveInt = 4000
    """Updates of linear warm-up (section 5.3)."""
    learning_rate: Annotated[float, Field(gt=0)] = 1.0
    """Factor on the schedule d_model^-0.5 * min(step^-0.5, step * warmup^-1.5); the paper's is 1."""
    cooldown: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Share of the budget, at its end, over which the learning rate falls to 0 in a line (Hagele et al. 2024); 0: the
    paper's schedule as it is."""
    beta1: Probability = 0.9
    """Adam's first decay."""
    beta2: Probability = 0.98
    """Adam's second decay."""
    adam_eps: Annotated[float, Field(gt=0)] = 1e-9
    """Adam's epsilon."""
    label_smoothing: Probability = 0.1
    """Share of the target distribution spread over the vocabulary (section 5.4)."""
    bpe_dropout: Probability = 0.0
    """Share of merges left out when training text is cut into subwords, anew each epoch (Provilkov et al. 2020)."""
    r_drop: NonNegativeFloat = 0.0
    """Weight of the divergence between two passes with different dropout (R-Drop, Liang et al. 2021); 0: one pass."""
    ema: Probability = 0.0
    """Decay of a moving average of the weights, validated and kept in their stead, such as 0.999; 0: none."""
    start: str | None = None
    """A bundle, or a run that holds one, whose weights and vocabulary training starts from; unset: from nothing."""
    steps: PositiveInt | None = None
    """Stop after this many updates."""
    epochs: PositiveInt | None = None
    """Stop after this many passes over the data."""
    minutes: Annotated[float, Field(gt=0)] | None = None
    """Stop after this much time."""
    patience: PositiveInt | None = None
    """Stop after this many validations without a better perplexity; unset: 6 when no budget is given, else never."""
    validate_every: PositiveInt = 1000
    """Updates between validations."""
    save_every: PositiveInt = 1000
    """Updates between checkpoints."""
    keep: PositiveInt = 5
    """Checkpoints kept: so many of the newest, those that the bundle will average, and the best by validation."""
    average: Literal["last", "best", "best_bleu"] = "last"
    """Which checkpoints the final bundle averages: the last (section 6.1), or those that validated best, by perplexity
    or by BLEU."""
    average_count: PositiveInt = 5
    """How many checkpoints the final bundle averages."""
    threads: PositiveInt | None = None
    """CPU threads of a process; unset: one per core, or per share of the cores beside other processes."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the layers' products; weights, loss and optimiser are float32 always. bfloat16: for hardware that has it;
    float16: for GPUs that have only that, with a loss scale that finds itself."""
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """Gradients with a larger norm are scaled down to it; unset: none are (the paper names no clipping)."""
    recompute: bool = False
    """Keep only the input of each layer and compute the rest again for its gradient: less memory, more time."""
    compile: bool = False
    """Train through torch.compile: a minute or more of warm-up, for GPUs; on a CPU nothing was gained."""
    parallel: Literal["data", "fsdp"] = "data"
    """With several processes (torchrun): data: each has the whole model; fsdp: each keeps a part of every weight and of
    Adam's moments, for models that one device cannot hold."""
    tensorboard: bool = False
    """Write TensorBoard's events to tensorboard/ in the run; needs the extra `track`."""


class SearchConfig(Section):
    """Decoding (section 6.1). What is beyond the paper is off: docs/decoding.md has the rule of each."""

    beam: PositiveInt = 4
    """Beam size; 1 is greedy. With search.sampling: how many outputs are drawn."""
    alpha: NonNegativeFloat = 0.6
    """Length penalty: the larger, the longer the outputs."""
    penalty: Literal["gnmt", "length"] = "gnmt"
    """What log-probabilities are divided by: ((5 + length) / 6)^alpha, the paper's, or length^alpha."""
    coverage: NonNegativeFloat = 0.0
    """GNMT's beta: outputs that leave source tokens unattended rank lower; 0: off."""
    extra_length: PositiveInt = 50
    """An output has at most this many tokens more than its input."""
    min_length: NonNegativeInt = 0
    """An output has at least this many tokens, if its limit allows."""
    max_length: PositiveInt | None = None
    """An output has at most this many tokens, however long its input; unset: extra_length alone says."""
    no_repeat: NonNegativeInt = 0
    """No run of this many tokens occurs twice in an output; 0: off."""
    groups: PositiveInt = 1
    """Diverse beam search: the beam is shared among so many groups, each kept away from those before it."""
    diversity: NonNegativeFloat = 0.5
    """What a token costs a group, in log-probability, for each row of earlier groups that has just chosen it."""
    sampling: bool = False
    """Draw outputs by their probability instead of searching for the best."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling: log-probabilities are divided by it; below 1 likely tokens are drawn more often still."""
    top_k: PositiveInt | None = None
    """Sampling: only from so many of the likeliest tokens; unset: from all."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sampling: only from the likeliest tokens that together have this probability."""
    min_p: Probability = 0.0
    """Sampling: only from tokens at least this share as likely as the likeliest."""
    seed: NonNegativeInt = 0
    """Sampling: what is drawn for a sentence follows from this and its tokens alone."""
    batch_tokens: PositiveInt = 4096
    """Source tokens that are decoded together; PyTorch counts a sentence once for each row of its beam."""
    max_input: PositiveInt = 1000
    """A longer input, in tokens, is split at sentence ends or spaces, with a warning."""

    @model_validator(mode="after")
    def _groups_share_the_beam(self) -> SearchConfig:
        if self.beam % self.groups:
            raise ValueError(f"groups {self.groups} cannot share a beam of {self.beam}: make it a multiple")
        return self

    @model_validator(mode="after")
    def _lengths_agree(self) -> SearchConfig:
        if self.max_length is not None and self.max_length < self.min_length:
            raise ValueError(f"max_length {self.max_length} is below min_length {self.min_length}: raise it")
        return self


class Config(Section):
    """All of a run; `config.toml` in the run directory holds it resolved."""

    preset: str = "base"
    """The preset this configuration started from."""
    model: ModelConfig = ModelConfig()
    """The model."""
    text: TextConfig = TextConfig()
    """The codecs."""
    data: DataConfig = DataConfig()
    """The corpora."""
    train: TrainConfig = TrainConfig()
    """The recipe."""
    search: SearchConfig = SearchConfig()
    """The search."""

    @model_validator(mode="after")
    def _tying_needs_joint(self) -> Config:
        if self.model.tying == "three-way" and not self.text.joint:
            raise ValueError('three-way tying needs one vocabulary: set model.tying="target" or text.joint=true')
        return self

    @model_validator(mode="after")
    def _trees_are_symbols(self) -> Config:
        files = [*self.data.pairs, *(name for corpus in self.data.corpora for name in corpus.pairs)]
        trees = [name for name in files if name.removesuffix(".gz").removesuffix(".xz").endswith(".trees")]
        if trees and self.text.target_codec != "symbols":
            presets = "parsing-tiny, parsing-small or parsing"
            raise ValueError(f'{trees[0]}: trees need text.target_codec = "symbols": choose the preset {presets}')
        return self

    @model_validator(mode="after")
    def _r_drop_needs_dropout(self) -> Config:
        rates = (getattr(self.model, f"{place}dropout") for place in ("", "attention_", "relu_", "word_"))
        if self.train.r_drop and not any(rates):
            raise ValueError("train.r_drop without dropout compares equal passes: set model.dropout or train.r_drop=0")
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> Config:
        if self.model.positions == "learned" and self.data.max_length >= self.model.max_positions:
            limits = f"data.max_length {self.data.max_length}, model.max_positions {self.model.max_positions}"
            raise ValueError(f"learned positions end before the longest pair: {limits}: make the first the smaller")
        return self

    @model_validator(mode="after")
    def _sharded_is_not_compiled(self) -> Config:
        if self.train.parallel == "fsdp" and self.train.compile:
            raise ValueError("train.parallel = fsdp with train.compile = true was never tried: choose one of them")
        return self

    def to_toml(self) -> str:
        """This configuration as TOML; unset values are left out, as TOML has no null."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))
