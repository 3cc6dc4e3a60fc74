"""The model whose attention Figures 3 to 5 show, with what its heads do and what is lost without each of them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path

from transduce.bundle import MANIFEST, Bundle
from transduce.data.baselines import pronoun_accuracy
from transduce.data.phrasebook import Phrase, phrases
from transduce.decode.translator import Translator
from transduce.errors import UserError
from transduce.explain.ablation import switched_off
from transduce.explain.head import Head, all_heads
from transduce.explain.heads import Found, Loss, find_heads, without
from transduce.explain.reading import Reading, read_pair
from transduce.files import sha256, write_json
from transduce.paper.demo_run import knows_only_phrases, model_of
from transduce.paper.study import Study

READ = {"tiny": 400, "small": 1000, "paper": 1000}
"""By scale, the unseen pairs by which heads are found."""
TRANSLATED = {"tiny": 150, "small": 500, "paper": 500}
"""By scale, the pairs that are translated without each head."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, unseen phrases, and what its heads do with them."""

    study: Study
    translator: Translator
    corpus: list[Phrase]
    knows_only_phrases: bool
    """Whether it has seen the phrasebook and nothing else: the paper's sentences would tell nothing."""

    @cached_property
    def found(self) -> Found:
        """What each head looks at."""
        self.study.listener.note(f"reading {len(self.corpus)} unseen pairs for what each head looks at")
        return find_heads(self.translator, self.corpus)

    def describe(self) -> str:
        """The model and the phrases in a line."""
        config = self.translator.reference.model.config
        shape = f"{config.encoder_layers} + {config.decoder_layers} layers of {config.num_heads} heads"
        trained = "trained on the embedded phrasebook" if self.knows_only_phrases else "given by the user"
        return f"a model of {shape}, d_model {config.d_model}, {trained}; {len(self.corpus)} unseen phrases"

    def read(self, sentence: str) -> tuple[str, Reading]:
        """A sentence's translation, and all attention on the way."""
        text = self.translator.translate([sentence])[0].text
        sides = self.translator.source_codec.encode(sentence), self.translator.target_codec.encode(text)
        return text, read_pair(self.translator, *sides)

    def pronouns_right(self, off: list[Head]) -> float:
        """The share of unseen pronouns translated rightly, greedily, with these heads switched off."""
        referring = [phrase for phrase in self.corpus if phrase.pronoun]
        with switched_off(self.translator.reference.model, off):
            texts = self.translator.translate([phrase.source for phrase in referring], beam=1)
        return pronoun_accuracy(referring, [translation.text for translation in texts])

    def losses(self) -> tuple[Loss, dict[Head, Loss]]:
        """The whole model's loss and BLEU, and those without each head; what was measured before is not again."""
        assert self.translator.bundle is not None
        corpus = self.corpus[: TRANSLATED[self.study.scale]]
        name = sha256(self.translator.bundle.path / MANIFEST)[:16]
        kept = self.study.work / "heads" / f"{name}-{len(corpus)}.json"
        kept.parent.mkdir(parents=True, exist_ok=True)
        known = _read(kept)
        heads = all_heads(self.translator.reference.model.config)
        if "whole" not in known:
            known["whole"] = without(self.translator, [], corpus)
        missing = [head for head in heads if str(head) not in known]
        start = time.monotonic()
        for done, head in enumerate(missing):
            if done % 6 == 1:
                left = round((time.monotonic() - start) / done * (len(missing) - done))
                self.study.listener.note(f"switched off {done} of {len(missing)} heads: {timedelta(seconds=left)} left")
            known[str(head)] = without(self.translator, [head], corpus)
            write_json(kept, {place: asdict(loss) for place, loss in known.items()})
        return known["whole"], {head: known[str(head)] for head in heads}


def subject(study: Study) -> Subject:
    """The model of the study."""
    translator = Translator.load(model_of(study), engine="pytorch", warn=study.listener.warn)
    bundle = translator.bundle
    assert bundle is not None
    check_subject(bundle)
    only_phrases = not study.bundles or knows_only_phrases(bundle.config.data)
    return Subject(study, translator, phrases("test", READ[study.scale]), only_phrases)


def check_subject(bundle: Bundle) -> None:
    """Refuse a model that the figures cannot show; the phrasebook, which knows what pronouns mean, is en to de."""
    if bundle.config.model.num_heads < 2:
        raise UserError(
            f"{bundle.path}: one head a layer: the figures compare heads of a layer: give a model with more"
        )
    languages = bundle.source_lang or "en", bundle.target_lang or "de"
    if languages != ("en", "de"):
        pair = " to ".join(languages)
        raise UserError(
            f"{bundle.path}: {pair}: heads are found by the phrasebook, which is en to de: give such a model"
        )


def _read(path: Path) -> dict[str, Loss]:
    if not path.is_file():
        return {}
    try:
        return {place: Loss(**loss) for place, loss in json.loads(path.read_text(encoding="utf-8")).items()}
    except (ValueError, TypeError, AttributeError):
        raise UserError(f"{path}: damaged: remove it to measure again") from None
