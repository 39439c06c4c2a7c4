"""Charts of metrics: their axes, marks of events, drawing in the page and without one."""
