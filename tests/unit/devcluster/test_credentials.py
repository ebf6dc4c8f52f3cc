"""Keys and certificates of a cluster."""

from pathlib import Path

import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from devcluster.api import load_account
from devcluster.certificates import Authority
from devcluster.credentials import COMPONENT_USERS, ensure_credentials, ensure_node_credentials
from devcluster.layout import Layout


def test_a_cluster_keeps_its_credentials(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    ensure_credentials(layout)
    before = layout.kubeconfig.read_text()
    ensure_credentials(layout)
    assert layout.kubeconfig.read_text() == before


def test_half_made_credentials_are_made_again(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    half = layout.certificates.with_name("pki.new")
    half.mkdir(parents=True)
    (half / "ca.crt").write_text("half")
    ensure_credentials(layout)
    assert "BEGIN CERTIFICATE" in (layout.certificates / "ca.crt").read_text()
    assert not half.exists()


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    ensure_credentials(layout)
    modes = {path.stat().st_mode & 0o777 for path in layout.certificates.iterdir()}
    assert modes == {0o600}
    assert layout.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_every_kubeconfig_can_be_used(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    ensure_credentials(layout)
    assert load_account(layout.kubeconfig).token
    for name in COMPONENT_USERS:
        account = load_account(layout.component_kubeconfig(name))
        assert (account.url, account.token) == ("https://10.88.0.1:6443", None)


def test_a_nodes_certificate_names_the_node_and_the_group_of_nodes(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    ensure_credentials(layout)
    ensure_node_credentials(layout, layout.node(1))
    document = yaml.safe_load(layout.node(1).kubeconfig.read_text())
    assert "client-certificate-data" in document["users"][0]["user"]

    pair = Authority.create().client("system:node:node-a", group="system:nodes")
    subject = x509.load_pem_x509_certificate(pair.certificate).subject
    values = [
        subject.get_attributes_for_oid(oid)[0].value
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    ]
    assert values == ["system:node:node-a", "system:nodes"]
