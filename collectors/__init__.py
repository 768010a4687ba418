"""Collectors: one module per source, and the parts that they share.

`local` creates the collectors of this machine from `LOCAL` in the module of each source.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

from trntop.core.errors import SettingsError
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.session.collector import Collector, Examination
from trntop.sources import PLUGINS, SOURCES
from trntop.sources.source import Source

from .local_source import Context, LocalSource

log = logging.getLogger(__name__)

EXAMINATION_SECONDS = 15.0
"""Timeout of `examine_all`."""


def local(node: str, settings: Collect, *, observer: bool = False) -> list[Collector]:
    """The collectors of this machine, without those that the settings disable.

    Args:
        node: name of this machine.
        settings: the settings.
        observer: leave sources with a single reader to an agent on this machine.

    Raises:
        SettingsError: a pattern of log lines is not valid, or the root is not a directory.
    """
    if not Path(settings.root).is_dir():
        raise SettingsError(f"collect.root: {clean(settings.root)} is not a directory")
    context = Context(node, settings, observer=observer)
    made = (
        _collector(source, context)
        for source in SOURCES
        if source.role.local and source.name not in settings.disabled
    )
    return [collector for collector in made if collector is not None]


def examine_all(settings: Collect) -> list[Examination]:
    """The sources of this machine, examined concurrently within 15 s.

    Raises:
        SettingsError: a pattern of log lines is not valid.
    """
    checks: dict[str, Callable[[], Examination]] = {
        source.name: partial(_examine, source, settings) for source in SOURCES if source.role.local
    }
    return _all_at_once(checks, EXAMINATION_SECONDS)


def local_source(source: Source) -> LocalSource:
    """The declaration of a source of this machine."""
    declared: LocalSource = import_module(source.module).LOCAL
    return declared


def _collector(source: Source, context: Context) -> Collector | None:
    try:
        return local_source(source).collect(context)
    except SettingsError:
        raise
    except Exception:
        if source not in PLUGINS:
            raise
        log.exception("plug-in %s ignored", source.name)
        return None


def _examine(source: Source, settings: Collect) -> Examination:
    try:
        check = local_source(source).examine
    except Exception as error:
        if source not in PLUGINS:
            raise
        why = clean(f"plug-in ignored: {type(error).__name__}: {error}")
        return Examination(source.name, False, why)
    return check(settings)


def _all_at_once(
    checks: Mapping[str, Callable[[], Examination]], seconds: float
) -> list[Examination]:
    """The result of each check; one that blocks in the kernel is abandoned after `seconds`."""
    found: dict[str, Examination] = {}
    refused: list[SettingsError] = []

    def run(source: str, check: Callable[[], Examination]) -> None:
        try:
            found[source] = check()
        except SettingsError as error:
            refused.append(error)
        except Exception as error:
            found[source] = Examination(source, False, f"internal error: {type(error).__name__}")

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in checks.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if refused:
        raise refused[0]
    hung = f"no response for {seconds:g} s: a read blocks in the kernel"
    return [found.get(source, Examination(source, False, hung, "check dmesg")) for source in checks]
