import pytest

from trntop.core.instances import TRAINIUM2, TRAINIUM3, chip_of, find_instance_type


@pytest.mark.parametrize(
    ("name", "devices"),
    [("trn2.48xlarge", 16), ("ml.trn2.48xlarge", 16), ("trn3pd98.3xlarge", 1), ("ml.p5", None)],
)
def test_hyperpod_writes_ml_before_the_name(name: str, devices: int | None) -> None:
    row = find_instance_type(name)
    assert (row.devices if row else None) == devices


def test_the_chip_of_an_unknown_instance_type_is_that_of_its_devices() -> None:
    assert chip_of("ml.trn2n.48xlarge", "") is TRAINIUM2
    assert chip_of("trn9.48xlarge", "Trainium3") is TRAINIUM3
    assert chip_of("trn9.48xlarge", "") is None
