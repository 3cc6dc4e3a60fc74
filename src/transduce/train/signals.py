"""SIGINT and SIGTERM while a run trains: the first asks to stop, the second ends the process at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from transduce.train.progress import Listener

PATIENCE = 5.0  # seconds after which one who asked to stop is told what the run waits for


class Stopped(Exception):  # noqa: N818 - not an error: the user asked
    """Raised by `Signals.check` where work may be given up."""


class Signals:
    """Within `with`, a signal is kept until someone asks for it; off the main thread there are none."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.number: int | None = None
        self.waiting_for = "the micro-batch under way"
        self._before: dict[int, Any] = {}
        self._reminder: threading.Timer | None = None

    @property
    def name(self) -> str:
        """Of the signal that came."""
        assert self.number is not None
        return signal.Signals(self.number).name

    def check(self) -> None:
        """Raise Stopped if a signal came; to be called wherever work can be given up without loss."""
        if self.number is not None:
            raise Stopped

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
            for number in self._before:
                signal.signal(number, self._heard)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._reminder is not None:
            self._reminder.cancel()
        self._listen_no_more()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._listen_no_more()
        self.listener.warn(f"{self.name}: stopping after {self.waiting_for}; again to stop at once")
        self._reminder = threading.Timer(PATIENCE, self._remind)
        self._reminder.daemon = True
        self._reminder.start()

    def _remind(self) -> None:
        self.listener.warn(f"{self.name}: still waiting for {self.waiting_for}; again to stop at once")

    def _listen_no_more(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
