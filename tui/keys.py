"""Keys of the user's own: validate before anything is drawn, then handed to Textual."""

import pkgutil
import unicodedata
from collections.abc import Iterator, Mapping
from importlib import import_module

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import KEY_TO_UNICODE_NAME, REPLACED_KEYS, Keys
from textual.screen import ModalScreen, Screen

from trntop.core.errors import SettingsError
from trntop.core.suggest import unknown

from . import screens, widgets

MODIFIERS = frozenset({"ctrl", "alt", "shift", "super"})
_NAMED = frozenset(key.value for key in Keys)

Owner = type[DOMNode]


def bindings(app: Owner) -> Iterator[tuple[Owner, Binding]]:
    """Every key of the app, its screens and its widgets, by who owns it."""
    owners = {app: None}
    for package in (screens, widgets):
        for found in pkgutil.iter_modules(package.__path__):
            module = import_module(f"{package.__name__}.{found.name}")
            for kind in vars(module).values():
                if isinstance(kind, type) and kind.__module__ == module.__name__:
                    owners[kind] = None
    for owner in owners:
        for binding in vars(owner).get("BINDINGS", ()):
            if isinstance(binding, Binding):
                yield owner, binding


def validate(wanted: Mapping[str, str], app: Owner) -> dict[str, str]:
    """`wanted` as it is, if it can be done.

    Args:
        wanted: id of a binding → its keys, separated by commas.
        app: the app's class, for its own keys.

    Raises:
        SettingsError: an id or a key is unknown, or a key would mean two things at once.
    """
    if not wanted:
        return {}
    known = [(owner, one) for owner, one in bindings(app) if one.id]
    ids = {str(one.id) for _, one in known}
    keys: dict[str, frozenset[str]] = {}
    for name, text in wanted.items():
        if name not in ids:
            raise SettingsError(f"screen.keys: {unknown('action', name, sorted(ids))}")
        keys[name] = frozenset(_key(name, one.strip()) for one in text.split(","))
    for owner, one in known:
        mine = keys.get(str(one.id))
        for other, another in known if mine else ():
            theirs = keys.get(str(another.id)) or _own(another)
            if one.id != another.id and mine and (mine & theirs) and _together(owner, other):
                key = min(mine & theirs)
                raise SettingsError(
                    f"screen.keys: {key} would be {one.id} ({one.description}) and"
                    f" {another.id} ({another.description})"
                )
    return dict(wanted)


def _own(binding: Binding) -> frozenset[str]:
    return frozenset(key.strip() for key in binding.key.split(","))


def _key(name: str, key: str) -> str:
    """A key by the name that Textual gives it."""
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    if len(last) == 1 and last.isprintable() and not last.isspace():
        last = last if last.isalnum() else _spelled(last)
    elif last not in _NAMED and not _is_character(last):
        raise SettingsError(
            f"screen.keys: {name}: {key[:80]!r} is not a valid key;"
            " use x, X, f5, ctrl+x or question_mark"
        )
    if not MODIFIERS.issuperset(modifiers):
        raise SettingsError(
            f"screen.keys: {name}: {key[:80]!r}: modifiers are {', '.join(sorted(MODIFIERS))}"
        )
    return "+".join([*modifiers, last])


def _spelled(char: str) -> str:
    name = unicodedata.name(char, "").lower().replace("-", "_").replace(" ", "_")
    return {value: key for key, value in REPLACED_KEYS.items()}.get(name, name)


def _is_character(name: str) -> bool:
    """Whether it is the name of a character, such as `slash`."""
    name = REPLACED_KEYS.get(name, name)
    try:
        unicodedata.lookup(KEY_TO_UNICODE_NAME.get(name, name.replace("_", " ")))
    except KeyError:
        return False
    return True


def _together(one: Owner, other: Owner) -> bool:
    """Whether the keys of both can work at the same time."""
    if issubclass(one, other) or issubclass(other, one):
        return True
    places = [kind for kind in (one, other) if issubclass(kind, Screen)]
    # A modal screen hides the app's own keys; of two screens one is in front.
    modal = any(issubclass(kind, ModalScreen) for kind in places)
    widget = len(places) == 1 and any(
        kind.__module__.startswith(widgets.__name__) for kind in (one, other)
    )
    return len(places) < 2 and (widget or not modal)
