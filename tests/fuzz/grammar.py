"""Areas of cases: one strategy each, a valid thing with something wrong about it, or something odd."""

from __future__ import annotations

from grammar_commands import command_lines
from grammar_files import configs, streams
from grammar_folders import model_files, resealed_folders, run_folders, sweep_folders
from grammar_traces import traces

#: Areas by name.
AREAS = {
    "command lines": command_lines(),
    "configuration": configs(),
    "streams": streams(),
    "traces": traces(),
    "run folders": run_folders(),
    "resealed run folders": resealed_folders(),
    "model files": model_files(),
    "sweep folders": sweep_folders(),
}
