from pathlib import Path

from trntop.collectors.efa import examine


def card(root: Path, name: str, vendor: str) -> None:
    device = root / "sys/class/infiniband" / name / "device"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")


def test_cards_are_counted_by_vendor(tmp_path: Path) -> None:
    for name in ("rdmap16s27", "rdmap32s27"):
        card(tmp_path, name, "0x1d0f")
    card(tmp_path, "mlx5_0", "0x15b3")
    module = tmp_path / "sys/module/efa"
    module.mkdir(parents=True)
    (module / "version").write_text("2.17.3g\n")
    finding = examine(tmp_path)
    assert finding.source == "efa"
    assert not finding.ok
    assert finding.found.startswith("2 EFA cards (rdmap16s27, rdmap32s27), driver 2.17.3g; ")
    assert "not part of this version" in finding.found
    assert "recordings and simulations" in finding.remedy


def test_a_few_names_stand_for_many(tmp_path: Path) -> None:
    for number in range(16):
        card(tmp_path, f"efa_{number:02}", "0x1d0f")
    assert examine(tmp_path).found.startswith(
        "16 EFA cards (efa_00, efa_01, efa_02, efa_03, …), driver unknown; "
    )


def test_no_card(tmp_path: Path) -> None:
    assert examine(tmp_path).found == "no EFA card in /sys/class/infiniband"
