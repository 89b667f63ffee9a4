"""The alert loop: one process leads, folds stored scores into alerts, and sees that everybody is told."""
