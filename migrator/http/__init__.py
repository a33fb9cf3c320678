"""HTTP alone: the addresses of the service, and limits of a port that hold before anybody shows a token."""
