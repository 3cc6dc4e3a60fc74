"""How good a model is while it trains."""

from __future__ import annotations

import time
from collections.abc import Callable

from transduce.config import Config
from transduce.data.preparation import Prepared
from transduce.decode.engine import go_on
from transduce.decode.torch_engine import TorchEngine
from transduce.decode.translator import Translator
from transduce.evaluate.bleu import bleu
from transduce.evaluate.perplexity import perplexity
from transduce.model import Transformer
from transduce.text.normalize import normalize
from transduce.train.progress import Sample, Validation

SAMPLES = 3  # sentences that are kept with each validation


def validate(
    model: Transformer, prepared: Prepared, config: Config, step: int, between: Callable[[], None] = go_on
) -> Validation:
    """Unsmoothed perplexity, and BLEU of greedily decoded text against the target as the model is given it.

    `between` is called before each batch and may raise.
    """
    start = time.monotonic()
    greedy = config.search.model_copy(update={"beam": 1, "groups": 1, "sampling": False})
    translator = Translator(TorchEngine(model), prepared.source_codec, prepared.target_codec, greedy, between=between)
    likelihood = translator.likelihood(prepared.valid_source, prepared.valid_target)
    texts = [translation.text for translation in translator.translate(prepared.valid_source)]
    right = [normalize(line, config.text.normalize) for line in prepared.valid_target]
    samples = zip(prepared.valid_source, prepared.valid_target, texts, strict=True)
    return Validation(
        step=step,
        perplexity=perplexity(*likelihood),
        bleu=bleu(texts, right).value,
        samples=tuple(Sample(*sample) for sample in list(samples)[:SAMPLES]),
        seconds=time.monotonic() - start,
    )
