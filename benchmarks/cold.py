"""Cold start: from a command to its first translation, and the memory that it takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.environments import last_line
from benchmarks.peers import memory
from benchmarks.results import Cold, Start, this_machine
from benchmarks.translators import GENERATE, OURS_TORCH

OURS = "`transduce translate`, CTranslate2 engine"
BARE = "CTranslate2 and SentencePiece, nothing else"
LINE = "A dog runs through the grass.\n"

# What a user would write who has no command for it; each reads a line and prints its translation.
BARE_PROGRAM = """
import sys
import ctranslate2, sentencepiece
directory = sys.argv[1]
source, target = (sentencepiece.SentencePieceProcessor(model_file=f"{directory}/marian/{side}.spm")
                  for side in ("source", "target"))
model = ctranslate2.Translator(f"{directory}/ctranslate2")
tokens = source.encode([input()], out_type=str)
print(target.decode(model.translate_batch(tokens, beam_size=4)[0].hypotheses[0]), flush=True)
"""
TORCH_PROGRAM = """
import sys
from transduce import Translator
print(Translator.load(f"{sys.argv[1]}/run", engine="pytorch").translate([input()])[0].text, flush=True)
"""
GENERATE_PROGRAM = """
import sys
from transformers import MarianMTModel, MarianTokenizer
directory = f"{sys.argv[1]}/marian"
tokenizer, model = MarianTokenizer.from_pretrained(directory), MarianMTModel.from_pretrained(directory)
outputs = model.generate(**tokenizer([input()], return_tensors="pt"))
print(tokenizer.batch_decode(outputs, skip_special_tokens=True)[0], flush=True)
"""


def programs(directory: Path) -> dict[str, list[str]]:
    """The arguments of Python, by name."""
    own = {BARE: BARE_PROGRAM, OURS_TORCH: TORCH_PROGRAM, GENERATE: GENERATE_PROGRAM}
    return {
        OURS: ["-m", "transduce", "translate", str(directory / "run")],
        **{name: ["-c", program, str(directory)] for name, program in own.items()},
    }


def cold(directory: Path, rounds: int) -> Cold:
    """The programs take turns; a first round, which fills the system's cache of files, does not count."""
    commands = programs(directory)
    starts: dict[str, list[Start]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, arguments in commands.items():
            found = start(arguments)
            if number:
                starts[name].append(found)
    return Cold(this_machine(), starts)


def start(arguments: list[str]) -> Start:
    """Of one process. It may end as soon as it has answered: its memory is looked at in the very next moment."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors, tempfile.TemporaryFile("w+") as line:
        line.write(LINE)
        line.seek(0)
        begin = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, *arguments], stdin=line, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            assert process.stdout is not None
            answer = process.stdout.readline()
            seconds, held = time.perf_counter() - begin, memory(process.pid, "VmHWM")
        if not answer:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(arguments[:2])}: no translation: {last_line(errors.read())}")
    return Start(seconds, held)
