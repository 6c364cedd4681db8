"""Loaded by each Python that a suite starts, before anything else."""

import importlib

importlib.import_module("suite_address")
