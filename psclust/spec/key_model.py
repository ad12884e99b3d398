"""What all models of keys have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class KeyModel(BaseModel):
    """Refuses unknown keys and converts no values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
