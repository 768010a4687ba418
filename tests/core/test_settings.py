import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tools.settings_page import describe
from trntop.core.errors import SettingsError
from trntop.core.settings import MAX_FILE_BYTES, Settings, load

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def error_of(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> str:
    with pytest.raises(SettingsError) as caught:
        load(path, environ or {}, options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def error_in(config: Path, text: str) -> str:
    config.write_text(text)
    message = error_of(config)
    assert message.startswith(str(config))
    return message.removeprefix(str(config))


def test_without_anything_the_defaults_hold() -> None:
    settings = load(None, {})
    assert settings == Settings()
    assert settings.analysis.comm_share == 0.25
    assert settings.export.listen == ("127.0.0.1:10042",)


def test_later_sources_win_setting_by_setting(config: Path) -> None:
    config.write_text(
        "[analysis]\ncomm_share = 0.3\nwindow = 30\nhold = 6\n[screen]\ntheme = 'nord'\n"
    )
    environ = {"TRNTOP_ANALYSIS__COMM_SHARE": "0.4", "TRNTOP_ANALYSIS__WINDOW": "40"}
    settings = load(config, environ, {"analysis.comm_share": 0.5})
    assert settings.analysis.comm_share == 0.5
    assert settings.analysis.window == 40.0
    assert settings.analysis.hold == 6.0
    assert isinstance(settings.analysis.hold, float)
    assert settings.analysis.memory == Settings().analysis.memory
    assert settings.screen.theme == "nord"


def test_settings_are_immutable() -> None:
    with pytest.raises(AttributeError):
        load(None, {}).analysis.comm_share = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("name", ["TRNTOP_CONFIG", "XDG_CONFIG_HOME", "HOME"])
def test_the_file_is_found_by_the_environment(tmp_path: Path, name: str) -> None:
    folder = {"TRNTOP_CONFIG": "", "XDG_CONFIG_HOME": "trntop", "HOME": ".config/trntop"}[name]
    file = tmp_path / folder / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[collect]\nperiod = 5\n")
    value = str(file) if name == "TRNTOP_CONFIG" else str(tmp_path)
    assert load(None, {name: value}).collect.period == 5.0


def test_the_named_file_wins_over_those_found(tmp_path: Path, config: Path) -> None:
    config.write_text("[collect]\nperiod = 5\n")
    other = tmp_path / "other.toml"
    other.write_text("[collect]\nperiod = 7\n")
    assert load(other, {"TRNTOP_CONFIG": str(config)}).collect.period == 7.0


@pytest.mark.parametrize(
    "environ",
    [{}, {"HOME": "/nowhere"}, {"XDG_CONFIG_HOME": "relative"}, {"TRNTOP_CONFIG": ""}],
)
def test_no_file_is_needed(environ: dict[str, str]) -> None:
    assert load(None, environ) == Settings()


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert error_of(missing) == f"{missing}: No such file or directory"
    assert error_of(None, {"TRNTOP_CONFIG": str(missing)}).startswith(str(missing))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "# ours\n\n[analysis]\nwindow = 20\ncomm_share = 3\n",
            ", line 5: analysis.comm_share must be a number from 0 to 1, not 3",
        ),
        (
            "[analysis]\ncom_share = 0.3\n",
            ", line 2: unknown setting analysis.com_share; did you mean analysis.comm_share?",
        ),
        ("[analyse]\nx = 1\n", ", line 1: unknown section analyse; did you mean analysis?"),
        (
            "[export]\nx.y = 1\n[zzz]\n",
            ", line 2: unknown setting export.x; known: export.listen, export.web_config_file",
        ),
        (
            "[screen]\nmouse = 'yes'\n",
            ", line 2: screen.mouse must be true or false, not 'yes'",
        ),
        (
            "[fleet]\nvia = 'dots'\n",
            ", line 2: fleet.via must be one of agent, ssh, not 'dots'",
        ),
        (
            "[collect]\nperiod = 0.01\n",
            ", line 2: collect.period must be a number from 0.1 to 60, not 0.01",
        ),
        ("[collect]\nperiod = nan\n", ", line 2: collect.period must be a number from 0.1"),
        ("[collect]\nperiod = inf\n", ", line 2: collect.period must be a number from 0.1"),
        ("[collect]\nperiod = '1'\n", ", line 2: collect.period must be a number from 0.1"),
        ("[collect]\nperiod = true\n", ", line 2: collect.period must be a number from 0.1"),
        ("[collect]\nneuron_monitor = ''\n", ", line 2: collect.neuron_monitor must be text"),
        (
            "[history]\nseconds = 900.5\n",
            ", line 2: history.seconds must be a whole number from 60 to 86400, not 900.5",
        ),
        (
            "[export]\nmax_series = 0\n",
            ", line 2: export.max_series must be a whole number, at least 1, not 0",
        ),
        (
            "[analysis]\ndisabled = 'hang'\n",
            ", line 2: analysis.disabled must be a list of names, not 'hang'",
        ),
        ("analysis.memory = 2\n", ", line 1: analysis.memory must be"),
        ("\nanalysis = { memory = 2 }\n", ", line 2: analysis.memory must be"),
        ("['analysis']\n \"memory\" = 2\n", ", line 2: analysis.memory must be"),
        ("screen.zzz = 1\n", ", line 1: unknown setting screen.zzz"),
        ("zzz.a = 1\n", ", line 1: unknown section zzz; known: collect, analysis"),
        ("[[rule]]\n", ", line 1: unknown section rule; did you mean rules?"),
        ("analysis = 3\n", ", line 1: analysis must be a table, [analysis]"),
        ("[[analysis]]\n", ", line 1: analysis must be a table, [analysis]"),
        ("[analysis]\n\nwindow =\n", ", line 3: not TOML: Invalid value"),
        ("[analysis", ": not TOML: "),
        ("a = " + "[" * 100_000, ": not TOML: nested too deeply"),
    ],
)
def test_fault_60_a_mistake_in_the_file_names_line_key_and_expectation(
    config: Path, text: str, message: str
) -> None:
    assert error_in(config, text).startswith(message)


@pytest.mark.parametrize("address", ["127.0.0.1:1", ":10042", "[::1]:0", "node-1.local:65535"])
def test_addresses_to_listen_on(address: str) -> None:
    assert load(None, {}, {"export.listen": [address]}).export.listen == (address,)


def test_several_addresses_to_listen_on(config: Path) -> None:
    config.write_text("[export]\nlisten = ['127.0.0.1:1', '[::1]:1']\n")
    assert load(config, {}).export.listen == ("127.0.0.1:1", "[::1]:1")
    listen = load(config, {"TRNTOP_EXPORT__LISTEN": ":2, [::1]:2"}).export.listen
    assert listen == (":2", "[::1]:2")
    assert error_in(config, "[export]\nlisten = []\n").startswith(
        ", line 2: export.listen must be a list, each an address such as"
    )


@pytest.mark.parametrize(
    "address", ["10042", "localhost", "host:65536", "::1:80", "a b:80", "host:80\n", "h:x", "h/:1"]
)
def test_what_is_no_address_to_listen_on(address: str) -> None:
    message = error_of(options={"export.listen": [address]})
    assert message.startswith("export.listen must be a list, each an address")


@pytest.mark.parametrize(
    ("variable", "value", "key", "expected"),
    [
        ("TRNTOP_COLLECT__PERIOD", "2", "period", 2.0),
        ("TRNTOP_EXPORT__MAX_SERIES", "500", "max_series", 500),
        ("TRNTOP_SCREEN__MOUSE", "false", "mouse", False),
        ("TRNTOP_FLEET__VIA", "ssh", "via", "ssh"),
        ("TRNTOP_ANALYSIS__DISABLED", "hang, recompile,", "disabled", ("hang", "recompile")),
        ("TRNTOP_ANALYSIS__DISABLED", "", "disabled", ()),
    ],
)
def test_variables_are_read_by_the_type_of_their_setting(
    variable: str, value: str, key: str, expected: object
) -> None:
    section = variable.split("_")[1].lower()
    assert getattr(getattr(load(None, {variable: value}), section), key) == expected


def test_a_mistake_in_the_environment_names_the_variable() -> None:
    assert error_of(environ={"TRNTOP_ANALYSIS__MEMORY": "95%"}) == (
        "environment variable TRNTOP_ANALYSIS__MEMORY: "
        "analysis.memory must be a number from 0 to 1, not '95%'"
    )
    assert error_of(environ={"TRNTOP_ANALYSIS__MEMORI": "1"}) == (
        "unknown environment variable TRNTOP_ANALYSIS__MEMORI; "
        "did you mean TRNTOP_ANALYSIS__MEMORY?"
    )
    assert "nan" in error_of(environ={"TRNTOP_ANALYSIS__MEMORY": "nan"})


def test_other_variables_are_not_ours() -> None:
    environ = {"TRNTOP_TEAM": "x", "TRNTOP": "y", "PATH": "/bin", "MYTRNTOP_A__B": "z"}
    assert load(None, environ) == Settings()


def test_a_mistake_in_an_option_names_the_option() -> None:
    assert error_of(options={"analysis.memory": 7}) == (
        "analysis.memory must be a number from 0 to 1, not 7"
    )
    assert "did you mean analysis.memory?" in error_of(options={"analysis.memry": 1})
    assert load(None, {}, {"analysis.memory": "0.5"}).analysis.memory == 0.5
    assert load(None, {}, {"analysis.disabled": ["hang"]}).analysis.disabled == ("hang",)


def test_what_is_no_configuration_file_is_refused(tmp_path: Path, config: Path) -> None:
    assert error_of(tmp_path) == f"{tmp_path}: not a regular file"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert error_of(fifo) == f"{fifo}: not a regular file"
    assert error_of(Path("/dev/zero")) == "/dev/zero: not a regular file"
    assert error_of(Path("a\0b")) == "'a\\x00b' is not a path"
    config.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    assert error_of(config) == f"{config}: larger than 1 MiB"
    config.write_bytes(b"# \xff")
    assert error_of(config) == f"{config}: not UTF-8 at byte 2"


def test_a_long_value_is_not_repeated_in_full(config: Path) -> None:
    assert len(error_in(config, f"[fleet]\nvia = '{'x' * 10_000}'\n")) < 200
    assert len(error_in(config, f"[screen]\n{'x' * 10_000} = 1\n")) < 800


def test_every_setting_is_documented_and_has_a_default_in_its_own_bounds() -> None:
    page = describe()
    for section in set(Settings.__struct_fields__) - {"rules"}:
        table = getattr(Settings(), section)
        for field in table.__struct_fields__:
            is_table = isinstance(getattr(table, field), dict)
            assert (f"TRNTOP_{section.upper()}__{field.upper()}" in page) is not is_table
    assert not re.search(r"\n\n\n", page)
    defaults = msgspec.to_builtins(Settings())
    assert msgspec.convert(defaults, Settings) == Settings()


def test_the_page_of_settings_is_current() -> None:
    assert DOCS.read_text() == describe(), "run make docs"


def test_importing_settings_is_cheap() -> None:
    code = (
        "import sys, trntop.core.settings;print({'numpy', 'textual', 'asyncio'} & set(sys.modules))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 100_000 + " = 1",
        "[collect]\n" + '"a" . ' * 100_000 + "a = 1",
        "[" + ".".join("a" * 50_000) + "]",
        "x = {" + "'a'." * 100_000 + "a = 1}",
    ],
)
def test_fault_60_a_key_of_many_parts_is_refused_before_it_is_parsed(
    tmp_path: Path, text: str
) -> None:
    """tomllib needs the square of its parts: minutes, and gigabytes."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match="a key has more than 32 parts"):
        load(path, {})
