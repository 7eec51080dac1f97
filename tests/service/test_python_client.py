"""Google's own Python client, unmodified, by gRPC and by REST: the same calls, the same answers."""
import grpc
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import field_mask_pb2

import torus

Transport = tpu_v2.services.tpu.transports


@pytest.fixture(params=["grpc", "rest"])
def client(request, service):
    if request.param == "grpc":
        channel = grpc.insecure_channel(f"127.0.0.1:{service.port}")
        return tpu_v2.TpuClient(transport=Transport.TpuGrpcTransport(channel=channel))
    return tpu_v2.TpuClient(credentials=AnonymousCredentials(), transport="rest",
                            client_options={"api_endpoint": service.url})


def create(client, node_id, **fields):
    node = tpu_v2.Node(**{"accelerator_type": "v2-8", "runtime_version": "tpu-ubuntu2204-base"} | fields)
    return client.create_node(parent=torus.PARENT, node_id=node_id, node=node)


NAME = f"{torus.PARENT}/nodes/n1"


def test_a_nodes_life(client):
    node = create(client, "n1", labels={"team": "blue"}).result(timeout=20)
    assert node.name == NAME and node.state == tpu_v2.Node.State.READY
    assert [n.name for n in client.list_nodes(parent=torus.PARENT)] == [NAME]
    updated = client.update_node(
        node=tpu_v2.Node(name=NAME, labels={"team": "red"}, tags=["t"]),
        update_mask=field_mask_pb2.FieldMask(paths=["labels", "tags"])).result(timeout=20)
    assert dict(updated.labels) == {"team": "red"} and list(updated.tags) == ["t"]
    assert client.stop_node(request={"name": NAME}).result(timeout=20).state == tpu_v2.Node.State.STOPPED
    assert client.start_node(request={"name": NAME}).result(timeout=20).state == tpu_v2.Node.State.READY
    client.delete_node(name=NAME).result(timeout=20)
    with pytest.raises(exceptions.NotFound, match=f"Resource '{NAME}' was not found"):
        client.get_node(name=NAME)


def test_the_catalogue(client):
    names = {t.type_ for t in client.list_accelerator_types(parent=torus.PARENT)}
    assert "v2-8" in names
    versions = {v.version for v in client.list_runtime_versions(parent=torus.PARENT)}
    assert {"tpu-ubuntu2204-base", "2.13.0"} <= versions
    locations = client.list_locations(
        locations_pb2.ListLocationsRequest(name=f"projects/{torus.PROJECT}"))
    assert torus.ZONE in {l.location_id for l in locations.locations}
    one = client.get_location(locations_pb2.GetLocationRequest(name=torus.PARENT))
    assert one.location_id == torus.ZONE
    assert "@" in client.generate_service_identity(request={"parent": torus.PARENT}).identity.email


def test_operations(client):
    operation = create(client, "n1")
    operation.result(timeout=20)
    name = operation.operation.name
    found = client.get_operation(operations_pb2.GetOperationRequest(name=name))
    assert found.done
    listed = client.list_operations(operations_pb2.ListOperationsRequest(name=torus.PARENT))
    assert name in [o.name for o in listed.operations]
    client.cancel_operation(operations_pb2.CancelOperationRequest(name=name))
    client.delete_operation(operations_pb2.DeleteOperationRequest(name=name))
    with pytest.raises(exceptions.NotFound):
        client.get_operation(operations_pb2.GetOperationRequest(name=name))


def test_login_to_a_fake_node_is_refused_with_the_reason(client):
    node = create(client, "n1").result(timeout=20)
    assert not node.network_endpoints[0].access_config.external_ip
    with pytest.raises(exceptions.BadRequest, match="backend=fake"):
        client.get_guest_attributes(request={"name": NAME, "worker_ids": [""]})


def test_slices_of_several_hosts_are_fine_without_vms(client):
    node = create(client, "n1", accelerator_type="v2-32").result(timeout=20)
    assert len(node.network_endpoints) == 4


def test_paging(client):
    for i in range(5):
        create(client, f"n{i}").result(timeout=20)
    pager = client.list_nodes(request={"parent": torus.PARENT, "page_size": 2})
    assert len(list(pager)) == 5
    everywhere = client.list_nodes(parent=f"projects/{torus.PROJECT}/locations/-")
    assert len(list(everywhere)) == 5


BAD = [
    (lambda c: create(c, "Bad_Id"), exceptions.BadRequest, "Invalid node id"),
    (lambda c: create(c, "n", accelerator_type="v9-8"), exceptions.BadRequest,
     "could not be found in the zonal accelerator configurations"),
    (lambda c: create(c, "n", accelerator_type="v6e-8"), exceptions.BadRequest, "v6e-8"),
    (lambda c: create(c, "n", runtime_version="x"), exceptions.BadRequest, "runtime version"),
    (lambda c: c.list_nodes(parent="projects/p/locations/mars"), exceptions.Forbidden,
     "Permission denied on 'locations/mars'"),
    (lambda c: c.delete_node(name=f"{torus.PARENT}/nodes/nobody"), exceptions.NotFound, "was not found"),
    (lambda c: create(c, "taken"), exceptions.Conflict, "already exists"),
    (lambda c: c.start_node(request={"name": f"{torus.PARENT}/nodes/taken"}),
     exceptions.BadRequest, "start is not supported while in state READY"),
    (lambda c: c.update_node(node=tpu_v2.Node(name=f"{torus.PARENT}/nodes/taken"),
                             update_mask=field_mask_pb2.FieldMask(paths=["colour"])),
     exceptions.BadRequest, "colour"),
    (lambda c: c.list_queued_resources(parent=torus.PARENT), exceptions.MethodNotImplemented,
     "not implemented"),
]


@pytest.mark.parametrize("call,error,text", BAD, ids=[text for _, _, text in BAD])
def test_errors_are_upstreams(client, call, error, text):
    create(client, "taken").result(timeout=20)
    with pytest.raises(error, match=text):
        call(client)
