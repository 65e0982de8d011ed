"""Writing states in the background, as often as is cheap."""
