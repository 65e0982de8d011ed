"""The state of a program: what its code can reach, in leaves, and how to put it back."""
