#!/usr/bin/env python3
"""Health of the process in this container: does it answer `/healthz` where its own file says that it listens?

In:   the path of `serve.json` (the service) or `zk2kraft-control.json` (a controller).
Out:  exit code 0, or 1 with one line that says why not. The standard library only.
"""

import json
import sys
import urllib.request
from pathlib import Path

TIMEOUT_S = 3.0


def main(file: str) -> int:
    try:
        url = json.loads(Path(file).read_bytes())["url"]
        # the process is in this very container, or beside it: never through a proxy of the environment
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/healthz", timeout=TIMEOUT_S) as answer:
            print(f"{url} answers {answer.status}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{file}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
