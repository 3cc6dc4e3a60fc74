"""Attention records -> pictures."""
