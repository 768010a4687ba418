"""Node filters such as `util<30` or `node~trn-0`, and their completion."""

from .language import Filter, FilterError

__all__ = ["Filter", "FilterError"]
