"""An estate of hosts on one machine: the service's real templates over real ssh, with faults at every call."""
