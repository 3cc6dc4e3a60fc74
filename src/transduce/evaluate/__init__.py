"""Strings -> scores."""
