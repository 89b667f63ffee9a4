"""What a user asks to be told about, what is measured for it, and how the promise is shared out."""
