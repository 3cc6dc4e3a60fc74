"""From a model to text: search (section 6.1) and the translator around it."""
