"""One sentence through every equation of the paper, with its real shapes and numbers.

The numbers are those of `equations.compute`, which compares itself with the model. Layers and heads are indices from 0
here; what a person reads counts from 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from transduce.decode.hypothesis import Hypothesis, Request, length_divisor
from transduce.errors import UserError
from transduce.explain.equations import AttentionSteps, Computed, InputSteps, compute
from transduce.explain.reading import readable, sentence_ids
from transduce.explain.stage import Listing, Part, Row, Stage, Step, Walk
from transduce.explain.walk_layers import Look, decoder_layer, encoder_layer, layer_norm, vector
from transduce.text.codec import BOS, EOS

if TYPE_CHECKING:
    from transduce.config import ModelConfig, SearchConfig
    from transduce.decode.translator import Translator

LIKELIEST = 3
"""Tokens of the vocabulary that are shown at each step."""


def walk(translator: Translator, sentence: str, *, layer: int = 0, head: int = 0) -> Walk:
    """The way of a sentence: tokens, embedding, encoder, decoder, output, search; one layer and head in detail."""
    model = translator.reference.model
    config = model.config
    _check("layer", layer, max(config.encoder_layers, config.decoder_layers))
    _check("head", head, config.num_heads)
    sentence = readable(sentence)
    source = [*sentence_ids(translator, sentence), EOS]
    search = translator.search.model_copy(update={"sampling": False})
    found = translator.reference.search([Request(tuple(source[:-1]), token_scores=True)], search)[0]
    target = [BOS, *found[0].ids]
    computed = compute(model, source, target)
    read = translator.source_codec.pieces(source)
    shifted = translator.target_codec.pieces(target)
    chosen = translator.target_codec.pieces([*target[1:], EOS])
    token, step = _places(computed, layer, head)
    deep = [min(layer, len(stack) - 1) for stack in (computed.encoder, computed.decoder)]  # stacks may differ in depth
    stages = [
        _tokens("The text becomes tokens", read, source),
        _input("Encoder input: embedding and position", computed.source, config, read, token),
        *(
            encoder_layer(config, place, sublayers, Look(read, read, token, head), opened=place == deep[0])
            for place, sublayers in enumerate(computed.encoder)
        ),
        *_final_norm(config, "Encoder", computed.memory, Look(read, read, token, head)),
        _tokens("What the decoder has read: the output, one place to the right", shifted, target),
        _input("Decoder input: embedding and position", computed.target, config, shifted, step),
        *(
            decoder_layer(config, place, sublayers, Look(shifted, read, step, head), opened=place == deep[1])
            for place, sublayers in enumerate(computed.decoder)
        ),
        *_final_norm(config, "Decoder", computed.states, Look(shifted, read, step, head)),
        _output(translator, computed, shifted, step),
        _search(translator, computed, found, search, [*target[1:], EOS]),
    ]
    opened = (
        f"In detail: layer {layer + 1}, head {head + 1}, for “{read[token]}” in the encoder, and for the step that"
        f" chooses “{chosen[step]}” in the decoder."
    )
    return Walk(sentence, translator.target_codec.decode(found[0].ids), _sizes(config, translator), opened, stages)


def _check(what: str, index: int, count: int) -> None:
    if not 0 <= index < count:
        raise UserError(f"{what} {index + 1}: there are {count}: choose from 1 to {count}")


def _places(computed: Computed, layer: int, head: int) -> tuple[int, int]:
    """The token and the step worth following: those that look most decidedly at another token, in the layer shown.

    A stack that is less deep has its last layer looked at.
    """
    own = computed.encoder[min(layer, len(computed.encoder) - 1)][0].steps
    cross = computed.decoder[min(layer, len(computed.decoder) - 1)][1].steps
    assert isinstance(own, AttentionSteps)
    assert isinstance(cross, AttentionSteps)
    itself = torch.eye(own.weights.size(1), dtype=torch.bool)
    return _decided(own.weights[head].masked_fill(itself, 0)), _decided(cross.weights[head])


def _decided(weights: Tensor) -> int:
    """The row with the largest weight; the end token's row and column do not count."""
    rows = weights[:-1, :-1]
    return int(rows.amax(dim=-1).argmax()) if rows.numel() else 0


def _sizes(config: ModelConfig, translator: Translator) -> str:
    return (
        f"N = {config.encoder_layers} + {config.decoder_layers} layers, d_model = {config.d_model},"
        f" h = {config.num_heads} heads, d_k = {config.key_width}, d_v = {config.value_width}, d_ff = {config.d_ff},"
        f" vocabulary of {translator.target_codec.size:,}"
    )


def _tokens(title: str, pieces: Sequence[str], ids: Sequence[int]) -> Stage:
    row = Row("id", pieces, [str(token) for token in ids])
    step = Step("Subwords and their ids", "5.1", "", [row], "“▁” is the space before a word; </s> ends, <s> begins.")
    return Stage(title, f"{len(ids)} tokens", [step])


def _input(title: str, steps: InputSteps, config: ModelConfig, pieces: Sequence[str], place: int) -> Stage:
    here = f"“{pieces[place]}”"
    learned = config.positions == "learned"
    positions = "a learned vector for each position" if learned else "PE(pos, 2i) = sin(pos / 10000^(2i/d_model))"
    if not learned:
        positions += ", PE(pos, 2i+1) = cos(the same)"
    parts: list[Part] = [
        vector(f"E[{here}]", steps.embedded, place),
        vector("E √d_model", steps.scaled, place),
    ]
    return Stage(
        title,
        _shape(steps.output),
        [
            Step("Embedding", "3.4", f"E[id] · √d_model, √{config.d_model} = {math.sqrt(config.d_model):.3f}", parts),
            Step("Position", "3.5", positions, [vector(f"PE({place})", steps.positions, place)]),
            Step("Their sum", "3.4", "x = E[id] √d_model + PE(pos)", [vector(f"x of {here}", steps.output, place)]),
        ],
    )


def _final_norm(config: ModelConfig, stack: str, normed: Tensor, look: Look) -> list[Stage]:
    """The norm at the end of a stack, which only a pre-norm model has."""
    if config.norm == "post":
        return []
    step = layer_norm(f"behind the last {stack.lower()} layer", normed, look)
    return [Stage(f"{stack} output: the final layer normalisation", _shape(normed), [step])]


def _output(translator: Translator, computed: Computed, shifted: Sequence[str], step: int) -> Stage:
    probabilities = computed.probabilities[step]
    rows = [[piece, f"{probability:.4f}"] for piece, probability in _likeliest(translator, probabilities)]
    config = translator.reference.model.config
    scores = f"x {'Eᵀ' if config.tying != 'none' else 'W'}{' + b' if config.output_bias else ''}"
    listed = Step(
        "Softmax over the vocabulary",
        "3.4",
        f"P(next token) = softmax({scores})",
        [vector(f"x behind “{shifted[step]}”", computed.states, step), Listing(["token", "probability"], rows)],
    )
    return Stage("Output: which token comes next", f"{probabilities.numel():,} probabilities a step", [listed])


def _likeliest(translator: Translator, probabilities: Tensor) -> list[tuple[str, float]]:
    found = probabilities.topk(LIKELIEST)
    return list(zip(translator.target_codec.pieces(found.indices.tolist()), found.values.tolist(), strict=True))


def _search(
    translator: Translator,
    computed: Computed,
    found: Sequence[Hypothesis],
    search: SearchConfig,
    chosen: Sequence[int],
) -> Stage:
    """Every step of the best output, then all finished hypotheses by rank."""
    steps = []
    for place, (token, piece) in enumerate(zip(chosen, translator.target_codec.pieces(chosen), strict=True)):
        own = float(computed.probabilities[place, token])
        likely = ", ".join(
            f"{name} {value:.3f}" for name, value in _likeliest(translator, computed.probabilities[place])
        )
        steps.append([str(place + 1), piece, f"{own:.4f}", likely])
    ranked = [
        [
            translator.target_codec.decode(each.ids),
            f"{each.log_probability:.3f}",
            str(len(each.ids) + 1),
            f"{length_divisor(len(each.ids) + 1, search):.3f}",
            f"{each.score:.4f}",
        ]
        for each in found
    ]
    coverage = ", and GNMT's coverage penalty" if search.coverage else ""
    penalty = "((5 + length) / 6)^α" if search.penalty == "gnmt" else "length^α"
    width = f"beam of {search.beam}, α = {search.alpha:g}"
    path = Step(
        "The best output, token by token",
        "3.1",
        "P(y) = Π P(token | tokens before it, source)",
        [Listing(["step", "token", "probability", "likeliest"], steps)],
    )
    ranks = Step(
        "Finished hypotheses",
        "6.1",
        f"score = log P(y) / {penalty}{coverage}, {width}",
        [Listing(["output", "log P(y)", "length", "penalty", "score"], ranked)],
    )
    return Stage("Search until the end", f"{width}: {len(found)} hypotheses", [path, ranks])


def _shape(x: Tensor) -> str:
    return " x ".join(map(str, x.shape))
