"""A decider that is an operator's word, kept by each member and told to the others.

With two machines and no third vote nothing can tell a machine that is gone from one that is cut
off. So nobody leaves the set by itself here, and nobody takes over: an operator says so, and the
promise is theirs. What a member knows is its `Word`, a file beside its log; each asks the others
for theirs, and the newest holds.

Why two masters harm nothing, as long as no operator has one go on alone:

1. Becoming master changes nothing in who is in sync. A master acknowledges what all of these have,
   and who follows another one acknowledges nothing to it.
2. No two members begin the same epoch: each has numbers of its own (`mastership`). The greater one
   is followed.
3. An operator's word is greater than any that a member says by itself.
"""

from sprocket.rocketmq.failover.operator.decider import AskOthers, OperatorDecider
from sprocket.rocketmq.failover.operator.word import Notice, Word, decode_notice, encode_notice

__all__ = ["AskOthers", "Notice", "OperatorDecider", "Word", "decode_notice", "encode_notice"]
