"""Section 5: training. One file an idea; `run.py` is the whole job from files to a model folder."""
