"""How a configuration comes about: defaults, a preset, a TOML file, then `section.key=value`; the later one wins."""

from __future__ import annotations

import difflib
import reprlib
import tomllib
from collections.abc import Container, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from transduce.config import Config
from transduce.errors import ConfigError


def presets() -> list[str]:
    """Names of the presets that come with the package."""
    return sorted(
        p.name.removesuffix(".toml") for p in files("transduce.presets").iterdir() if p.name.endswith(".toml")
    )


def load_config(*, preset: str | None = None, path: Path | None = None, settings: Iterable[str] = ()) -> Config:
    """Defaults, then the preset, then a TOML file, then `section.key=value` settings; the later one wins."""
    table: dict[str, Any] = {}
    from_file = read_toml(path) if path else {}
    name = preset or from_file.get("preset", "base")
    if name not in presets():
        where = f"{path}: " if preset is None else ""
        near = _nearest(str(name), presets())
        raise ConfigError(f"{where}unknown preset {name!r}{near} there are {', '.join(presets())}")
    _merge(table, tomllib.loads((files("transduce.presets") / f"{name}.toml").read_text(encoding="utf-8")))
    _merge(table, from_file)
    table["preset"] = name
    parsed = [_parse_setting(setting) for setting in settings]
    for key, value in parsed:
        section, _, field = key.partition(".")
        _merge(table, {section: {field: value}})
    return make_config(table, where=str(path or f"preset {name}"), given={key for key, _ in parsed})


def make_config(table: Mapping[str, Any], *, where: str, given: Container[str] = ()) -> Config:
    """Validate a table; the first mistake becomes a ConfigError that names its place and the nearest key.

    `where` the table came from is named too, except for the keys that were `given` one by one.
    """
    try:
        return Config.model_validate({name: _tuples(section) for name, section in table.items()})
    except ValidationError as error:
        key = ".".join(str(part) for part in error.errors()[0]["loc"][:2])
        raise ConfigError(f"{'' if key in given else f'{where}: '}{_explain(error)}") from None


def search_settings(settings: Iterable[str]) -> dict[str, Any]:
    """`search.key=value` settings as a table of keys of that section; others have no say in a search."""
    table = {}
    for key, value in map(_parse_setting, settings):
        section, _, field = key.partition(".")
        if section != "search":
            raise ConfigError(f"--set {key}: a model is what it is: only search.* can be set here")
        table[field] = value
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a table."""
    try:
        data = path.read_bytes()
        return tomllib.loads(data.decode("utf-8").removeprefix("\ufeff"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read: {error.strerror}: check the path") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line}: not UTF-8: save the file as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def describe(key: str) -> tuple[str, Any]:
    """What `section.key` means and its default."""
    section_name, _, name = key.partition(".")
    section = Config.model_fields.get(section_name)
    fields = getattr(section.annotation, "model_fields", {}) if section else {}
    if name not in fields:
        raise ConfigError(f"unknown key {key!r}{_nearest(key, known_keys())} `transduce config` shows all")
    return fields[name].description or "", fields[name].default


def known_keys() -> list[str]:
    """Every `section.key` there is."""
    return [
        f"{section}.{name}"
        for section, field in Config.model_fields.items()
        for name in getattr(field.annotation, "model_fields", {})
    ]


def apart(one: Config, other: Config) -> list[str]:
    """Every `section.key` in which two configurations differ."""
    sections = ((name, getattr(one, name), getattr(other, name)) for name in Config.model_fields if name != "preset")
    return [
        f"{name}.{key}"
        for name, ours, theirs in sections
        for key in type(ours).model_fields
        if getattr(ours, key) != getattr(theirs, key)
    ]


def _parse_setting(setting: str) -> tuple[str, Any]:
    key, equals, value = (part.strip() for part in setting.partition("="))
    if not equals:
        raise ConfigError(f"--set {setting}: write section.key=value")
    if key not in known_keys():
        raise ConfigError(
            f"--set {setting}: unknown key {key!r}{_nearest(key, known_keys())} `transduce config` shows all"
        )
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = {}
    # a word without quotes is a string, and so is what holds more than one value
    return key, parsed["value"] if list(parsed) == ["value"] else value


def _merge(base: dict[str, Any], update: Mapping[str, Any]) -> None:
    for key, value in update.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = dict(value) if isinstance(value, Mapping) else value


def _tuples(section: Any) -> Any:
    """A section in which TOML's lists, and those in lists of tables, are the tuples that a frozen table holds."""
    if not isinstance(section, Mapping):
        return section
    return {key: tuple(map(_tuples, value)) if isinstance(value, list) else value for key, value in section.items()}


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = _nearest(place, [*known_keys(), *Config.model_fields])
        return f"unknown key {place!r}{near} `transduce config` shows all"
    if first["type"] == "value_error":  # of several keys together
        return f"{place}: ".removeprefix(": ") + first["msg"].removeprefix("Value error, ")
    wanted = {"model_type": "should be a table", "tuple_type": "should be a list"}
    message = wanted.get(first["type"]) or first["msg"].removeprefix("Input ")
    return f"{place} = {reprlib.repr(first['input'])}: {message}"


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    ends = [each for each in names if each.endswith(f".{name}")]
    one_letter = [each for each in names if len(each) == len(name) and sum(map(str.__ne__, each, name)) == 1]
    near = ends or one_letter or difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f": did you mean {near[0]!r}?" if near else ":"
