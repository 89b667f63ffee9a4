"""What the chaos run is made of: a stream with an oracle, a judge, a store proxy, a fleet of consumers, faults."""
