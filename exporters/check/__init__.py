"""Reports of a check: text for the terminal, Markdown for a ticket."""
