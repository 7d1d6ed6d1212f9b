"""Readers of measured files, one module each; every module has ``FORMAT``."""
