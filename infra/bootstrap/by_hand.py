"""Say what has to be made by hand, where k3fleet has no calls for it."""

from __future__ import annotations

from fleet.state_address import Backend, SecretsKey


def has_calls(backend: Backend) -> bool:
    """Say whether `bootstrap` can make the place of the state itself."""
    return backend.kind == "file" or (backend.kind == "s3" and "endpoint" not in backend.parameters)


def by_hand(backend: Backend, key: SecretsKey) -> tuple[str, ...]:
    """List what to make, one line each; empty for what `bootstrap` makes itself."""
    return (*_of_backend(backend), *_of_key(backend, key))


def _of_backend(backend: Backend) -> tuple[str, ...]:
    name = backend.bucket
    if backend.kind == "gs":
        return (
            (
                f"gcloud storage buckets create gs://{name} --uniform-bucket-level-access "
                "--public-access-prevention --location=LOCATION"
            ),
            (
                f"gcloud storage buckets update gs://{name} --versioning "
                "--default-encryption-key=projects/P/locations/L/keyRings/R/cryptoKeys/K"
            ),
        )
    if backend.kind == "azblob":
        account = backend.parameters["storage_account"]
        return (
            (
                f"az storage account create --name {account} --resource-group GROUP "
                "--min-tls-version TLS1_2 --https-only true --allow-blob-public-access false"
            ),
            (
                f"az storage account blob-service-properties update --account-name {account} "
                "--resource-group GROUP --enable-versioning true --enable-delete-retention true "
                "--delete-retention-days 90"
            ),
            f"az storage container create --name {name} --account-name {account} --auth-mode login",
        )
    if backend.kind == "s3" and "endpoint" in backend.parameters:
        return (
            (
                f"In the store at {backend.parameters['endpoint']}: a bucket {name} that is not "
                "public, keeps old versions, encrypts what it holds and refuses plain HTTP"
            ),
        )
    return ()


def _of_key(backend: Backend, key: SecretsKey) -> tuple[str, ...]:
    if key.kind == "gcpkms":
        ring, _, name = key.key.rpartition("/cryptoKeys/")
        return (
            (
                f"gcloud kms keys create {name} --keyring={ring} --purpose=encryption "
                "--rotation-period=90d --next-rotation-time=TIME"
            ),
        )
    if key.kind == "azurekeyvault":
        vault, _, name = key.key.partition("/keys/")
        return (
            (
                f"az keyvault key create --vault-name {vault.partition('.')[0]} "
                f"--name {name.partition('/')[0]} --kty RSA --ops encrypt decrypt"
            ),
        )
    if key.kind == "hashivault":
        return (f"vault write -f transit/keys/{key.key}",)
    if key.kind == "awskms" and (backend.kind != "s3" or "endpoint" in backend.parameters):
        return (
            (
                f"aws kms create-key --multi-region --region {key.region}, then "
                f"aws kms create-alias --alias-name {key.key}"
            ),
        )
    return ()
