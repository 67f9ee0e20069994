"""Training runs that are recorded, resumed and swept."""
