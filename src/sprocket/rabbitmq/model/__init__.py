"""The values that every other room of this column gives and takes."""
