"""Translates lines of stdin with the ONNX graphs beside this file: `python translate.py < input > output`.

Greedy search, one sentence at a time. Needs numpy, onnxruntime and, unless codec/ holds symbols.json, sentencepiece.
"""

from __future__ import annotations

import base64
import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SPECIALS = 4  # ids below: padding, unknown, start and end
STEPS: dict[str, Any] = {
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "lower": str.lower,
    "squeeze": lambda text: " ".join(text.split()),
    "spell": lambda text: " ".join("".join(text.split())),
}


class Vocabulary:
    """Text <-> ids, as `codec.json` and the file beside it say."""

    def __init__(self, directory: Path) -> None:
        description = json.loads((directory / "codec.json").read_text(encoding="utf-8"))
        self.kind, self.steps = description["kind"], description["normalize"]
        self.symbols: list[str] = []
        if self.kind == "symbols":
            self.symbols = json.loads((directory / "symbols.json").read_text(encoding="utf-8"))
        elif self.kind == "marian":
            stored = json.loads((directory / "marian.json").read_text(encoding="utf-8"))
            self.symbols, self.model = stored["vocabulary"], open_model(base64.b64decode(stored["sentencepiece"]))
        else:
            self.model = open_model((directory / "subwords.model").read_bytes())
        self.ids = {symbol: id for id, symbol in enumerate(self.symbols, SPECIALS)}

    def encode(self, text: str) -> list[int]:
        """The ids of a line."""
        for step in self.steps:
            text = STEPS[step](text)
        if self.kind == "subwords":
            return list(self.model.encode(f" {text}"))
        if self.kind == "symbols":
            pieces = text.split()
        else:
            language = text[: text.find("<<") + 2] if text.startswith(">>") and "<<" in text else ""
            pieces = [language] * bool(language) + self.model.encode(text[len(language) :], out_type=str)
        return [self.ids.get(piece, 1) for piece in pieces]

    def decode(self, ids: list[int]) -> str:
        """The text of some ids."""
        ids = [id for id in ids if id >= SPECIALS]
        if self.kind == "subwords":
            return str(self.model.decode(ids)).removeprefix(" ").replace("\n", " ")
        pieces = [self.symbols[id - SPECIALS] for id in ids]
        return " ".join(pieces) if self.kind == "symbols" else str(self.model.decode(pieces)).replace("\n", " ").strip()


def open_model(data: bytes) -> Any:
    """A SentencePiece model."""
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_proto=data)


class Model:
    """The two graphs."""

    def __init__(self, directory: Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]

        self.facts = json.loads((directory / "model.json").read_text(encoding="utf-8"))
        self.encoder = onnxruntime.InferenceSession(directory / self.facts["encoder"]["file"])
        self.step = onnxruntime.InferenceSession(directory / self.facts["decoder_step"]["file"])

    def translate(self, ids: list[int]) -> list[int]:
        """The most probable token at each step, until the end token or the longest output."""
        special = self.facts["ids"]
        source = np.array([[*ids, special["eos"]]], dtype=np.int64)
        keys, values = self.encoder.run(None, {"source": source})
        memory = {"source": source, "memory_keys": keys, "memory_values": values}
        past_keys, past_values = keys[:, :, :, :0], values[:, :, :, :0]
        output, token = [], special["bos"]
        for _ in range(min(source.size + self.facts["extra_length"], self.facts["max_positions"]) - 1):
            past = {"tokens": np.array([token]), "past_keys": past_keys, "past_values": past_values}
            logits, past_keys, past_values = self.step.run(None, {**memory, **past})
            logits[:, [special["pad"], special["bos"]]] = -np.inf
            token = int(logits.argmax())
            if token == special["eos"]:
                break
            output.append(token)
        return output


def main() -> None:
    """Line by line; blank lines stay empty."""
    model = Model(HERE)
    joint = HERE / "codec" / "joint"
    source, target = (Vocabulary(joint if joint.exists() else HERE / "codec" / side) for side in ("source", "target"))
    for line in sys.stdin.buffer:
        text = line.decode("utf-8").rstrip("\r\n")
        translated = target.decode(model.translate(source.encode(text))) if text.strip() else ""
        sys.stdout.buffer.write(translated.encode() + b"\n")


if __name__ == "__main__":
    main()
