"""The contract between a controller and whoever drives it: states, operations, status, and the control file.

In:   nothing of a running controller. Out: values that both ends import, so that neither retypes the other's words.
Elsewhere: the ends of the controller (node/process/control.py, node/process/status.py) and of the service
(state_machine/clusters).
Compatibility: a new key has a default, so that an older controller's status can be read; an unknown key is left out.
"""
