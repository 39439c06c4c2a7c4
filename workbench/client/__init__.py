"""The notebook's end of a run: launch, attach, look, steer. It loads no torch and starts no thread that a run needs."""
