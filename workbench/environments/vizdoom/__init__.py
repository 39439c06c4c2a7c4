"""ViZDoom, in processes of its own."""
