"""The beam tree tells what the search did."""

from collections import Counter

import pytest

from random_search import log_probability, random_model, random_requests, token_log_probabilities
from transduce.config import SearchConfig
from transduce.decode.torch_engine import TorchEngine
from transduce.decode.tree import BeamTree
from transduce.errors import UserError
from transduce.text.codec import BOS, EOS

every_search = pytest.mark.parametrize(
    "settings", [{"beam": 3}, {"beam": 1}, {"beam": 4, "groups": 2}, {"beam": 3, "max_length": 3}], ids=str
)


def grown(settings: dict[str, object]) -> tuple[TorchEngine, BeamTree, SearchConfig]:
    search = SearchConfig.model_validate({**settings, "extra_length": 6})
    engine = TorchEngine(random_model(1, size=20))
    (request,) = random_requests(1, [4], size=20)
    return engine, engine.tree(request, search), search


@every_search
def test_finished_nodes_are_the_hypotheses(settings: dict[str, object]) -> None:
    engine, tree, search = grown(settings)
    (request,) = random_requests(1, [4], size=20)
    (found,) = engine.search([request], search)
    finished = {tree.ids(place): node for place, node in enumerate(tree.nodes) if node.fate == "finished"}
    for hypothesis in found:
        node = finished[(*hypothesis.ids, EOS)]
        assert node.log_probability == pytest.approx(hypothesis.log_probability, abs=1e-9)
    assert all(ids[-1] == EOS for ids in finished)
    assert len(finished) >= len(found)


@every_search
def test_log_probabilities_are_those_of_the_path(settings: dict[str, object]) -> None:
    engine, tree, _ = grown(settings)
    (request,) = random_requests(1, [4], size=20)
    for place, node in list(enumerate(tree.nodes))[1::7]:
        ids = tree.ids(place)
        if node.token == EOS:
            expected = log_probability(engine.model, request.source, ids[:-1])
        else:
            expected = sum(token_log_probabilities(engine.model, request.source, ids)[:-1])
        assert node.log_probability == pytest.approx(expected, abs=1e-9)


@every_search
def test_only_what_was_kept_went_on_and_no_more_than_the_beam(settings: dict[str, object]) -> None:
    _, tree, search = grown(settings)
    assert (tree.nodes[0].parent, tree.nodes[0].token, tree.nodes[0].step) == (None, BOS, 0)
    for node in tree.nodes[1:]:
        assert node.parent is not None
        parent = tree.nodes[node.parent]
        assert parent.fate == "kept"
        assert node.step == parent.step + 1
    kept = Counter(node.step for node in tree.nodes if node.fate == "kept")
    assert max(kept.values()) <= search.beam
    parents = {node.parent for node in tree.nodes}
    if search.groups == 1:
        best = {step: max(n.log_probability for n in tree.nodes if n.step == step) for step in kept}
        for place, node in enumerate(tree.nodes):
            assert node.fate != "kept" or place in parents or node.log_probability < best[node.step]


def test_a_sample_has_no_tree() -> None:
    with pytest.raises(UserError, match="a tree is of beam search"):
        grown({"sampling": True})
