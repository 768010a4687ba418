"""Types of option values, and options that several commands share."""

import argparse
from pathlib import Path

from trntop.core import durations
from trntop.core.text import clean

Parser = argparse.ArgumentParser


def settings(parser: Parser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="settings file (default: ~/.config/trntop/config.toml, if it exists)",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments",
        help="override one setting, e.g. analysis.comm_share=0.3; repeatable",
    )  # fmt: skip


def playback(parser: Parser) -> None:
    parser.add_argument(
        "--speed", type=positive, default=1.0,
        help="playback speed of recordings and simulations (default: 1, real time)",
    )  # fmt: skip
    parser.add_argument("--loop", action="store_true", help="restart a recording when it ends")


def output_form(parser: Parser, markdown: str = "") -> None:
    """`--json`, and `--markdown` if it has a description."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    if markdown:
        form.add_argument("--markdown", action="store_true", help=f"print {markdown}")


def count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) == int(text)):
        raise argparse.ArgumentTypeError(f"{clean(text, 40)} is not a whole number above 0")
    return int(text)


def port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 65536):
        raise argparse.ArgumentTypeError(f"{clean(text, 40)} is not a valid port")
    return int(text)


def port_or_any(text: str) -> int:
    return 0 if text == "0" else port(text)


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{clean(text, 40)} is not a number above 0")
    return value


def duration(text: str) -> float:
    seconds = durations.parse(text)
    if not seconds:
        raise argparse.ArgumentTypeError(
            f"{clean(text, 40)} is not a valid duration; use 300 or 5m"
        )
    return seconds


def size(text: str) -> int:
    units = {"K": 10**3, "M": 10**6, "G": 10**9}
    factor = units.get(text[-1:].upper(), 1)
    try:
        value = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{clean(text, 40)} is not a valid size; use 500M or 2G")
    return int(value)
