"""The names in the cluster's DNS."""

from typing import Any

from devcluster.hosts import hosts


def service(name: str, address: str | None, namespace: str = "default") -> dict[str, Any]:
    spec = {} if address is None else {"clusterIP": address}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def endpoints(name: str, *subsets: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "subsets": list(subsets)}


def test_an_ordinary_service_has_its_cluster_ip() -> None:
    addresses = {"addresses": [{"ip": "10.88.1.2"}]}
    text = hosts([service("web", "10.96.0.7")], [endpoints("web", addresses)])
    assert text == "10.96.0.7 web.default.svc.cluster.local\n"


def test_a_headless_service_has_the_addresses_of_its_endpoints() -> None:
    subsets = [{"addresses": [{"ip": "10.88.2.2"}]}, {"addresses": [{"ip": "10.88.1.2"}]}]
    text = hosts([service("peers", "None", "lab")], [endpoints("peers", *subsets, namespace="lab")])
    assert text == (
        "10.88.1.2 peers.lab.svc.cluster.local\n10.88.2.2 peers.lab.svc.cluster.local\n"
    )


def test_an_endpoint_with_a_hostname_has_a_name_of_its_own_too() -> None:
    subset = {"addresses": [{"ip": "10.88.1.2", "hostname": "worker-0"}]}
    lines = hosts([service("peers", "None")], [endpoints("peers", subset)]).splitlines()
    assert "10.88.1.2 worker-0.peers.default.svc.cluster.local" in lines
    assert "10.88.1.2 peers.default.svc.cluster.local" in lines


def test_addresses_that_are_not_ready_are_left_out() -> None:
    subset = {"notReadyAddresses": [{"ip": "10.88.1.2"}]}
    assert hosts([service("peers", "None")], [endpoints("peers", subset)]) == ""


def test_endpoints_without_subsets_have_no_names() -> None:
    nothing = {"metadata": {"name": "peers", "namespace": "default"}, "subsets": None}
    assert hosts([service("peers", "None")], [nothing]) == ""


def test_endpoints_belong_to_the_service_of_their_own_namespace() -> None:
    other = endpoints("peers", {"addresses": [{"ip": "10.88.1.2"}]}, namespace="other")
    assert hosts([service("peers", "None")], [other]) == ""


def test_a_service_without_address_is_left_out() -> None:
    assert hosts([service("elsewhere", None)], []) == ""


def test_the_order_of_the_objects_does_not_matter() -> None:
    one, two = service("a", "10.96.0.2"), service("b", "10.96.0.3")
    assert hosts([one, two], []) == hosts([two, one], [])
