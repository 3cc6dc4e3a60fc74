"""Speed, measured side by side in one run: `make bench`.

`FULL=1 make bench` takes more rounds; every contender runs every race. Parts can be measured alone and join what was
measured before: `python -m benchmarks training startup`. The page can be written again without measuring:
`python -m benchmarks --page results.json`. For a trial: `python -m benchmarks --rounds 1 --json t.json --docs trial/`.
"""
