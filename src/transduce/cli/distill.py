"""`transduce distill`: a small student learns what a large teacher says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from transduce.cli import translate
from transduce.cli.display import Display
from transduce.cli.language import refuse_language
from transduce.cli.order import Order, order_of, read_order
from transduce.cli.synthesis import Looked, Originals, Synthesis, reasons
from transduce.cli.train import Device, Epochs, Minutes, Seed, Steps, Threads, Vocabulary, settings_of
from transduce.config import Config
from transduce.decode.columns import Text
from transduce.decode.job import Work, part_of, record_of
from transduce.errors import UserError
from transduce.files import write_json

PRESET = "tiny-student"  # if neither --preset nor --config says what the student is


def distill(
    context: typer.Context,
    teachers: Annotated[
        list[Path] | None, typer.Argument(help="A run or a bundle; several with one vocabulary teach as an ensemble.")
    ] = None,
    source: Annotated[
        list[Path] | None, typer.Option(help="What the teacher translates, a sentence a line; plain, .gz or .xz.")
    ] = None,
    also: Annotated[
        list[Path] | None, typer.Option(help="Its real translation, line by line, for the student to learn from too.")
    ] = None,
    valid_source: Annotated[list[Path] | None, typer.Option(help="Validation source: real pairs.")] = None,
    valid_target: Annotated[list[Path] | None, typer.Option(help="Validation target.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the student's run; new or empty.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="The teacher's beam; 1 is greedy.")] = None,
    keep_vocabulary: Annotated[
        bool, typer.Option("--keep-vocabulary", help="The student has the teacher's vocabulary.")
    ] = False,
    lang: Annotated[str | None, typer.Option(help="The source's language; else it is told by the text.")] = None,
    preset: Annotated[str | None, typer.Option(help=f"The student's shape and recipe; else {PRESET}.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of the student's settings.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, of the student.")] = None,
    minutes: Minutes = None,
    steps: Steps = None,
    epochs: Epochs = None,
    vocabulary: Vocabulary = None,
    seed: Seed = None,
    threads: Threads = None,
    device: Device = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the student's run, wherever it stopped.")] = None,
) -> None:
    """Let a teacher translate the source, and train a student on what it says; the result is OUT/model.

    The translation is OUT.teacher.XX, line by line; where a line cannot be used it is empty, and training leaves the
    pair out. Validation is on real pairs, if given. Both stages can be killed: --resume OUT goes on.
    """
    display: Display = context.obj
    flags: dict[str, object] = {
        "data.valid_source": _absolute(valid_source) or None,
        "data.valid_target": _absolute(valid_target) or None,
        "text.vocabulary": vocabulary,
        "train.minutes": minutes,
        "train.steps": steps,
        "train.epochs": epochs,
        "train.seed": seed,
        "train.threads": threads,
        "train.device": device,
    }
    settings = [*settings_of(flags), *(set_ or [])]
    others = [teachers, source, also, out, beam, keep_vocabulary, lang, preset, config, settings]
    if resume is not None:
        if any(others):
            raise UserError("--resume takes its settings from the run: give it alone")
        resume = resume.resolve()
        Distillation(resume, read_order(resume), display).run()
        return
    if keep_vocabulary and vocabulary is not None:
        raise UserError("--vocabulary is of a vocabulary that is learned: not with --keep-vocabulary")
    refuse(teachers or [], source or [], also or [], out)
    assert out is not None
    order = Order(
        teachers=_absolute(teachers),
        sources=_absolute(source),
        also=_absolute(also),
        beam=beam,
        keep_vocabulary=keep_vocabulary,
        lang=lang,
        preset=preset or (None if config else PRESET),
        config=None if config is None else config.absolute(),
        settings=settings,
    )
    Distillation(out, order, display).begin()


def _absolute(paths: list[Path] | None) -> list[Path]:
    """The same files for who goes on from another directory."""
    return [path.absolute() for path in paths or ()]


def refuse(teachers: list[Path], sources: list[Path], also: list[Path], out: Path | None) -> None:
    """What is missing or does not go together."""
    if not teachers:
        raise UserError("no teacher: name a run or a bundle before the options")
    if not sources:
        raise UserError("--source is missing: name the text that the teacher translates")
    if out is None or out.name in ("", ".."):
        raise UserError("--out is missing: name a new directory for the student's run")
    if also and len(also) != len(sources):
        raise UserError(
            f"{len(sources)} --source, {len(also)} --also: give as many of one as of the other, or no --also"
        )


def refuse_lines(looked: list[Looked], order: Order) -> None:
    """Sources that the student could not be trained on with what is to come, told before it is made."""
    from transduce.data.lines import read_blocks
    from transduce.data.problems import TOLERATED_SHARE

    data, (unusable, pairs) = order.student().data, order.unusable(looked)
    limit = None
    if data.strict and unusable:
        limit = "training refuses any, as data.strict is set"
    elif unusable > TOLERATED_SHARE * pairs and not data.corpora:  # whose pairs may make up for them
        limit = f"that is more than {TOLERATED_SHARE:.0%}, which training refuses"
    if limit is not None:
        left_out, lines = sum((found.left_out for found in looked), Counter[str]()), sum(each.lines for each in looked)
        told = f"{', '.join(map(str, order.sources))}: {left_out.total():,} of {lines:,} lines cannot be used"
        raise UserError(f"{told} ({reasons(left_out)}): {limit}: remove them")
    for source, also, found in zip(order.sources, order.also, looked, strict=False):
        lines = sum(len(block.texts) for block in read_blocks(also))
        if lines != found.lines:
            way_out = "--also is its translation, line by line"
            raise UserError(f"{source}: {found.lines:,} lines, {also}: {lines:,}: {way_out}")


@dataclass(frozen=True)
class Distillation:
    """A student in the making: first its text, then its training."""

    out: Path
    order: Order
    display: Display

    def begin(self) -> None:
        """Take up an order that was given on the command line; what the same teacher has done is kept."""
        from transduce.data.corpus import validation_corpus
        from transduce.data.lines import check_file
        from transduce.train.beginning import refuse_other_run
        from transduce.train.device import choose_device

        refuse_other_run(self.out)
        order = self.order  # what is wrong with it is told before the work
        config = order.student()
        valid = validation_corpus(config.data)
        for path in (*order.also, *(valid.files if valid else ())):
            check_file(path)
        choose_device(config.train)
        self.refuse_start(config)
        if valid is None:
            self.display.warn("no --valid-source and --valid-target: the student is measured by what the teacher says")
        self.run()

    def refuse_start(self, config: Config) -> None:
        """What does not go with the model or the vocabulary that the student begins with, if with any."""
        from transduce.train.start import find_start, keys_in, keys_of

        start = find_start(config.train.start, self.order.vocabulary_of)
        if start is not None:
            start.fit(config, given=keys_in(self.order.settings) | keys_of(self.order.config))

    def run(self) -> None:
        """Translate what is not yet translated, and train, or go on with training."""
        from transduce.trainer import Trainer

        if (self.out / "config.toml").is_file():
            trainer = Trainer.resume(self.out, listener=self.display)
        else:
            files, languages = self.teach()
            trainer = Trainer(
                self.out,
                preset=self.order.preset,
                config=self.order.config,
                settings=[*self.data(files, languages), *self.order.settings],
                vocabulary_of=self.order.vocabulary_of,
                listener=self.display,
            )
        with self.display.live():
            bundle = trainer.run()
        typer.echo(bundle)

    def teach(self) -> tuple[list[Path], tuple[str | None, str | None]]:
        """The teacher's files, one for each source, and the two languages."""
        first, *others = self.order.teachers
        teacher = translate.load(first, translate.Engines.AUTO, others, self.display)
        assert teacher.bundle is not None
        languages = teacher.bundle.source_lang, teacher.bundle.target_lang
        begins = not self.order.works
        if begins:
            refuse_language(Originals(tuple(self.order.sources), teacher), self.order.lang, self.display)
        originals = [Originals((path,), teacher) for path in self.order.sources]
        looked = [each.look_through(self.display) for each in originals]
        if begins:
            refuse_lines(looked, self.order)
        works = [each.work(teacher, self.order.teachers, {"beam": self.order.beam}) for each in looked]
        files = [teacher_file(self.out, number, languages[1]) for number in range(1, len(originals) + 1)]
        self.remember(works, files)
        kept = "keeps the teacher's vocabulary" if self.order.keep_vocabulary else "learns a vocabulary of its own"
        self.display.note(f"the student {kept}")
        for each, found, work, file in zip(originals, looked, works, files, strict=True):
            if not file.exists() or record_of(file).exists():
                self.teach_file(each, found, work, file)
        return files, languages

    def teach_file(self, originals: Originals, looked: Looked, work: Work, file: Path) -> None:
        """The teacher's translation of one source, from where it was broken off."""
        left_out = f"; left empty: {reasons(looked.left_out)}" if looked.left_out else ""
        names = ", ".join(str(path) for path in originals.files)
        self.display.note(f"{names}: {looked.lines:,} lines, translated to {file}{left_out}")
        options: dict[str, Any] = {"beam": self.order.beam, "n_best": 1}
        rows = originals.rows()
        window = translate.WINDOW
        task = Synthesis(originals.translator, Text(), options, rows, window, self.display, lines=looked.lines)
        translate.to_file(task, file, range(looked.lines), work)

    def remember(self, works: list[Work], files: list[Path]) -> None:
        """Write down what is done here, unless something else is under way."""
        path = order_of(self.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = [file for file in files if file.exists() or part_of(file).exists()]
        if begun and not path.exists():
            raise UserError(f"{begun[0]}: exists, and no {path.name} tells of it: choose another --out")
        before = read_order(self.out).works if path.exists() else []
        if begun and before:
            changes = [change for was, now in zip(before, works, strict=False) for change in was.changes(now)]
            if len(before) != len(works):
                changes = [f"{len(before)} sources were given and now are {len(works)}"]
            if changes:
                told = f"{begun[0]}: begun otherwise: {'; '.join(dict.fromkeys(changes))}"
                raise UserError(f"{told}: give the former again, or remove {self.out}.teacher* to begin anew")
        write_json(path, self.order.model_copy(update={"works": works}).model_dump(mode="json"))

    def data(self, files: list[Path], languages: tuple[str | None, str | None]) -> list[str]:
        """Settings that name the student's pairs: the teacher's, and the real ones if they are wanted."""
        sources, also = self.order.sources, self.order.also
        return settings_of(
            {
                "data.source": [*sources, *(sources if also else [])],
                "data.target": [*(file.absolute() for file in files), *also],
                "data.source_lang": languages[0],
                "data.target_lang": languages[1],
            }
        )


def teacher_file(out: Path, number: int, language: str | None) -> Path:
    """Where the translation of the n-th source lies: beside the run, which must be empty when training starts."""
    name = f"{out.name}.teacher{'' if number == 1 else f'-{number}'}.{language or 'txt'}"
    return out.with_name(name)
