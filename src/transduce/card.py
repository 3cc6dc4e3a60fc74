"""The model card: README.md of a bundle. No path, user or host name goes in."""

from __future__ import annotations

from transduce.config import Config, CorpusConfig, DataConfig
from transduce.data.preparation import Prepared
from transduce.files import file_name
from transduce.version import __version__

TEMPLATE = """# {title}

A Transformer ("Attention Is All You Need") trained by transduce {version}.

| | |
|---|---|
| languages | {source} to {target} |
| preset | {preset} |
| shape | {norm}-norm, {encoder_layers}+{decoder_layers} layers, d_model {d_model}, d_ff {d_ff}, {num_heads} heads |
| parameters | {parameters:,} |
| vocabulary | {source_size:,} source, {target_size:,} target |
| trained on | {files}: {pairs:,} pairs |
| updates | {step:,} of about {batch_tokens:,} target tokens, seed {seed} |
| validation, {valid:,} pairs | perplexity {perplexity:.2f}, BLEU {bleu:.2f} (greedy, sacreBLEU 13a) |

Use it: `transduce translate BUNDLE < input > output`, or in Python
`from transduce import Translator; Translator.load("BUNDLE").translate(["..."])[0].text`.

It knows only what its training text shows: text of another kind will be translated worse, and nothing it says has been
checked by a person. The licence of the training text may limit what the model may be used for.
"""


def model_card(
    config: Config, prepared: Prepared, *, parameters: int, step: int, perplexity: float, bleu: float
) -> str:
    """The card of a trained model, in Markdown."""
    model, data = config.model, config.data
    corpora: list[DataConfig | CorpusConfig] = [data, *data.corpora]
    names = [file_name(path) for each in corpora for path in (*each.source, *each.target, *each.pairs)]
    source, target = prepared.source_lang or "unnamed", prepared.target_lang or "unnamed"
    return TEMPLATE.format(
        title=f"{source}-{target} {config.preset}",
        version=__version__,
        source=source,
        target=target,
        preset=config.preset,
        norm=model.norm,
        encoder_layers=model.encoder_layers,
        decoder_layers=model.decoder_layers,
        d_model=model.d_model,
        d_ff=model.d_ff,
        num_heads=model.num_heads,
        parameters=parameters,
        source_size=prepared.source_codec.size,
        target_size=prepared.target_codec.size,
        files=", ".join(names),
        pairs=len(prepared.train),
        step=step,
        batch_tokens=config.train.batch_tokens,
        seed=config.train.seed,
        valid=len(prepared.valid_source),
        perplexity=perplexity,
        bleu=bleu,
    )
