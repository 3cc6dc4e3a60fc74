"""The text that EVALB prints, letter by letter: as in the sample that comes with it."""

from __future__ import annotations

from transduce.evaluate.bracket_score import BracketScore, Sentence, share

HEAD = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
"""
RULE = "=" * 76 + "\n"


def report(score: BracketScore) -> str:
    """A line for each sentence, totals, and a summary of all sentences and of those up to the cut-off length.

    Under "Cross Bracket", the line of totals has the number of sentences without crossing, as the sample has.
    """
    length = score.parameters.cutoff_length
    lines = "".join(map(_line, score.sentences))
    summaries = f"\n-- All --\n{_summary(score)}\n-- len<={length} --\n{_summary(score.up_to(length))}"
    return f"{HEAD}{RULE}{lines}{RULE}{_totals(score)}=== Summary ===\n{summaries}"


def _line(one: Sentence) -> str:
    recall, precision = share(one.matched, one.gold), share(one.matched, one.test)
    return (
        f"{one.line:4d}  {one.length:3d}    {one.status:d}  {recall:6.2f} {precision:6.2f}   {one.matched:3d}"
        f"    {one.gold:3d}  {one.test:3d}    {one.crossing:3d}   {one.words:4d}  {one.tags:4d}"
        f"   {share(one.tags, one.words):6.2f}\n"
    )


def _totals(score: BracketScore) -> str:
    without = sum(sentence.crossing == 0 for sentence in score.valid)
    return (
        f"{score.recall:22.2f} {score.precision:6.2f} {score.matched:6d} {score.gold:6d} {score.test:4d}"
        f" {without:6d} {score.words:6d} {score.tags:5d}   {score.tagging_accuracy:6.2f}\n"
    )


def _summary(score: BracketScore) -> str:
    counts = {
        "Number of sentence": len(score.sentences),
        "Number of Error sentence": score.errors,
        "Number of Skip  sentence": score.skipped,
        "Number of Valid sentence": len(score.valid),
    }
    values = {
        "Bracketing Recall": score.recall,
        "Bracketing Precision": score.precision,
        "Complete match": score.exact_match,
        "Average crossing": score.average_crossing,
        "No crossing": score.no_crossing,
        "2 or less crossing": score.at_most_crossing(2),
        "Tagging accuracy": score.tagging_accuracy,
    }
    return "".join(
        [f"{name:25} = {count:6d}\n" for name, count in counts.items()]
        + [f"{name:25} = {value:6.2f}\n" for name, value in values.items()]
    )
