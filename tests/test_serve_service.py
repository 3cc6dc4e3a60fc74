"""The service: models by language, keys and limits, the cache, and what becomes of those who do not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving import PATIENCE, Echo, closing, service_of, until
from transduce.errors import UserError
from transduce.serve.addresses import neighbourhood, parse_network
from transduce.serve.cache import Cache
from transduce.serve.errors import (
    BadKey,
    BadRequest,
    Draining,
    KeyNeeded,
    Late,
    Overloaded,
    QuotaUsed,
    TooLarge,
    TooMany,
    UnknownLanguage,
    UnknownPair,
)
from transduce.serve.keys import Keys
from transduce.serve.model import Translated
from transduce.serve.options import Options
from transduce.serve.rates import KNOWN, Rates, Usage
from transduce.serve.service import Service, whole_characters
from transduce.serve.settings import Caps, Settings, parse_pair

PLAIN = Options()


async def translate(service: Service, *texts: str, seconds: float = PATIENCE) -> list[str]:
    deadline = time.monotonic() + seconds
    with service.admit("", None, texts):
        found = await service.translate(service.models[0], texts, PLAIN, deadline=deadline)
    return [each.text for each in found]


def test_models_are_found_by_their_languages() -> None:
    models = [Echo("a", "en", "de"), Echo("b", "en", "fr"), Echo("c", "de", "en")]
    with closing(service_of(*models)) as service:
        assert service.find("en", "fr").name == "b"
        assert service.find("EN", "DE").name == "a"
        assert service.find(None, "en").name == "c"
        assert service.named("b").name == "b"
        with pytest.raises(UnknownLanguage, match="zz is not supported"):
            service.find("en", "zz")
        with pytest.raises(UnknownLanguage, match="zz is not supported"):
            service.find("zz", "de")
        with pytest.raises(UnknownPair):
            service.find("de", "fr")
        with pytest.raises(BadRequest, match="a, b, c"):
            service.named("d")


def test_texts_are_answered_in_order_and_equal_ones_once() -> None:
    echo = Echo()
    with closing(service_of(echo)) as service:
        assert asyncio.run(translate(service, "a", "b", "a", "")) == ["A", "B", "A", ""]
        assert sorted(text for batch in echo.batches for text in batch) == ["", "a", "b"]


def test_what_was_asked_before_is_not_translated_again() -> None:
    echo = Echo()
    with closing(service_of(echo)) as service:

        async def scene() -> None:
            await translate(service, "a")
            assert await translate(service, "a") == ["A"]
            deadline = service.deadline()
            await service.translate(service.models[0], ["a"], Options(beam=2), deadline=deadline)
            await service.translate(service.models[0], ["a"], Options(tokens=True), deadline=deadline)
            await service.translate(service.models[0], ["a"], Options(tokens=True), deadline=deadline)

        asyncio.run(scene())
        assert echo.batches == [["a"]] * 4  # with other options anew; with tokens always


def test_whoever_goes_away_leaves_the_queue() -> None:
    echo = Echo()
    echo.hold()
    with closing(service_of(echo)) as service:

        async def scene() -> None:
            first = asyncio.create_task(translate(service, "first"))
            await asyncio.to_thread(echo.has_begun)
            second = asyncio.create_task(translate(service, "second", "third"))
            await asyncio.to_thread(until, lambda: len(service.queue) == 2)
            assert service.pending == 2
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            assert len(service.queue) == 0
            assert service.pending == 1
            echo.go_on()
            assert await first == ["FIRST"]

        asyncio.run(scene())
        assert echo.batches == [["first"]]


def test_a_deadline_ends_the_waiting_and_the_batch_goes_on() -> None:
    echo = Echo()
    echo.hold()
    with closing(service_of(echo)) as service:

        async def scene() -> None:
            with pytest.raises(Late):
                await translate(service, "slow", seconds=0.0)
            echo.go_on()
            assert await translate(service, "next") == ["NEXT"]

        asyncio.run(scene())


def test_overload_is_refused_at_once_and_passes() -> None:
    echo = Echo()
    echo.hold()
    with closing(service_of(echo, queue=1)) as service:

        async def scene() -> None:
            first = asyncio.create_task(translate(service, "first"))
            await asyncio.to_thread(echo.has_begun)
            second = asyncio.create_task(translate(service, "second"))
            await asyncio.to_thread(until, lambda: len(service.queue) == 1)
            with pytest.raises(Overloaded):
                await translate(service, "third")
            echo.go_on()
            assert await first + await second == ["FIRST", "SECOND"]
            assert await translate(service, "third") == ["THIRD"]

        asyncio.run(scene())


def test_a_draining_server_takes_nothing_more() -> None:
    with closing(service_of()) as service:
        service.draining = True
        with pytest.raises(Draining):
            asyncio.run(translate(service, "a"))


def test_who_was_let_in_before_the_signal_may_ask_for_more() -> None:
    with closing(service_of()) as service:

        async def scene() -> list[str]:
            with service.admit("", None, ["a", "b"]):
                service.draining = True
                assert service.pending == 1
                models = [service.models[0]] * 2
                found = [await service.translate(m, ["a"], PLAIN, deadline=service.deadline()) for m in models]
            assert service.pending == 0
            return [each.text for (each,) in found]

        assert asyncio.run(scene()) == ["A", "A"]


def test_a_stream_gives_pieces_and_stops_when_nobody_reads() -> None:
    echo = Echo()
    with closing(service_of(echo)) as service:
        model = service.models[0]

        async def pieces(text: str, *, only: int | None = None) -> list[str]:
            stream = service.stream(
                model, text, PLAIN, deadline=service.deadline(), make=lambda: model.stream(text, PLAIN)
            )
            reading, found = service.read(stream), []
            async for piece in reading:
                found.append(piece)
                if len(found) == only:
                    break
            await reading.aclose()  # type: ignore[attr-defined]
            return found

        async def scene() -> None:
            assert await pieces("a b c") == ["A", "B", "C"]
            assert await pieces("a " * 10_000, only=2) == ["A", "A"]
            assert service.pending == 0
            assert await translate(service, "after it") == ["AFTER IT"]  # the worker is free again

        asyncio.run(scene())


def test_caps_count_all_texts_of_a_request() -> None:
    with closing(service_of(caps=Caps(characters=10, texts=3, seconds=PATIENCE))) as service:
        service.check_size(["aaaaa", "bbbbb"])
        with pytest.raises(TooLarge) as refused:
            service.check_size(["aaaaa", "bbbbbb"])
        assert (refused.value.given, refused.value.limit, refused.value.status) == (11, 10, 413)
        with pytest.raises(TooLarge):
            service.check_size(["a"] * 4)


def test_without_a_key_file_any_key_or_none_will_do() -> None:
    with closing(service_of()) as service:
        assert service.admit("10.0.0.1", None, ["a"]).key is None
        assert service.admit("10.0.0.1", "anything", ["a"]).key is None


def test_keys_are_needed_known_and_limited(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nslow requests=2\n\nshort characters=10 # a trial\nfree\n", encoding="utf-8")
    with closing(service_of(api_keys=file, requests_per_minute=3)) as service:
        with pytest.raises(KeyNeeded):
            service.admit("10.0.0.1", None, ["a"])
        with pytest.raises(KeyNeeded):
            service.admit("10.0.0.1", "", ["a"])
        with pytest.raises(BadKey):
            service.admit("10.0.0.1", "slo", ["a"])
        for _ in range(2):
            assert service.admit("10.0.0.1", "slow", ["a"]).key is not None
        with pytest.raises(TooMany) as refused:
            service.admit("10.0.0.2", "slow", ["a"])  # the key's limit, wherever it comes from
        assert int(refused.value.headers["Retry-After"]) >= 1
        short = service.admit("10.0.0.3", "short", ["12345"]).key
        assert short is not None
        assert service.used(short) == 5
        with pytest.raises(QuotaUsed):
            service.admit("10.0.0.3", "short", ["123456"])
        service.admit("10.0.0.3", "short", ["12345"])
        for _ in range(3):
            service.admit("10.0.0.4", "free", ["a"])
        with pytest.raises(TooMany):
            service.admit("10.0.0.4", "free", ["a"])  # a key without a limit has its address's


def test_what_is_refused_costs_no_characters(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("short characters=10\n", encoding="utf-8")
    with closing(service_of(api_keys=file)) as service:
        key = service.identify("short")
        assert key is not None
        for error in (Overloaded("full"), Late("late"), RuntimeError("a bug"), asyncio.CancelledError()):
            with suppress(type(error)), service.admit("", "short", ["1234567"]) as admitted:
                assert service.used(key) == 7  # nobody else gets them meanwhile
                raise error
            assert service.used(key) == 0
            admitted.give_back()
            assert service.used(key) == 0
        with service.admit("", "short", ["1234567"]):
            pass
        assert service.used(key) == 7


def test_keys_are_read_again_and_a_mistake_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("old\n", encoding="utf-8")
    with closing(service_of(api_keys=file)) as service:
        file.write_text("new\n", encoding="utf-8")
        assert service.reload_keys() == 1
        service.admit("", "new", ["a"])
        with pytest.raises(BadKey):
            service.admit("", "old", ["a"])
        file.write_text("newer requests=many\n", encoding="utf-8")
        with pytest.raises(UserError, match="line 1"):
            service.reload_keys()
        service.admit("", "new", ["a"])


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "a\na\n", "a b\n", "a requests=0\n", "a requests=1 requests=2"]
)
def test_key_files_with_a_mistake_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text, encoding="utf-8")
    with pytest.raises(UserError):
        Keys.read(tmp_path / "keys")


def test_addresses_are_limited_one_by_one() -> None:
    with closing(service_of(requests_per_minute=2)) as service:
        for address in ("10.0.0.1", "10.0.0.2"):
            for _ in range(2):
                service.admit(address, None, ["a"])
            with pytest.raises(TooMany):
                service.admit(address, None, ["a"])


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(st.integers(1, 1000), st.lists(st.floats(0, 100), max_size=200))
def test_nobody_gets_more_than_the_limit(per_minute: int, pauses: list[float]) -> None:
    clock = Clock()
    rates, begin, passed = Rates(clock), clock.now, 0
    for pause in [0.0] * (per_minute + 1) + pauses:
        clock.now += pause
        passed += rates.take("who", per_minute) == 0
        assert passed <= per_minute + (clock.now - begin) * per_minute / 60 + 1e-6


@given(st.integers(1, 1000))
def test_waiting_as_long_as_told_helps(per_minute: int) -> None:
    clock = Clock()
    rates = Rates(clock)
    while not (wait := rates.take("who", per_minute)):
        pass
    clock.now += wait + 1e-6
    assert rates.take("who", per_minute) == 0


def test_counts_of_addresses_do_not_grow_without_end() -> None:
    rates = Rates()
    for number in range(KNOWN + 100):
        rates.take(number, 10)
    assert len(rates) == KNOWN


def test_an_ipv6_network_counts_as_one() -> None:
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff")
    assert neighbourhood("2001:db8::1") != neighbourhood("2001:db8:0:1::1")
    assert neighbourhood("10.0.0.1") != neighbourhood("10.0.0.2")


def test_ipv4_within_ipv6_is_ipv4() -> None:
    assert neighbourhood("::ffff:10.0.0.1") == neighbourhood("10.0.0.1") == "10.0.0.1"
    assert neighbourhood("::ffff:10.0.0.1") != neighbourhood("::ffff:10.0.0.2")
    assert parse_network("::ffff:10.0.0.0/104") == parse_network("10.0.0.0/8")
    assert parse_network("::ffff:10.0.0.1") == parse_network("10.0.0.1")
    assert parse_network("2001:db8::/32").version == 6


def test_characters_are_counted_anew_each_day() -> None:
    clock = Clock()
    usage = Usage(clock)
    usage.add(b"key", 7)
    assert usage.count(b"key") == 7
    clock.now += usage.until_tomorrow() + 1
    assert usage.count(b"key") == 0


def translated(text: str) -> Translated:
    return Translated(text, 0.0, 0.0)


@given(st.lists(st.tuples(st.sampled_from(["get", "put"]), st.integers(0, 20), st.integers(0, 30))))
def test_a_cache_is_bounded_and_holds_what_it_was_given(steps: list[tuple[str, int, int]]) -> None:
    cache, given_ = Cache(entries=5, characters=60), dict[int, Translated]()
    for action, key, size in steps:
        if action == "put":
            value = given_.setdefault(key, translated("x" * size))
            cache.put(key, value, key_size=0)
        elif (found := cache.get(key)) is not None:
            assert found == given_[key]
        held = [found for k in given_ if (found := cache._held.get(k)) is not None]
        assert len(cache) <= 5
        assert sum(len(each.text) for each, _ in held) <= 60


def test_a_cache_counts_what_a_glossary_takes() -> None:
    echo, small = Echo(), Options()
    large = Options(glossary=tuple(("a" * 200, "b" * 200) for _ in range(100)))
    assert small.size == 0
    assert large.size >= 40_000
    with closing(service_of(echo)) as service:

        async def scene() -> None:
            for number in range(200):
                glossary = Options(glossary=(*large.glossary, (f"{number}", "x")))
                await service.translate(service.models[0], ["a"], glossary, deadline=service.deadline())

        asyncio.run(scene())
        assert 0 < len(service._cache) <= 2_000_000 / large.size


def test_a_cache_forgets_what_was_not_used_for_longest() -> None:
    cache = Cache(entries=2)
    for key in "ab":
        cache.put(key, translated(key), key_size=0)
    cache.get("a")
    cache.put("c", translated("c"), key_size=0)
    assert [cache.get(key) is not None for key in "abc"] == [True, False, True]


@given(st.text(st.characters(categories=["Cs", "L", "So", "Cc"])))
def test_halves_of_characters_become_whole(text: str) -> None:
    written = whole_characters(text)
    written.encode()
    assert written == text or any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: parse_pair("en=run"), "--pair"),
        (lambda: Settings(models=(), root_path="x"), "--root-path"),
        (lambda: Settings(models=(), cors_origins=("example.org",)), "--cors-origin"),
        (lambda: Settings(models=(), trusted_proxies=("proxy",)), "--trusted-proxy"),
    ],
)
def test_mistakes_in_flags_are_named(make: Callable[[], object], named: str) -> None:
    with pytest.raises(UserError, match=named):
        make()


def test_a_pair_names_languages_and_models() -> None:
    served = parse_pair("EN-pt_BR=a/,b/")
    assert (served.source, served.target, served.paths) == ("en", "pt_br", (Path("a/"), Path("b/")))
