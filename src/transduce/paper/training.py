"""One training of a study: started, or gone on with, and then ready to be measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.bundle import load_weights, read_weights
from transduce.data.preparation import Prepared, recall
from transduce.decode.torch_engine import TorchEngine
from transduce.decode.translator import Translator
from transduce.errors import RunError
from transduce.evaluate.bleu import bleu
from transduce.evaluate.perplexity import perplexity
from transduce.model import Transformer
from transduce.paper.corpora import Pairs
from transduce.paper.lesions import LESIONS
from transduce.settings import load_config
from transduce.train.calibration import multiplications
from transduce.train.progress import Listener
from transduce.train.state import State, checkpoints, read_state
from transduce.trainer import Trainer


@dataclass(frozen=True)
class Training:
    """What a run is asked for; the lesion is one of `LESIONS`."""

    settings: tuple[str, ...]
    preset: str = "base"
    lesion: str = "whole"

    @property
    def work(self) -> float:
        """Multiply-adds of all updates: how long it takes beside trainings like it."""
        config = load_config(preset=self.preset, settings=self.settings)
        assert config.train.steps is not None, "a training of a study has a budget in updates"
        tokens = config.train.steps * config.train.batch_tokens
        return float(tokens * multiplications(config.model, config.text.vocabulary))

    def run(self, out: Path, listener: Listener) -> Translator:
        """Train to the end; the translator has the last weights and PyTorch's engine."""
        kind = lesioned(self.lesion)
        if (out / "config.toml").is_file():
            trainer = kind.resume(out, listener=listener)
        else:
            trainer = kind(out, preset=self.preset, settings=self.settings, listener=listener)
        path = trainer.run()
        prepared = recall(out)
        model = trainer.new_model(prepared)
        load_weights(model, read_weights(path / "model.safetensors"), where=path)
        model.eval().requires_grad_(False)
        codecs = prepared.source_codec, prepared.target_codec
        return Translator(TorchEngine(model), *codecs, trainer.config.search)


def lesioned(name: str) -> type[Trainer]:
    """A trainer of models with a part taken out, if any.

    It writes no bundle, whose configuration could not tell of that; of a whole model `transduce train --resume` does.
    """

    class Lesioned(Trainer):
        def new_model(self, prepared: Prepared) -> Transformer:
            model = super().new_model(prepared)
            LESIONS[name](model)
            return model

        def finish(self, model: Transformer, prepared: Prepared, state: State) -> Path:
            return checkpoints(self.out / "checkpoints")[-1]

    return Lesioned


def measure(translator: Translator, pairs: Pairs) -> dict[str, Any]:
    """Perplexity per subword without smoothing, sacreBLEU by the translator's own search, and how long outputs are."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    score = bleu([translation.text for translation in translator.translate(sources)], targets)
    assert score.ngrams is not None, "BLEU is made of n-grams"
    surprise = perplexity(*translator.likelihood(sources, targets))
    if not math.isfinite(surprise):
        raise RunError(f"perplexity is {surprise}: the training diverged: lower train.learning_rate")
    return {
        "perplexity": surprise,
        "bleu": score.value,
        "signature": score.signature,
        "sentences": score.sentences,
        "length": score.ngrams.hypothesis_length / score.ngrams.reference_length,
    }


def cost(translator: Translator, run: Path) -> dict[str, Any]:
    """Parameters, updates and seconds of a run that is at its end."""
    state = read_state(checkpoints(run / "checkpoints")[-1])
    parameters = translator.reference.model.num_parameters()
    return {"parameters": parameters, "updates": state.step, "seconds": state.seconds}
