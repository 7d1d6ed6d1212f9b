"""Discrete-event core: units serialise, pools share, stores fill."""
