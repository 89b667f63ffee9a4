"""What is wrong with a record, for its producer: the faults as values, and a check of a whole file."""

from tracejudge_consumer.contract.faults import Fault, faults_of, too_large

__all__ = ["Fault", "faults_of", "too_large"]
