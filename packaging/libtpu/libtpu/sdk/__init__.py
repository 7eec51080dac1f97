"""The part of libtpu's SDK that programs and tpu-info read metrics by."""
from libtpu.sdk import tpumonitoring

__all__ = ["tpumonitoring"]
