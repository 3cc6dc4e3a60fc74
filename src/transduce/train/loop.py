"""The training loop: updates, validations and checkpoints until the budget is spent.

Several processes run it in step, each with its own sentences: what a clock, a signal or the disk says is asked of rank
0 or agreed on (`Loop.agree`), so that all of them do the same. Rank 0 alone writes and validates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from torch.optim import Adam

from transduce.config import Config, TrainConfig
from transduce.data.batching import Batching
from transduce.data.resampling import Resampling
from transduce.data.store import Store
from transduce.errors import Interrupted, RunError
from transduce.model import Transformer
from transduce.train.average import describe_plan
from transduce.train.ema import MovingAverage
from transduce.train.ending import finished, out_of_time, share
from transduce.train.feed import Update, ahead, go_on, updates
from transduce.train.guard import Guard, Verdict
from transduce.train.progress import Listener, Report, Validation
from transduce.train.schedule import cooled, learning_rate
from transduce.train.signals import Signals, Stopped
from transduce.train.state import (
    Numbers,
    State,
    checkpoints,
    discard,
    load_checkpoint,
    prune,
    read_state,
    save_due,
    step_of,
    write_checkpoint,
)
from transduce.train.tally import Tally
from transduce.train.workers import Workers

REPORT_SECONDS = 5.0
SKIPPED, ROLLBACKS = 10, 3  # so many updates in a row may be left out, so many times, before a run is given up
NAMED = 10  # line numbers in a message; the log has them all


def make_optimizer(model: Transformer, train: TrainConfig) -> Adam:
    """Adam with the paper's constants; the schedule sets the learning rate before each update."""
    betas = (train.beta1, train.beta2)
    return Adam(model.parameters(), lr=0.0, betas=betas, eps=train.adam_eps, fused=True)


class Diverged(Exception):  # noqa: N818 - what happened to the run
    """Too many updates in a row were left out."""


class Loop:
    """A run of training from `state` on; `validate` scores the model as it is now, once all ranks did `gather` it.

    With a moving `average`, that is the model then.
    """

    def __init__(
        self,
        model: Transformer,
        optimizer: Adam,
        store: Store,
        batching: Batching,
        workers: Workers,
        config: Config,
        *,
        state: State,
        checkpoints: Path,
        validate: Callable[[int], Validation],
        listener: Listener,
        gather: Callable[[], None] = go_on,
        average: MovingAverage | None = None,
        resampling: Resampling | None = None,
    ) -> None:
        self.model, self.optimizer, self.config = model, optimizer, config
        self.store, self.batching, self.workers, self.world = store, batching, workers, workers.world
        self.state, self.checkpoints, self.listener = state, checkpoints, listener
        self.validate, self.gather, self.average = validate, gather, average
        self.resampling = resampling
        self.guard = Guard(model, optimizer, config.train)
        self.guard.restore(state.loss_scale)
        self.signals = Signals(listener)
        self.tally = Tally.empty()
        self.left_out: Verdict | None = None
        self.rate = 0.0
        self.started = self.reported = time.monotonic() - state.seconds
        self.time_up = out_of_time(config.train, state.seconds)
        self.spent = self.share(state.seconds)

    def run(self) -> State:
        """Train until the budget is spent; on a signal, save and raise Interrupted."""
        self.started = time.monotonic() - self.state.seconds
        self.reported = time.monotonic()
        if (plan := describe_plan(self.config.train)) is not None:
            self.listener.note(plan)
        with self.signals:
            try:
                if self.state.validation_due(self.config.train):
                    self.validate_now()
                    self.save()
                while self.goes_on():
                    self.go_on()
                if self.config.train.average != "last" and not self.state.validated:
                    self.validate_end()
            except Stopped:
                raise self.interruption() from None
            self.save()
        return self.state

    def interruption(self) -> Interrupted:
        """What to leave with, once everything is saved."""
        signal, step = self.signals, self.state.step
        assert signal.number is not None
        if not step:
            message = "stopped before the first update; `transduce train --resume` starts again"
        else:
            self.save()
            message = f"saved at step {step}; `transduce train --resume` goes on from there"
        return Interrupted(f"{signal.name}: {message}", exit_code=128 + signal.number)

    def goes_on(self) -> bool:
        """Whether there is another update; all ranks have the same answer."""
        self.agree()
        return not self.finished

    def check(self) -> None:
        """Raise Stopped if a signal came to a process that is alone: a rank must not leave the others in the middle."""
        if self.world.size == 1:
            self.signals.check()

    @property
    def finished(self) -> bool:
        """Whether the budget or the patience is used up, as of the last agreement."""
        return self.time_up or finished(self.config.train, self.state)

    @property
    def seconds(self) -> float:
        """That the run has taken, by this process's clock."""
        return time.monotonic() - self.started

    def share(self, seconds: float) -> float | None:
        """How much of the budget is spent after so long."""
        updates_per_epoch = self.batching.updates_per_epoch
        return share(self.config.train, self.state, seconds=seconds, updates_per_epoch=updates_per_epoch)

    def agree(self) -> None:
        """Let all ranks do what a clock or a signal says to one of them: report, end, or raise Stopped."""
        due = time.monotonic() - self.reported >= REPORT_SECONDS
        clocks = [self.world.first and due, self.world.first and out_of_time(self.config.train, self.seconds)]
        clock = round(1000 * self.seconds) if self.world.first else 0
        report, time_up, signal, milliseconds = self.world.highest([*clocks, self.signals.number or 0, clock])
        self.time_up, self.spent = bool(time_up), self.share(milliseconds / 1000)
        if report:
            self.report()
        if signal:
            self.signals.number = signal
            raise Stopped

    def go_on(self) -> None:
        """Updates from here on, until the budget is spent or numbers go wrong and the run is rolled back."""
        coming = updates(
            self.store,
            self.batching,
            self.workers.device,
            parts=self.workers.count,
            epoch=self.state.epoch,
            update=self.state.update,
            world=self.world,
            resampling=self.resampling,
        )
        give_up = go_on if self.resampling is None else self.resampling.give_up
        try:
            with closing(coming), closing(ahead(coming, check=self.check, give_up=give_up)) as feed:
                while self.goes_on():
                    self.signals.waiting_for = "the next update to be made ready"
                    update = next(feed)
                    self.update(update)
                    self.state = replace(
                        self.state,
                        step=self.state.step + 1,
                        epoch=update.next_epoch,
                        update=update.next_update,
                        of_epoch=update.of_epoch,
                    )
                    self.after_update()
        except Diverged:
            self.roll_back()

    def update(self, update: Update) -> None:
        """One update: gradients of all micro-batches, divided by the target tokens of the whole update."""
        step = self.state.step + 1
        self.signals.waiting_for = f"the {'micro-batch' if self.world.size == 1 else 'update'} under way"
        scale, others = self.guard.scale, update.others
        loss = self.workers.backward(update.batches, step, others=others, scale=scale, check=self.check)
        loss = self.workers.exchange(loss)
        self.rate = self.learning_rate(step)
        made = self.guard.apply(step, update.pairs, loss, self.rate)
        if self.average is not None:
            self.average.update(made)
        self.tally.add(loss, update.tokens, made)

    def after_update(self) -> None:
        """Judge, validate and save, each when it is due."""
        train, step = self.config.train, self.state.step
        if self.guard.due:
            self.judge()
        if self.state.skipped >= SKIPPED:
            raise Diverged
        if step % train.validate_every == 0:
            self.report()
            self.validate_now()
        if save_due(train, step):
            self.judge()
            if not self.state.skipped:  # else nothing was learned since the last good update
                self.save()

    def validate_now(self) -> None:
        """Score the model, on rank 0; a signal gives that up, and resuming does it again."""
        self.signals.waiting_for = "the batch of validation under way"
        validation = None
        with nullcontext() if self.average is None else self.average.in_the_weights_stead():
            self.gather()
            if self.world.first:
                with suppress(Stopped):
                    validation = self.validate(self.state.step)
        scores = None if validation is None else (validation.perplexity, validation.bleu)
        scores, signal = self.world.tell((scores, self.signals.number))
        if scores is None:
            self.signals.number = signal
            raise Stopped
        self.state = self.state.after_validation(*scores)
        if validation is not None:
            self.listener.validated(validation)
        self.reported = time.monotonic()

    def validate_end(self) -> None:
        """Only who was validated can be among the best; patience counts regular validations alone."""
        before = self.state
        self.validate_now()
        self.state = replace(before, validations=self.state.validations)

    def judge(self) -> None:
        """Read which updates were left out and tell of them."""
        for verdict in self.guard.read():
            if verdict.culprit is None:
                self.state = replace(self.state, skipped=0)
                continue
            self.left_out, self.state = verdict, replace(self.state, skipped=self.state.skipped + 1)
            self.listener.skipped(verdict.step, verdict.culprit, self.lines(verdict))
            self.listener.warn(f"step {verdict.step:,} left out: {self.describe(verdict)}")

    def lines(self, verdict: Verdict) -> list[int]:
        """Where in the corpus the pairs of an update came from."""
        return [int(line) for line in sorted(self.store.lines[verdict.pairs])]

    def describe(self, verdict: Verdict) -> str:
        """What was wrong, and with which pairs."""
        lines = self.lines(verdict)
        more = f" and {len(lines) - NAMED:,} more" if len(lines) > NAMED else ""
        return f"{verdict.culprit} is not finite; pairs of lines {', '.join(map(str, lines[:NAMED]))}{more}"

    def roll_back(self) -> None:
        """Go on from the last checkpoint whose update was made, with half the learning rate; give up in the end."""
        assert self.left_out is not None
        if self.state.rollbacks >= ROLLBACKS:
            raise RunError(
                f"{self.checkpoints}: step {self.left_out.step:,}: {self.describe(self.left_out)}; {SKIPPED} updates "
                f"in a row were left out, though the learning rate was halved {ROLLBACKS} times: lower "
                "train.learning_rate, set train.clip_norm=1, or look at these pairs"
            )
        rollbacks = self.state.rollbacks + 1
        good = self.last_good()
        if good is not None:
            self.state = load_checkpoint(good, self.model, self.optimizer, self.average)
            self.guard.restore(self.state.loss_scale)
        self.state = replace(self.state, skipped=0, rollbacks=rollbacks)
        self.tally, self.reported = Tally.empty(), time.monotonic()
        way = "going on without a checkpoint from" if good is None else "back to"
        self.listener.warn(
            f"{SKIPPED} updates in a row left out: {way} step {self.state.step:,}, with the learning rate halved"
        )
        self.world.wait()  # all have read it: it may be written again
        if good is not None:
            self.save()
            for path in checkpoints(self.checkpoints) if self.world.first else []:
                if step_of(path) > self.state.step:
                    discard(path)

    def last_good(self) -> Path | None:
        """The newest checkpoint whose update was made, as rank 0 finds it."""
        found = reversed(checkpoints(self.checkpoints)) if self.world.first else iter(())
        name = self.world.tell(next((path.name for path in found if not read_state(path).skipped), None))
        return None if name is None else self.checkpoints / name

    def save(self) -> None:
        """Write a checkpoint of this step, unless there is one like it, and prune old ones."""
        self.signals.waiting_for = f"checkpoint {self.state.step:,} to be written"
        self.judge()
        self.state = replace(
            self.state,
            seconds=self.seconds,
            loss_scale=self.guard.loss_scale,
            threads=self.workers.threads,
            workers=self.workers.count,
            world_size=self.world.size,
        )
        path = self.checkpoints / f"step-{self.state.step:08d}"
        if self.world.tell(self.world.first and path.exists() and self.state.equals(read_state(path))):
            return
        numbers = Numbers.of(self.model, self.optimizer, self.world, self.average)
        if not self.world.first:
            return
        numbers.refuse_bad(self.checkpoints, self.state.step)
        path = write_checkpoint(self.checkpoints, numbers, self.state)
        self.listener.saved(path, self.state.step)
        prune(self.checkpoints, self.config.train)

    def report(self) -> None:
        """Tell the listener how training went since the last report."""
        if not self.tally.updates:
            return
        now = time.monotonic()
        self.judge()
        spent = self.share(self.seconds)
        self.listener.report(
            Report(
                step=self.state.step,
                epoch=self.state.epoch,
                loss=self.tally.loss,
                perplexity=self.tally.perplexity,
                accuracy=self.tally.accuracy,
                learning_rate=self.rate,
                tokens_per_second=self.tally.tokens / (now - self.reported),
                seconds=self.seconds,
                remaining=self.seconds * (1 - spent) / spent if spent else None,
                share=spent,
                gradient_norm=self.gradient_norm(),
            )
        )
        self.tally, self.reported = Tally.empty(), now

    def gradient_norm(self) -> float | None:
        """Of the last update, if gradients are clipped."""
        norm = self.guard.norm
        return None if norm is None or self.config.train.clip_norm is None else norm.item()

    def learning_rate(self, step: int) -> float:
        """The schedule's value for an update, halved by each rollback, and lower where the budget nears its end."""
        train = self.config.train
        return cooled(self.spent, train.cooldown) * learning_rate(
            step,
            d_model=self.model.config.d_model,
            warmup_steps=train.warmup_steps,
            factor=train.learning_rate * 0.5**self.state.rollbacks,
        )
