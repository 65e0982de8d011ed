"""What the tests of real kernels share: starting them, talking to them, and the feature checks."""
