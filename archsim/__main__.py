"""``python -m archsim``."""

from archsim.cli import main

if __name__ == "__main__":
    main()
