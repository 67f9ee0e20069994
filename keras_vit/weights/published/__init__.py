"""The published checkpoints, one file a publisher, as data for the catalogue."""
