"""Programs that come with the packages of the extra `dev`, beside Python."""

from __future__ import annotations

import sys
from pathlib import Path

HELM = str(Path(sys.executable).with_name("helm"))
KUBECTL = str(Path(sys.executable).with_name("kubectl"))
