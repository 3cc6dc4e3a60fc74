"""Everything that has weights: the encoder-decoder Transformer of sections 3.1 to 3.5."""

from transduce.model.cache import Cache
from transduce.model.dropout import Noise
from transduce.model.record import AttentionRecord
from transduce.model.transformer import Transformer

__all__ = ["AttentionRecord", "Cache", "Noise", "Transformer"]
