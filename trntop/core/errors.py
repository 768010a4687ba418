"""Everything trntop raises on purpose.

TrntopError             one line for the user; the command line prints it and exits
├── UsageError          wrong usage of a command (exit 2)
├── SettingsError       a configuration file, environment variable or option is wrong (exit 2)
├── RecordingError      a file cannot be read or written as a recording (exit 2)
└── DecodeError         a payload does not have the format of its source
"""


class TrntopError(Exception):
    """A failure that the user can act on; the message is one line."""


class UsageError(TrntopError):
    """Wrong usage of a command."""


class SettingsError(TrntopError):
    """A setting is unknown, of the wrong type or out of range."""


class RecordingError(TrntopError):
    """A file cannot be read or written as a recording."""


class DecodeError(TrntopError):
    """A payload does not have the format of its source."""
