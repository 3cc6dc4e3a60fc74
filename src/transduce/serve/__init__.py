"""A model behind HTTP: the server and its page."""
