"""Hold the frames of a run: one for each set of tools, learned when it is first used."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gevent.lock import RLock

from loadtest.prompt.calibrate import Ask, learn_frame
from loadtest.prompt.calibrate_tools import learn_image, learn_tools
from loadtest.prompt.prompts import Frame, Image, Message, ToolSet
from loadtest.prompt.words import Vocabulary

Asker = Callable[[ToolSet | None], Ask]
"""Makes the way to ask a server with a set of tools declared."""


@dataclass(slots=True, kw_only=True)
class Frames:
    """Learn each frame once, however many sessions want it at the same time."""

    ask: Asker
    vocabulary: Vocabulary
    rng: random.Random
    _plain: Frame | None = None
    _by_tools: dict[ToolSet, Frame] = field(default_factory=dict)
    _images: dict[tuple[int, int], int] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def frame(self, tools: ToolSet | None = None, messages: Sequence[Message] = ()) -> Frame:
        """Give the frame of prompts with these tools and messages; raises LoadError."""
        shown = [image for message in messages for image in message.images]
        with self._lock:
            for image in shown:
                self._learn_image(image)
            if self._plain is None:
                self._plain = learn_frame(self.ask(None), self.vocabulary, self.rng)
                self._plain = replace(self._plain, images=self._images)
            if tools is None:
                return self._plain
            if tools not in self._by_tools:
                self._by_tools[tools] = learn_tools(
                    self.ask(tools), self._plain, tools, self.vocabulary, self.rng
                )
            return self._by_tools[tools]

    def _learn_image(self, image: Image) -> None:
        size = (image.width, image.height)
        if size not in self._images:
            self._images[size] = learn_image(self.ask(None), image, self.vocabulary, self.rng)
