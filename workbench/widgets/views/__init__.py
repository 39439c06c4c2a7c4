"""Tables of runs, comparisons, sweeps."""
