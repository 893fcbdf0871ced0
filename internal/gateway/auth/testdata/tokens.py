"""Writes tokens that share no code with package token: Python's hmac, and openssl
with the keys beside this file. They are issued at 1,790,000,000 s since 1970."""
import base64, hashlib, hmac, json, os, subprocess, tempfile

SECRET = b"0123456789abcdef0123456789abcdef"
CLAIMS = {"sub": "c42", "tid": "acme", "aud": "gateway", "iat": 1790000000, "exp": 1790000900, "scope": "chat read"}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(command, text):
    with tempfile.NamedTemporaryFile() as f:
        f.write(text)
        f.flush()
        return subprocess.run(["openssl", *command.split(), f.name], check=True, capture_output=True).stdout


def mac(text):
    return hmac.new(SECRET, text, hashlib.sha256).digest()


def jwt(alg, kid, sign):
    text = b64(json.dumps({"alg": alg, "typ": "JWT", "kid": kid}).encode()) + "." + b64(json.dumps(CLAIMS).encode())
    return text + "." + b64(sign(text.encode()))


v2 = "v2.k1." + b64(json.dumps(CLAIMS).encode())
tokens = {
    "v2": v2 + "." + b64(mac(v2.encode())),
    "hs256": jwt("HS256", "hs", mac),
    "rs256": jwt("RS256", "rs", lambda text: openssl("dgst -sha256 -sign rsa.pem", text)),
    "eddsa": jwt("EdDSA", "ed", lambda text: openssl("pkeyutl -sign -inkey ed25519.pem -rawin -in", text)),
    "legacy": "c42:" + mac(b"c42").hex(),
}
os.chdir(os.path.dirname(os.path.abspath(__file__)))
for name, token in tokens.items():
    with open(name + ".token", "w") as f:
        f.write(token + "\n")
