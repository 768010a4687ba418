"""Writes the page of settings: `python -m tools.settings_page > docs/settings.md`."""

import ast
import inspect
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import inspect as types
from msgspec import structs

from trntop.core.custom_rule import MAX_RULES, CustomRule
from trntop.core.settings import RULE_TYPES, SECTIONS, TYPES, Settings, expected, variable_of


def describe() -> str:
    """All settings as a Markdown page."""
    lines = [
        "# Settings",
        "",
        "<!-- Written by `make docs`; change trntop/core/settings.py instead. -->",
        "",
        "Command-line options override environment variables, which override the settings file,",
        "which overrides the defaults. The file is that of `--config`, else `$TRNTOP_CONFIG`,",
        "else `trntop/config.toml` in `$XDG_CONFIG_HOME` (`~/.config`). It is TOML, one table per",
        "section:",
        "",
        "```toml",
        "[analysis]",
        "comm_share = 0.3",
        'disabled = ["memory_pressure"]',
        "```",
        "",
        "Environment variables separate list items by commas. A setting that is unknown, of the",
        "wrong type or out of range is an error with file and line.",
    ]
    for name, section in SECTIONS.items():
        lines += ["", f"## `[{name}]`", "", inspect.getdoc(section) or ""]
        meanings = _field_docs(section)
        for field in section.__struct_fields__:
            key = f"{name}.{field}"
            default = getattr(getattr(Settings(), name), field)
            lines += [
                "",
                f"### `{field}`",
                "",
                meanings[field],
                "",
                f"- Accepts {expected(TYPES[key])}.",
                f"- Default: `{_shown(default)}`",
                "- A table in the file; no environment variable."
                if isinstance(types.type_info(TYPES[key]), types.DictType)
                else f"- Environment: `{variable_of(key)}`",
            ]
    return "\n".join([*lines, *_describe_rules()]) + "\n"


def _describe_rules() -> list[str]:
    lines = [
        "",
        "## `[[rules]]`",
        "",
        inspect.getdoc(CustomRule) or "",
        f"In the file only, at most {MAX_RULES}; `trntop rules` lists them with the others.",
        "",
        "```toml",
        "[[rules]]",
        'name = "hot_host"',
        'when = "node_cpu_busy_ratio > 0.9"',
        "hold = 30",
        "```",
    ]
    meanings = _field_docs(CustomRule)
    for field in structs.fields(CustomRule):
        lines += [
            "",
            f"### `{field.name}`",
            "",
            meanings[field.name],
            "",
            f"- Accepts {expected(RULE_TYPES[field.name])}.",
            f"- Default: {_default(field)}.",
        ]
    return lines


def _default(field: structs.FieldInfo) -> str:
    if field.required:
        return "none, required"
    return "none" if field.default is None else f"`{_shown(field.default)}`"


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _field_docs(section: type[msgspec.Struct]) -> dict[str, str]:
    """The strings under the fields of a section, from its source."""
    body = ast.parse(inspect.getsource(section)).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


if __name__ == "__main__":
    print(describe(), end="")
