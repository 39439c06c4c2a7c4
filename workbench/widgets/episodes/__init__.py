"""Episodes in a page: the player, the live view, a game, the strip of frames."""
