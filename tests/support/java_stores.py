"""Stores as Java's keytool (OpenJDK 17) made them, and a writer of JKS for what keytool does not make.

One key, made for these tests and used nowhere else, with its own certificate for localhost and 127.0.0.1 (CN=node).
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Sequence
from typing import Final

STORE_PASSWORD: Final = "st0repass"
KEY_PASSWORD: Final = "k3ypass"
TRUST_PASSWORD: Final = "tr0stpass"

KEYS_JKS: Final = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAQAEbm9kZQAAAaIZSpG/AAAAfzB9MA4GCisGAQQBKgIRAQEFAARrKHzKpD6//uvfp+d046ryDvzuiqlJ"
    "VGy9zlrZ4Y6dWM1clBoOCDam8EBpSYkpnF6Zb71DBPVk4g7tmj74V1Wtaq0BrigbVEqSrgcaKPRDqQVEJxtSRDP6CM0XIzmrIean"
    "rMvYqocpl26f3msAAAABAAVYLjUwOQAAAVYwggFSMIH6oAMCAQICCQDRg6l1GJzeyDAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDEwRu"
    "b2RlMCAXDTI2MTEyNjE5MTcyNloYDzIxMjYxMTAyMTkxNzI2WjAPMQ0wCwYDVQQDEwRub2RlMFkwEwYHKoZIzj0CAQYIKoZIzj0D"
    "AQcDQgAELUqX6qxDy1G9PC5WfSB5gqO8DOk1R76Vx6kvXPngGyw3vY/b/05bnaTRRMfiDh3TLY4qZiAVMfUHIJasZtLjkaM9MDsw"
    "HQYDVR0OBBYEFA5fmf4oSPplqTqn8UGGhLHru8bZMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAKBggqhkjOPQQDAgNHADBE"
    "AiBFj/pxsJHkzwtNAWi7BFAqeL+v70e7mMe0YvWcNE1xcwIgbLU/727eYa4uL+GLFK3ndvaifCJaEf92r8LR3iAxl4R7mUr90GAv"
    "AN6S/utdPRizgKr45g=="
)
"""keytool -genkeypair -storetype JKS -keypass k3ypass"""
KEYS_PKCS12: Final = base64.b64decode(
    "MIID/AIBAzCCA6YGCSqGSIb3DQEHAaCCA5cEggOTMIIDjzCCASYGCSqGSIb3DQEHAaCCARcEggETMIIBDzCCAQsGCyqGSIb3DQEM"
    "CgECoIG9MIG6MGYGCSqGSIb3DQEFDTBZMDgGCSqGSIb3DQEFDDArBBRCI28dKxyZ54Rx6SMjpi5FY8/nrAICJxACASAwDAYIKoZI"
    "hvcNAgkFADAdBglghkgBZQMEASoEEKKXdcsiWNL6fgCbQuYi9qcEUCemi/WiInvNAy+DN00H2QNDXjHRY9FH2/C0JR2qTKP4t4H9"
    "y0DdYRbgpj7o990eAooQ8UBBcqnqBTZJ2RNX5sZJy7MtsaQPHu3F98P6EIa7MTwwFwYJKoZIhvcNAQkUMQoeCABuAG8AZABlMCEG"
    "CSqGSIb3DQEJFTEUBBJUaW1lIDE3OTU3MjA2NTIyNjMwggJhBgkqhkiG9w0BBwagggJSMIICTgIBADCCAkcGCSqGSIb3DQEHATBm"
    "BgkqhkiG9w0BBQ0wWTA4BgkqhkiG9w0BBQwwKwQU3ZM5PUHpZTA5Dbmvt9hWc/iiq0kCAicQAgEgMAwGCCqGSIb3DQIJBQAwHQYJ"
    "YIZIAWUDBAEqBBDHOS2Vj0JZ/tGzSAIMiI6kgIIB0BdtO1O06BoLEzEPB5t2TgU2sQScpkeYaG6CLoRzD55+WhvAvfIN6MFPS1ak"
    "EPlQtvqqcbUcE01HzdBliP0Fep4/GEQYBFOdHjLz+sl+Uo3sJMW4VwJQrIeWEh4kX5RSWdYCLOdLJXd3Kjh7heQfuX+Rx3TiqCih"
    "uuPGY0GlNrMjKJGLNuOaAAPx+P00dprkutDJJtq1RWvN8mfMnBfl1dhiPhmguRozq9ahy4W9PuKyJ1rfGMTcZXqKecv+R2jZ45JL"
    "RPMfHXkLGmb7nNnwSWQ9D/RJJ+HAWcYxoaIO04e6THwyTNwcHs3I4as/g6XIIcooG85ibue9MFHIAt1HYMvCTgIkS8CLpwZJsSL1"
    "6WasDv7QiZJ1hImd11WrMrAl73egAWnra68/3o/BjtE316mGnOExWkgrZ3O7X8meainlh/QUY/x5NkELWgLUgu+vrnLMIm6tKXwD"
    "5USPpq3Nr4kG63n36cWxlWTn+NyrQSWFdze90qmAKpZF6vopDqJYmmG3Omx9a9udlwbtdl1dPl7b6hHYbCcbYRcUJRrNL/V48QrE"
    "ChIb1eOOH1UWnYNIeX9yCEnuPZzPQ6GtNPEmGAnTAsjZn4kpHmBTzuoesHBMME0wMTANBglghkgBZQMEAgEFAAQg39mn2vD89lL9"
    "XUqItkJF7VAmX0nJd2rh+JPBaLVYqjEEFP45YW+rNrDss3SLJmJwqqx9eoEPAgInEA=="
)
"""keytool -importkeystore -deststoretype PKCS12; key and store have one password"""
KEYS_OLD_PKCS12: Final = base64.b64decode(
    "MIIDTgIBAzCCAwcGCSqGSIb3DQEHAaCCAvgEggL0MIIC8DCB3QYJKoZIhvcNAQcBoIHPBIHMMIHJMIHGBgsqhkiG9w0BDAoBAqB3"
    "MHUwKQYKKoZIhvcNAQwBAzAbBBQZFvTDUfkcB5DUjWc4T5oPSNbVbQIDAMNQBEjLMvwxQA/iToUe0pgEw0gItX4ISK2WLstA5H1w"
    "vSVEJJlPcukAXho1/2WtSSmzLtTGsomV1lb7O0eUj4noDW5TZOCgMcxUCbMxPjAZBgkqhkiG9w0BCRQxDB4KAGYAaQByAHMAdDAh"
    "BgkqhkiG9w0BCRUxFAQSVGltZSAxNzk1NzIyMjY1NzI4MIICDAYJKoZIhvcNAQcGoIIB/TCCAfkCAQAwggHyBgkqhkiG9w0BBwEw"
    "KQYKKoZIhvcNAQwBBjAbBBRMnsZ0lxk9SBShB4e5tFrITdm27AIDAMNQgIIBuA4gKmC8Z5dAwZNUyMBvBe2EnoUROc8JnHbtJbmp"
    "SB/w/UTO8XUlY+1rNCxRUwZL7QDLYANsuf0tM3rbKldny29VcJSwaZFCA1/I2WAdFtobeadmrDytMwKv/yQ6IDiCnk2MyTCcDqga"
    "qjhy0cAN2+hZBL5ACngLi5bNdGEu0sWuvd6Akvw94zXItAstM+lR4Z1hZAgw0CPcFXV9wwHeh/oiSGJHwUaTwoIbi5heM8BDkqlg"
    "UqwO5dxiUdGqqlTpqSEYnAS8b56eRHxSnYoxlfq/dHHmRORefq9Sp/7205kTuuVOJ5kG1dWUZaX1YBtw43PQXkn/BWJCC4qDy7KT"
    "rtsC0plOWavdS9R0J8y3p5OY5ClVwuI05MoiNlzU6Lky4ILE6g0WdxmhbpBYTXq57u1xCvpzQD/bGxg9gPju8ypes/UkAFgAYJA3"
    "0RFrQxDYVPgFTwWI8jMItXeZKYhomt0ws/sKpF3bvp0vmNUETn8vw86s7/kuR4BCC1SWibDazmNFLUPiwLEf2NppbI36EyLtWSEU"
    "C7n30tYCLPrhtA9zpmUXlapp3x7keRkGlEXVRH9AoEdbpK0OMD4wITAJBgUrDgMCGgUABBQxWl3U1PK3nrQyiV6gQEVlltyD5gQU"
    "7pPknxWNGa3occrHciXhLCpXvAgCAwGGoA=="
)
"""keytool -J-Dkeystore.pkcs12.legacy -genkeypair, as Java 8 does: 3DES, RC2, SHA-1; another key (CN=old node)"""
TRUSTED_JKS: Final = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAgAEbm9kZQAAAaIZSps+AAVYLjUwOQAAAVYwggFSMIH6oAMCAQICCQDRg6l1GJzeyDAKBggqhkjOPQQD"
    "AjAPMQ0wCwYDVQQDEwRub2RlMCAXDTI2MTEyNjE5MTcyNloYDzIxMjYxMTAyMTkxNzI2WjAPMQ0wCwYDVQQDEwRub2RlMFkwEwYH"
    "KoZIzj0CAQYIKoZIzj0DAQcDQgAELUqX6qxDy1G9PC5WfSB5gqO8DOk1R76Vx6kvXPngGyw3vY/b/05bnaTRRMfiDh3TLY4qZiAV"
    "MfUHIJasZtLjkaM9MDswHQYDVR0OBBYEFA5fmf4oSPplqTqn8UGGhLHru8bZMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAK"
    "BggqhkjOPQQDAgNHADBEAiBFj/pxsJHkzwtNAWi7BFAqeL+v70e7mMe0YvWcNE1xcwIgbLU/727eYa4uL+GLFK3ndvaifCJaEf92"
    "r8LR3iAxl4TopRVdNhmYHaZ3N2ChbaFwiVpgxg=="
)
"""keytool -importcert -storetype JKS"""
TRUSTED_PKCS12: Final = base64.b64decode(
    "MIICwgIBAzCCAmwGCSqGSIb3DQEHAaCCAl0EggJZMIICVTCCAlEGCSqGSIb3DQEHBqCCAkIwggI+AgEAMIICNwYJKoZIhvcNAQcB"
    "MGYGCSqGSIb3DQEFDTBZMDgGCSqGSIb3DQEFDDArBBRkCvjCvU/LGDa2LTWllWH7pInd7gICJxACASAwDAYIKoZIhvcNAgkFADAd"
    "BglghkgBZQMEASoEENBhFEOYEKPJALMqb0SPDTCAggHA1iIsoqgzze8w0zTvZI6BxFrGLLTNjAGupYURV3XGSfzuLEimqcxZXD6y"
    "f2Wvo/vPg5ojms5olWXsEs5sFVDXSL4GVxiofvZlmgPBwl5kKkZVCd7hsGHr30gDrH7K8pm7xUcU6XewuTVUxVQEOH9Cq5SceFcp"
    "wxkabWJTLDRr1dAGCc8vsAOh+UeHBwJ3SoeniVcGw2h/saLnHN5ixp5CvkdjbqYHpx4EYDb7lpayNJCL/bZxkEUS70c3hdpq/wx+"
    "uPBdsfElhb/XaorPKWN2vixnxH+GBIYMUNce5oMn5eGo+3jweQuoFoJanGwPqoaOUg10A467GFMZCFyCnXty3L/W9kjZyJgkENzA"
    "DRRlgHjKQSzHfIpUX9cPpI04RPDRrBinoWtEE33P0hZ1XWCgq3yNFH0yRZlsr1aU0VPzKVGROrtU/zOfDNcpoqFVhE2fBJskQKWX"
    "1YqteNOIv6aK3vfJNcfGXpEo6QGJY7K6X88oDT8mfMD0BxQFyPZYX7F+LGdsQiSdyWBIdjRivUo2xrC/JP7kL0jXTtka14I24tlE"
    "OPqOPbjY8gT6bc8qqzxPjxXgFtaGVVpEXvQkh5UfjTBNMDEwDQYJYIZIAWUDBAIBBQAEIH96bub2LRaw4J1ExN0mgIjZEMuKTT9z"
    "I3jCJEQXwdOfBBSkBSvcgmZQ92ebIQGrG6n5Xy6V9QICJxA="
)
"""keytool -importcert -storetype PKCS12"""


def a_jks(
    keys: Sequence[tuple[str, bytes, Sequence[bytes]]] = (),
    trusted: Sequence[bytes] = (),
    password: str = STORE_PASSWORD,
    key_password: str | None = None,
    *,
    version: int = 2,
) -> bytes:
    """keys: alias, PKCS#8, chain."""
    kind = struct.pack(">H", 5) + b"X.509" if version == 2 else b""

    def text(value: str) -> bytes:
        return struct.pack(">H", len(value.encode())) + value.encode()

    def block(value: bytes) -> bytes:
        return struct.pack(">I", len(value)) + value

    parts = [struct.pack(">III", 0xFEEDFEED, version, len(keys) + len(trusted))]
    for alias, key, chain in keys:
        parts += [struct.pack(">I", 1), text(alias), bytes(8), block(locked(key, key_password or password))]
        parts += [struct.pack(">I", len(chain)), *(kind + block(each) for each in chain)]
    for number, certificate in enumerate(trusted):
        parts += [struct.pack(">I", 2), text(f"ca-{number}"), bytes(8), kind + block(certificate)]
    data = b"".join(parts)
    return data + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + data).digest()


def locked(key: bytes, password: str, oid: bytes = bytes.fromhex("060a2b060104012a02110101")) -> bytes:
    """By Sun's key protector, written from its description: each block of the stream is a hash of the one before."""
    secret, salt = password.encode("utf-16-be"), bytes(range(20))
    stream, before = b"", salt
    for _ in range(len(key) // 20 + 1):
        before = hashlib.sha1(secret + before).digest()
        stream += before
    hidden = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    octets = salt + hidden + hashlib.sha1(secret + key).digest()
    return der(0x30, der(0x30, oid + b"\x05\x00") + der(0x04, octets))


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(digits)]) + digits + content
