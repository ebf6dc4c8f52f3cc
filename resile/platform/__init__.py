"""Where nodes run. A platform carries actions out and reports what it sees."""
