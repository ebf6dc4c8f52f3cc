"""The cluster to test on: this machine's, unless the environment names another.

Another must see this machine's file system under the same paths (k3s here does, a cloud does not):
workers write their records into a folder that the test reads. The plain $KUBECONFIG is ignored, so
that a production cluster is never tested on by mistake.
"""

from __future__ import annotations

import os

NAMED_CLUSTER = os.environ.get("RESILE_TEST_KUBECONFIG")
MASTER_IMAGE = os.environ.get("RESILE_TEST_IMAGE", "127.0.0.1:5000/resile:dev")
TRAINING_IMAGE = os.environ.get("RESILE_TEST_TRAINING_IMAGE", "127.0.0.1:5000/resile-train:dev")
