"""Bases of the models that JSON and YAML files are read into; they refuse unknown fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A model that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class Frozen(Strict):
    """A model that refuses unknown fields and cannot be changed."""

    model_config = ConfigDict(frozen=True)
