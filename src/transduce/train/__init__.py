"""The paper's training recipe (section 5)."""
