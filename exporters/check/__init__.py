"""Reports of a check: for a terminal, a ticket, and a machine.

groups     findings that say the same of several nodes
matrix     a figure for each pair
text       the terminal
markdown   a ticket
junit      continuous integration
"""
