"""What is done with anchors: chosen out of stored or labelled traces, and judged, each for real.

What an anchor and a round are stands in `tracejudge.anchors`, which knows neither store nor judges.
"""
