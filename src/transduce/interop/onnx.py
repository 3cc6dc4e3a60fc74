"""A bundle as two ONNX graphs: the encoder, and one step of the decoder with a cache.

The encoder gives the memory's keys and values for every decoder layer. A step takes them, the newest token of each
sentence and the keys and values of all tokens before, of which there may be none; it gives the scores of the next token
and the keys and values with this one. `model.json` names inputs and outputs, `translate.py` shows how they are used.

L decoder layers, B batch, H heads, S source length, P past length, K d_k, V d_v or vocabulary, D d_model.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from transduce.bundle import Bundle, load_model
from transduce.config import Config
from transduce.errors import UserError, require
from transduce.files import write_file, write_json
from transduce.interop.ctranslate2 import table_rows
from transduce.model import Cache, Transformer
from transduce.text import Words, save_codecs
from transduce.text.codec import BOS, EOS, PAD, UNK

EXTRA = "export"
ENCODER, STEP = "encoder.onnx", "decoder_step.onnx"
DIFFERENCE = 1e-3
"""A graph whose scores are farther from the model's than this is a bug, whatever the size of the weights."""

README = """# {title}

A Transformer ("Attention Is All You Need") as two ONNX graphs, written by transduce from a bundle.

    pip install numpy onnxruntime sentencepiece
    python translate.py < input > output

`translate.py` is greedy search in a page of Python, to be read or rewritten: it needs nothing but these packages and
the files beside it. `model.json` names the inputs and outputs of both graphs with their shapes, and the ids of the
special tokens: a sentence ends with `eos` and is padded with `pad`, an output begins with `bos`, and neither `pad` nor
`bos` may be chosen. Sequences have at most `max_positions` tokens. For a beam, repeat a sentence's rows of the memory
as often as there are beams. `codec/` holds the vocabulary.
"""


class EncoderGraph(nn.Module):
    """Source ids, ended and padded, to the memory's keys and values."""

    positions: Tensor

    def __init__(self, model: Transformer, rows: int) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("positions", model.source_embedding.positions(0, rows))

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """BS -> LBHSK, LBHSV."""
        embedding = self.model.source_embedding
        x = embedding.tokens(source) * embedding.scale + self.positions[: source.size(1)]
        memory = self.model.encoder(x, present(source), noise=None, record=None)
        keys, values = zip(*self.model.decoder.project(memory), strict=True)
        return torch.stack(keys), torch.stack(values)


class StepGraph(nn.Module):
    """The newest token of each sentence and the cache to the scores of the next one and the cache with it."""

    positions: Tensor

    def __init__(self, model: Transformer, rows: int) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("positions", model.target_embedding.positions(0, rows))

    def forward(
        self,
        tokens: Tensor,
        source: Tensor,
        memory_keys: Tensor,
        memory_values: Tensor,
        past_keys: Tensor,
        past_values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """B, BS, LBHSK, LBHSV, LBHPK, LBHPV -> BV, LBH(P+1)K, LBH(P+1)V."""
        embedding, past = self.model.target_embedding, past_keys.size(3)
        x = embedding.tokens(tokens[:, None]) * embedding.scale + self.positions[past : past + 1]
        cache = Cache(list(zip(memory_keys, memory_values, strict=True)))
        cache.past = list(zip(past_keys, past_values, strict=True))
        hidden = self.model.decoder(x, cache.memory, present(source), cache=cache, noise=None, record=None)
        keys, values = zip(*(pair for pair in cache.past if pair is not None), strict=True)
        return self.model.logits(hidden[:, -1]), torch.stack(keys), torch.stack(values)


def present(source: Tensor) -> Tensor:
    """B11S, True where there is a token."""
    return (source != PAD)[:, None, None, :]


def check_onnx(bundle: Bundle) -> None:
    """Refuse a bundle that cannot be exported, and say what is not installed."""
    if bundle.config.model.window is not None:
        raise UserError(f"{bundle.path}: a window of {bundle.config.model.window} cannot be exported: train without it")
    if isinstance(bundle.source_codec, Words):
        raise UserError(f'{bundle.path}: text.source_codec = "words" cannot be exported: --to ctranslate2 holds it')
    for module in ("onnx", "onnxscript", "onnxruntime"):
        require(module, extra=EXTRA)


def export_onnx(bundle: Bundle, directory: Path) -> None:
    """Write the graphs, what describes them, the codecs and a program that uses them into a directory."""
    check_onnx(bundle)
    model = load_model(bundle)
    rows = table_rows(bundle.config)
    encoder, step = EncoderGraph(model, rows), StepGraph(model, rows)
    description = describe(bundle.config, bundle.source_codec.size, bundle.target_codec.size)
    source = torch.randint(EOS + 1, bundle.source_codec.size, (2, 5), generator=torch.Generator().manual_seed(0))
    memory = encoder(source)
    past = [torch.randn(*part.shape[:3], 3, part.size(4)) for part in memory]
    write_graph(encoder, (source,), directory / ENCODER, description["encoder"], rows)
    write_graph(step, (source[:, 0], source, *memory, *past), directory / STEP, description["decoder_step"], rows)
    write_json(directory / "model.json", description)
    save_codecs(directory / "codec", bundle.source_codec, bundle.target_codec)
    write_file(directory / "translate.py", (files("transduce.interop") / "onnx_translate.py").read_bytes())
    title = f"{bundle.source_lang or 'unnamed'}-{bundle.target_lang or 'unnamed'}"
    write_file(directory / "README.md", README.format(title=title).encode())


def describe(config: Config, source_size: int, target_size: int) -> dict[str, Any]:
    """model.json: a size that is a word may differ from call to call."""
    model = config.model
    source = ["batch", "source_length"]
    memory_keys = [model.decoder_layers, "batch", model.num_heads, "source_length", model.key_width]
    memory_values = [*memory_keys[:4], model.value_width]
    past_keys, past_values = ([*part[:3], "past_length", part[4]] for part in (memory_keys, memory_values))
    keys, values = ([*part[:3], "past_length + 1", part[4]] for part in (memory_keys, memory_values))
    memory = {"memory_keys": memory_keys, "memory_values": memory_values}
    return {
        "format": 1,
        "encoder": {"file": ENCODER, "inputs": {"source": source}, "outputs": memory},
        "decoder_step": {
            "file": STEP,
            "inputs": {
                "tokens": ["batch"],
                "source": source,
                **memory,
                "past_keys": past_keys,
                "past_values": past_values,
            },
            "outputs": {"logits": ["batch", target_size], "keys": keys, "values": values},
        },
        "ids": {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS},
        "source_vocabulary": source_size,
        "target_vocabulary": target_size,
        "max_positions": table_rows(config),
        "extra_length": config.search.extra_length,
    }


def write_graph(
    graph: nn.Module, examples: tuple[Tensor, ...], path: Path, description: dict[str, Any], rows: int
) -> None:
    """Trace a graph with the sizes that `description` names left open, and try it against the module."""
    sizes = {
        "batch": Dim("batch"),
        "source_length": Dim("source_length", max=rows),
        "past_length": Dim("past_length", min=0, max=rows - 1),
    }
    inputs = description["inputs"]
    shapes = {
        name: {place: sizes[size] for place, size in enumerate(shape) if size in sizes}
        for name, shape in inputs.items()
    }
    with silence():
        program = torch.onnx.export(
            graph.eval(),
            examples,
            input_names=list(inputs),
            output_names=list(description["outputs"]),
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        program.save(path, external_data=False)
    feeds = {name: example.numpy() for name, example in zip(inputs, examples, strict=True)}
    found = require("onnxruntime", extra=EXTRA).InferenceSession(path).run(None, feeds)
    for expected, array in zip(graph(*examples), found, strict=True):
        difference = (expected - torch.from_numpy(array)).abs().max()
        assert difference <= DIFFERENCE, f"{path.name}: {difference} from the model"


@contextmanager
def silence() -> Iterator[None]:
    """The exporter speaks of its own deprecations and optimisations, which nobody here can change."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
