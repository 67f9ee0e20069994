"""Stored images to pixels: decoding by content, orientation, crops."""
