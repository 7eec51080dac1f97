"""A Cloud TPU REST service of a few lines, for tests of the torus command alone."""

import http.server
import json
import threading
import urllib.parse

PARENT = "projects/torus/locations/us-central1-a"


def error(code, status, message):
    return code, {"error": {"code": code, "message": message, "status": status}}


class FakeService:
    """Nodes and operations in memory. An operation is done after `polls` polls."""

    def __init__(self):
        self.nodes = {}
        self.operations = {}
        self.requests = []  # (method, path, query, body)
        self.polls = 2
        self.details = []  # what an operation says of itself at each poll
        self.fail_operations_with = None  # a google.rpc.Status
        self.page_size = 2
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                path = urllib.parse.unquote(url.path).removeprefix("/v2/")
                service.requests.append((self.command, path, query, body))
                code, reply = service.handle(self.command, path, query, body)
                data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def add_node(self, node_id, **fields):
        node = {
            "name": f"{PARENT}/nodes/{node_id}",
            "acceleratorType": "v2-8",
            "state": "READY",
            "runtimeVersion": "tpu-ubuntu2204-base",
            "networkConfig": {"network": "projects/torus/global/networks/default"},
            "cidrBlock": "10.128.0.0/20",
            "networkEndpoints": [
                {"ipAddress": "10.128.0.2", "accessConfig": {"externalIp": "127.0.0.2"}}
            ],
            "id": "42",
        } | fields
        self.nodes[node["name"]] = node
        return node

    def operate(self, verb, target, response):
        name = f"{PARENT}/operations/operation-{len(self.operations) + 1}"
        self.operations[name] = {"left": self.polls, "response": response, "name": name,
                                 "metadata": {"verb": verb, "target": target,
                                              "statusDetail": "Making the image"}}
        return 200, self.show(self.operations[name])

    def show(self, operation):
        if self.details:
            polled = min(self.polls - operation["left"], len(self.details) - 1)
            operation["metadata"]["statusDetail"] = self.details[polled]
        shown = {"name": operation["name"], "metadata": operation["metadata"],
                 "done": operation["left"] <= 0}
        if shown["done"] and self.fail_operations_with:
            shown["error"] = self.fail_operations_with
        elif shown["done"]:
            shown["response"] = operation["response"]
        return shown

    def page(self, field, rows, query):
        begin = int(query.get("pageToken") or 0)
        end = begin + self.page_size
        token = str(end) if end < len(rows) else ""
        return 200, {field: rows[begin:end], "nextPageToken": token}

    def handle(self, method, path, query, body):
        if path in self.operations:
            self.operations[path]["left"] -= 1
            return 200, self.show(self.operations[path])
        if path.endswith("/nodes"):
            if method == "POST":
                name = f"{path}/{query['nodeId']}"
                if name in self.nodes:
                    return error(409, "ALREADY_EXISTS", f"Resource '{name}' already exists")
                node = self.add_node(query["nodeId"], **body)
                return self.operate("create", name, node)
            return self.page("nodes", list(self.nodes.values()), query)
        if path.endswith("/operations"):
            return self.page("operations", [self.show(o) for o in self.operations.values()], query)
        if path.endswith("/acceleratorTypes"):
            return self.page("acceleratorTypes",
                             [{"name": f"{path}/{t}", "type": t} for t in ("v2-8", "v2-32", "v3-8")],
                             query)
        if path.endswith("/locations"):
            return self.page("locations", [{"name": PARENT, "locationId": "us-central1-a"}], query)
        if path == "broken":
            return 502, b"<html>no\n</html>"
        name, _, verb = path.partition(":")
        if name not in self.nodes:
            return error(404, "NOT_FOUND", f"Resource '{name}' was not found")
        node = self.nodes[name]
        if verb == "getGuestAttributes":
            keys = [{"namespace": "hostkeys", "key": "ssh-ed25519", "value": "AAAAhostkey"}]
            return 200, {"guestAttributes": [{"queryValue": {"items": keys}}
                                             for _ in node["networkEndpoints"]]}
        if method == "PATCH":
            node.update(body)
            return self.operate("update", name, node)
        if method == "DELETE":
            del self.nodes[name]
            return self.operate("delete", name, {})
        if verb:
            node["state"] = {"start": "READY", "stop": "STOPPED"}[verb]
            return self.operate(verb, name, node)
        return 200, node
