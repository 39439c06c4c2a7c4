"""Google Research Football, on envpool's engine or upstream's."""
