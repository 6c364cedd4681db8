"""A store directory as a table: tasks planned, files read in slices, rows of each task."""
