"""What a run's files alone tell, whether it lives or not."""
