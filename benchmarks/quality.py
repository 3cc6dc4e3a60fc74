"""Does our dropout learn as torch's does? Multi30k, some seeds for each: `python -m benchmarks.quality OUT`.

Runs that are there already are not made again, so that it can be stopped and started.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
import sys
from pathlib import Path

from benchmarks.contenders.torch_dropout import use_torch_dropout
from transduce import Trainer, Translator
from transduce.evaluate.bleu import bleu
from transduce.paper.study import shared_data

SEEDS, EPOCHS = (1, 2, 3), 6
RECIPE = (  # of preset tiny, but with dropout at every place, and with more and smaller updates for so few epochs
    "model.dropout=0.1",
    "model.attention_dropout=0.1",
    "model.relu_dropout=0.1",
    "model.norm=post",
    "train.batch_tokens=1500",
    "train.micro_batch_tokens=1500",
    "train.warmup_steps=400",
    "train.learning_rate=0.5",
    "train.validate_every=100000",
)


def train(out: Path, seed: int) -> None:
    """One run, or the rest of it."""
    if (out / "config.toml").is_file():
        Trainer.resume(out).run()
        return
    corpus = shared_data() / "multi30k"
    settings = [f"train.seed={seed}", f"train.epochs={EPOCHS}", *RECIPE]
    settings += [f'data.valid_source=["{corpus / "val.en.gz"}"]', f'data.valid_target=["{corpus / "val.de.gz"}"]']
    source, target = corpus / "train.en.gz", corpus / "train.de.gz"
    Trainer(out, source=source, target=target, preset="tiny", settings=settings).run()


def score(out: Path) -> float:
    """sacreBLEU of test_2016_flickr, greedy."""
    paths = (shared_data() / "multi30k" / f"test_2016_flickr.{lang}.gz" for lang in ("en", "de"))
    source, target = (gzip.decompress(path.read_bytes()).decode().splitlines() for path in paths)
    translations = Translator.load(out).translate(source, beam=1)
    return bleu([translation.text for translation in translations], target).value


def arm(directory: Path, name: str) -> list[float]:
    """The scores of one kind of dropout, a seed each."""
    found = []
    for seed in SEEDS:
        out = directory / f"{name}-{seed}"
        if not (out / "model" / "manifest.json").is_file():
            train(out, seed)
        found.append(score(out))
        print(json.dumps({"dropout": name, "seed": seed, "BLEU": round(found[-1], 2)}), flush=True)
    return found


def main() -> None:
    directory = Path(sys.argv[1])
    ours = arm(directory, "transduce")
    use_torch_dropout()
    theirs = arm(directory, "torch")
    difference = statistics.mean(ours) - statistics.mean(theirs)
    error = math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / len(SEEDS))
    print(f"difference of the means {difference:+.2f} BLEU, standard error {error:.2f}")


if __name__ == "__main__":
    main()
