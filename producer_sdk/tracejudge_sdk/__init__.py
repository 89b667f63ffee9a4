"""tracejudge's logging client: the hook that a RAG service installs, and the wire contract."""
