"""What is checked and done until a run's supervisor lives: of a launch, a resume, a fork and a sweep's trial."""
