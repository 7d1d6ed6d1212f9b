"""Measurements of real phones beside the simulator: readers of measured files, residuals, calibration.

``formats`` holds one reader per kind of file, ``rows`` what they give, ``machine`` and ``predict`` the simulator's
answer to a row, ``residuals`` the comparison, ``fit``, ``profile`` and ``overlay`` the calibration.
"""
