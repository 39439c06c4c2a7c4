"""The wheel in a bare environment of each Python: `make test-pythons`."""
