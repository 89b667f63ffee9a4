"""The steps between a batch of records and stored scores: read and plan are pure, process does the I/O around them."""
