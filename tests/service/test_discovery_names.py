"""discovery_names.h lists just the names that upstream's discovery document has and its protos lack."""
import importlib.resources
import json
import re

from google.cloud import tpu_v2

import torus


def document():
    folder = importlib.resources.files("googleapiclient") / "discovery_cache/documents"
    return json.loads((folder / "tpu.v2.json").read_text())


def test_the_list_is_what_the_protos_lack():
    missing = set()
    for name, schema in document()["schemas"].items():
        message = getattr(tpu_v2, name, None)
        if message is None or not hasattr(message, "pb"):
            continue
        fields = message.pb(message()).DESCRIPTOR.fields_by_camelcase_name
        missing |= {(f"google.cloud.tpu.v2.{name}", p) for p in schema.get("properties", {}) if p not in fields}
    source = (torus.ROOT / "src/service/gateway/discovery_names.h").read_text()
    assert set(re.findall(r'\{"([\w.]+)", "(\w+)"\}', source)) == missing
