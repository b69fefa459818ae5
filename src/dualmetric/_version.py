"""The version, kept apart so that building needs no import."""

__version__ = "0.2.0"
