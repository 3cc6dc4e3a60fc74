"""The learning rate (section 5.3, equation 3)."""

from __future__ import annotations


def learning_rate(step: int, *, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), for updates counted from 1."""
    assert step >= 1, "updates are counted from 1"
    return float(factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def cooled(spent: float | None, cooldown: float) -> float:
    """The factor of a cool-down: 1 until the last `cooldown` of the budget, then in a line down to 0 at its end."""
    if spent is None or not cooldown:
        return 1.0
    return min(1.0, (1.0 - spent) / cooldown)
