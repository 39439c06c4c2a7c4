"""Unroll assembly: from single steps to unrolls."""
