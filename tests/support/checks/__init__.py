"""Feature checks by topic; each module registers its functions with `tests.support.features`."""
