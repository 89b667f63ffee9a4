"""tracejudge's evaluation library: from traces to scores, pass rates and alerts."""
