"""Position encodings (section 3.5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def sinusoids(start: int, stop: int, d_model: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)) and PE(pos, 2i+1) = cos(the same), for start <= pos < stop."""
    position = torch.arange(start, stop, dtype=torch.float64)
    wavelength = 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position[:, None] / wavelength
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(dtype)


class Sinusoidal(nn.Module):
    """Fixed sinusoids: a constant table, not a weight; positions past its end are computed when asked for."""

    table: Tensor

    def __init__(self, d_model: int, ready: int = 1024) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table", sinusoids(0, ready, d_model), persistent=False)

    def forward(self, start: int, stop: int) -> Tensor:
        """Rows start..stop of the table."""
        if stop <= self.table.size(0) and self.table.dtype != torch.float64:
            return self.table[start:stop]
        return sinusoids(start, stop, self.d_model, self.table.dtype).to(self.table.device)


class Learned(nn.Module):
    """One learned vector per position (Table 3 E)."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, start: int, stop: int) -> Tensor:
        """Rows start..stop; the caller keeps sequences within the table."""
        assert stop <= self.weight.size(0), f"position {stop} is past the learned table of {self.weight.size(0)}"
        return self.weight[start:stop]
