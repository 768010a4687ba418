"""Everything trntop raises on purpose.

TrntopError             one sentence for the user; the command line prints it and exits
├── UsageError          the command was called wrongly (exit 2)
├── SettingsError       a configuration file, environment variable or option is wrong (exit 2)
├── RecordingError      a file cannot be read or written as a recording (exit 2)
└── DecodeError         a payload is not what its source should send
"""


class TrntopError(Exception):
    """A failure that can be explained to the user in one sentence."""


class UsageError(TrntopError):
    """The command was called wrongly."""


class SettingsError(TrntopError):
    """A setting is unknown, of the wrong type or out of range."""


class RecordingError(TrntopError):
    """A file cannot be read or written as a recording."""


class DecodeError(TrntopError):
    """A payload is not what its source should send."""
