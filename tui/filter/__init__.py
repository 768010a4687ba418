"""Which nodes are looked at: the language of the filter, and what may complete it."""

from .language import Filter, FilterError

__all__ = ["Filter", "FilterError"]
