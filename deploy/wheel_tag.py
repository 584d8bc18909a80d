"""A wheel that carries machine code is for one Python and one platform; without any it is for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelTag(BuildHookInterface):
    """See `streamnb.kernels.wheel`, which makes the code."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the machine code before the wheel is built."""
        code = Path(self.root, "streamnb", "kernels", "machine_code")
        if version == "standard" and code.exists():
            build_data |= {"pure_python": False, "infer_tag": True}
