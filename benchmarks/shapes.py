"""The models that are measured. Importing this needs nothing but Python: peers run in environments of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.config import ModelConfig


@dataclass(frozen=True)
class Shape:
    """A Transformer with as many decoder as encoder layers, and the batches that it is trained on.

    `dropout` is at the places where torch.nn.Transformer has it: embeddings, residuals, attention weights, and inside
    the feed-forward network. Source, target and output share one matrix of `vocabulary` rows.
    """

    name: str
    layers: int
    d_model: int
    d_ff: int
    num_heads: int
    dropout: float
    vocabulary: int = 10_000
    tokens: int = 3000
    """At most so many a side in a batch, padding included; one update a batch."""

    def model_config(self) -> ModelConfig:
        """The package's configuration of this model."""
        config = self.residual_dropout_config()
        return config.model_copy(update={"attention_dropout": self.dropout, "relu_dropout": self.dropout})

    def residual_dropout_config(self) -> ModelConfig:
        """The same with dropout where the paper has it: embeddings and residuals only."""
        from transduce.config import ModelConfig

        return ModelConfig(
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            d_model=self.d_model,
            d_ff=self.d_ff,
            num_heads=self.num_heads,
            dropout=self.dropout,
        )


TINY = Shape("tiny", layers=4, d_model=128, d_ff=256, num_heads=4, dropout=0.3)
BASE3 = Shape("base3", layers=3, d_model=512, d_ff=2048, num_heads=8, dropout=0.1)
BASE = Shape("base", layers=6, d_model=512, d_ff=2048, num_heads=8, dropout=0.1)
