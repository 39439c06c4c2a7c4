"""Steps environments, nothing else; imports no torch."""
