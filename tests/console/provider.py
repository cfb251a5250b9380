"""A small OpenID Connect provider on a port of its own, which says whatever a test wants."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "fairlane", "between the two of us"


def new_key() -> rsa.RSAPrivateKey:
    """A signing key."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Provider:
    """``claims`` go into ID tokens, beside what belongs there by the standard. ``key`` signs,
    ``published`` is what it says signs."""

    issuer: str = ""
    claims: dict[str, object] = field(default_factory=dict)
    key: rsa.RSAPrivateKey = field(default_factory=new_key)
    published: rsa.RSAPrivateKey | None = None
    token: str | None = None
    asked: dict[str, dict[str, str]] = field(default_factory=dict)

    def metadata(self) -> dict[str, object]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def keys(self) -> dict[str, object]:
        public = (self.published or self.key).public_key()
        jwk = jwt.algorithms.RSAAlgorithm.to_jwk(public, as_dict=True)
        return {"keys": [{**jwk, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def authorize(self, query: dict[str, str]) -> str:
        """Somebody has signed in there: where their browser goes next."""
        assert query["client_id"] == CLIENT
        assert query["response_type"] == "code"
        assert "openid" in query["scope"].split()
        code = f"code-{len(self.asked)}"
        self.asked[code] = query
        back = {"code": code, "state": query["state"]}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def exchange(self, form: dict[str, str], secret: str) -> dict[str, object] | None:
        """Tokens for a code, once, to who asked for it and knows the secrets."""
        asked = self.asked.pop(form.get("code", ""), None)
        if asked is None or secret != SECRET:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return None
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 60,
            "nonce": asked["nonce"],
            **self.claims,
        }
        signed = jwt.encode(claims, self.key, "RS256", headers={"kid": "one"})
        token = self.token if self.token is not None else signed
        return {"access_token": "x", "token_type": "Bearer", "id_token": token}


@contextmanager
def provider() -> Iterator[Provider]:
    """Run one until the block ends."""
    found = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", found.authorize(dict(parse_qsl(parts.query))))
                self.end_headers()
            elif parts.path == "/keys":
                self._say(200, found.keys())
            else:
                self._say(200, found.metadata())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            given = self.headers["Authorization"].removeprefix("Basic ")
            _, _, secret = base64.b64decode(given).decode().partition(":")
            tokens = found.exchange(form, secret)
            self._say(200 if tokens else 400, tokens or {"error": "invalid_grant"})

        def _say(self, status: int, document: dict[str, object]) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
