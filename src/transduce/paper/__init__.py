"""The paper, made again: a file for each table and figure."""
