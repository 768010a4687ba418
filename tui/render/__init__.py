"""Values to strips: pure functions, without app and clock."""
