"""TLS on a private PostgreSQL: its certificate is shown to every connection made after `show_certificate`."""

import os


def show_certificate(pg, certificate):
    """Switches TLS on, or to another certificate, while the server runs."""
    for name, source in (("server.crt", certificate.certificate), ("server.key", certificate.key)):
        path = pg.data / name
        path.write_text(source.read_text())
        path.chmod(0o600)
        owner = pg.data.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
    pg.set(ssl="on", ssl_cert_file="server.crt", ssl_key_file="server.key")


def demand_tls(pg):
    """From then on TCP connections without TLS are refused; those over the socket are not."""
    pg.set_hba(["local all all trust", "hostssl all all 127.0.0.1/32 trust"])
