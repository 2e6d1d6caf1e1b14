"""Say what a run is measured against: service levels, GPUs, and where servers tell their counters.

One part of the settings, so that a summary made later from the same files gives the same figures.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from loadtest.url_faults import url_fault

BY_NAME = "dns+http"
"""Scheme of a page that each address behind a name has, as behind a headless Service."""
PAGE_SCHEMES = ("http", "https", BY_NAME)


class ServiceLevels(BaseModel):
    """Hold what a request must meet to be good, all of it; None = no limit of this kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ttft_ms: float | None = Field(default=None, gt=0)
    ttfo_ms: float | None = Field(default=None, gt=0)
    tpot_ms: float | None = Field(default=None, gt=0)
    e2e_ms: float | None = Field(default=None, gt=0)

    @property
    def given(self) -> bool:
        """Tell whether there is any limit: without one there is no goodput."""
        return any(limit is not None for limit in self.model_dump().values())


class ResultOptions(BaseModel):
    """Hold how results are computed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slo: ServiceLevels = ServiceLevels()
    gpus: dict[str, int] | None = None
    """GPUs that serve each region, those of prefill too (72 a rack); None = not told."""
    metrics: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Prometheus pages of each region's frontends and engines."""
    scrape_every_s: float = Field(default=15.0, ge=1)
    scrape_timeout_s: float = Field(default=5.0, gt=0, le=60)

    @field_validator("gpus")
    @classmethod
    def _gpus_are_some(cls, gpus: dict[str, int] | None) -> dict[str, int] | None:
        for region, count in (gpus or {}).items():
            if count < 1:
                raise ValueError(f"{region}: {count} GPUs cannot serve. Give 1 or more")
        return gpus

    @field_validator("metrics")
    @classmethod
    def _pages_are_urls(cls, metrics: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for region, urls in metrics.items():
            for url in urls:
                if fault := url_fault(url, PAGE_SCHEMES):
                    raise ValueError(f"{region}: {fault}")
        return metrics
