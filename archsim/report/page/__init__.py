"""Reports as one self-contained HTML file: tables, figures, a time line, an explorer of sweeps. No network."""
