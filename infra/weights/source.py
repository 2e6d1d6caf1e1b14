"""Know what a revision consists of: read the source once, and keep its manifest beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from fleet.errors import ConfigError, WeightsError
from fleet.weights.hub_listing import Listed, differences
from fleet.weights.manifest import MAX_BYTES, Manifest, make_manifest, read_manifest
from fleet.weights.names import MANIFEST, OURS, clashes, missing_shards, name_fault
from fleet.weights.needs import WeightSet
from fleet.weights.notes import Held, Note
from infra.weights.digests import entry_of, read_digests
from infra.weights.notes_keeper import NotesKeeper
from infra.weights.store import Store
from infra.weights.store_errors import ChangedError, DeniedError
from infra.weights.work import Work

TOKENIZER, VOCABULARY = "tokenizer.json", "tiktoken.model"
_SHOWN = 10
# Folder of the tokenizer's files by name -> content of tokenizer.json.
MakeTokenizer = Callable[[Mapping[str, bytes]], bytes]
_TOKENIZER_INPUTS = (VOCABULARY, "tokenizer_config.json")
_MAX_TOKENIZER_BYTES = 64 * 1024 * 1024  # K3's vocabulary has 2.8 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A revision at the source: what it consists of, and the tag of each file."""

    manifest: Manifest
    held: Mapping[str, Held]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What others say of a revision: the fleet file, and the hub."""

    pinned: str | None = None  # digest of its manifest
    listed: Mapping[str, Listed] | None = None


class Source:
    """The folder of one revision at the source."""

    def __init__(
        self, store: Store, weights: WeightSet, keeper: NotesKeeper, expected: Expected
    ) -> None:
        self.store, self._weights, self._keeper = store, weights, keeper
        self._expected = expected
        self.place = store.where(store.key(weights.revision))

    def files(self) -> Mapping[str, Held]:
        """List the files; raise WeightsError when they cannot be those of a model."""
        found = {
            one.name: one.held
            for one in self.store.objects(self._weights.revision)
            if one.name not in OURS
        }
        if not found:
            raise WeightsError(
                f"{self.place}: is empty. Put {self._weights.repo} at revision "
                f"{self._weights.revision} there, or correct `weights.source`."
            )
        faults = [fault for name in found if (fault := name_fault(name))]
        faults += clashes(found)
        self._refuse(
            faults,
            "Rename or remove it: such a name may lead out of a folder, or into another file of it",
        )
        missing = [f"{name} is missing" for name in missing_shards(found)]
        missing += [f"{name} is missing" for name in ("config.json",) if name not in found]
        if not any(name.endswith(".safetensors") for name in found):
            missing.append("no *.safetensors is there")
        self._refuse(missing, "Upload the rest of this revision")
        return found

    def manifest(self) -> Manifest | None:
        """Read the manifest that is there; raise WeightsError when it is wrong."""
        key = self.store.key(self._weights.revision, MANIFEST)
        kept = self.store.small(key, MAX_BYTES)
        if kept is None:
            return None
        manifest, problems = read_manifest(
            kept.content, self.place, self._weights, self._expected.pinned
        )
        if manifest is None:
            raise WeightsError("\n".join(map(str, problems[:_SHOWN])))
        return manifest

    def know(self, work: Work, make_tokenizer: MakeTokenizer | None) -> Known:
        """Give the manifest; make it where there is none, by reading every file once."""
        held = self.files()
        manifest = self.manifest()
        if manifest is None:
            if make_tokenizer and TOKENIZER not in held and VOCABULARY in held:
                self._add_tokenizer(held, make_tokenizer)
                held = self.files()
            read = self._read(held, self.unnoted(held), work)
            manifest = make_manifest(
                self._weights, {name: entry_of(name, note) for name, note in read.items()}
            )
            self._compare_with_hub(manifest)
            self._keep(manifest)
        else:
            self._compare(manifest, held, work)
            self._compare_with_hub(manifest)
        return Known(manifest=manifest, held=held)

    def unnoted(self, held: Mapping[str, Held]) -> list[str]:
        """List the files that nobody has read, as they are now."""
        notes = self._keeper.notes.read
        return [name for name in held if name not in notes or not notes[name].describes(held[name])]

    def _read(
        self, held: Mapping[str, Held], names: Iterable[str], work: Work
    ) -> Mapping[str, Note]:
        names = list(names)
        work.expect(sum(held[name].bytes for name in names))
        work.files(partial(self._read_file, name, held[name], work) for name in names)
        return {name: self._keeper.notes.read[name] for name in held}

    def _read_file(self, name: str, held: Held, work: Work) -> None:
        key = self.store.key(self._weights.revision, name)
        try:
            chunks = self.store.read(key, held.etag, 0, held.bytes)
            self._keeper.note(name, read_digests(chunks, held, work.allow))
        except ChangedError as error:
            raise WeightsError(str(error)) from error

    def _compare(self, manifest: Manifest, held: Mapping[str, Held], work: Work) -> None:
        """Find what has changed at the source since its manifest was made."""
        known = manifest.by_name
        wrong = [f"{name} is missing" for name in known if name not in held]
        wrong += [f"{name} is not in its manifest" for name in held if name not in known]
        wrong += [
            f"{name} has {held[name].bytes} bytes, {entry.bytes} in its manifest"
            for name, entry in known.items()
            if name in held and held[name].bytes != entry.bytes
        ]
        if not wrong:
            noted = self._keeper.notes.read
            changed = [name for name in self.unnoted(held) if name in noted]
            read = self._read({name: held[name] for name in changed}, changed, work)
            wrong = [
                f"{name} has another content than its manifest says"
                for name in changed
                if read[name].sha256 != known[name].sha256
            ]
        self._refuse(wrong, "Restore what was changed; a new revision needs a folder of its own")

    def _compare_with_hub(self, manifest: Manifest) -> None:
        if self._expected.listed is not None:
            wrong = differences(self._expected.listed, manifest.by_name)
            self._refuse(wrong, "Upload it again from the hub")

    def _keep(self, manifest: Manifest) -> None:
        if self._expected.pinned not in (None, manifest.digest):
            raise WeightsError(
                f"{self.place}: its manifest would have the digest {manifest.digest}, not that of "
                "`weights.manifests` in the fleet file. Find out what has changed at the source."
            )
        try:
            key = self.store.key(self._weights.revision, MANIFEST)
            self.store.put(key, manifest.to_bytes(), only="")
        except DeniedError:
            return  # a source that is only read: its notes make the same manifest at no cost
        except ChangedError as error:
            raise WeightsError(
                f"{self.place}: somebody else has just written its manifest. Run it again."
            ) from error

    def _add_tokenizer(self, held: Mapping[str, Held], make: MakeTokenizer) -> None:
        """Put the tokenizer.json that Dynamo's fast tokenizers want beside the vocabulary."""
        missing = [name for name in _TOKENIZER_INPUTS if name not in held]
        self._refuse([f"{name} is missing" for name in missing], "Upload it with the vocabulary")
        inputs = {}
        for name in _TOKENIZER_INPUTS:
            key = self.store.key(self._weights.revision, name)
            kept = self.store.small(key, _MAX_TOKENIZER_BYTES)
            inputs[name] = kept.content if kept else b""
        try:
            key = self.store.key(self._weights.revision, TOKENIZER)
            self.store.put(key, make(inputs), only="")
        except DeniedError as error:
            raise ConfigError(
                f"{self.place}: has no {TOKENIZER}, and this account may not put one there. "
                "Let it, upload one yourself, or go on with --no-tokenizer."
            ) from error

    def _refuse(self, faults: Iterable[str], fix: str) -> None:
        listed = list(faults)
        if listed:
            more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
            raise WeightsError(f"{self.place}: {'; '.join(listed[:_SHOWN])}{more}. {fix}.")
