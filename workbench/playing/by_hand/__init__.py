"""A game that a person plays, alone or beside an agent: its keys, and the process that it is played in."""
