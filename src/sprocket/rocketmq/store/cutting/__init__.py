"""Cutting a log at an offset, as a member of a set does that others have outrun.

`log_cut.cut` saves what is cut off, then cuts; the next opening brings all else into agreement
(`cut_progress`), and finishes a cut that was interrupted.
"""

from sprocket.rocketmq.store.cutting import cut_progress, log_cut
from sprocket.rocketmq.store.cutting.log_cut import Cut

__all__ = ["Cut", "cut_progress", "log_cut"]
