"""What is wrong with a record, told to whoever produces it: the faults as values, and a look over a whole file."""

from tracejudge_consumer.contract.faults import Fault, faults_of, too_large

__all__ = ["Fault", "faults_of", "too_large"]
