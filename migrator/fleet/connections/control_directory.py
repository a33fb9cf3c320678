"""A directory for the sockets of shared ssh connections: of this user alone, and short enough for a socket's name.

In:   the environment. Out: its path; it exists then.
Elsewhere: `{control_directory}` in templates (docker/actuators/ssh-systemd.yaml), which values a command gets
(exec_actuator.py).
Errors: Z2K-7020 when somebody else could reach a socket in it: who can, acts on every host as the service does.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from migrator.findings.fleet import TEMPLATE_REFUSED

NAME: Final = "control_directory"
PATH_MAX: Final = 48
"""Of 108 bytes of a socket's name, ssh takes 40 for `%C` and 17 for the name under which it makes it."""


def control_directory(environment: Mapping[str, str] = os.environ) -> str:
    """Made when it is missing, as after a clean-up of temporary files."""
    own = f"zk2kraft-{os.geteuid()}"
    homes = [environment.get("RUNTIME_DIRECTORY", ""), environment.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()]
    places = [Path(home.split(":")[0], own) for home in (*homes, "/tmp") if home]
    path = next(place for place in places if len(str(place)) <= PATH_MAX and place.parent.is_dir())
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise TEMPLATE_REFUSED.error(file=NAME, reason=f"{path} cannot be made: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        reason = f"{path} is no directory that only this user may enter; remove it"
        raise TEMPLATE_REFUSED.error(file=NAME, reason=reason)
    return str(path)
