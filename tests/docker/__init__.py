"""The images and the composition of `docker/` with a real engine: `make docker-test`."""
