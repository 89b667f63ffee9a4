"""The detectors and their parts: a learned baseline, bets against it, and the detector of recoveries. Numbers in and
out."""
