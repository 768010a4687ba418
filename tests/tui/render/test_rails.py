"""The columns of EFA devices."""

import numpy as np

from tests.builders import efa_name
from tests.tui.render.fabrics import efa_devices, renamed
from trntop.tui.render.rails import Rails, degraded, mean

TX = "efa_tx_bytes_per_second"


def test_efa_devices_of_one_name_share_a_column() -> None:
    # The second node lacks the second device: its third stays in the third column.
    whole = efa_devices(0, 3, {TX: [1.0, 2.0, 3.0]})
    less = renamed(efa_devices(1, 2, {TX: [4.0, 5.0]}), efa_name(0), efa_name(2))
    rails = Rails([whole, less])
    assert rails.names == tuple(efa_name(efa_device) for efa_device in range(3))
    np.testing.assert_equal(rails.table(TX), [[1, 2, 3], [4, np.nan, 5]])
    assert rails.columns(1) == [0, 2]
    assert rails.device(1, 2) == 1
    assert rails.device(1, 1) is None
    assert rails.row_of["trn-001"] == 1


def test_columns_are_in_the_natural_order_of_names() -> None:
    rails = Rails([renamed(efa_devices(0, 2, {TX: [1.0, 2.0]}), "rdmap112s27", "rdmap16s27")])
    assert rails.names == ("rdmap16s27", "rdmap112s27")
    assert rails.table(TX).tolist() == [[2, 1]]


def test_positions_are_compared_if_device_names_differ_between_nodes() -> None:
    nodes = [
        renamed(efa_devices(index, 2, {TX: [1.0, 2.0]}), f"efa{index}_9", f"efa{index}_10")
        for index in range(5)
    ]
    rails = Rails(nodes)
    assert rails.names == ("1", "2")
    assert rails.table(TX).tolist() == [[1, 2]] * 5


def test_what_is_absent_is_absent() -> None:
    rails = Rails([efa_devices(0, 2, {TX: None}), efa_devices(1, 0)])
    assert np.isnan(rails.table(TX)).all()
    assert Rails([]).table(TX).shape == (0, 0)


def test_means_are_of_those_that_report() -> None:
    table = np.array([[1.0, np.nan, 3.0], [3.0, np.nan, np.nan]])
    np.testing.assert_equal(mean(table), [2, np.nan, 3])


def test_a_degraded_rail_is_degraded_on_most_nodes() -> None:
    table = np.ones((4, 6))
    table[0, 1] = 0.2  # a device, not a rail
    table[:3, 4] = 0.4
    assert degraded(table, 0.85) == [4]


def test_rails_that_the_job_does_not_use_are_not_degraded() -> None:
    table = np.ones((4, 6))
    table[:, 3:] = 0.0
    assert degraded(table, 0.85) == []
    assert degraded(np.full((1, 6), 0.1), 0.85) == [], "one node has no rails to compare"
