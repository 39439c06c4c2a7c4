"""The processes that play, which load torch."""
