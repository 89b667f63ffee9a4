"""HTML and SVG made of values: one file that loads nothing and runs nothing, whatever stands in a trace.

Knows neither the store nor what it draws is about.
"""
