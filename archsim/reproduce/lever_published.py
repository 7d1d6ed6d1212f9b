"""Published figures of Lever (arXiv 2605.16786) as data. OnePlus 12 unless said; TPS is decoding speed in tokens/s."""

from __future__ import annotations

PAPER = "arXiv 2605.16786"
TASKS = ("humaneval", "mbpp", "gsm8k", "mt_bench")
L8, Q4B, Q8, Q14 = "llama-3.1-8b", "qwen3-4b", "qwen3-8b", "qwen3-14b"
#: Names in row ids.
SHORT = {L8: "l8", Q4B: "q4b", Q8: "q8", Q14: "q14"}

#: Table 1: compute and I/O of verifying one token, ms.
TOKEN_MS = {L8: (93.2, 990.6), Q4B: (131.5, 474.4), Q8: (96.6, 953.4), Q14: (141.2, 1967.1)}
#: Table 2: verification and the part of it that logits of rejected rows take, ms, by target and rows.
EAGER_MS = {(L8, 16): (828, 188), (L8, 32): (1255, 256), (Q8, 16): (817, 183), (Q8, 32): (1229, 249)}
#: Fig 10: TPS by system and target, in the order of TASKS.
SPEED = {
    "oneplus_12": {L8: (2.72, 2.92, 2.23, 2.13), Q4B: (4.92, 5.20, 3.82, 3.33), Q8: (1.62, 1.75, 1.74, 1.52)},
    "honor_magic_v5": {
        L8: (4.31, 4.52, 3.35, 3.26),
        Q4B: (7.27, 7.55, 5.92, 5.47),
        Q8: (2.14, 2.40, 2.32, 2.14),
        Q14: (1.62, 1.63, 1.67, 1.41),
    },
}
#: Fig 10, geometric mean of Lever over a baseline, all phones.
GAINS = {"flash_ar": 2.93, "chain_sd": 1.50, "edgellm": 1.27}
#: Fig 11: TPS and accepted length over SpecInfer's, drafting policy alone.
DRAFTING = {
    ("mbpp", L8): (1.12, 1.11),
    ("mbpp", Q8): (1.14, 1.16),
    ("gsm8k", L8): (1.06, 1.08),
    ("gsm8k", Q8): (1.10, 1.01),
    ("mt_bench", L8): (1.14, 1.14),
    ("mt_bench", Q8): (1.10, 1.13),
}
DRAFTING_MEAN = (1.11, 1.10)
#: Fig 12: rows kept above the exit, change of verification latency, accepted tokens retained.
PRUNING = (0.48, -0.122, 0.95)
#: Table 5: TPS of Qwen3-8B with its EAGLE3 head.
BASELINES = {
    ("chain_sd", "mbpp"): 1.296,
    ("chain_sd", "gsm8k"): 1.222,
    ("chain_sd", "mt_bench"): 1.108,
    ("edgellm", "mbpp"): 1.434,
    ("edgellm", "gsm8k"): 1.382,
    ("edgellm", "mt_bench"): 1.283,
}
#: Table 6: TPS by target, task and share of the layers in DRAM.
BUDGET = {
    (Q8, "mbpp"): {0.4: 2.473, 1.0: 3.401},
    (L8, "mbpp"): {0.4: 4.214, 1.0: 5.494},
    (Q8, "gsm8k"): {0.4: 2.453, 1.0: 3.377},
    (L8, "gsm8k"): {0.4: 3.203, 1.0: 4.194},
}
#: The same with nothing in DRAM.
BUDGET_BASE = {(Q8, "mbpp"): 1.753, (L8, "mbpp"): 2.918, (Q8, "gsm8k"): 1.741, (L8, "gsm8k"): 2.225}
#: Fig 4: rate of 64 rows over one row of the same graph; Fig 5: verification of a budget of 64 over one of 4.
BATCHING, BUDGET_COST = 8.0, 6.0
