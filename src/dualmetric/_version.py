"""The version, in a file of its own so that building the package needs no import."""

__version__ = "0.2.0"
