"""Lever (arXiv 2605.16786): a target in flash, a draft in DRAM, token trees built by gain per unit of latency.

``tree`` token trees; ``tables`` what the policy has measured; ``growth`` the drafting policies; ``pruning`` the
decision at the exit layer; ``execution`` the blocks of a cycle; ``decoding`` the cycle itself; ``schedule`` its
switches.
"""

from archsim.schedules.lever.schedule import Lever

__all__ = ["Lever"]
