"""Trees at random, as hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from transduce.text.trees import Leaf, Tree

LABELS = ("S", "NP", "VP", "PP", "ADVP", "PRT", "X")
TAGS = ("NN", "VBZ", ",", ".", "-LRB-", "HYPH", "$")
_TEXTS = st.text(st.characters(exclude_characters="() \t\r\n\v\f", exclude_categories=["Cs"]), min_size=1, max_size=5)


def trees(*, labels: st.SearchStrategy[str], leaves: st.SearchStrategy[Leaf]) -> st.SearchStrategy[Tree]:
    """Of any shape, unary chains too; small ones first."""
    return st.recursive(
        st.builds(lambda label, leaf: Tree(label, (leaf,)), labels, leaves),
        lambda inner: st.builds(
            lambda label, children: Tree(label, tuple(children)),
            labels,
            st.lists(inner | leaves, min_size=1, max_size=4),
        ),
        max_leaves=12,
    )


any_trees = trees(
    labels=_TEXTS | st.just(""),
    leaves=st.builds(Leaf, _TEXTS | st.just("-NONE-"), st.lists(_TEXTS, min_size=1, max_size=2).map(" ".join)),
)
"""Of any labels, tags and words that a line can hold."""
plain_trees = trees(labels=st.sampled_from(LABELS), leaves=st.builds(Leaf, st.sampled_from(TAGS), _TEXTS))
"""Of labels and tags as in a treebank."""
