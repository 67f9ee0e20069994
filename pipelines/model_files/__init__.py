"""Models as files: opening, converting, exporting, the table of all of them."""
