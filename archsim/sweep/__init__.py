"""Many runs as one table: points over axes, run in processes that may die, searched and averaged."""
