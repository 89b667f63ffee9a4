"""The person at the terminal: options, questions, tables, numbers in words, and the exit status."""
