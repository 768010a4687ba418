import pytest

from tests.tui.render.contexts import CONTEXT, text
from trntop.analysis.rulebook import KINDS
from trntop.analysis.runbook import runbook
from trntop.tui.render.markdown import blocks, draw

PAGE = """\
# efa_degraded: one card does worse

## Look first

A card resends packets, reports errors, or carries `analysis.card_traffic` less
than usual; see [the page](efa.md) and **act**.

1. Its counters beside
   its siblings'.
2. Then drain.

```sh
cat x        # above 0: the card is dead
lspci
```

- An item
"""


def drawn(page: str, width: int) -> str:
    return text(draw(page, width, CONTEXT.palette))


def test_a_page_is_set_into_its_width() -> None:
    assert (
        drawn(PAGE, 44)
        == """\
Look first

A card resends packets, reports errors, or
carries analysis.card_traffic less than
usual; see the page and act.

1. Its counters beside its siblings'.
2. Then drain.

  cat x        # above 0: the card is dead
  lspci

- An item"""
    )


def test_a_remark_goes_above_a_command_where_both_are_too_long() -> None:
    assert drawn("```sh\ncat /sys/x/y  # above 0: dead\n```", 20).split("\n") == [
        "  # above 0: dead",
        "  cat /sys/x/y",
    ]


def test_a_long_command_goes_on_further_in() -> None:
    assert drawn(f"```\n{'a' * 20}\n```", 12).split("\n") == [
        f"  {'a' * 10}",
        f"    {'a' * 8}",
        f"    {'a' * 2}",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_no_word_of_a_runbook_is_lost(kind: str) -> None:
    page = runbook(kind)
    for width in (40, 76, 92):
        lines = draw(page, width, CONTEXT.palette)
        assert {strip.cell_length for strip in lines} == {width}
    printed = text(draw(page, 92, CONTEXT.palette)).split()
    wanted = " ".join(words for sign, words in blocks(page) if sign != "#")
    for sign in ("`", "**", "*"):
        wanted = wanted.replace(sign, "") if sign == "`" else wanted
    missing = {word for word in wanted.split() if "*" not in word and "](" not in word} - set(
        printed
    )
    assert not {word for word in missing if len(word) < 40}
