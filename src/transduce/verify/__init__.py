"""The guarantees, tried out on a user's own run: files, resuming, batches, lines."""
