"""Published figures as data, and what archsim says beside each."""
