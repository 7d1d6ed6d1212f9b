"""Reports: pure functions from a trace to plain data, figures and files; nothing here simulates.

Called, ``archsim.report(folder)`` is :func:`archsim.session.report`.
"""

from archsim.verb import make_callable

make_callable(__name__, "archsim.session", "report")
