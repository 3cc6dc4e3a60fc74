"""Small random models to search, and the slow way to do so."""

from collections.abc import Callable
from itertools import product

import torch

from transduce.config import ModelConfig, SearchConfig
from transduce.decode.hypothesis import Hypothesis, Request
from transduce.decode.torch_engine import TorchEngine
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS, PAD

SIZE = 7
Ids = tuple[int, ...]


def random_model(seed: int, *, size: int = SIZE, spread: float = 3.0, **changes: object) -> Transformer:
    """A model in float64 whose choices are far from uniform."""
    torch.manual_seed(seed)
    shape = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 2, **changes}
    model = Transformer(ModelConfig.model_validate(shape), size, size).double()
    with torch.no_grad():
        model.projection.weight.mul_(spread)
    return model.eval().requires_grad_(False)


def random_requests(seed: int, lengths: list[int], *, size: int = SIZE) -> list[Request]:
    generator = torch.Generator().manual_seed(seed)
    drawn = (torch.randint(EOS + 1, size, (length,), generator=generator) for length in lengths)
    return [Request(tuple(ids.tolist())) for ids in drawn]


def find(model: Transformer, requests: list[Request], **settings: object) -> list[list[Hypothesis]]:
    return TorchEngine(model).search(requests, SearchConfig.model_validate(settings))


def token_log_probabilities(model: Transformer, source: Ids, ids: Ids) -> list[float]:
    """Of a complete output, the end token included, by one uncached pass."""
    scores = model.logits(model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *ids]]))).log_softmax(-1)[0]
    return [float(scores[step, token]) for step, token in enumerate([*ids, EOS])]


def log_probability(model: Transformer, source: Ids, ids: Ids) -> float:
    return sum(token_log_probabilities(model, source, ids))


def all_outputs(limit: int, *, size: int = SIZE) -> list[Ids]:
    """Every output of at most `limit` tokens, the end token included."""
    tokens = [token for token in range(size) if token not in (PAD, BOS, EOS)]
    return [ids for length in range(limit) for ids in product(tokens, repeat=length)]


def brute_force(
    model: Transformer,
    source: Ids,
    limit: int,
    score: Callable[[Ids, float], float],
    allowed: Callable[[Ids], bool] = lambda ids: True,
) -> list[Hypothesis]:
    """Every output that is allowed, by its score of ids and log-probability, best first."""
    found = []
    for ids in filter(allowed, all_outputs(limit)):
        total = log_probability(model, source, ids)
        found.append(Hypothesis(ids, total, score(ids, total)))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def contains(ids: Ids, run: Ids) -> bool:
    return any(ids[start : start + len(run)] == run for start in range(len(ids) - len(run) + 1))
