"""Places to be: each module a screen, its style sheet beside it."""
