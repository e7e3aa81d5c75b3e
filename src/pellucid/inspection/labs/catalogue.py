"""All labs, in their order."""

from __future__ import annotations

import difflib

from pellucid.errors import ConfigError
from pellucid.inspection.labs.attention import HEAD_BY_HAND, MANY_HEADS, WHY_SQRT
from pellucid.inspection.labs.base import Lab
from pellucid.inspection.labs.beam import BEAM_SEARCH
from pellucid.inspection.labs.cross import CROSS_ATTENTION
from pellucid.inspection.labs.heads import HEAD_ROLES, SWITCH_OFF, WEIGHT_OR_INFLUENCE
from pellucid.inspection.labs.layers import ADD_AND_NORM, FEED_FORWARD
from pellucid.inspection.labs.masks import PADDING, TRIANGLE
from pellucid.inspection.labs.order import ORDER_BLIND, POSITIONS
from pellucid.inspection.labs.recurrence import WHY_NOT_RNN
from pellucid.inspection.labs.schedule import SCHEDULE_AND_SMOOTHING

LABS: tuple[Lab, ...] = (
    HEAD_BY_HAND,
    WHY_SQRT,
    ORDER_BLIND,
    POSITIONS,
    TRIANGLE,
    PADDING,
    MANY_HEADS,
    FEED_FORWARD,
    ADD_AND_NORM,
    CROSS_ATTENTION,
    HEAD_ROLES,
    SWITCH_OFF,
    WEIGHT_OR_INFLUENCE,
    BEAM_SEARCH,
    SCHEDULE_AND_SMOOTHING,
    WHY_NOT_RNN,
)


def find(name: str) -> Lab:
    """The lab of that name.

    Raises:
        ConfigError: there is none.
    """
    names = [lab.name for lab in LABS]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        raise ConfigError(
            f"there is no lab {name!r}", hint=f"did you mean {near[0]!r}?" if near else f"the labs: {', '.join(names)}"
        )
    return LABS[names.index(name)]
