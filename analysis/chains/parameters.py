"""The parameters of the chains notebook, checked."""

from __future__ import annotations

from pydantic import Field

from roslens.analysis.reports.parameters import OptionalText, ReportParameters, Texts


class ChainsParameters(ReportParameters):
    """Parameters of the chains notebook.

    Attributes
    ----------
    chains
        Chains to look at, such as ``/camera -> /image -> /detector``; none: those that the
        requirements name, else every one that is found.
    requirements
        A YAML file with chains, what is asked of them, and links
        (`roslens.analysis.chains.requirements`).
    bound
        Also how long each chain takes at most.
    worst
        How many of the slowest instances are listed.
    """

    chains: Texts = Field(default_factory=list)
    requirements: OptionalText = None
    bound: bool = False
    worst: int = Field(10, ge=1, le=1000)
