"""CAs and certificates, as an operator makes them: by the openssl command."""

import pathlib
import subprocess

CLUSTER = "lab"


class Folder:
    """NAME.pem and NAME.key of everything made in it."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def file(self, name, suffix="pem"):
        return self.path / f"{name}.{suffix}"

    def run(self, *words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, cwd=self.path)

    def ca(self, name="ca"):
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")

    def make(self, name, names, issuer="ca", days=2, kind=("ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
        """names: its subject alternative names, "" for none. Files change one after the other, each at once."""
        self.file(name, "ext").write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        self.run("req", "-newkey", *kind, "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.newkey",
                 "-out", f"{name}.csr")
        self.run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key",
                 "-CAcreateserial", "-days", days, "-extfile", f"{name}.ext", "-out", f"{name}.newpem")
        self.file(name, "newkey").chmod(0o600)
        for suffix in ("key", "pem"):
            self.file(name, f"new{suffix}").rename(self.file(name, suffix))

    def make_role(self, role, more_names=""):
        self.make(role, f"URI:kvferry://{CLUSTER}/role/{role}{more_names}")

    def make_server(self):
        self.make("server", "DNS:localhost,IP:127.0.0.1", kind=("rsa:2048",))

    def make_tenant(self, tenant, **more):
        self.make(tenant, f"URI:kvferry://{CLUSTER}/tenant/{tenant}", **more)

    def make_cluster(self, tenant, more_names=""):
        """A CA, a certificate for each role, one for the router's clients, and one of that tenant."""
        self.ca()
        for role in ("router", "context", "generation", "operator"):
            self.make_role(role, more_names)
        self.make_server()
        self.make_tenant(tenant)

    def peer_arguments(self, role):
        """The flags of mTLS of a process of that role (`ctx-worker`)."""
        name = {"ctx-worker": "context", "gen-worker": "generation"}.get(role, role)
        flags = ["--cluster-name", CLUSTER, "--peer-certificate", self.file(name), "--peer-key", self.file(name, "key"),
                 "--peer-ca", self.file("ca")]
        return [str(flag) for flag in flags]

    def role_arguments(self, role):
        """The same, and a router speaks TLS with its clients."""
        public = ["--tls-certificate", str(self.file("server")), "--tls-key", str(self.file("server", "key"))]
        return self.peer_arguments(role) + (public if role == "router" else [])
