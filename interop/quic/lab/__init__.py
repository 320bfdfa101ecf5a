"""The parts of `run`."""
