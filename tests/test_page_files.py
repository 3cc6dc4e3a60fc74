"""The page's files over HTTP: right types, no copy sent twice, no name that leads elsewhere."""

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' brings it")
pytest.importorskip("httpx", reason="fastapi's test client needs it")

from fastapi import FastAPI
from fastapi.testclient import TestClient

from transduce.serve.page import routes

STATIC = Path(__file__).parent.parent / "src" / "transduce" / "serve" / "static"


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    app.include_router(routes())
    return TestClient(app)


def test_the_root_is_the_page(client: TestClient) -> None:
    answer = client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.content == (STATIC / "index.html").read_bytes()


@pytest.mark.parametrize(("ending", "expected"), [("js", "text/javascript"), ("css", "text/css")])
def test_every_file_has_its_type(client: TestClient, ending: str, expected: str) -> None:
    found = sorted(STATIC.glob(f"*.{ending}"))
    assert found
    for path in found:
        answer = client.get(f"/static/{path.name}")
        assert answer.headers["content-type"] == f"{expected}; charset=utf-8"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.content == path.read_bytes()


def test_a_copy_that_is_still_good_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/static/page.css")
    for told in (first.headers["etag"], f'"other", W/{first.headers["etag"]}', "*"):
        again = client.get("/static/page.css", headers={"If-None-Match": told})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    assert client.get("/static/page.css", headers={"If-None-Match": '"other"'}).content == first.content
    assert client.get("/static/live.js").headers["etag"] != first.headers["etag"]


@pytest.mark.parametrize(
    "name",
    [
        "../page.py",
        "%2e%2e/page.py",
        "..%2fpage.py",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "",
        ".",
        "README",
        "live.js/",
        "a%00",
    ],
)
def test_no_other_name_is_known(client: TestClient, name: str) -> None:
    answer = client.get(f"/static/{name}")
    assert answer.status_code == 404
    assert b"import" not in answer.content
