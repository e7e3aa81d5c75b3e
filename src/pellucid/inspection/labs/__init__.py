"""The ideas of the paper, each as a small experiment whose claims are computed, with a control that must fail."""
