"""Presets: TOML files that list only what differs from the paper's base model."""
