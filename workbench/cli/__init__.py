"""What a person opens besides a notebook: the command line, IPython magics, Jupyter kernels."""
