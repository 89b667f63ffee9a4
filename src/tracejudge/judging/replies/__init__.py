"""What came back from a judge's model, read strictly: a judgement, or the reason why there is none."""
