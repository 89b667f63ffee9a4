"""The detector and what it stands on: a learned baseline, bets, the mirror that resolves. Numbers in and out."""
