"""The Transformer of Vaswani et al. 2017, "Attention Is All You Need", a section of the paper to a file.

One alphabet of dimensions, batch first everywhere:

    B batch    S source positions    T target positions    D d_model    H heads    K d_k = D / H    F d_ff
    V vocabulary    W beam width    N rows of a search = B x W

A shape stands in a comment wherever it changes. What a mask means is said in one place: ``masks.py``.
"""
