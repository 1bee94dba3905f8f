"""Compares the drop-in with Hermes' own module, by running both: ``hermes-env-bridge parity``."""
