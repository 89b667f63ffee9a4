"""Alert rules, the facts that they measure, and how the promise is shared among them."""
