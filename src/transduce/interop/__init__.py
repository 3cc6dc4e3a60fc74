"""A bundle in the formats of others, and theirs as a bundle."""
