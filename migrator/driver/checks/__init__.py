"""What a cluster has to fulfil before a step: its content, its settings, accepted exceptions, stock in our places."""
