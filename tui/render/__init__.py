"""Values to strips: pure functions of the values, the width and the ink. No app, no clock."""
