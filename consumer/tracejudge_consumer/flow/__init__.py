"""The consumer itself: takes records on, puts them through the stages, commits what the store has accepted."""
