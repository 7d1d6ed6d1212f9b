"""Decision streams from real models: what a target and its draft decide, token by token, in archsim's recorded formats.

Needs the extra ``record`` (torch, gguf, tokenizers; transformers for Hugging Face models). Nothing else of archsim
imports this package, and replaying what it wrote needs none of it.
"""
