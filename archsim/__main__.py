"""``python -m archsim``."""

if __name__ == "__main__":
    from archsim.cli import main

    main()
