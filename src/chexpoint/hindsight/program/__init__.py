"""The texts of programs: their loops, what these change, and what a user has added."""
