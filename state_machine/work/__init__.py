"""What the service does by itself in each phase, what people ask it to do, and the loop around both."""
