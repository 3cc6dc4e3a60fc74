"""The documentation names only what exists: files, commands, options, make targets, functions."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def code(page: Path) -> list[str]:
    """What a reader may type: the lines of fences that are not Python, and inline code."""
    text = page.read_text(encoding="utf-8")
    fenced = [body.replace("\\\n", " ") for language, body in FENCE.findall(text) if language != "python"]
    return [line for body in fenced for line in body.split("\n")] + SPAN.findall(prose(page))


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Each `transduce COMMAND` with the options that follow it, up to a pipe, a redirection or a comment."""
    found = []
    for line in code(page):
        for part in re.split(r"[|<>;#&]", line):
            match = re.search(r"(?:^|[\s/])transduce ([a-z]\w*)(.*)", part)
            if match:
                found.append((match[1], re.findall(r"(?<!\S)--[a-z][a-z-]*", match[2])))
    return found


@cache
def help_of(command: str) -> str | None:
    from transduce.cli import app

    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return result.output if result.exit_code == 0 else None


def defines(tree: ast.AST, name: str) -> bool:
    """Whether a module, or a class in it, defines a dotted name."""
    first, _, rest = name.partition(".")
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        else:
            continue
        if first in names and (not rest or defines(node, rest)):
            return True
    return False


@every_page
def test_relative_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    relative = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in relative if not (page.parent / link).exists()] == []


@every_page
def test_paths_into_the_repository_exist(page: Path) -> None:
    words = [word.strip("\"'.,:;()") for line in code(page) for word in line.split()]
    paths = [word.partition(":")[0] for word in words if re.match(r"(\.ci|benchmarks|docs|src|tests)/", word)]
    named = [path for path in paths if not re.search(r"[<>*{}$]", path)]
    assert [path for path in named if not (ROOT / path).exists()] == []


@every_page
def test_commands_and_their_options_exist(page: Path) -> None:
    for command, options in commands(page):
        text = help_of(command)
        assert text is not None, f"there is no transduce {command}"
        assert [option for option in options if not re.search(rf"{option}(?![\w-])", text)] == [], command


@every_page
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {match for line in code(page) for match in re.findall(r"(?:^|[;&]\s*)make ([a-z]+)\b", line)}
    assert named <= targets


@every_page
def test_functions_named_with_their_file_exist(page: Path) -> None:
    missing = []
    for path, name in re.findall(r"`([\w/]+\.py):([\w.]+)`", page.read_text(encoding="utf-8")):
        file = ROOT / "src" / "transduce" / path
        if not file.exists() or not defines(ast.parse(file.read_text(encoding="utf-8")), name):
            missing.append(f"{path}:{name}")
    assert missing == []


def test_the_paper_map_names_functions() -> None:
    assert re.search(r"`[\w/]+\.py:[\w.]+`", (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8"))


def test_every_row_of_the_paper_map_has_a_command() -> None:
    text = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8").partition("## Departures")[0]
    rows = [line.strip("|").split(" | ") for line in text.split("\n") if line.startswith("| ")]
    heading, *body = rows
    assert [cell.strip() for cell in heading] == ["paper", "code", "command"]
    assert [row[0] for row in body if not re.match(r"`transduce [a-z]+ .+`", row[-1])] == []
    assert {row[0].split(":")[0].split(",")[0].strip() for row in body} >= {
        "3.2.1",
        "3.2.2",
        "3.2.3",
        "3.3",
        "3.4",
        "3.5",
    }


@every_page
def test_parts_of_the_paper_that_are_named_exist(page: Path) -> None:
    from transduce.cli.paper import PARTS

    asked = [match for line in code(page) for match in re.findall(r"transduce paper((?: [a-z][a-z0-9]*)*)", line)]
    assert {part for words in asked for part in words.split()} <= {*PARTS, "all"}
