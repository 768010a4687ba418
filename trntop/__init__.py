"""trntop: live monitoring of AWS Trainium clusters."""

__version__ = "0.1.0"
