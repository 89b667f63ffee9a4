"""Rounds of anchors at work: when one is due, who makes it, and what it came to in words."""
