"""Draw a figure of drafting ahead: ``python plots/ahasd.py plots/tables/ahasd.json --kind maps -o FIGURE.svg``."""

from archsim.report import ahead_figures, script

if __name__ == "__main__":
    arguments = script.parser("Draw a figure of tables that archsim reproduce ahasd --json wrote, or of a run's queue.")
    arguments.add_argument("sources", nargs="+", help="tables (.json); for --kind queue a run folder")
    arguments.add_argument("--kind", choices=(*ahead_figures.KINDS, "queue"), default="ablation", help="which figure")
    raise SystemExit(
        script.draw(arguments, None, lambda options: ahead_figures.ahead_figure(options.sources, options.kind))
    )
