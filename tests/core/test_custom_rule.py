"""Rules of the user's own in the settings file: what is taken, and every refusal with its line."""

from pathlib import Path

import pytest

from trntop.analysis.rulebook import KINDS
from trntop.core.custom_rule import MAX_RULES, CustomRule
from trntop.core.errors import SettingsError
from trntop.core.settings import Settings, load

HOT = '[[rules]]\nname = "hot_host"\nwhen = "node_cpu_busy_ratio > 0.9"\n'


def rules(tmp_path: Path, text: str) -> tuple[CustomRule, ...]:
    config = tmp_path / "config.toml"
    config.write_text(text)
    return load(config, {}, reserved=KINDS).rules


def error(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        rules(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message.removeprefix(str(tmp_path / "config.toml"))


def test_rules_keep_their_order_and_mix_with_sections(tmp_path: Path) -> None:
    text = (
        "[analysis]\nhold = 7\n"
        + HOT
        + 'hold = 30\nseverity = "critical"\nclear = 0.8\nsummary = "{node} is busy: {value}"\n'
        + '[[rules]]\nname = "cold"\nwhen = "device_power_mean_ratio<=.05"\n[screen]\nmouse=false\n'
    )
    config = tmp_path / "config.toml"
    config.write_text(text)
    settings = load(config, {"TRNTOP_ANALYSIS__WINDOW": "30"}, {"collect.period": 2.0})
    assert (settings.analysis.hold, settings.analysis.window) == (7.0, 30.0)
    assert (settings.screen.mouse, settings.collect.period) == (False, 2.0)
    hot, cold = settings.rules
    assert (hot.name, hot.severity, hot.hold, hot.cleared) == ("hot_host", "critical", 30.0, 0.8)
    assert (hot.comparison.quantity, hot.comparison.limit) == ("node_cpu_busy_ratio", 0.9)
    assert (cold.comparison.sign, cold.comparison.limit, cold.hold) == ("<=", 0.05, None)
    assert Settings().rules == ()


def test_rules_may_be_in_one_array(tmp_path: Path) -> None:
    text = '\nrules = [{name = "hot", when = "node_load1 > 1e3"}]\n'
    (rule,) = rules(tmp_path, text)
    assert rule.comparison.limit == 1000.0
    assert error(tmp_path, text.replace("hot", "hang")).startswith(", line 2: name: hang is")


@pytest.mark.parametrize(
    ("when", "cleared"),
    [
        ("node_load1 > 100", 95.0),
        ("node_load1 < 100", 105.0),
        ("job_loss > -2", -2.1),
        ("job_loss < -2", -1.9),
        ("node_load1 > 0", 0.0),
    ],
)
def test_what_has_passed_lies_a_twentieth_beyond(when: str, cleared: float) -> None:
    assert CustomRule(name="x", when=when).cleared == pytest.approx(cleared)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules = 3\n", ", line 1: rules must be tables, each under [[rules]]"),
        ("\n[rules]\nname = 'x'\n", ", line 2: rules must be tables, each under [[rules]]"),
        ("[[rules]]\n", ", line 1: the rule needs name and when"),
        ("[[rules]]\nname = 'x'\n", ", line 1: the rule needs when"),
        (
            HOT + "sumary = 'x'\n",
            ", line 4: unknown rule key sumary; did you mean summary?",
        ),
        (HOT + HOT.replace("hot_host", "hang"), ", line 5: name: hang is a built-in rule"),
        (HOT + "\n" + HOT, ", line 6: duplicate rule name hot_host"),
        (HOT.replace("hot_host", "hot host"), ", line 2: rules.name must be a name of letters"),
        (HOT.replace('"hot_host"', "3"), ", line 2: rules.name must be a name of letters"),
        (
            HOT.replace("cpu_busy", "cpu_bussy"),
            ", line 3: when: unknown quantity node_cpu_bussy_ratio; did you mean node_cpu_busy",
        ),
        (
            HOT.replace("node_cpu", "trn_node_cpu"),
            ", line 3: when: unknown quantity trn_node_cpu_busy_ratio; did you mean node_cpu_b",
        ),
        (
            HOT.replace("node_cpu_busy_ratio", "zzz"),
            ", line 3: when: unknown quantity zzz; known: ",
        ),
        (HOT.replace("> 0.9", "== 0.9"), ", line 3: when must be one comparison such as"),
        (HOT.replace("> 0.9", "> 0.9 or 1"), ", line 3: when must be one comparison such as"),
        (HOT.replace("> 0.9", "> node_load1"), ", line 3: when must be one comparison such as"),
        (HOT.replace("> 0.9", "> nan"), ", line 3: when must be one comparison such as"),
        (HOT.replace("> 0.9", "> 1e999"), ", line 3: when: 1e999 is not a valid number"),
        (HOT.replace("> 0.9", "> 1.2.3"), ", line 3: when: 1.2.3 is not a valid number"),
        (HOT.replace("> 0.9", ">" + "9" * 10_000_000), ": larger than 1 MiB"),
        (HOT.replace("> 0.9", ">" + "9" * 500_000), ", line 3: rules.when must be a comparison"),
        (HOT + "clear = 0.95\n", ", line 4: clear must be below the limit of 0.9, not 0.95"),
        (HOT + "clear = nan\n", ", line 4: clear must be below the limit of 0.9, not nan"),
        (
            HOT.replace(">", "<=") + "clear = 0.9\n",
            ", line 4: clear must be above the limit of 0.9, not 0.9",
        ),
        (HOT + "hold = -1\n", ", line 4: rules.hold must be a number from 0 to 86400, not -1"),
        (HOT + "hold = '5s'\n", ", line 4: rules.hold must be a number from 0 to 86400"),
        (HOT + "severity = 'bad'\n", ", line 4: rules.severity must be one of critical, info"),
        (HOT + "summary = ''\n", ", line 4: rules.summary must be text of at most 200"),
        (HOT + "summary = '{where'\n", ", line 4: summary: unbalanced brace"),
        (
            HOT + "summary = '{}'\n",
            ", line 4: summary: {} is not a valid placeholder; use where, node",
        ),
        (
            HOT + "summary = '{value.__class__}'\n",
            ", line 4: summary: {value.__class__} is not a valid placeholder",
        ),
        (HOT + "summary = '{value!r}'\n", ", line 4: summary: {value} is not a valid placeholder"),
        (
            HOT + "summary = '{value:{limit}}'\n",
            ", line 4: summary: {value} is not a valid placeholder",
        ),
        (HOT + 'summary = "\\u001b[2J"\n', ", line 4: summary: contains control characters"),
        (HOT * (MAX_RULES + 1), ", line 1: 101 rules, but at most 100 are allowed"),
    ],
)
def test_a_mistake_in_a_rule_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert error(tmp_path, text).startswith(message)


def test_custom_rules_come_from_the_file_only() -> None:
    assert load(None, {"TRNTOP_RULES": "x"}).rules == ()
    with pytest.raises(SettingsError, match="unknown setting rules"):
        load(None, {}, {"rules": "x"})
