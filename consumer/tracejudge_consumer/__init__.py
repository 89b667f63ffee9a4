"""Everything of tracejudge that runs: the consumer, the alert loop and the command line."""
