"""A call to a judge's model: whether and when it may be made, how, what it costs, and what its failure means."""
