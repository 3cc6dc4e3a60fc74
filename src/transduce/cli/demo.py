"""`transduce demo`: the whole way on the embedded phrasebook, in minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import UserError
from transduce.settings import read_toml

if TYPE_CHECKING:
    from transduce.data.phrasebook import Phrase
    from transduce.decode.translator import Translator

TEST_PAIRS = 1000
PRONOUNS_SHOWN, OTHERS_SHOWN = 5, 5


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Directory for the demo's data, run and picture.")] = Path("demo"),
    retrain: Annotated[bool, typer.Option("--retrain", help="Train again, even if there is a model.")] = False,
) -> None:
    """Train on the embedded English-German phrasebook, translate unseen sentences, and show the attention.

    Scores stand beside what simple rules reach. Run again, it uses the model it has.
    """
    display: Display = context.obj
    import shutil

    from transduce.decode.translator import Translator

    run = out / "run"
    if (run / "config.toml").is_file() and read_toml(run / "config.toml").get("preset") != "demo":
        raise UserError(f"{run}: not a demo's run: choose another --out")
    if retrain:
        shutil.rmtree(run, ignore_errors=True)
    if (run / "model" / "manifest.json").is_file():
        display.note(f"using the model in {run} (--retrain trains it again)")
    else:
        train_phrasebook(out, run, display)
    translator = Translator.load(run, warn=display.warn)
    for line in score(translator):
        typer.echo(line)
    for line in draw(translator, out):
        typer.echo(line)


def train_phrasebook(out: Path, run: Path, display: Display) -> None:
    """Write the phrasebook's files and train on them, as a user would on their own; go on with a run that is there."""
    from transduce.trainer import Trainer

    if (run / "config.toml").is_file():
        trainer = Trainer.resume(run, listener=display)
    else:
        from transduce.paper.demo_run import write_phrasebook

        files = write_phrasebook(out / "data")
        settings = [f"data.{key}={json.dumps([str(path)])}" for key, path in files.items()]
        trainer = Trainer(run, preset="demo", settings=settings, listener=display)
    with display.live():
        trainer.run()


def score(translator: Translator) -> list[str]:
    """Both held-out tests, the pronouns, the baselines beside them, and some translations."""
    from transduce.data.baselines import (
        first_noun,
        majority_gender,
        nearest_noun,
        pronoun_accuracy,
        word_by_word,
    )
    from transduce.data.phrasebook import phrases
    from transduce.evaluate.bleu import bleu

    test, combinations = phrases("test", TEST_PAIRS), phrases("combinations", TEST_PAIRS)
    texts = [[t.text for t in translator.translate([p.source for p in part])] for part in (test, combinations)]
    dictionary = word_by_word(phrases("train", 20_000))
    lines = [
        "",
        f"unseen sentences      {bleu(texts[0], [p.target for p in test])}",
        f"  word by word        {bleu([dictionary(p.source) for p in test], [p.target for p in test])}",
        f"unseen combinations   {bleu(texts[1], [p.target for p in combinations])}",
        "",
    ]
    referring = [(p, t) for p, t in zip(test, texts[0], strict=True) if p.pronoun]
    chosen = [p for p, _ in referring]
    accuracy = pronoun_accuracy(chosen, [t for _, t in referring])
    lines += [
        f"pronouns right, of {len(chosen)} unseen   {accuracy:.1%}",
        f"  nearest noun        {nearest_noun(chosen):.1%}",
        f"  first noun          {first_noun(chosen):.1%}",
        f"  commonest gender    {majority_gender(chosen):.1%}",
        "",
    ]
    plain = [(p, t) for p, t in zip(test, texts[0], strict=True) if not p.pronoun]
    for phrase, text in [*referring[:PRONOUNS_SHOWN], *plain[:OTHERS_SHOWN]]:
        lines.append(f"{phrase.source}\n  {text}")
        if text != phrase.target:
            lines.append(f"  (better: {phrase.target})")
    return lines


def draw(translator: Translator, directory: Path) -> list[str]:
    """Draw what "it" looks at, in the style of the paper's Figure 4, and which words translate which."""
    import numpy as np

    from transduce.data.phrasebook import phrases
    from transduce.explain.attend import attend
    from transduce.explain.figures import write_heatmap, write_lines

    phrase: Phrase = next(p for p in phrases("test", TEST_PAIRS) if p.pronoun)
    assert phrase.pronoun is not None
    it, antecedent = phrase.pronoun.source, phrase.pronoun.antecedent
    attended = attend(translator, phrase.source)
    found = attended.encoder.weights[:, :, it, antecedent]
    layer, head = (int(place) for place in np.unravel_index(found.argmax(), found.shape))
    write_lines(directory / "attention.svg", attended.encoder, layer=layer, query=it)
    write_heatmap(directory / "alignment.svg", attended.cross, layer=attended.cross.num_layers - 1)
    words = phrase.source.split(" ")
    where = f"head {head + 1} of encoder layer {layer + 1}: {directory / 'attention.svg'}"
    return [
        "",
        f"“{phrase.source}” -> “{attended.translation}”",
        f"“{words[it]}” looks at “{words[antecedent]}” with weight {found.max():.2f} in {where}",
        f"where each German word looks: {directory / 'alignment.svg'}",
    ]
