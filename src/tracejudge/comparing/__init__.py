"""Two judges, two releases, or a judge and people, held against each other: counts in, estimates with intervals out.

Pure: knows no store, no judge and no page.
"""
