"""Draw a figure of the llada table: ``python plots/llada.py plots/tables/llada*.json --kind pays -o FIGURE.svg``."""

from archsim.report import denoise_figures, script

if __name__ == "__main__":
    arguments = script.parser("Draw a figure of tables that archsim reproduce llada --json wrote.")
    arguments.add_argument("tables", nargs="+", help="tables (.json)")
    arguments.add_argument("--kind", choices=tuple(denoise_figures.KINDS), default="ablation", help="which figure")
    raise SystemExit(
        script.draw(
            arguments,
            None,
            lambda options: denoise_figures.KINDS[options.kind](denoise_figures.read_rows(options.tables)),
        )
    )
