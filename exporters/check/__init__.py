"""Reports of a check: for a terminal, a ticket, and a machine.

groups     findings that say the same of several nodes
text       the terminal
markdown   a ticket
"""
