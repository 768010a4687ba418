"""Each module is a screen, with a style sheet of the same name."""
