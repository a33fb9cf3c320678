"""One Kerberos login, by a process of its own: `program.py SERVICE HOST PRINCIPAL`.

In:   lines on standard input: what the server says, in base64. The environment names keytab or cache, and krb5.conf.
Out:  lines on standard output: `token BASE64` to be sent, `done BASE64` for the last one, `fault TEXT` instead.
Elsewhere: who starts it, and how long it may take (tickets.py).
A process, because MIT's library waits for a silent key server up to a minute, with Python's interpreter locked.
Source: RFC 4752 (the last two messages, without a security layer, as ZooKeeper and Kafka want it).
"""

import base64
import importlib
import struct
import sys
from collections.abc import Callable
from typing import Any

NO_SECURITY_LAYER = 1


def said(word: str, text: str) -> None:
    print(word, " ".join(text.split()), flush=True)


def log_in(listen: Callable[[], str], service: str, host: str, principal: str) -> None:
    kerberos: Any = importlib.import_module("kerberos")  # that it cannot be loaded is told like everything else
    _, context = kerberos.authGSSClientInit(f"{service}@{host}", principal=principal)
    state = kerberos.authGSSClientStep(context, "")
    while state != kerberos.AUTH_GSS_COMPLETE:
        said("token", kerberos.authGSSClientResponse(context) or "")
        state = kerberos.authGSSClientStep(context, listen())
    said("token", kerberos.authGSSClientResponse(context) or "")
    kerberos.authGSSClientUnwrap(context, listen())
    said("done", _last_words(kerberos, context))


def _last_words(kerberos: Any, context: Any) -> str:
    offer = base64.b64decode(kerberos.authGSSClientResponse(context) or "")
    if len(offer) != 4 or not offer[0] & NO_SECURITY_LAYER:
        raise ValueError("the server wants a security layer at its logins, which ZooKeeper and Kafka never do")
    user = str(kerberos.authGSSClientUserName(context))
    choice = struct.pack(">I", NO_SECURITY_LAYER << 24) + user.encode()
    kerberos.authGSSClientWrap(context, base64.b64encode(choice).decode("ascii"))
    return str(kerberos.authGSSClientResponse(context) or "")


def main(arguments: list[str]) -> int:
    def listen() -> str:
        line = sys.stdin.readline()
        if not line:
            sys.exit(1)  # nobody wants to log in any more
        return line.strip()

    try:
        log_in(listen, *arguments)
    except Exception as error:  # whatever it is: the session names it, and tries again
        said("fault", str(error) or type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
