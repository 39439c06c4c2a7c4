"""Steps environments, nothing else; loads no torch."""
