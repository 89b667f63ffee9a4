"""What commands show in a terminal and share: one file a thing that is shown."""
