"""How one sentence was translated, as JSON: all that the page needs to show it without the model.

Layers and heads are indices from 0. Arrays are packed: {"shape": [...], "float16": base64, row by row}.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from transduce.config import ModelConfig, SearchConfig
from transduce.decode.hypothesis import Request
from transduce.decode.score import one_model
from transduce.errors import UserError
from transduce.explain.ablation import switched_off
from transduce.explain.equations import AttentionSteps, Computed, compute
from transduce.explain.head import KINDS, Head
from transduce.explain.reading import Side, sentence_ids
from transduce.explain.record import Kind
from transduce.text import Codec
from transduce.text.codec import BOS, EOS
from transduce.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

    from transduce.decode.translator import Translator
    from transduce.decode.tree import BeamTree

FORMAT = 1
"""Of the record; a page refuses one that is newer than itself."""
LIKELIEST = 5
"""Tokens of the vocabulary that are kept at each step."""

Record = dict[str, object]


def sentence_record(
    translator: Translator, text: str, *, prefix: str = "", beam: int | None = None, off: Iterable[Head] = ()
) -> Record:
    """Translate a sentence without some heads, and tell everything that happened.

    `prefix` is how the output begins. The decoder's rows are those of the tokens that they choose.
    """
    engine = translator.reference
    model = one_model(engine)
    source, heads = sentence_ids(translator, text), sorted(set(off))
    search = plain_search(translator.search, beam)
    start = tuple(translator.target_codec.encode(prefix.rstrip()))
    with switched_off(model, heads):
        found = engine.search([Request(tuple(source), prefix=start)], search)[0]
        if not found:
            raise UserError(f"no output that begins with {prefix!r} was found: shorten the prefix")
        tree = translator.tree(text, prefix=start, settings=search.model_dump())
        computed = compute(model, [*source, EOS], [BOS, *found[0].ids])
    chosen = [*found[0].ids, EOS]
    return {
        "format": FORMAT,
        "transduce": __version__,
        "model": _facts(translator, model.config),
        "beam": search.beam,
        "prefix": prefix,
        "off": [[head.kind, head.layer, head.head] for head in heads],
        "source": {"text": text, **_side(translator.source_codec, [*source, EOS])},
        "read": _side(translator.target_codec, [BOS, *found[0].ids]),
        "target": {
            "text": translator.target_codec.decode(found[0].ids),
            "score": found[0].score,
            **_side(translator.target_codec, chosen),
            **_likely(translator.target_codec, computed.probabilities, chosen),
        },
        "attention": {kind: _attention(steps, model.config) for kind, steps in _sublayers(computed).items()},
        "tree": _tree(tree, chosen),
        "positions": pack(_longer(computed.source.positions, computed.target.positions)),
    }


def plain_search(search: SearchConfig, beam: int | None) -> SearchConfig:
    """The same search as one beam, perhaps of another width: samples and groups have no single tree."""
    if beam is not None and beam < 1:
        raise UserError(f"a beam of {beam}: give 1 or more")
    return search.model_copy(update={"sampling": False, "groups": 1, "beam": beam or search.beam})


def pack(values: NDArray[np.floating] | Tensor) -> Record:
    """An array in half precision: about three digits of every number."""
    array = np.ascontiguousarray(np.asarray(values), dtype="<f2")
    return {"shape": list(array.shape), "float16": base64.b64encode(array.tobytes()).decode("ascii")}


def _facts(translator: Translator, config: ModelConfig) -> Record:
    bundle = translator.bundle
    path = None if bundle is None else bundle.path.resolve()
    name = "" if path is None else path.parent.name if path.name == "model" else path.name
    return {
        "name": name,
        "source": None if bundle is None else bundle.source_lang,
        "target": None if bundle is None else bundle.target_lang,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "heads": config.num_heads,
        "d_model": config.d_model,
        "d_k": config.key_width,
        "d_v": config.value_width,
        "norm": config.norm,
        "attention": config.attention,
        "positions": config.positions,
        "window": config.window,
    }


def _side(codec: Codec, ids: Sequence[int]) -> Record:
    """The tokens of a side, which of them make up each word, and how a person writes the words."""
    pieces, words = Side.of(codec, ids)
    labels = [codec.decode([ids[at] for at in word]).strip() or "".join(pieces[at] for at in word) for word in words]
    return {"pieces": pieces, "words": words, "labels": labels}


def _likely(codec: Codec, probabilities: Tensor, chosen: Sequence[int]) -> Record:
    """The probability of each token, given all before it, and the likeliest tokens in its place."""
    found = probabilities.topk(min(LIKELIEST, probabilities.size(1)))
    steps = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return {
        "probabilities": [round(float(probabilities[step, token]), 6) for step, token in enumerate(chosen)],
        "alternatives": [
            [
                {"piece": piece, "probability": round(value, 6)}
                for piece, value in zip(codec.pieces(tokens), values, strict=True)
            ]
            for tokens, values in steps
        ],
    }


def _sublayers(computed: Computed) -> dict[Kind, list[AttentionSteps]]:
    """The attention of every layer, by kind."""
    layers = {
        "encoder": [layer[0].steps for layer in computed.encoder],
        "decoder": [layer[0].steps for layer in computed.decoder],
        "cross": [layer[1].steps for layer in computed.decoder],
    }
    return {kind: [steps for steps in layers[kind] if isinstance(steps, AttentionSteps)] for kind in KINDS}


def _attention(layers: Sequence[AttentionSteps], config: ModelConfig) -> Record:
    """Weights (layers, heads, queries, keys), and what they come from: queries, keys, scores and norms of values.

    Scores are kept only where they are not the products of queries and keys.
    """
    packed: Record = {
        "weights": _stack([steps.weights for steps in layers]),
        "queries": _stack([steps.queries for steps in layers]),
        "keys": _stack([steps.keys for steps in layers]),
        "value_norms": _stack([steps.values.norm(dim=-1) for steps in layers]),
    }
    if config.attention == "additive":
        packed["scores"] = _stack([steps.scores for steps in layers])
    return packed


def _stack(layers: Sequence[Tensor]) -> Record:
    return pack(np.stack([layer.float().cpu().numpy() for layer in layers]))


def _longer(first: Tensor, second: Tensor) -> Tensor:
    return first if len(first) >= len(second) else second


def _tree(tree: BeamTree, chosen: Sequence[int]) -> Record:
    """The nodes of a beam search in columns, and the places of those that lead to the output."""
    children = {(node.parent, node.token): place for place, node in enumerate(tree.nodes)}
    best = [0]
    for token in chosen:
        if (best[-1], token) not in children:
            break
        best.append(children[best[-1], token])
    return {
        "parents": [node.parent for node in tree.nodes],
        "pieces": [node.piece for node in tree.nodes],
        "log_probabilities": [round(node.log_probability, 4) for node in tree.nodes],
        "steps": [node.step for node in tree.nodes],
        "fates": [node.fate for node in tree.nodes],
        "best": best,
    }
