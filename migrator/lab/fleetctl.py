"""Stops, starts and looks at one process of a laboratory: what `exec` actuators of a laboratory run.

In:   the laboratory's socket, an act (`stop`, `start`, `status`, `launch`), a node id.
Out:  exit code 0 and what happened; 1 and why not.
Elsewhere: the other end of the socket (fleet.py).
Standard library only, and nothing of ours: it starts within milliseconds, as a command on another host would be.
"""

from __future__ import annotations

import socket
import sys

ANSWER_S = 300.0


def main(words: list[str]) -> int:
    path, act, node = words
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(path)
        connection.sendall(f"{act} {node}\n".encode())
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    word, _, text = answer.decode().partition(" ")
    print(text.strip(), file=sys.stdout if word == "ok" else sys.stderr)
    return 0 if word == "ok" else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
