"""What a judge is, as frozen values: its spec and the rules for it, the kinds there are, the hash that pins it."""
