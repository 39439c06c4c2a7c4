"""What all widgets need of the kernel: refreshing, subshells, saved views, closing, the bundles of the page."""
