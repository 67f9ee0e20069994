"""Where images come from; one source a file."""
