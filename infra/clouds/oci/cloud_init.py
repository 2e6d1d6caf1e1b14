"""Write what a self-managed OKE node does at its first boot.

Pure: text in, text out. The form is that of Oracle's guide for GB200 and GB300.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml


def cloud_init(*, host: str, ca: str, node_labels: Mapping[str, str], taint: str) -> str:
    """Give the cloud-init of a node that joins the cluster of an API server by itself.

    `host`: the API server's address without a port; `ca`: its certificate, base64 of PEM.
    """
    words = ",".join(f"{key}={value}" for key, value in sorted(node_labels.items()))
    document = {
        "write_files": [
            {"path": "/etc/oke/oke-apiserver", "permissions": "0644", "content": host},
            {
                "path": "/etc/kubernetes/ca.crt",
                "permissions": "0644",
                "encoding": "b64",
                "content": ca,
            },
        ],
        "runcmd": [
            # The DRA driver starts IMEX itself, per domain, and cannot beside the host's.
            ["systemctl", "mask", "--now", "nvidia-imex.service"],
            [
                *("oke", "bootstrap", "--apiserver-host", host, "--ca", ca),
                *("--kubelet-extra-args", f"--node-labels={words} --register-with-taints={taint}"),
            ],
        ],
    }
    return "#cloud-config\n" + yaml.safe_dump(document, sort_keys=False, width=1_000_000)


def certificate_of(kubeconfig: str) -> str:
    """Take the API server's certificate, base64 of PEM, out of a kubeconfig."""
    clusters = yaml.safe_load(kubeconfig)["clusters"]
    return str(clusters[0]["cluster"]["certificate-authority-data"])
