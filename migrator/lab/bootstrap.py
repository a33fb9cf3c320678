"""Set this checkout up with nothing but a Python: the door that `make` knocks at.

In:   `python3 migrator/lab/bootstrap.py [setup|check] [--with-java]`, any Python.
Out:  exit code 0 when everything needed is there, else 1 and one line that says what to install.
Elsewhere: the set-up itself (provision.py). This file stays readable for very old Pythons, down to 2.7, because
they have to be able to say that they are too old: no annotations, no f-strings, no imports of ours above the check.
"""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the Python that runs this line is not chosen by pyproject.toml
    sys.stderr.write(
        "Z2K-6004 Python 3.11 or later is needed; found %d.%d. "  # noqa: UP031
        "Install Python 3.11 or later and run the command again with it (`make PYTHON=python3.11 setup`).\n"
        % tuple(sys.version_info[:2])
    )
    sys.exit(1)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(os.path.dirname(HERE))  # instead of HERE, which Python puts there

from migrator.lab.provision import main  # noqa: E402 - only now can our modules be found, and understood

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
