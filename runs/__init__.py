"""One script per published result, as `python -m runs.multi30k --work DIRECTORY`; `python -m runs.page` has the tables.

A script trains, scores and writes runs/results/NAME.json. Broken off, the same command goes on. Corpora are looked for
as every study does: below $TRANSDUCE_DATA.
"""
