"""Lever's table: ``python plots/lever.py TABLE.json --kind speed|budget|tree|pruning|stages -o FIGURE.svg``."""

from archsim.report.lever_figures import main

if __name__ == "__main__":
    raise SystemExit(main())
