"""Many runs as one table: points over axes, run in processes that may die, searched and averaged.

Called, ``archsim.sweep(file)`` is :func:`archsim.sweep.runner.sweep`.
"""

from archsim.verb import make_callable

make_callable(__name__, "archsim.sweep.runner", "sweep")
