"""What the Transformer was set against: a recurrent encoder-decoder with additive attention.

A bidirectional GRU reads the source; a GRU writes the target and looks back by a network with one hidden layer
(Bahdanau et al. 2015, "Neural machine translation by jointly learning to align and translate"). As in the Transformer
one matrix is both embeddings and the output projection. It has the Transformer's methods, so that the same loss, the
same threads and the same search work on it.

B batch, R rows (B x beam), N rows of a sentence, S source length, T target length, D d_model, H width of a GRU.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transduce.config import ModelConfig
from transduce.model import AttentionRecord, Noise, Transformer
from transduce.model.dropout import Dropout, number_sites
from transduce.model.transformer import PAD, source_mask


class RecurrentCache:
    """The memory, what attention sees of it, and the state of each row; a step at a time."""

    def __init__(self, memory: Tensor, keys: Tensor, state: Tensor) -> None:
        self.memory, self.keys = memory, keys
        self.state = state  # RH; before the first step BH

    def keep(self, sentences: Tensor) -> None:
        """Drop the memory of all but these sentences; the rows follow by `reorder`."""
        self.memory, self.keys = self.memory.index_select(0, sentences), self.keys.index_select(0, sentences)

    def reorder(self, rows: Tensor) -> None:
        """Make row i the continuation of what was row rows[i]."""
        self.state = self.state.index_select(0, rows)


class AdditiveAttention(nn.Module):
    """softmax(v . tanh(W s + U h)) over the memory's positions h, for a state s."""

    def __init__(self, width: int, memory: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(memory, width, bias=False)
        self.hidden = nn.Linear(width, 1, bias=False)

    def forward(self, state: Tensor, memory: Tensor, keys: Tensor, may_attend: Tensor | None) -> Tensor:
        """RH, BS(2H), BSH -> R(2H): the beams of a sentence are queries to its one memory."""
        queries: Tensor = self.query(state).unflatten(0, (memory.size(0), -1))  # BNH
        joined = torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))  # BNSH
        scores: Tensor = self.hidden(joined).squeeze(-1)
        if may_attend is not None:
            scores = scores.masked_fill(~may_attend.squeeze(1), float("-inf"))
        return (scores.softmax(dim=-1) @ memory).flatten(0, 1)


class Recurrent(nn.Module):
    """Its embeddings are as wide as the Transformer's with the same configuration, its GRUs twice as wide.

    That makes about as many parameters. Of the configuration it heeds `d_model` and `dropout`.
    """

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        width, hidden = config.d_model, 2 * config.d_model
        self.tokens = nn.Embedding(vocabulary, width)
        self.encoder = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.first = nn.Linear(hidden, hidden)
        self.attention = AdditiveAttention(hidden, 2 * hidden)
        self.cell = nn.GRUCell(width + 2 * hidden, hidden)
        self.output = nn.Linear(hidden + width + 2 * hidden, width)
        self.projection = nn.Linear(width, vocabulary, bias=False)
        self.projection.weight = self.tokens.weight
        self.source_dropout, self.memory_dropout = Dropout(config.dropout), Dropout(config.dropout)
        self.target_dropout, self.output_dropout = Dropout(config.dropout), Dropout(config.dropout)
        number_sites(self)
        self.initialize()

    def initialize(self) -> None:
        """Orthogonal for each gate's recurrent matrix, Xavier uniform for others, N(0, 1/d_model) for embeddings."""
        for name, parameter in self.named_parameters():
            if name == "tokens.weight":
                nn.init.normal_(parameter, std=self.config.d_model**-0.5)
            elif parameter.dim() == 1:
                nn.init.zeros_(parameter)
            else:
                gates = parameter.detach().chunk(3) if "weight_" in name else [parameter.detach()]
                for gate in gates:
                    (nn.init.orthogonal_ if "weight_hh" in name else nn.init.xavier_uniform_)(gate)

    def encode(
        self, source: Tensor, *, source_padded: bool | None = None, noise: Noise | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """BS -> the memory BS(2H), and which of its positions may be attended to (B11S; None = all)."""
        may_attend = source_mask(source, source_padded)
        embedded = self.source_dropout(self.tokens(source), noise)
        lengths = (source != PAD).sum(dim=1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=source.size(1))
        memory: Tensor = self.memory_dropout(states, noise)
        return memory, may_attend

    def start(self, memory: Tensor) -> RecurrentCache:
        """A cache with which `decode` takes only the newest tokens; the state begins as the backward GRU ended."""
        backward = memory[:, 0, memory.size(2) // 2 :]
        return RecurrentCache(memory, self.attention.key(memory), torch.tanh(self.first(backward)))

    def decode(
        self,
        target: Tensor,
        memory: Tensor | None,
        may_attend: Tensor | None,
        *,
        cache: RecurrentCache | None = None,
        noise: Noise | None = None,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """RT -> RTD, token by token. With a cache `target` holds only new tokens, and `memory` is not needed."""
        assert record is None, "there are no heads to record"
        if cache is None:
            assert memory is not None, "decode needs a memory or a cache"
            cache = self.start(memory)
        if cache.state.size(0) < target.size(0):  # the beams of a sentence begin alike
            cache.state = cache.state.repeat_interleave(target.size(0) // cache.state.size(0), dim=0)
        embedded: Tensor = self.target_dropout(self.tokens(target), noise)
        states, contexts = [], []
        for token in embedded.unbind(dim=1):
            context = self.attention(cache.state, cache.memory, cache.keys, may_attend)
            cache.state = self.cell(torch.cat([token, context], dim=1), cache.state)
            states.append(cache.state)
            contexts.append(context)
        everything = torch.cat([torch.stack(states, dim=1), embedded, torch.stack(contexts, dim=1)], dim=2)
        hidden: Tensor = self.output_dropout(torch.tanh(self.output(everything)), noise)
        return hidden

    def forward(
        self, source: Tensor, target: Tensor, *, source_padded: bool | None = None, noise: Noise | None = None
    ) -> Tensor:
        """BS, BT -> BTD: what `logits` or the loss go on from."""
        memory, may_attend = self.encode(source, source_padded=source_padded, noise=noise)
        return self.decode(target, memory, may_attend, noise=noise)

    def logits(self, hidden: Tensor) -> Tensor:
        """BTD -> BTV."""
        return F.linear(hidden, self.projection.weight)

    def num_parameters(self) -> int:
        """How many weights there are, tied ones once."""
        return sum(p.numel() for p in self.parameters())

    def as_transformer(self) -> Transformer:
        """Itself, for those that ask for a Transformer and use no more of it than there is here."""
        return cast("Transformer", self)
